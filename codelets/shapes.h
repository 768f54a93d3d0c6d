#ifndef ORR_SHAPES_H
#define ORR_SHAPES_H
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
ORR_ELEMENT struct orr_view orr_window_view(const struct orr_window *w, int64_t row, int64_t column)
{
	int64_t y = row * w->stride - w->padding, x = column * w->stride - w->padding;
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
	int64_t rows, width; /* scores of a row: as many as there are classes */
	float ignored;       /* a row of this class does not count; NaN: every row counts */
	double smoothing;    /* the part of the target that all classes share alike */
};

/* Columns normalised together: of one sample in so many groups. */
struct orr_groups {
	int64_t rows, width, groups;
	double epsilon;
};
#endif
