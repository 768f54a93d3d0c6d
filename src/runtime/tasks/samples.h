#pragma once
/* The columns of the data that a step's tasks read, in main memory. */
#include "orrery/graph.h"
#include "data.h"

/* Of one step in flight. */
struct orr_samples {
	int64_t first;               /* sample of the step, from the start of training */
	int64_t filled;              /* the first of those that the blocks have; -1: none */
	starpu_data_handle_t *block; /* [n_stages * n_microbatches] NULL without inputs here */
};

void orr_samples_init(struct orr_samples *samples, struct orr_data *data);

/* Fill the blocks, unless they have the step's samples; the jobs that read what was there have
 * ended. rows: memory for a minibatch. */
int orr_samples_gather(struct orr_samples *samples, const struct orr_work *work,
		       const struct orr_dataset *dataset, uint64_t seed, int64_t *rows,
		       struct orr_error *err);

/* Fill a block, or NULL, which nothing reads any more, with the columns that a stage reads of n
 * rows, input after input. */
int orr_samples_fill(starpu_data_handle_t block, const struct orr_dataset *dataset,
		     const struct orr_program *program, const int64_t *rows, int64_t n,
		     struct orr_error *err);
