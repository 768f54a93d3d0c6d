#include "pool.h"

#include <stdio.h>

const struct orr_attribute orr_pool_attributes[] = {
	[ORR_POOL_KERNEL] = {.name = "kernel",
			     .form = ORR_ATTRIBUTE_COUNT,
			     .least = 1,
			     .most = ORR_POOL_MOST,
			     .missing = "kernel is missing: say how many pixels wide and high the "
					"window is, kernel=2"},
	[ORR_POOL_STRIDE] = {.name = "stride", .form = ORR_ATTRIBUTE_COUNT, .most = 10000},
	[ORR_POOL_PADDING] = ORR_IMAGE_PADDING,
	[ORR_POOL_HEIGHT] = ORR_IMAGE_HEIGHT,
	{0},
};

/* The stride is the window's side where nothing is said. */
static double stride_of(const double *v)
{
	return v[ORR_POOL_STRIDE] > 0 ? v[ORR_POOL_STRIDE] : v[ORR_POOL_KERNEL];
}

struct orr_window orr_pool_window(const struct orr_instance *is)
{
	const double *v = is->values;

	return orr_image_window(is, v[ORR_POOL_HEIGHT], v[ORR_POOL_KERNEL], stride_of(v),
				v[ORR_POOL_PADDING]);
}

bool orr_pool_infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	const double *v = is->values;
	struct orr_window w;

	if (!orr_image_check(is, v[ORR_POOL_HEIGHT], v[ORR_POOL_KERNEL], stride_of(v),
			     v[ORR_POOL_PADDING], inputs[0], text, size))
		return false;
	w = orr_pool_window(is);
	if (2 * w.padding > w.side) {
		(void)snprintf(text, size, "%s: padding must be at most half of kernel=%lld",
			       is->op->name, (long long)w.side);
		return false;
	}
	if (!orr_instance_counts(is,
				 (double)orr_window_places(&w) * (double)w.side * (double)w.side *
					 (double)w.channels,
				 text, size))
		return false;
	is->output = (struct orr_shape){orr_window_places(&w), w.channels};
	is->forward_flops = orr_window_places(&w) * orr_window_seen(&w);
	is->backward_flops = is->forward_flops;
	return true;
}
