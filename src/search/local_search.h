#ifndef ORR_LOCAL_SEARCH_H
#define ORR_LOCAL_SEARCH_H
/* An order made better by many small moves, each timed exactly. Private to the search. */
#include <stdint.h>
#include "trial.h"

struct orr_local_search {
	struct orr_trial *trial; /* borrowed; in an order that fits and does not deadlock */
	int64_t *n;              /* [n_jobs] of the best order so far, which trial is in at first */
	int64_t best_ns;         /* its makespan */
	int64_t bound_ns;        /* stop there */
	int64_t n_timed;         /* jobs to time at most */
	int64_t until_ns;        /* of the monotonic clock; 0: no limit */
	uint64_t random;         /* state of the generator */
	void (*progress)(void *user, int64_t best_ns, int64_t bound_ns); /* or NULL */
	void *user;
};

/* Move jobs of the critical path within their workers' orders. n and best_ns follow the best order.
 */
int orr_local_search(struct orr_local_search *search, struct orr_error *err);
#endif
