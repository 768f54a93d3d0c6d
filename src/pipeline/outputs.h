#pragma once
/* Outputs of stages that several stages read, of a cut. */
#include "orrery/orrery.h"

struct orr_edge;
struct orr_fanout;

/* Of reads of tensors, tensor[e] by edges[e].to, each stage's once and ascending by stage; from -1
 * is data, which no stage makes. *out is to be freed with free(). */
int orr_outputs_find(struct orr_fanout **out, int *n_outputs, const struct orr_edge *edges,
		     const int *tensor, int n, struct orr_error *err);
