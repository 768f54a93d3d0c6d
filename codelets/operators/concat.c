/* concat: the columns of all inputs beside each other, row by row. */
#include <stdio.h>

#include "list.h"

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	is->output = is->inputs[0];
	for (int i = 1; i < is->n_inputs; i++) {
		if (is->inputs[i].rows != is->output.rows) {
			(void)snprintf(text, size,
				       "concat reads equal rows, and %.60s has %lld and %.60s "
				       "%lld: make them equal",
				       inputs[0], (long long)is->output.rows, inputs[i],
				       (long long)is->inputs[i].rows);
			return false;
		}
		is->output.columns += is->inputs[i].columns;
	}
	return true;
}

static void forward(const struct orr_call *c)
{
	int64_t first = 0, total = c->is->output.columns;

	for (int i = 0; i < c->is->n_inputs; i++) {
		int64_t columns = c->is->inputs[i].columns;

		c->kernels->columns_put(c->device, orr_call_rows(c, i), columns,
					orr_call_input(c, i), total, first, orr_call_output(c));
		first += columns;
	}
}

static void backward(const struct orr_call *c)
{
	int64_t first = 0, total = c->is->output.columns;

	for (int i = 0; i < c->is->n_inputs; i++) {
		int64_t columns = c->is->inputs[i].columns;
		float *dx = orr_call_input_gradient(c, i);

		if (dx)
			c->kernels->columns_take(c->device, orr_call_rows(c, i), total, first,
						 orr_call_gradient(c), columns, dx);
		first += columns;
	}
}

const struct orr_op orr_op_concat = {
	.name = "concat",
	.least_inputs = 2,
	.infer = infer,
	.forward = forward,
	.backward = backward,
};
