/* rotary: in each head of each row, pairs of floats turn by angles that grow with the row's number.
 * Pairs are a half of the head apart (GPT-NeoX). */
#include <stdio.h>

#include "list.h"

enum { HEADS, BASE };
static const struct orr_attribute attributes[] = {
	[HEADS] = {.name = "heads",
		   .form = ORR_ATTRIBUTE_COUNT,
		   .least = 1,
		   .most = ORR_MOST_COLUMNS,
		   .missing = "heads is missing: say how many heads a row has, heads=8"},
	[BASE] = {.name = "base",
		  .form = ORR_ATTRIBUTE_REAL,
		  .least = 1,
		  .most = 1e9,
		  .otherwise = 10000},
	{0},
};

static struct orr_rotary sizes(const struct orr_instance *is, int64_t n, bool back)
{
	int64_t heads = (int64_t)is->values[HEADS];

	return (struct orr_rotary){.n = n,
				   .rows = is->inputs[0].rows,
				   .heads = heads,
				   .width = is->inputs[0].columns / heads,
				   .base = is->values[BASE],
				   .back = back};
}

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	int64_t heads = (int64_t)is->values[HEADS];

	is->output = is->inputs[0];
	orr_instance_count(is, 3, 3, 0);
	if (is->output.columns % (2 * heads) == 0)
		return true;
	(void)snprintf(text, size,
		       "rotary turns pairs of columns in each of %lld heads, and %.60s has %lld "
		       "columns: give it a multiple of %lld, or other heads=",
		       (long long)heads, inputs[0], (long long)is->output.columns,
		       2 * (long long)heads);
	return false;
}

static void forward(const struct orr_call *c)
{
	struct orr_rotary t = sizes(c->is, c->n, false);

	c->kernels->sequence->rotary(c->device, &t, orr_call_input(c, 0), orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	struct orr_rotary t = sizes(c->is, c->n, true);

	c->kernels->sequence->rotary(c->device, &t, orr_call_gradient(c),
				     orr_call_input_gradient(c, 0));
}

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	struct orr_rotary t = sizes(is, n, false);

	return d->kernels->sequence->rotary_bytes(&t);
}

static const struct orr_division divisions[] = {
	{.n_inputs = 1,
	 .inputs = {ORR_SHARDING_COLUMNS},
	 .output = ORR_SHARDING_COLUMNS,
	 .divided = {"heads"},
	 .evenly = true},
	{.n_inputs = 1, .inputs = {ORR_SHARDING_COPIED}, .output = ORR_SHARDING_COPIED},
};

const struct orr_op orr_op_rotary = {
	.name = "rotary",
	.least_inputs = 1,
	.most_inputs = 1,
	.attributes = attributes,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.workspace = workspace,
	ORR_DIVIDED(divisions),
};
