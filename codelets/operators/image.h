#ifndef ORR_OPERATORS_IMAGE_H
#define ORR_OPERATORS_IMAGE_H
/* What operators on images have in common. A tensor's rows are the pixels, row by row of the image,
 * its columns the channels. */
#include "../call.h"
#include "../shapes.h"

#define ORR_IMAGE_HEIGHT \
	{ \
		.name = "image_height", .form = ORR_ATTRIBUTE_COUNT, .most = ORR_MOST_COLUMNS \
	}
#define ORR_IMAGE_PADDING \
	{ \
		.name = "padding", .form = ORR_ATTRIBUTE_COUNT, .most = ORR_MOST_COLUMNS \
	}

/* The window of a side over the first input; height 0: the image is square. */
struct orr_window orr_image_window(const struct orr_instance *is, double height, double side,
				   double stride, double padding);
/* For infer(): is there such an image, and does the window fit? */
bool orr_image_check(const struct orr_instance *is, double height, double side, double stride,
		     double padding, const char *input, char *text, size_t size);
#endif
