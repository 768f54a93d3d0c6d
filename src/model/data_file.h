#pragma once
/* The files that a data set can be. */
#include "base/tensor_header.h"
#include "orrery/orrery.h"

struct orr_data_columns;
struct orr_dataset;

#define ORR_DATA_KINDS "a CSV, .npy or .safetensors file ([data])"

/* A plain file that is open, and what is wanted of it. */
struct orr_data_file {
	const char *path;
	const struct orr_data_columns *wanted; /* as for orr_dataset_read */
	int n_wanted;
	int fd;
	int64_t n_bytes;
};

int orr_data_cannot_read(const char *path, int why, struct orr_error *err);

/* Fill a data set but for its split; each takes the file, which is closed when it returns. */
int orr_csv_read(struct orr_dataset *data, const struct orr_data_file *in, struct orr_error *err);
int orr_mapped_read(struct orr_dataset *data, const struct orr_data_file *in,
		    struct orr_error *err);
/* Is it one of .safetensors or .npy, by its content or its ending? */
bool orr_mapped_is(const struct orr_data_file *in);

/* Of the n_columns of a tensor those that are wanted (all: *index_of is not written), in their
 * order: *index_of is the caller's. */
int orr_data_keep(int64_t **index_of, int64_t *n_kept, int64_t n_columns, const char *name,
		  const struct orr_data_file *in, struct orr_error *err);
