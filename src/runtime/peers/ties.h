#pragma once
/* Sums of the gradients of operators that share parameters. Every operator has a copy of its own,
 * in every owner of its stage; all start alike, and stay alike since each update takes the same
 * gradient: that of the first operator by its owners, then of the second, and so on, wherever they
 * are. So the bits do not depend on the place.
 *
 * A set with workers on several ranks is cut into a chunk for each of its k workers. All others
 * send chunk c to worker c, which adds it up and sends the sum back: like a ring, each worker gets
 * 2(k-1)/k of the gradient; unlike round a ring, every chunk is added up in the same order. The sum
 * takes the place of the gradients with the first owner of each stage and zeros with its replicas,
 * for the sum over these that comes after (sum.h). */
#include <stdbool.h>
#include "cross.h"
#include "runtime/tasks/slots.h"

/* One owner's gradient of one operator. */
struct orr_tie_part {
	int owned;  /* of data->owned */
	int64_t at; /* where it lies there */
};

struct orr_tie_chunk {
	int adder; /* of data->owned, with the worker that adds it up */
	int64_t first, n_floats;
	starpu_data_handle_t sum;      /* NULL: no worker here owns any of the set; elsewhere than
					  at the adder what leaves before the sum comes */
	int64_t at;                    /* where it lies in `sum` */
	starpu_data_handle_t incoming; /* at the adder alone, of a set on several ranks */
};

struct orr_tie {
	int s;            /* the one stage that has all of it; -1: several */
	int first, n;     /* of parts, by operator and then by owner */
	int64_t n_floats; /* of an operator */
	bool here;        /* a worker here owns some of it */
	bool in_place;    /* the one chunk is added up in the first part's gradient */
	struct orr_tie_chunk *chunks;
	int n_chunks;
};

struct orr_ties {
	struct orr_slots *slots; /* borrowed, as cross */
	const struct orr_cross *cross;
	struct orr_tie *sets; /* [n_sets] that are trained */
	int n_sets;
	struct orr_tie_part *parts; /* [n_parts] */
	int n_parts;
	bool *spans;     /* [n_stages] it has one of several stages: updates wait for the end
			    of the step */
	int64_t n_zeros; /* floats of the largest set that has replicas here */
	starpu_data_handle_t zero; /* as many; NULL: there is none */
};

void orr_ties_init(struct orr_ties *ties, struct orr_slots *slots, const struct orr_cross *cross);

/* Add up the sets that stage s alone has, for update q, or with s -1 those of several stages, after
 * all their gradients have been submitted. */
void orr_ties_submit(struct orr_ties *ties, struct orr_slot *slot, int s, int q);
