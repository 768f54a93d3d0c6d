#pragma once
/* What is put on one side of a cut together: at first an operator each, then neighbours joined,
 * where there are too many places to cut. Private to the planner. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"

struct orr_graph;
struct orr_machine;
struct orr_stage;

/* Sets of units as rows of words, a bit each. */
static inline bool orr_bits_has(const uint64_t *row, int i)
{
	return row[i / 64] >> (i % 64) & 1;
}
static inline void orr_bits_add(uint64_t *row, int i)
{
	row[i / 64] |= UINT64_C(1) << (i % 64);
}

/* Units and their edges. Numbers stay topological: joined with its only reader, a unit takes the
 * reader's; joined with its only input, the input's. */
struct orr_units {
	const struct orr_graph *g;
	struct orr_stage *costs; /* [n_operators] of every operator */
	int *leader;           /* [n_operators] the unit's operator that stands for it; -1: free */
	int *readers, *inputs; /* [n_operators] of every leader, how many units */
	int *reader, *input;   /* one of them */
	int64_t *work_ns;      /* of every leader's unit */
	bool *sends;           /* [n_operators] an edge says that something is sent */
	int *number;           /* leader -> unit */
	int *operators;        /* unit -> leader */
	int n;
	struct orr_arrays all;
};

/* samples, n_microbatches: see ideals.h. */
int orr_units_init(struct orr_units *u, const struct orr_graph *g,
		   const struct orr_machine *machine, int64_t samples, int n_microbatches,
		   struct orr_error *err);
void orr_units_fini(struct orr_units *u); /* all zeros is fine */

/* The operator that stands for operator i's unit; -1: it is free. */
int orr_units_leader(const struct orr_units *u, int i);
/* The units that an edge joins, input k of operator i; false: they are one, or one is free. */
bool orr_units_edge(const struct orr_units *u, int i, int k, int *from, int *to);

/* Count units and their neighbours again, where leaders have changed. */
void orr_units_count(struct orr_units *u);

/* Join n neighbours, two and two, the cheapest first, of which one has no other reader, or no other
 * input; how many there were. */
int orr_units_join(struct orr_units *u, int n);
/* The same, until there are no more than most: in linear time, and a little less choosy. */
int orr_units_join_many(struct orr_units *u, int most, struct orr_error *err);
/* Neighbours in the order of their numbers, until there are no more than most. */
void orr_units_flatten(struct orr_units *u, int most);
