/* max_pool: of each channel the largest that the window sees; it keeps which pixel that is.
 * mean_pool: the mean; pixels outside of the image are 0 and count. */
#include "image.h"
#include "list.h"

/* Of a kernel: a float, which max_pool keeps, holds every place in its window. */
#define MOST_SIDE 4096

enum { KERNEL, STRIDE, PADDING, HEIGHT };
static const struct orr_attribute attributes[] = {
	[KERNEL] = ORR_NEEDED("kernel", MOST_SIDE,
			      "how many pixels wide and high the window is, kernel=2"),
	[STRIDE] = ORR_COUNT("stride", 0, 10000, 0),
	[PADDING] = ORR_IMAGE_PADDING,
	[HEIGHT] = ORR_IMAGE_HEIGHT,
	{0},
};

/* The stride is the window's side where nothing is said. */
static struct orr_window window(const struct orr_instance *is)
{
	const double *v = is->values;
	double stride = v[STRIDE] > 0 ? v[STRIDE] : v[KERNEL];

	return orr_image_window(is, v[HEIGHT], v[KERNEL], stride, v[PADDING]);
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	struct orr_window w = window(is);

	if (!orr_image_check(is, &w, why))
		return false;
	if (2 * w.padding > w.side)
		return orr_refuse(why, "%s: padding must be at most half of kernel=%lld",
				  is->op->name, (long long)w.side);
	if (!orr_instance_counts(is,
				 (double)orr_window_places(&w) * (double)w.side * (double)w.side *
					 (double)w.channels,
				 why))
		return false;
	is->output = (struct orr_shape){orr_window_places(&w), w.channels};
	is->forward_flops = orr_window_places(&w) * orr_window_seen(&w);
	is->backward_flops = is->forward_flops;
	if (is->op == &orr_op_max_pool)
		is->backward_flops = is->saved = orr_shape_floats(is->output);
	return true;
}

static void forward(const struct orr_call *c)
{
	struct orr_window w = window(c->is);

	c->kernels->images->pool_forward(c->device, c->n, &w, orr_call_input(c, 0),
					 orr_call_output(c), orr_call_saved(c));
}

static void backward(const struct orr_call *c)
{
	struct orr_window w = window(c->is);

	c->kernels->images->pool_backward(c->device, c->n, &w, orr_call_saved(c),
					  orr_call_gradient(c), orr_call_input_gradient(c, 0));
}

#define ORR_POOL(NAME) \
	const struct orr_op orr_op_##NAME = { \
		.name = #NAME, \
		ORR_READS(1, 1), \
		.attributes = attributes, \
		.infer = infer, \
		.forward = forward, \
		.backward = backward, \
	};
ORR_POOL(max_pool)
ORR_POOL(mean_pool)
