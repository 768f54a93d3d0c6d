#include "axis.h"

#include <math.h>

struct svg_axis orr_svg_axis_make(double low, double high, bool whole)
{
	double room = high > low ? 0.08 * (high - low) : high > 0 ? 0.1 * high : 1, tenth;
	struct svg_axis axis = {low - room < 0 ? 0 : low - room, high + room, 0, false};

	if (low > 0 && high > 5 * low)
		return (struct svg_axis){low / 1.2, high * 1.2, 0, true};
	tenth = (axis.high - axis.low) / 7;
	axis.step = pow(10, floor(log10(tenth)));
	if (axis.step * 5 < tenth)
		axis.step *= 10;
	else if (axis.step * 2 < tenth)
		axis.step *= 5;
	else if (axis.step < tenth)
		axis.step *= 2;
	if (whole && axis.step < 1)
		axis.step = 1;
	return axis;
}

double orr_svg_axis_first(const struct svg_axis *axis)
{
	double power;

	if (!axis->logarithmic)
		return ceil(axis->low / axis->step) * axis->step;
	power = pow(10, floor(log10(axis->low)));
	return power >= axis->low       ? power
	       : 2 * power >= axis->low ? 2 * power
	       : 5 * power >= axis->low ? 5 * power
					: 10 * power;
}

double orr_svg_axis_next(const struct svg_axis *axis, double at)
{
	double power;

	if (!axis->logarithmic)
		return at + axis->step;
	power = pow(10, floor(log10(at) + 1e-9));
	return at < 1.5 * power ? 2 * power : at < 3 * power ? 5 * power : 10 * power;
}

double orr_svg_axis_share(const struct svg_axis *axis, double at)
{
	if (axis->logarithmic)
		return log(at / axis->low) / log(axis->high / axis->low);
	return (at - axis->low) / (axis->high - axis->low);
}
