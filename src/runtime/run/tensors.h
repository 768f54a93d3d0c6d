#pragma once
/* Where the tensors of a checkpoint lie on this rank, which may have a part of one. */
#include "checkpoint/weights.h"
#include "orrery/graph.h"
#include "orrery/orrery.h"
#include "runtime/tasks/data.h"

/* Where an owner's floats lie while they are acquired. */
struct orr_floats {
	starpu_data_handle_t held[2]; /* NULL: not here */
	const struct orr_program *program;
	float *parameters, *state; /* state: NULL: it was not wanted, or nothing is trained */
};

/* state: of the optimizer, too. After a failure, too, orr_floats_release() is due. */
int orr_floats_acquire(struct orr_floats *floats, const struct orr_work *work,
		       const struct orr_owned *o, enum starpu_data_access_mode mode, bool state,
		       struct orr_error *err);
/* In any thread. */
void orr_floats_release(struct orr_floats *floats);

/* Where the n tensors of orr_tensors_name begin, in the same order, of parameter i of operator k of
 * the floats' stage; false: they are not here. */
bool orr_tensors_find(float *values[ORR_MOST_KEPT], int n, const struct orr_floats *floats, int k,
		      int i);
