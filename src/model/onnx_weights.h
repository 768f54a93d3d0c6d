#ifndef ORR_ONNX_WEIGHTS_H
#define ORR_ONNX_WEIGHTS_H
/* The weights of a model in ONNX, as the parameters of the graph that it is read as: by their names
 * there, "operator.weight", with the dimensions and the order that they have here. */
#include <stdint.h>
#include "orrery/error.h"

struct orr_parameter_tensor;
struct orr_onnx_weights; /* a file that is open to be read */

/* (onnx/none.c: refuses, where the build has no protobuf-c) */
int orr_onnx_weights_open(struct orr_onnx_weights **out, const char *path, struct orr_error *err);
void orr_onnx_weights_close(struct orr_onnx_weights *w); /* NULL is fine */
int orr_onnx_weights_count(const struct orr_onnx_weights *w);
/* Weight i: its name, and its dimensions. */
const char *orr_onnx_weights_entry(const struct orr_onnx_weights *w, int i, int *n_dims,
				   const int64_t **dims);
/* The numbers of that part of it, each as the nearest float. Data beside the model is read from its
 * folder alone. */
int orr_onnx_weights_read(const struct orr_onnx_weights *w, int i,
			  const struct orr_parameter_tensor *part, float *to,
			  struct orr_error *err);
#endif
