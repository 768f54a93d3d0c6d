#pragma once
/* The weights of a model as one safetensors file, so that a model that was begun elsewhere goes on
 * here, and back. Tensors have the names of checkpoints, "operator.weight". */
#include "orrery/orrery.h"
#include "safetensors.h"

struct orr_graph;

#define ORR_MOST_KEPT 3 /* a parameter, and an optimizer has two of it at most */

/* Name parameter j of operator o of the unsplit graph and, if it is trained, its optimizer state;
 * whole, without values. Returns the number of tensors; -1: no memory for the names, which the
 * caller frees. */
int orr_tensors_name(struct orr_named_tensor tensors[ORR_MOST_KEPT], const struct orr_graph *whole,
		     int o, int j, enum orr_optimizer optimizer);
void orr_tensors_drop_names(struct orr_named_tensor *tensors, int n);

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
