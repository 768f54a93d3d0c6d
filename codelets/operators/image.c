#include "image.h"

#include <math.h>

struct orr_window orr_image_window(const struct orr_instance *is, double height, double side,
				   double stride, double padding)
{
	int64_t pixels = is->inputs[0].rows, channels = is->inputs[0].columns;
	int64_t rows = height > 0 ? (int64_t)height : (int64_t)lround(sqrt((double)pixels));

	return (struct orr_window){.height = rows,
				   .width = pixels / rows,
				   .channels = channels,
				   .side = (int64_t)side,
				   .stride = (int64_t)stride,
				   .padding = (int64_t)padding,
				   .count = channels};
}

bool orr_image_check(const struct orr_instance *is, const struct orr_window *w,
		     struct orr_refusal *why)
{
	int64_t pixels = is->inputs[0].rows;
	const char *name = is->op->name;

	if (w->height * w->width != pixels)
		return orr_refuse(why,
				  "%s: the %lld rows of %.60s are the pixels of no image of height "
				  "%lld: give it rows, and image_height where it is not square",
				  name, (long long)pixels, why->inputs[0], (long long)w->height);
	if (w->padding >= w->side)
		return orr_refuse(why, "%s: padding must be less than the %lld pixels it sees",
				  name, (long long)w->side);
	if (w->height + 2 * w->padding < w->side || w->width + 2 * w->padding < w->side)
		return orr_refuse(why,
				  "%s: %lld pixels do not fit into an image of %lld x %lld: make "
				  "it smaller, or give it padding",
				  name, (long long)w->side, (long long)w->height,
				  (long long)w->width);
	return true;
}
