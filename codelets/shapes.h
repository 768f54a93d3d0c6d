#pragma once
/* What kernels are told of a sample where numbers of rows and columns do not say it. */
#include <stdint.h>
#include "elements.h"

/* An image, pixel by pixel in rows, each pixel with its channels, and a square window that goes
 * over it in steps of `stride`, from `padding` pixels before its edges, less than a side, to as
 * many behind. Of each pixel it sees `count` channels from `first` on. */
struct orr_window {
	int64_t height, width, channels;
	int64_t side, stride, padding;
	int64_t first, count;
};

/* Rows and columns of the window's places. */
ORR_ELEMENT int64_t orr_window_rows(const struct orr_window *w)
{
	return (w->height + 2 * w->padding - w->side) / w->stride + 1;
}
ORR_ELEMENT int64_t orr_window_columns(const struct orr_window *w)
{
	return (w->width + 2 * w->padding - w->side) / w->stride + 1;
}
ORR_ELEMENT int64_t orr_window_places(const struct orr_window *w)
{
	return orr_window_rows(w) * orr_window_columns(w);
}

/* The window's first pixel at a place, and the rows and columns of the image that it sees there. */
struct orr_view {
	int64_t y, x, row, row_end, column, column_end;
};
ORR_ELEMENT struct orr_view orr_window_view(const struct orr_window *w, int64_t place)
{
	int64_t columns = orr_window_columns(w);
	int64_t y = place / columns * w->stride - w->padding;
	int64_t x = place % columns * w->stride - w->padding;
	struct orr_view v = {y, x, y < 0 ? 0 : y, y + w->side, x < 0 ? 0 : x, x + w->side};

	v.row_end = v.row_end < w->height ? v.row_end : w->height;
	v.column_end = v.column_end < w->width ? v.column_end : w->width;
	return v;
}

/* Floats of an image, and of what the window sees at one place. */
ORR_ELEMENT int64_t orr_window_image(const struct orr_window *w)
{
	return w->height * w->width * w->channels;
}
ORR_ELEMENT int64_t orr_window_seen(const struct orr_window *w)
{
	return w->side * w->side * w->count;
}

/* Which classes a sample's rows of scores should have. */
struct orr_classes {
	int64_t rows, width; /* scores of a row: the number of classes */
	float ignored;       /* a row of this class does not count; NaN: every row counts */
	double smoothing;    /* the part of the target that all classes share alike */
};

/* What a row of scores of some classes says to the loss of all, as floats of a tensor. */
struct orr_class_part {
	float largest, place; /* of the scores, and which class it is among all */
	float count;          /* of the scores */
	float sum;            /* of exp(score - largest) */
	float own;            /* the score of the row's class; 0: it has that in another part */
	float total;          /* of score - largest */
};
#define ORR_CLASS_PART_COLUMNS ((int64_t)(sizeof(struct orr_class_part) / sizeof(float)))

/* The place of a class in a part of `width` from `first` on; -1: it is elsewhere. */
ORR_ELEMENT int64_t orr_class_at(int64_t first, int64_t width, float class_)
{
	if (!(class_ >= (float)first && class_ < (float)(first + width) &&
	      class_ == floorf(class_)))
		return -1;
	return (int64_t)class_ - first;
}

/* The loss of a row of which n parts are known, and its slopes: the largest scores count as
 * constants, as what they add to the logarithm they take from the sums. *at: the class with the
 * largest score. */
ORR_ELEMENT double orr_class_parts_loss(const struct orr_classes *k, int64_t n,
					const struct orr_class_part *parts, double share,
					struct orr_class_part *slopes, int64_t *at)
{
	double rest = k->smoothing / (double)k->width, whole = 1.0 - k->smoothing + rest;
	double top = (double)parts[0].largest, sum = 0, own = 0, total = 0;

	*at = (int64_t)parts[0].place;
	for (int64_t i = 1; i < n; i++)
		if ((double)parts[i].largest > top) {
			top = (double)parts[i].largest;
			*at = (int64_t)parts[i].place;
		}
	for (int64_t i = 0; i < n; i++) {
		sum += (double)parts[i].sum * exp((double)parts[i].largest - top);
		own += (double)parts[i].own;
		total += (double)parts[i].total +
			 (double)parts[i].count * ((double)parts[i].largest - top);
	}
	for (int64_t i = 0; i < n; i++) {
		slopes[i].largest = slopes[i].place = slopes[i].count = 0.0f;
		slopes[i].sum = (float)(exp((double)parts[i].largest - top) / sum * share);
		slopes[i].own = (float)((rest - whole) * share);
		slopes[i].total = (float)(-rest * share);
	}
	own -= top;
	total -= own; /* of the other classes */
	return share * (log(sum) - whole * own - (rest > 0 ? rest * total : 0.0));
}

/* Columns of a sample of `rows` rows that are normalised together. Of a batch each column is alone,
 * and the sample is all of its rows. */
struct orr_norm_groups {
	int64_t rows, width, groups;
	double epsilon;
};

/* How many there are in a group. */
ORR_ELEMENT int64_t orr_norm_columns(const struct orr_norm_groups *g)
{
	return g->width / g->groups;
}

/* Where, of all samples' group k, the first of `width` numbers and then again `width` are. */
ORR_ELEMENT int64_t orr_norm_own(const struct orr_norm_groups *g, int64_t k)
{
	return 2 * (k / g->groups) * g->width + k % g->groups * orr_norm_columns(g);
}

/* Columns of group k have its mean and variance in place of their own. */
ORR_ELEMENT void orr_norm_join_moments(const struct orr_norm_groups *g, int64_t k, float *moments)
{
	float *means = moments + orr_norm_own(g, k), *variances = means + g->width;
	int64_t n = orr_norm_columns(g);
	double mean = 0, variance = 0;

	if (n == 1)
		return;
	for (int64_t c = 0; c < n; c++)
		mean += (double)means[c] / (double)n;
	for (int64_t c = 0; c < n; c++) {
		double apart = (double)means[c] - mean;

		variance += ((double)variances[c] + apart * apart) / (double)n;
	}
	for (int64_t c = 0; c < n; c++)
		means[c] = (float)mean, variances[c] = (float)variance;
}

/* Sums over group k of its columns' slopes, times their gains: that by the gain, and by the bias.
 */
ORR_ELEMENT void orr_norm_join_slopes(const struct orr_norm_groups *g, int64_t k, const float *gain,
				      const float *slopes, float *sums)
{
	int64_t own = orr_norm_own(g, k), n = orr_norm_columns(g), first = k % g->groups * n;
	double along = 0, sum = 0;

	for (int64_t c = 0; c < n; c++) {
		along += (double)gain[first + c] * (double)slopes[own + c];
		sum += (double)gain[first + c] * (double)slopes[own + g->width + c];
	}
	for (int64_t c = own; c < own + n; c++) {
		sums[c] = n == 1 ? slopes[c] : (float)along;
		sums[c + g->width] = n == 1 ? slopes[c + g->width] : (float)sum;
	}
}
