/* concat: the columns of all inputs beside each other, row by row; or their rows below each other.
 */
#include "list.h"

enum { AXIS };
static const struct orr_attribute attributes[] = {
	[AXIS] = {.name = "axis", .form = ORR_ATTRIBUTE_CHOICE, .choices = "columns, rows"},
	{0},
};

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	bool rows = is->values[AXIS] > 0;

	is->output = is->inputs[0];
	for (int i = 1; i < is->n_inputs; i++) {
		const struct orr_shape *x = &is->inputs[i], *first = &is->inputs[0];

		if (rows ? x->columns != first->columns : x->rows != first->rows)
			return orr_refuse(why,
					  "concat reads equal %s, and %.60s has %lld and %.60s "
					  "%lld: make them equal",
					  rows ? "columns" : "rows", why->inputs[0],
					  (long long)(rows ? first->columns : first->rows),
					  why->inputs[i], (long long)(rows ? x->columns : x->rows));
		if (rows)
			is->output.rows += x->rows;
		else
			is->output.columns += x->columns;
	}
	return true;
}

/* What of the output belongs to each input: columns of a matrix, whose rows are samples where rows
 * are below each other. */
struct part {
	int64_t n, total, first, width;
};

static struct part part_of(const struct orr_call *c, int i)
{
	bool rows = c->is->values[AXIS] > 0;
	struct part p = {.n = rows ? c->n : c->n * c->is->output.rows,
			 .total = rows ? orr_shape_floats(c->is->output) : c->is->output.columns};

	for (int k = 0; k <= i; k++) {
		p.first += p.width;
		p.width = rows ? orr_shape_floats(c->is->inputs[k]) : c->is->inputs[k].columns;
	}
	return p;
}

static void forward(const struct orr_call *c)
{
	for (int i = 0; i < c->is->n_inputs; i++) {
		struct part p = part_of(c, i);

		orr_call_move_columns(c, p.n, p.width, orr_call_input(c, i), p.width,
				      orr_call_output(c) + p.first, p.total);
	}
}

static void backward(const struct orr_call *c)
{
	const float *dy = orr_call_gradient(c);

	for (int i = 0; i < c->is->n_inputs; i++) {
		struct part p = part_of(c, i);
		float *dx = orr_call_input_gradient(c, i);

		if (dx)
			orr_call_move_columns(c, p.n, p.width, dy + p.first, p.total, dx, p.width);
	}
}

static const struct orr_division divisions[] = {
	{ORR_LIES(ORR_SHARDING_COLUMNS), .where = "axis", .is = true},
	{ORR_LIES(ORR_SHARDING_ROWS), .where = "axis", .is = false},
	{ORR_LIES(ORR_SHARDING_COPIED)},
};

const struct orr_op orr_op_concat = {
	.name = "concat",
	.moves = true,
	.least_inputs = 2,
	.attributes = attributes,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(divisions),
};
