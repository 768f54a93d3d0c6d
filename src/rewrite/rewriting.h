#pragma once
/* A split under way: the operators before it, and how the output of each lies on workers of the
 * graph that is being made. Private to rewrite/. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "codelets/operator.h"
#include "model/draft.h"
#include "orrery/orrery.h"
#include "orrery/graph.h"

/* What the workers of a group of t have of a tensor; owned by the rewriting. */
struct orr_sharded {
	enum orr_sharding how;
	int t;
	int at;    /* NONE: the worker that has it */
	int *made; /* [t] the operators of the new graph that deliver it, of the draft; NONE: all of
		      them the one */
	struct orr_sharded *next; /* the same otherwise */
};

struct orr_split_choice {
	int t;       /* workers; 1: it is not split */
	bool copied; /* not by rows */
	int expert;  /* the worker that has it whole, as a part of an expert; -1: it is of none */
	const struct orr_division *division; /* NULL: one worker computes all of it */
};

struct orr_rewriting {
	const struct orr_graph *graph;    /* before */
	struct orr_split_choice *choices; /* [n_operators] */
	struct orr_sharded *spreads;      /* [n_operators] of the outputs; made NULL: not yet */
	int reader;                       /* that asks for what it reads */
	int owner; /* whose stage the operators are in that move an output; -1: of whose it is */
	struct orr_draft draft; /* after; the calls below keep their first failure in it */
	struct orr_arrays all;  /* of choices and spreads */
};

/* Part i of t of something `whole` long: [orr_part_first(.., i), orr_part_first(.., i + 1)). */
static inline int64_t orr_part_first(int64_t whole, int t, int i)
{
	return whole * i / t;
}

/* The output of operator k as the workers of a group of t want it; NONE: worker `at`. What that
 * takes is added to the draft. Of another group where that has failed. */
const struct orr_sharded *orr_exchange(struct orr_rewriting *x, int k, int t,
				       enum orr_sharding want, int at);
/* Floats that a worker of the group sends for it, about, 0 where it has been asked for already; to
 * choose by. */
double orr_exchange_floats(const struct orr_rewriting *x, int k, int t, enum orr_sharding want);

/* An operator of the new graph that is operator k, or part of it, or moves its output: on worker
 * `shard` of the group, named as k with a suffix in the manner of printf. Its number, or -1. */
int orr_rewriting_add(struct orr_rewriting *x, int k, const struct orr_op *op, int shard,
		      const char *suffix, ...) __attribute__((format(printf, 5, 6)));
/* The new operator `to` reads `from`; detached: without a gradient. */
void orr_rewriting_read(struct orr_rewriting *x, int from, int to, bool detached);

/* A new operator on worker `shard` that has the columns of n others beside each other. Its number,
 * or -1. */
int orr_rewriting_join(struct orr_rewriting *x, int k, int shard, const int *from, int n);

/* The draft fails for want of memory: its code. */
int orr_rewriting_no_memory(struct orr_rewriting *x);

/* (prune.c) Takes away what nothing reads any more, such as a copy where one worker alone goes on.
 */
int orr_rewriting_prune(struct orr_rewriting *x);

/* (split_text.c) Every operator's choice but the division: what file and text say. */
int orr_splits_choose(struct orr_split_choice *choices, const struct orr_graph *g,
		      const char *splits, struct orr_error *err);
