#ifndef ORR_DATASET_H
#define ORR_DATASET_H
/* A dataset: a CSV file of numbers, a sample a row, and the seeded order in which training sees it.
 */
#include <stdint.h>
#include "error.h"

ORR_BEGIN

struct orr_dataset {
	int64_t n_rows, n_columns; /* of the file */
	uint64_t checksum; /* XXH3 of all rows of the file, line by line, columns that are not kept
			      included */
	int64_t *index_of; /* owned; [n_columns] index of a column among a row's values, -1: not
			   kept; NULL: all columns are kept, in order */
	int64_t n_kept;    /* columns kept */
	float *values;     /* owned; row by row */
	int64_t n_train, n_test;
	int64_t *train,
		*test; /* owned; row numbers. Every fifth row (0, 5, 10, ...) is the test set */
};

/* Read a CSV file of numbers (a first line without any number is a heading and is skipped), of less
 * than 64 GiB and lines of 256 MiB at most. Errors name file, line and column, and never quote the
 * file. With columns (else NULL and 0), only the n listed are kept; those that the file lacks are
 * ignored. The rest of a line is checked and dropped, so the whole file is never in memory. */
int orr_dataset_read(struct orr_dataset **out, const char *path, const int64_t *columns, int64_t n,
		     struct orr_error *err);
void orr_dataset_destroy(struct orr_dataset *data); /* NULL is fine */

/* Index of a column among a row's values; -1: it is not kept. */
static inline int64_t orr_dataset_index(const struct orr_dataset *data, int64_t column)
{
	return data->index_of ? data->index_of[column] : column;
}
static inline int64_t orr_dataset_kept(const struct orr_dataset *data)
{
	return data->index_of ? data->n_kept : data->n_columns;
}
static inline const float *orr_dataset_row(const struct orr_dataset *data, int64_t row)
{
	return data->values + row * orr_dataset_kept(data);
}
/* Size of the values kept. */
static inline int64_t orr_dataset_bytes(const struct orr_dataset *data)
{
	return data->n_rows * orr_dataset_kept(data) * (int64_t)sizeof(float);
}

/* The rows that training sees, one after the other, are permutations of the training set, one an
 * epoch, drawn from the seed. Writes the n row numbers from position (which counts from the start
 * of training) on. Pure: position and seed decide, so that a restart needs no state. */
int orr_dataset_rows(const struct orr_dataset *data, uint64_t seed, int64_t position, int n,
		     int64_t *rows, struct orr_error *err);

ORR_END
#endif
