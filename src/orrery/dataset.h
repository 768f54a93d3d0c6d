#ifndef ORR_DATASET_H
#define ORR_DATASET_H
/* A data set: rows of numbers, a sample a row, and the seeded order in which training sees them. It
 * is a CSV file, whose columns are kept in memory, or a .npy or .safetensors file, which is mapped:
 * its rows become floats as they are gathered. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "orrery.h"

ORR_BEGIN

/* A tensor of the data: its first dimension is the rows, the others are a row's columns. */
struct orr_data_tensor {
	char *name; /* NULL: it has none, and is the only one */
	enum orr_element element;
	int64_t n_columns;
	int64_t *index_of; /* [n_columns] place of a column among a row's elements, -1: not kept;
			      NULL: all are, in order */
	int64_t n_kept;    /* columns kept, those that are read here */
	int64_t stride;    /* elements from a row to the next */
	const void *elements;
};

/* Columns to keep. */
struct orr_data_columns {
	const char *tensor; /* NULL: the only one */
	const int64_t *columns;
	int64_t n;
};

struct orr_dataset {
	char *path;                /* owned; for messages; NULL: of no file */
	int64_t n_rows, n_columns; /* of the file, all its tensors together */
	uint64_t checksum;         /* XXH3 of the file, columns that are not kept included: of all
				      rows of a CSV, line by line; of a mapped file see mapped.c */
	/* Of a CSV: as of its only tensor. */
	int64_t *index_of; /* owned */
	int64_t n_kept;
	float *values; /* owned; row by row */
	/* Of a mapped file: */
	int n_tensors;
	struct orr_data_tensor *tensors; /* owned, names and index_of, too */
	void *map;                       /* owned */
	size_t map_bytes;

	int64_t n_train, n_test;
	int64_t *train,
		*test; /* owned; row numbers. Every fifth row (0, 5, 10, ...) is the test set */
};

/* Read a CSV file of numbers (a first line without any number is a heading and is skipped), of less
 * than 64 GiB and lines of 256 MiB at most, or map a .npy or .safetensors file, told by its content
 * or its ending. Errors name file, line and column or tensor, and never quote a CSV. With columns
 * (else NULL and 0), only those of the n lists are kept; those that the file lacks are ignored. The
 * rest of a CSV's line is checked and dropped, so the whole file is never in memory; nothing else
 * of a mapped file is read. */
int orr_dataset_read(struct orr_dataset **out, const char *path,
		     const struct orr_data_columns *columns, int n, struct orr_error *err);
void orr_dataset_destroy(struct orr_dataset *data); /* NULL is fine */

/* The tensor of that name or, without a name, the only one; the data set owns its contents. false:
 * there is none. */
bool orr_dataset_find(struct orr_data_tensor *out, const struct orr_dataset *data,
		      const char *name);
/* Columns, which are kept, of n rows as floats, row by row. ORR_E_RUNTIME: a number is not finite
 * as a float, which a mapped file shows only when it is read. */
int orr_dataset_gather(const struct orr_dataset *data, const char *tensor, const int64_t *columns,
		       int64_t n_columns, const int64_t *rows, int64_t n, float *to,
		       struct orr_error *err);
/* Size of the columns kept. */
int64_t orr_dataset_bytes(const struct orr_dataset *data);

static inline int64_t orr_data_tensor_index(const struct orr_data_tensor *tensor, int64_t column)
{
	return tensor->index_of ? tensor->index_of[column] : column;
}

/* The rows that training sees, one after the other, are permutations of the training set, one an
 * epoch, drawn from the seed. Writes the n row numbers from position (which counts from the start
 * of training) on. Pure: position and seed decide, so that a restart needs no state. */
int orr_dataset_rows(const struct orr_dataset *data, uint64_t seed, int64_t position, int n,
		     int64_t *rows, struct orr_error *err);

ORR_END
#endif
