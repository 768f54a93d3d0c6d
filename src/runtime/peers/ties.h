#ifndef ORR_TIES_H
#define ORR_TIES_H
/* Sums of the gradients of operators that share parameters. Every operator has a copy of its own,
 * in every owner of its stage; all start alike, and stay alike since each update takes the same
 * gradient: that of the first operator by its owners, then of the second, and so on, wherever they
 * are. So the bits do not depend on the place.
 *
 * The gradients of all are with all: each goes to every other rank that has an owner. The sum takes
 * their place with the first owner of each stage and zeros with its replicas, for the sum over
 * these that comes after (reduce.h, ring.h). */
#include <stdbool.h>
#include "cross.h"
#include "runtime/tasks/slots.h"

/* One owner's gradient of one operator. */
struct orr_tie_part {
	int owned;                     /* of data->owned */
	int64_t at;                    /* where it lies there */
	starpu_data_handle_t gradient; /* a copy of it; NULL: no worker here owns any of the set */
};

struct orr_tie {
	int s;            /* the one stage that has all of it; -1: several */
	int first, n;     /* of parts, by operator and then by owner */
	int64_t n_floats; /* of an operator */
	int here;         /* an owner here that adds up, of data->owned; -1: none */
	starpu_data_handle_t sum;
};

struct orr_ties {
	struct orr_slots *slots; /* borrowed, as cross */
	const struct orr_cross *cross;
	struct orr_tie *sets; /* [n_sets] that are trained */
	int n_sets;
	struct orr_tie_part *parts; /* [n_parts] */
	int n_parts;
	bool *spans;  /* [n_stages] it has one of several stages: updates wait for the end
			 of the step */
	float *zeros; /* as many as the largest set, in the next */
	starpu_data_handle_t zero;
	struct orr_task *tasks; /* [window * n_updates * n_parts] 3 for each part */
};

int orr_ties_init(struct orr_ties *ties, struct orr_slots *slots, const struct orr_cross *cross,
		  struct orr_error *err);
void orr_ties_fini(struct orr_ties *ties);

/* Add up the sets that stage s alone has, for update q, or with s -1 those of several stages, after
 * all their gradients have been submitted. */
int orr_ties_submit(struct orr_ties *ties, const struct orr_slot *slot, int s, int q,
		    struct orr_error *err);
#endif
