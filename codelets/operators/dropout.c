/* dropout: drops floats of this share and scales the others, so that the mean stays. Which it drops
 * is a function of the run's seed, the operator, the sample and the place in it: the backward draws
 * them again, as does every schedule, and a part of a split one drops what the whole one drops
 * there. Nothing is dropped where a model is only evaluated. */
#include "list.h"

enum { RATE };
static const struct orr_attribute attributes[] = {
	[RATE] = {.name = "rate",
		  .form = ORR_ATTRIBUTE_REAL,
		  .most = 0.999999,
		  .otherwise = -1,
		  .missing = "rate is missing: say which share of the floats it drops, rate=0.1"},
	{0},
};

static void drop(const struct orr_call *c, const float *x, float *y)
{
	const struct orr_microbatch *m = &c->device->microbatch;
	int64_t floats = orr_shape_floats(c->is->output);
	const int64_t dims[] = {c->is->output.rows, c->is->output.columns};
	struct orr_pieces part = orr_portion_pieces(&c->is->portion, 2, dims);
	struct orr_drop d = {m->seed,     m->sample,  c->layer->origin, c->is->values[RATE],
			     part.floats, part.first, part.apart};

	if (m->evaluation)
		c->kernels->elements->copy(c->device, c->n * floats, x, y);
	else
		c->kernels->sequence->dropout(c->device, &d, c->n, floats, x, y);
}

ORR_BOTH_WAYS(drop)

const struct orr_op orr_op_dropout = {
	.name = "dropout",
	.draws = true,
	ORR_READS(1, 1),
	.attributes = attributes,
	.flops = {1, 1},
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_alike),
};
