#pragma once
/* What operators add to the costs of a stage. */
#include "orrery/orrery.h"

struct orr_graph;
struct orr_machine;
struct orr_operator;
struct orr_stage;

/* Refuse costs whose sum over the graph is more than 2^60 ns or bytes of one kind, and name the
 * operator. Sums of what orr_charge() adds then need no further check. */
int orr_charge_check(const struct orr_graph *g, const struct orr_machine *machine, int64_t samples,
		     struct orr_error *err);

/* What goes over the edge by which operator i reads its input k, per microbatch. */
struct orr_sent {
	int64_t bytes, gradient_bytes; /* gradient_bytes: 0 where no gradient flows back */
};
struct orr_sent orr_sent_over(const struct orr_graph *g, int i, int k, int64_t samples);

/* Add the costs of one operator to a stage's; where microbatches differ in length, the means. */
void orr_charge(struct orr_stage *stage, const struct orr_operator *o, int64_t samples,
		const struct orr_machine *machine);

/* What operator i costs wherever it is, for a bound: as orr_charge(), but the update of parameters
 * that several operators share counts with the first one alone. */
void orr_charge_least(struct orr_stage *stage, const struct orr_graph *g, int i, int64_t samples,
		      const struct orr_machine *machine);
/* The same graph with the costs of its microbatch b, measured all of them. Its operators are the
 * caller's to free, and all else is g's. */
int orr_charge_grow(struct orr_graph *out, const struct orr_graph *g, int b, int64_t samples,
		    const struct orr_machine *machine, struct orr_error *err);
