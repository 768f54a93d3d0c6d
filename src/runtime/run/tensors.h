#pragma once
/* The tensors of a checkpoint: those of the unsplit model by its names, and what the optimizer
 * keeps of each. Where they lie on this rank, which may have a part of one. */
#include "checkpoint/safetensors.h"
#include "orrery/graph.h"
#include "orrery/orrery.h"
#include "runtime/tasks/data.h"

#define ORR_MOST_KEPT 3 /* a parameter, and an optimizer has two of it at most */

/* Where an owner's floats lie while they are acquired. */
struct orr_floats {
	starpu_data_handle_t held[2]; /* NULL: not here */
	const struct orr_program *program;
	float *parameters, *state; /* state: NULL where nothing is trained */
};

int orr_floats_acquire(struct orr_floats *floats, const struct orr_work *work,
		       const struct orr_owned *o, enum starpu_data_access_mode mode,
		       struct orr_error *err);
/* In any thread. */
void orr_floats_release(struct orr_floats *floats);

/* Name parameter j of operator o of the unsplit graph and, if it is trained, its optimizer state;
 * whole, without values. Returns the number of tensors; -1: no memory for the names, which the
 * caller frees. */
int orr_tensors_name(struct orr_named_tensor tensors[ORR_MOST_KEPT], const struct orr_graph *whole,
		     int o, int j, enum orr_optimizer optimizer);
void orr_tensors_drop_names(struct orr_named_tensor *tensors, int n);
/* Where the n of them begin, in the same order, of parameter i of operator k of the floats' stage;
 * false: they are not here. */
bool orr_tensors_find(float *values[ORR_MOST_KEPT], int n, const struct orr_floats *floats, int k,
		      int i);
