#ifndef ORR_COMPARE_H
#define ORR_COMPARE_H
/* Every schedule on one pipeline and one machine: what each comes to, or why it does not fit. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "error.h"

struct orr_machine;
struct orr_pipeline;
struct orr_schedule;

struct orr_contender {
	const char *schedule; /* borrowed: its name */
	char *reason; /* owned; why it does not fit; NULL: it does, and the rest is filled in */
	int64_t makespan_ns, lower_bound_ns;
	/* training takes so long for so many microbatches, step after step: the makespan for all of a
	 * step where it flushes, the steady state where it does not; 0 for 0: not found */
	int64_t period_ns, period_microbatches;
	double bubble, span_bubble;
	int peak_stash;           /* of the worker that holds most */
	int64_t peak_stash_bytes; /* likewise */
	int64_t memory_bytes;     /* likewise: parameters, gradients, optimizer and peak stash */
	int64_t received_bytes;   /* by all workers in a step, whatever it is */
	bool on_front;            /* no other is both shorter and smaller */
};

struct orr_comparison {
	bool units; /* times are units */
	bool bytes; /* memory is told in bytes; else nobody gave any: in stage stashes */
	int n, n_fitting;
	/* owned; those that fit first, by makespan, then by memory */
	struct orr_contender *contenders;
};

/* Try every built-in schedule with its parameters' defaults, and one more (may be NULL). p's step
 * must be set. *out borrows the schedules' names. */
int orr_compare(struct orr_comparison **out, const struct orr_pipeline *p,
		const struct orr_machine *machine, const struct orr_schedule *extra,
		struct orr_error *err);
void orr_comparison_destroy(struct orr_comparison *c); /* NULL is fine */

/* Of the worker that needs most, in bytes or in stage stashes: what they are compared by. */
static inline int64_t orr_contender_memory(const struct orr_comparison *c,
					   const struct orr_contender *x)
{
	return c->bytes ? x->memory_bytes : x->peak_stash;
}

/* Memory against makespan as SVG, a labelled point a schedule. */
int orr_comparison_svg(FILE *file, const struct orr_comparison *c, const char *title,
		       struct orr_error *err);
#endif
