/* contrastive: each sample of a minibatch finds its own among all others, both ways. Of the N x N
 * products of the first input's rows and the second's, times exp(t), the loss is the mean of two
 * cross-entropies: of a row, whose class is its own column, and of a column [Radford21, figure 3].
 * Which is of a whole minibatch, so a job reads all of it, and counts the loss of its own samples;
 * it keeps their gradients, and of t its own rows' share. */
#include <math.h>
#include "../contrastive.h"
#include "list.h"

/* Rows of scores at once: a tile is a product, and they bound the memory. */
#define TILE 128

enum { WEIGHT, TEMPERATURE };
static const struct orr_attribute attributes[] = {
	[WEIGHT] = ORR_LOSS_WEIGHT,
	[TEMPERATURE] = ORR_REAL("temperature", 1e-4, 1e4, 0.07),
	{0},
};

/* Products are of every sample with all those of a minibatch, whose size a file does not say: their
 * operations are those of a minibatch of one. */
static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	int64_t columns = is->inputs[0].columns;

	is->saved = 2 * columns + 1;
	orr_instance_add(is, orr_parameter_vector("temperature", 1, -log(is->values[TEMPERATURE])));
	return is->inputs[0].rows == 1 ||
	       orr_refuse(why,
			  "contrastive reads 1 row a sample, and %.60s has %lld: take their mean, "
			  "the first or the last (op=mean, op=first, op=last)",
			  why->inputs[0], (long long)is->inputs[0].rows);
}

/* What a call keeps while it runs, behind what the products want. */
struct room {
	struct orr_largest largest[2]; /* of rows, and of columns */
	struct orr_contrast *seen;
	float *scores, *row, *zeros;
};

static void *take(char *from, size_t *bytes, int64_t n, size_t size)
{
	void *at = from ? from + *bytes : NULL;

	*bytes += ((size_t)n * size + 255) / 256 * 256;
	return at;
}

/* For a minibatch of n; from NULL: only its size is wanted. */
static size_t lay_out(struct room *room, const struct orr_instance *is, const struct orr_device *d,
		      int64_t n, char *from)
{
	int64_t tile = n < TILE ? n : TILE;
	size_t bytes = d->kernels->workspace_bytes(d->precision, tile, is->inputs[0].columns, n);

	bytes = (bytes + 255) / 256 * 256;
	for (int i = 0; i < 2; i++) {
		room->largest[i].sum = take(from, &bytes, n, sizeof(double));
		room->largest[i].most = take(from, &bytes, n, sizeof(float));
	}
	room->seen = take(from, &bytes, n, sizeof(*room->seen));
	room->scores = take(from, &bytes, tile * n, sizeof(float));
	room->row = take(from, &bytes, n, sizeof(float));
	room->zeros = take(from, &bytes, n, sizeof(float));
	return bytes;
}

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	struct room room;

	return lay_out(&room, is, d, n, NULL);
}

static void prepare(const struct orr_instance *is, struct orr_device *d, int64_t n)
{
	if (d->kernels->linear->prepare)
		d->kernels->linear->prepare(d, n < TILE ? n : TILE, is->inputs[0].columns, n, true);
}

/* Products of n rows of x with all rows of y. */
static void multiply(const struct orr_call *c, const struct room *room, int64_t n, const float *x,
		     const float *y)
{
	c->kernels->linear->forward(c->device, n, c->is->inputs[0].columns, orr_call_minibatch(c),
				    x, y, NULL, room->zeros, room->scores);
}

static void normalise(const struct orr_call *c, const struct room *room)
{
	const float *x = orr_call_input(c, 0), *y = orr_call_input(c, 1);
	int64_t all = orr_call_minibatch(c);

	for (int64_t r = 0; r < all; r += TILE) {
		int64_t n = all - r < TILE ? all - r : TILE;

		multiply(c, room, n, x + r * c->is->inputs[0].columns, y);
		c->kernels->contrastive->normalise(c->device, n, all, r, c->parameters,
						   room->scores, &room->largest[0],
						   &room->largest[1], room->row);
	}
}

/* The gradients of the block's rows of input i. */
static void differentiate(const struct orr_call *c, const struct room *room, int i)
{
	const float *x = orr_call_input(c, i), *y = orr_call_input(c, !i);
	int64_t all = orr_call_minibatch(c), first = orr_call_first(c);
	int64_t columns = c->is->inputs[0].columns;
	float *dx = orr_call_saved(c) + i * c->n * columns;

	for (int64_t r = 0; r < c->n; r += TILE) {
		int64_t n = c->n - r < TILE ? c->n - r : TILE;

		multiply(c, room, n, x + (first + r) * columns, y);
		c->kernels->contrastive->slopes(c->device, n, all, first + r, c->parameters,
						room->scores, &room->largest[i], &room->largest[!i],
						room->row, room->seen + r, i);
		c->kernels->linear->input(c->device, n, columns, all, room->scores, y, NULL,
					  dx + r * columns);
	}
}

static void forward(const struct orr_call *c)
{
	struct room room;
	float *slope = orr_call_saved(c) + 2 * c->n * c->is->inputs[0].columns;

	(void)lay_out(&room, c->is, c->device, orr_call_minibatch(c), c->device->workspace);
	c->kernels->elements->zero(c->device, orr_call_minibatch(c), room.zeros);
	normalise(c, &room);
	differentiate(c, &room, 0);
	differentiate(c, &room, 1);
	c->kernels->elements->zero(c->device, c->n, slope); /* all of it is a sample's first */
	c->kernels->contrastive->count(c->device, c->n, room.seen, slope, c->metrics);
}

static void backward(const struct orr_call *c)
{
	int64_t count = c->n * c->is->inputs[0].columns;

	for (int i = 0; i < 2; i++)
		orr_call_scale_gradient(c, i, c->loss_scale, orr_call_saved(c) + i * count);
	if (c->slope)
		c->kernels->elements->scale(c->device, 1, c->loss_scale,
					    orr_call_saved(c) + 2 * count, c->slope);
}

const struct orr_op orr_op_contrastive = {
	.name = "contrastive",
	.loss = true,
	.whole_minibatch = true,
	ORR_READS(2, 2),
	.inputs = "the two that belong together",
	.attributes = attributes,
	.alike = true,
	.flops = {10, 2},
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.workspace = workspace,
	.prepare = prepare,
};
