#pragma once
/* What operators send to each other, as the cuts of a graph see it: a tensor is there once the
 * operator that makes it is before the cut, and crosses to each stage that reads it, directly and
 * once. Its gradient, if it has one, comes back the same way. Data crosses no cut. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"

struct orr_graph;
struct orr_ideals;
struct orr_machine;
struct orr_sent; /* pipeline/charge.h: there, and back; per microbatch */

/* What each of n operators makes is read by readers[first[i]] to readers[first[i + 1] - 1], in
 * ascending order, one of them more than once where it reads it more than once. */
struct orr_sent_list {
	int *first, *readers;
	struct orr_sent *sent;
	struct orr_arrays all; /* owned: these */
};

/* number: of each of g's operators, or -1: left out. */
int orr_sent_list_init(struct orr_sent_list *x, const struct orr_graph *g, const int *number, int n,
		       int64_t samples, struct orr_error *err);

struct orr_tensors {
	const struct orr_ideals *ideals; /* borrowed */
	int n, room;
	struct orr_sent *sent;  /* [n] above 0, there or back */
	int *makers;            /* [n] the unit that makes it */
	uint64_t *readers;      /* [n * n_words of the ideals] units that read it */
	int *live, *first_live; /* ideal a: tensors live[first_live[a]] on are there and read
				   outside, ascending */
};

/* Of g, whose ideals are x. samples: of a microbatch. *out borrows x. */
int orr_tensors_create(struct orr_tensors **out, const struct orr_ideals *x,
		       const struct orr_graph *g, int64_t samples, struct orr_error *err);
void orr_tensors_destroy(struct orr_tensors *t); /* NULL is fine */

/* Does a unit between the ideals a and b, a inside b, read tensor i? */
bool orr_tensors_read(const struct orr_tensors *t, int i, int a, int b);
/* What the stage between a and b reads from stages between base and a, and its gradients. */
struct orr_sent orr_tensors_sent(const struct orr_tensors *t, int base, int a, int b);
