#ifndef ORR_DATASET_H
#define ORR_DATASET_H
/* A dataset: a CSV file of numbers, a sample a row, and the seeded order in which training sees it. */
#include <stdint.h>
#include "error.h"

struct orr_dataset {
	int64_t n_rows, n_columns;
	float *values;       /* owned; row by row */
	int64_t n_train, n_test;
	int64_t *train, *test; /* owned; row numbers. Every fifth row (0, 5, 10, ...) is the test set */
};

/* Read a CSV file of numbers (a first line without any number is a heading and is passed over). Errors
 * name file, line and cell. */
int orr_dataset_read(struct orr_dataset **out, const char *path, struct orr_error *err);
void orr_dataset_destroy(struct orr_dataset *data); /* NULL is fine */

/* The rows that training sees, one after the other, are permutations of the training set, one an epoch,
 * drawn from the seed. Writes the n row numbers from position (which counts from the start of training)
 * on. Pure: position and seed decide, so that a restart needs no state. */
int orr_dataset_rows(const struct orr_dataset *data, uint64_t seed, int64_t position, int n, int64_t *rows,
                     struct orr_error *err);
#endif
