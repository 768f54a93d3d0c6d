#ifndef ORR_SAFETENSORS_H
#define ORR_SAFETENSORS_H
/* Tensors by their names in a file of the safetensors format, float32 alone: the length of a JSON
 * header in 8 bytes, little-endian; the header, which gives every tensor's dtype, shape and place;
 * the data. */
#include <stdint.h>
#include "error.h"
#include "sink.h"

/* A matrix, row after row, or a vector. */
struct orr_named_tensor {
	const char *name;
	int n_dims; /* 1 or 2 */
	int64_t shape[2];
	float *values; /* borrowed; not written to where the tensor is to be written */
};
int64_t orr_named_tensor_floats(const struct orr_named_tensor *tensor);

/* Write n tensors, on the disk when it returns. note: what the header says of the file, or NULL. */
int orr_safetensors_write(const char *path, const struct orr_named_tensor *tensors, int n,
			  const char *note, int64_t *n_bytes, char checksum[ORR_CHECKSUM],
			  struct orr_error *err);

struct orr_safetensors; /* a file that is open to be read */

int orr_safetensors_open(struct orr_safetensors **out, const char *path, struct orr_error *err);
void orr_safetensors_close(struct orr_safetensors *file); /* NULL is fine */
int orr_safetensors_has(const struct orr_safetensors *file, const char *name);
/* Read the tensor of that name and shape into its values. Refuses one that is not as it should be.
 */
int orr_safetensors_read(const struct orr_safetensors *file, const struct orr_named_tensor *tensor,
			 struct orr_error *err);
#endif
