#ifndef ORR_AXIS_H
#define ORR_AXIS_H
/* (private to the SVG drawings) An axis: its range, where its ticks stand, and whether it is
 * logarithmic, which it is if the values differ by more than a factor of five. */
#include <stdbool.h>

struct svg_axis {
	double low, high;
	double step; /* of the ticks; 0: they stand at 1, 2 and 5 times powers of ten */
	bool logarithmic;
};

/* Low and high (at least 0) with some room, and a round step: 1, 2 or 5 times a power of ten.
 * whole: of whole numbers, so no smaller step than 1. */
struct svg_axis orr_svg_axis_make(double low, double high, bool whole);
double orr_svg_axis_first(const struct svg_axis *axis);
double orr_svg_axis_next(const struct svg_axis *axis, double at);
/* From 0 to 1 along the axis. */
double orr_svg_axis_share(const struct svg_axis *axis, double at);
#endif
