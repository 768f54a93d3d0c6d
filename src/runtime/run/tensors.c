#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/program.h"

int orr_floats_acquire(struct orr_floats *floats, const struct orr_work *work,
		       const struct orr_owned *o, enum starpu_data_access_mode mode,
		       struct orr_error *err)
{
	int code;

	*floats = (struct orr_floats){.program = work->programs[o->s]};
	if (!o->parameters)
		return 0;
	if ((code = orr_data_acquire(o->parameters, mode, &floats->parameters, err)))
		return code;
	if (o->state && (code = orr_data_acquire(o->state, mode, &floats->state, err))) {
		orr_data_release(o->parameters);
		return code;
	}
	floats->held[0] = o->parameters;
	floats->held[1] = o->state;
	return 0;
}

void orr_floats_release(struct orr_floats *floats)
{
	for (int i = 0; i < 2; i++) {
		if (floats->held[i])
			orr_data_release(floats->held[i]);
		floats->held[i] = NULL;
	}
}

void orr_tensors_drop_names(struct orr_named_tensor *tensors, int n)
{
	for (int i = 0; i < n; i++)
		free((char *)(uintptr_t)tensors[i].name);
}

int orr_tensors_name(struct orr_named_tensor tensors[ORR_MOST_KEPT], const struct orr_graph *whole,
		     int o, int j, enum orr_optimizer optimizer)
{
	static const char *const one[] = {"momentum"}, *const two[] = {"first_moment",
								       "second_moment"};
	const struct orr_operator *operator= & whole->operators[o];
	const struct orr_parameter_tensor *tensor = &operator->instance->parameters[j];
	int n_state = operator->frozen ? 0 : orr_optimizer_floats(optimizer);

	for (int i = 0; i <= n_state; i++) {
		char *name;
		int n = i ? asprintf(&name, "%s.%s.%s", operator->name, tensor->name,
				     n_state == 1 ? one[i - 1] : two[i - 1])
			  : asprintf(&name, "%s.%s", operator->name, tensor->name);

		if (n < 0) {
			orr_tensors_drop_names(tensors, i);
			return -1;
		}
		tensors[i] = (struct orr_named_tensor){.name = name, .n_dims = tensor->n_dims};
		memcpy(tensors[i].shape, tensor->dims, sizeof(tensors[i].shape));
	}
	return n_state + 1;
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
