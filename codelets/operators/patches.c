/* patches: the image in squares beside each other, a row each: pixel by pixel, each pixel with its
 * channels. */
#include "image.h"
#include "list.h"

enum { SIZE, HEIGHT };
static const struct orr_attribute attributes[] = {
	[SIZE] = ORR_NEEDED("size", 10000, "how many pixels wide and high a patch is, size=2"),
	[HEIGHT] = ORR_IMAGE_HEIGHT,
	{0},
};

static struct orr_window window(const struct orr_instance *is)
{
	const double *v = is->values;

	return orr_image_window(is, v[HEIGHT], v[SIZE], v[SIZE], 0);
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	struct orr_window w = window(is);

	if (!orr_image_check(is, &w, why))
		return false;
	if (w.height % w.side || w.width % w.side)
		return orr_refuse(why,
				  "patches: size=%lld must divide the image's %lld x %lld pixels",
				  (long long)w.side, (long long)w.height, (long long)w.width);
	is->output = (struct orr_shape){orr_window_places(&w), orr_window_seen(&w)};
	return true;
}

static void forward(const struct orr_call *c)
{
	struct orr_window w = window(c->is);

	c->kernels->images->unfold(c->device, c->n, &w, orr_call_input(c, 0), orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	struct orr_window w = window(c->is);

	c->kernels->images->fold(c->device, c->n, &w, orr_call_gradient(c),
				 orr_call_input_gradient(c, 0));
}

const struct orr_op orr_op_patches = {
	.name = "patches",
	.moves = true,
	ORR_READS(1, 1),
	.attributes = attributes,
	.infer = infer,
	.forward = forward,
	.backward = backward,
};
