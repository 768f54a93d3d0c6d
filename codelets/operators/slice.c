/* slice: some rows and columns of each sample; first and last: one row. */
#include "list.h"

enum { ROWS, COLUMNS = 2 }; /* the first, and the one behind the last; -1: all */
static const struct orr_attribute attributes[] = {
	{.name = "rows", .form = ORR_ATTRIBUTE_RANGE},
	{.name = "columns", .form = ORR_ATTRIBUTE_RANGE},
	{0},
};

/* The part of `count` that a range takes, from its first; 0: it goes beyond them. */
static int64_t part(const double *range, int64_t count)
{
	if (range[1] < 0)
		return count;
	return range[1] > (double)count ? 0 : (int64_t)range[1] - (int64_t)range[0];
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	const struct orr_shape *x = &is->inputs[0];

	is->output = (struct orr_shape){part(&is->values[ROWS], x->rows),
					part(&is->values[COLUMNS], x->columns)};
	return (is->output.rows && is->output.columns) ||
	       orr_refuse(why,
			  "slice takes %s that %.60s does not have: it has %lld rows of %lld "
			  "columns, numbered from 0",
			  is->output.rows ? "columns" : "rows", why->inputs[0], (long long)x->rows,
			  (long long)x->columns);
}

static bool infer_row(struct orr_instance *is, struct orr_refusal *why)
{
	is->output = (struct orr_shape){1, is->inputs[0].columns};
	return true;
}

/* How the part moves out; *at: where it begins. */
static struct orr_box box(const struct orr_call *c, int64_t *at)
{
	const struct orr_instance *is = c->is;
	int64_t row = is->op == &orr_op_last ? is->inputs[0].rows - 1 : 0, column = 0;

	if (is->op->attributes) {
		row = (int64_t)is->values[ROWS];
		column = (int64_t)is->values[COLUMNS];
	}
	*at = row * is->inputs[0].columns + column;
	return (struct orr_box){c->n,
				is->output.rows,
				is->output.columns,
				orr_shape_floats(is->inputs[0]),
				is->inputs[0].columns,
				orr_shape_floats(is->output),
				is->output.columns};
}

static void forward(const struct orr_call *c)
{
	int64_t at;
	struct orr_box b = box(c, &at);

	c->kernels->sequence->move(c->device, &b, orr_call_input(c, 0) + at, orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	int64_t at, count = c->n * orr_shape_floats(c->is->inputs[0]);
	struct orr_box out = box(c, &at), back = out;
	float *dx = orr_call_input_gradient(c, 0);

	back.from_sample = out.to_sample, back.from_row = out.to_row;
	back.to_sample = out.from_sample, back.to_row = out.from_row;
	c->kernels->elements->zero(c->device, count, dx);
	c->kernels->sequence->move(c->device, &back, orr_call_gradient(c), dx + at);
}

#define ORR_PART(NAME, ATTRIBUTES, INFER) \
	const struct orr_op orr_op_##NAME = { \
		.name = #NAME, \
		.moves = true, \
		ORR_READS(1, 1), \
		.attributes = (ATTRIBUTES), \
		.infer = (INFER), \
		.forward = forward, \
		.backward = backward, \
	};
ORR_PART(slice, attributes, infer)
ORR_PART(first, NULL, infer_row)
ORR_PART(last, NULL, infer_row)
