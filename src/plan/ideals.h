#pragma once
/* The places where a graph can be cut. A set of operators that holds every input of its members (an
 * ideal of the order; its last operators are an antichain) is what may run before a cut, and a
 * stage is what lies between two of them, one inside the other. On a chain these are its prefixes;
 * where branches run side by side they are every combination of prefixes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"
#include "units.h"

struct orr_graph;
struct orr_machine;
struct orr_sent; /* pipeline/charge.h: there, and back; per microbatch */

/* What is sent over cuts: a tensor is there once the operator that makes it is before the cut, and
 * crosses to each stage that reads it, directly and once. Its gradient, if it has one, comes back
 * the same way. Data crosses no cut. */
struct orr_tensors {
	int n;
	struct orr_sent *sent;  /* [n] above 0, there or back */
	int *makers;            /* [n] the unit that makes it */
	uint64_t *readers;      /* [n * n_words of the ideals] units that read it */
	int *live, *first_live; /* ideal a: tensors live[first_live[a]] on are there and read
				   outside, ascending */
};

struct orr_ideals {
	int n;        /* ideals, by size: 0 is empty, n - 1 is everything */
	int n_units;  /* what is put on one side of a cut together; without coarsening an operator
			 each */
	int *unit_of; /* [n_operators] -1: free, an input or what costs nothing and reads only such:
			 goes where it is read */
	bool coarse;  /* neighbours were joined, the cheapest first, because there were too many
			 ideals */
	bool flattened; /* and then the branches were put one after the other */
	int n_words;
	uint64_t *bits;       /* [n * n_words] units inside */
	uint64_t *neighbours; /* [n_units * n_words] units that a unit reads or feeds */
	/* of everything inside, per microbatch (the update: per step); a stage's are differences,
	 * and what its jobs take to start */
	int64_t overhead_ns; /* of each job */
	int64_t largest_ns;  /* the operator that computes longest */
	int64_t *compute_ns, *update_ns, *parameter_bytes, *trained_bytes, *stash_bytes;
	struct orr_tensors tensors;
	struct orr_arrays all; /* but bits, and the list of live tensors */
};

/* most: how many ideals the caller can work with. samples: of a microbatch, see orr_partition.
 * n_microbatches: they share the update of the parameters where the cheapest are joined. stage_of:
 * (optional) [n_operators] of a cut that is known: only operators of one stage are joined, and
 * those beside its cuts last; where that leaves too many ideals, *out is NULL. */
int orr_ideals_create(struct orr_ideals **out, const struct orr_graph *g,
		      const struct orr_machine *machine, int64_t samples, int n_microbatches,
		      int most, const int *stage_of, struct orr_error *err);
void orr_ideals_destroy(struct orr_ideals *x); /* NULL is fine */

/* Are the units between a and b, a inside b, connected? room: 2 * n_words. */
bool orr_ideals_connected(const struct orr_ideals *x, int a, int b, uint64_t *room);

/* Does a unit between the ideals a and b, a inside b, read tensor i? */
bool orr_tensors_read(const struct orr_ideals *x, int i, int a, int b);
/* What the stage between a and b reads from stages between base and a, and its gradients. */
struct orr_sent orr_tensors_sent(const struct orr_ideals *x, int base, int a, int b);

/* Is ideal a inside b? (a == b: yes) */
static inline bool orr_ideals_inside(const struct orr_ideals *x, int a, int b)
{
	const uint64_t *in = x->bits + (size_t)a * (size_t)x->n_words,
		       *of = x->bits + (size_t)b * (size_t)x->n_words;

	for (int i = 0; i < x->n_words; i++)
		if (in[i] & ~of[i])
			return false;
	return true;
}
static inline bool orr_ideals_has(const struct orr_ideals *x, int ideal, int unit)
{
	return orr_bits_has(x->bits + (size_t)ideal * (size_t)x->n_words, unit);
}
