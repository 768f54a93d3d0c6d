#pragma once
/* An order made better by many small moves, each timed exactly. Private to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "timed.h"

struct orr_cyclic;

struct orr_local_search {
	struct orr_timed
		*timed;   /* borrowed; in an order that fits and does not deadlock, and timed */
	int64_t best_ns;  /* of the best order so far: at first, of timed's */
	int64_t bound_ns; /* stop there */
	int64_t n_timed;  /* jobs to time, by which it cools down */
	int64_t stop;     /* stop after this many of them, as if it went on: no more than n_timed */
	int64_t until_ns; /* of the monotonic clock; 0: no limit */
	uint64_t random;  /* state of the generator; not 0 */
	struct orr_cyclic *cyclic; /* (optional) move jobs of its lists; timed is its own */
	bool reorder;              /* microbatches change places, all their jobs or single ones */
	int (*found)(
		void *user); /* timed is in the best order so far; an error code ends the search */
	void (*watch)(void *user); /* (optional) now and then, with until_ns */
	void *user;
};

/* Move jobs of the critical path within their workers' orders. best_ns follows; afterwards
 * timed's order is void. */
int orr_local_search(struct orr_local_search *search, struct orr_error *err);
/* Is it past this time of the monotonic clock? Never past 0. */
bool orr_is_late(int64_t until_ns);
