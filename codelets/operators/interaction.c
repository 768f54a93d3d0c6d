/* interaction: the dot products of all pairs of rows, those of all inputs one after the other: row
 * 1 with row 0, row 2 with rows 0 and 1, and so on. It keeps the rows. */
#include "list.h"

static int64_t n_rows(const struct orr_instance *is)
{
	int64_t rows = 0;

	for (int i = 0; i < is->n_inputs; i++)
		rows += is->inputs[i].rows;
	return rows;
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	int64_t rows = n_rows(is), columns = is->inputs[0].columns, pairs;

	if (!orr_instance_counts(is, 2.0 * (double)rows * (double)rows * (double)columns, why))
		return false;
	pairs = rows * (rows - 1) / 2;
	is->output = (struct orr_shape){1, pairs};
	is->saved = rows * columns;
	is->forward_flops = 2 * pairs * columns;
	is->backward_flops = 2 * is->forward_flops;
	if (rows < 2)
		return orr_refuse(why,
				  "interaction reads 2 rows or more, and %.60s has 1: give it more "
				  "edges, or an input of several rows",
				  why->inputs[0]);
	for (int i = 1; i < is->n_inputs; i++)
		if (!orr_instance_same_width(is, 0, i, why))
			return false;
	return true;
}

static void forward(const struct orr_call *c)
{
	int64_t rows = n_rows(c->is), columns = c->is->inputs[0].columns;
	float *to = orr_call_saved(c);

	for (int i = 0; i < c->is->n_inputs; i++) {
		int64_t floats = orr_shape_floats(c->is->inputs[i]);
		struct orr_box b = {c->n, 1, floats, floats, floats, rows * columns, floats};

		c->kernels->sequence->move(c->device, &b, orr_call_input(c, i), to);
		to += floats;
	}
	c->kernels->sequence->interaction_forward(c->device, c->n, rows, columns, orr_call_saved(c),
						  orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	int64_t first = 0;

	for (int i = 0; i < c->is->n_inputs; i++) {
		float *dx = orr_call_input_gradient(c, i);
		int64_t rows = c->is->inputs[i].rows;

		if (dx)
			c->kernels->sequence->interaction_input(
				c->device, c->n, n_rows(c->is), c->is->inputs[0].columns, first,
				rows, orr_call_saved(c), orr_call_gradient(c), dx);
		first += rows;
	}
}

const struct orr_op orr_op_interaction = {
	.name = "interaction",
	.least_inputs = 1,
	.infer = infer,
	.forward = forward,
	.backward = backward,
};
