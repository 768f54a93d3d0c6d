/* rotary: in each head of each row, pairs of floats turn by angles that grow with the row's number.
 * Pairs are a half of the head apart (GPT-NeoX). */
#include "list.h"

enum { HEADS, BASE };
static const struct orr_attribute attributes[] = {
	[HEADS] = ORR_NEEDED("heads", ORR_MOST_COLUMNS, "how many heads a row has, heads=8"),
	[BASE] = ORR_REAL("base", 1, 1e9, 10000),
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

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	int64_t heads = (int64_t)is->values[HEADS];

	return is->output.columns % (2 * heads) == 0 ||
	       orr_refuse(why,
			  "rotary turns pairs of columns in each of %lld heads, and %.60s has %lld "
			  "columns: give it a multiple of %lld, or other heads=",
			  (long long)heads, why->inputs[0], (long long)is->output.columns,
			  2 * (long long)heads);
}

static void turn(const struct orr_call *c, const float *x, float *y)
{
	struct orr_rotary t = sizes(c->is, c->n, !c->forward);

	c->kernels->sequence->rotary(c->device, &t, x, y);
}

ORR_BOTH_WAYS(turn)

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	struct orr_rotary t = sizes(is, n, false);

	return d->kernels->sequence->rotary_bytes(&t);
}

static const struct orr_division divisions[] = {
	{ORR_LIES(ORR_SHARDING_COLUMNS), .divided = {"heads"}, .evenly = true},
	{ORR_LIES(ORR_SHARDING_COPIED)},
};

const struct orr_op orr_op_rotary = {
	.name = "rotary",
	ORR_READS(1, 1),
	.attributes = attributes,
	.flops = {3, 3},
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.workspace = workspace,
	ORR_DIVIDED(divisions),
};
