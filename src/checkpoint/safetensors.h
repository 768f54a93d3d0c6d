#pragma once
/* Tensors by their names in a file of the safetensors format, float32 alone: the length of a JSON
 * header in 8 bytes, little-endian; the header, which gives every tensor's dtype, shape and place;
 * the data. */
#include <stdio.h>
#include "base/tensor_header.h"
#include "checksum.h"
#include "codelets/operator.h"
#include "orrery/orrery.h"
#include "folder.h"

/* Has the values of tensors that are to be written and are not in memory. It is asked for tensor i
 * of those that are written, in their order, once each; they are good until the next one. */
struct orr_tensor_source {
	int (*get)(void *user, int i, const float **values, struct orr_error *err);
	void *user;
};

/* Row-major. */
struct orr_named_tensor {
	const char *name;
	int n_dims; /* 1 to 4 */
	int64_t shape[4];
	float *values; /* borrowed; not written to where the tensor is to be written */
	/* To be written, without values: who has them. */
	const struct orr_tensor_source *source;
	/* To be read: it is a part of the one in the file. */
	struct orr_portion portion;
};
int64_t orr_named_tensor_floats(const struct orr_named_tensor *tensor);

/* Write n tensors to a new file, on the disk when it returns. note: what the header says of the
 * file, or NULL. ORR_E_DIVERGED: a number is not finite. */
int orr_safetensors_write(const struct orr_folder *folder, const char *name,
			  const struct orr_named_tensor *tensors, int n, const char *note,
			  int64_t *n_bytes, char checksum[ORR_CHECKSUM], struct orr_error *err);

/* The same to a stream, of tensors in memory. */
int orr_safetensors_print(FILE *file, const struct orr_named_tensor *tensors, int n,
			  const char *note, struct orr_error *err);

/* *file, which owns nothing after a failure, is closed by orr_tensor_file_close. Refuses one whose
 * tensors do not fill its data one after the other; with all of it read through, also one with
 * another checksum (NULL: any will do), and one with a number that is not finite. */
int orr_safetensors_open(struct orr_tensor_file *file, const struct orr_folder *folder,
			 const char *name, bool through, const char *checksum,
			 struct orr_error *err);
/* The same of one of that size that is elsewhere, of which the header alone is read. */
int orr_safetensors_open_elsewhere(struct orr_tensor_file *file, const char *name, int64_t n_bytes,
				   const struct orr_tensor_reader *reader, struct orr_error *err);
/* The name of a tensor that another file has, too, or NULL. */
const char *orr_safetensors_shared(const struct orr_tensor_file *file,
				   const struct orr_tensor_file *other);
/* Read the tensor of that name and shape into its values. */
int orr_safetensors_read(const struct orr_tensor_file *file, const struct orr_named_tensor *tensor,
			 struct orr_error *err);
