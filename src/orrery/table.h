#ifndef ORR_TABLE_H
#define ORR_TABLE_H
/* A schedule as data: who runs each job, and in which order. What a file lays out job by job
 * becomes one, and from there on is a schedule like any other. */
#include <stdbool.h>
#include <stdint.h>
#include "schedule.h"
#include "error.h"

ORR_BEGIN

struct orr_table {
	char *name; /* owned: the file; the schedule is called so */
	int n_stages, n_workers, n_microbatches;
	bool split_backward;
	enum orr_order order; /* STRICT unless set */
	/* of a stream, which repeats itself: what n grows by in a round of n_microbatches; 0: it
	 * flushes */
	int64_t period;
	int64_t bound_ns; /* no order that the schedule may give is shorter; 0: unknown, as for a
			     stream */
	/* [n_stages * n_microbatches * n_passes], numbered as in orr_placed; owned */
	int *compute;
	int64_t *priority;
	int *weights; /* NULL: as compute */
	int *column;  /* which cell of row `compute` of the file, from 1; NULL: not from cells */
	/* [n_stages]; owned; NULL: none */
	int *cap;
	bool *recompute;
};

/* A table whose every job is to be filled in; name is copied. */
int orr_table_create(struct orr_table **out, const char *name, int n_stages, int n_workers,
		     int n_microbatches, bool split_backward, struct orr_error *err);
void orr_table_destroy(struct orr_table *table); /* NULL is fine */

/* The schedule that runs it. It refuses a pipeline of another size; of a stream, any number of
 * rounds is a size. *out borrows table. */
void orr_table_schedule(struct orr_schedule *out, const struct orr_table *table);

ORR_END
#endif
