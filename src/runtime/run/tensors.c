#include "tensors.h"

#include "codelets/program.h"

int orr_floats_acquire(struct orr_floats *floats, const struct orr_work *work,
		       const struct orr_owned *o, enum starpu_data_access_mode mode, bool state,
		       struct orr_error *err)
{
	int code;

	*floats = (struct orr_floats){.program = work->programs[o->s]};
	if (!o->parameters)
		return 0;
	if (!(code = orr_data_acquire(o->parameters, mode, &floats->parameters, err)))
		floats->held[0] = o->parameters;
	if (!code && state && o->state &&
	    !(code = orr_data_acquire(o->state, mode, &floats->state, err)))
		floats->held[1] = o->state;
	return code;
}

void orr_floats_release(struct orr_floats *floats)
{
	for (int i = 0; i < 2; i++) {
		if (floats->held[i])
			orr_data_release(floats->held[i]);
		floats->held[i] = NULL;
	}
}

bool orr_tensors_find(float *values[ORR_MOST_KEPT], int n, const struct orr_floats *floats, int k,
		      int i)
{
	int64_t n_trained = floats->program->n_trained;
	struct orr_parameter_place at;

	if (!floats->held[0] || !orr_program_parameter(floats->program, k, i, &at))
		return false;
	values[0] = floats->parameters + at.first;
	for (int e = 1; e < n; e++)
		values[e] = floats->state + (e - 1) * n_trained + at.first;
	return true;
}
