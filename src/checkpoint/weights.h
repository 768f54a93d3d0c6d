#pragma once
/* The weights of a model as one safetensors file, so that a model that was begun elsewhere goes on
 * here, and back. Tensors have the names of checkpoints, "operator.weight". */
#include "orrery/orrery.h"

struct orr_graph;
struct orr_parameter_tensor;
struct orr_tensor_file;

/* Open a file for graph g (*w owns nothing after a failure; orr_tensor_file_close ends it): its
 * tensors have the model's shapes, and numbers that are floats. partly: it may lack tensors, and
 * have some that are none of the model's; text[size] then becomes a line about these, or "" where
 * there are none. Of operators that share parameters it has those of one at least. What optimizers
 * leave in checkpoints ("operator.weight.momentum") does not count. */
int orr_weights_open(struct orr_tensor_file *w, const char *path, const struct orr_graph *g,
		     bool partly, char *text, size_t size, struct orr_error *err);

/* Read parameter i of operator k, or the part of it that is `part` of what the file has: the
 * nearest floats to the file's. *to stays what it is where the file lacks it. */
int orr_weights_read(const struct orr_tensor_file *w, const struct orr_graph *g, int k, int i,
		     const struct orr_parameter_tensor *part, float *to, struct orr_error *err);
