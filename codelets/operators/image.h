#pragma once
/* What operators on images have in common. A tensor's rows are the pixels, row by row of the image,
 * its columns the channels. */
#include "../call.h"
#include "../shapes.h"

#define ORR_IMAGE_HEIGHT ORR_COUNT("image_height", 0, ORR_MOST_COLUMNS, 0)
#define ORR_IMAGE_PADDING ORR_COUNT("padding", 0, ORR_MOST_COLUMNS, 0)

/* The window of a side over the first input; height 0: the image is square. */
struct orr_window orr_image_window(const struct orr_instance *is, double height, double side,
				   double stride, double padding);
/* For infer(): is there such an image, and does the window fit? */
bool orr_image_check(const struct orr_instance *is, const struct orr_window *w,
		     struct orr_refusal *why);
