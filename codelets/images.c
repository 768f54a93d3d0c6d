/* Windows over images as rows of a matrix, so that a convolution is a product; the largest and the
 * mean of what a window sees, channel by channel. */
#include "device.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "shapes.h"
#include "vector.h"

/* A row of the window at v, which lies in the image's row y: `side` pixels at `to`. */
static inline void take_row(const struct orr_window *w, const struct orr_view *v, int64_t y,
			    const float *x, float *to)
{
	int64_t before = v->column - v->x, seen = v->column_end - v->column;
	const float *pixel = x + (y * w->width + v->column) * w->channels + w->first;

	memset(to, 0, (size_t)(before * w->count) * sizeof(*to));
	to += before * w->count;
	if (w->count == w->channels)
		memcpy(to, pixel, (size_t)(seen * w->count) * sizeof(*to));
	for (int64_t i = 0; i < seen && w->count < w->channels; i++)
		memcpy(to + i * w->count, pixel + i * w->channels, (size_t)w->count * sizeof(*to));
	to += seen * w->count;
	memset(to, 0, (size_t)((w->side - before - seen) * w->count) * sizeof(*to));
}

static void unfold(struct orr_device *d, int64_t n, const struct orr_window *w, const float *x,
		   float *rows)
{
	int64_t places = orr_window_places(w), row = w->side * w->count;

	for (int64_t s = 0; s < n; s++, x += orr_window_image(w))
		for (int64_t p = 0; p < places; p++) {
			struct orr_view v = orr_window_view(w, p);

			for (int64_t y = v.y; y < v.y + w->side; y++, rows += row)
				if (y >= v.row && y < v.row_end)
					take_row(w, &v, y, x, rows);
				else
					memset(rows, 0, (size_t)row * sizeof(*rows));
		}
}

static inline void add_run(int64_t count, const float *restrict from, float *restrict to)
{
	for (int64_t i = 0; i < count; i++)
		to[i] += from[i];
}

/* Add what the window sees at v to the pixels there. */
static inline void add_view(const struct orr_window *w, const struct orr_view *v,
			    const float *restrict seen, float *restrict x)
{
	for (int64_t y = v->row; y < v->row_end; y++) {
		float *pixel = x + (y * w->width + v->column) * w->channels + w->first;
		const float *from = seen + ((y - v->y) * w->side + v->column - v->x) * w->count;

		if (w->count == w->channels) {
			add_run((v->column_end - v->column) * w->count, from, pixel);
			continue;
		}
		for (int64_t i = v->column; i < v->column_end; i++) {
			add_run(w->count, from, pixel);
			from += w->count;
			pixel += w->channels;
		}
	}
}

static void clear(const struct orr_window *w, float *x)
{
	int64_t pixels = w->height * w->width;

	if (w->count == w->channels) {
		memset(x, 0, (size_t)(pixels * w->channels) * sizeof(*x));
		return;
	}
	for (int64_t i = 0; i < pixels; i++)
		memset(x + i * w->channels + w->first, 0, (size_t)w->count * sizeof(*x));
}

ORR_VECTOR static void fold(struct orr_device *d, int64_t n, const struct orr_window *w,
			    const float *restrict rows, float *restrict x)
{
	int64_t places = orr_window_places(w), seen = orr_window_seen(w);

	for (int64_t s = 0; s < n; s++, x += orr_window_image(w)) {
		clear(w, x);
		for (int64_t p = 0; p < places; p++, rows += seen) {
			struct orr_view v = orr_window_view(w, p);

			add_view(w, &v, rows, x);
		}
	}
}

static void turn(struct orr_device *d, int64_t n, int64_t rows, int64_t columns, const float *x,
		 float *y)
{
	for (int64_t k = 0; k < n; k++, x += rows * columns, y += rows * columns)
		for (int64_t c = 0; c < columns; c++)
			for (int64_t r = 0; r < rows; r++)
				y[c * rows + r] = x[r * columns + c];
}

/* ---- pools ---- */

static inline void larger(int64_t count, float number, const float *restrict x, float *restrict y,
			  float *restrict at)
{
	for (int64_t c = 0; c < count; c++) {
		bool wins = x[c] > y[c] || x[c] != x[c];

		y[c] = wins ? x[c] : y[c];
		at[c] = wins ? number : at[c];
	}
}

/* Of what the window sees at v. */
static inline void find_largest(const struct orr_window *w, const struct orr_view *v,
				const float *restrict x, float *restrict y, float *restrict at)
{
	int64_t m = w->channels;

	for (int64_t i = 0; i < m; i++)
		y[i] = -INFINITY, at[i] = (float)((v->row - v->y) * w->side + v->column - v->x);
	for (int64_t i = v->row; i < v->row_end; i++)
		for (int64_t j = v->column; j < v->column_end; j++)
			larger(m, (float)((i - v->y) * w->side + j - v->x),
			       x + (i * w->width + j) * m, y, at);
}

static inline float share_of(const struct orr_window *w)
{
	return 1.0f / (float)(w->side * w->side);
}

static inline void find_mean(const struct orr_window *w, const struct orr_view *v,
			     const float *restrict x, float *restrict y)
{
	int64_t m = w->channels;

	for (int64_t i = 0; i < m; i++)
		y[i] = 0;
	for (int64_t i = v->row; i < v->row_end; i++)
		for (int64_t j = v->column; j < v->column_end; j++)
			add_run(m, x + (i * w->width + j) * m, y);
	for (int64_t i = 0; i < m; i++)
		y[i] *= share_of(w);
}

ORR_VECTOR static void pool_forward(struct orr_device *d, int64_t n, const struct orr_window *w,
				    const float *restrict x, float *restrict y, float *restrict at)
{
	int64_t places = orr_window_places(w), m = w->channels;

	for (int64_t s = 0; s < n; s++, x += orr_window_image(w))
		for (int64_t p = 0; p < places; p++, y += m) {
			struct orr_view v = orr_window_view(w, p);

			if (at)
				find_largest(w, &v, x, y, at + (s * places + p) * m);
			else
				find_mean(w, &v, x, y);
		}
}

static inline void add_share(int64_t count, float share, const float *restrict from,
			     float *restrict to)
{
	for (int64_t i = 0; i < count; i++)
		to[i] += share * from[i];
}

/* To the pixels that the window sees at v: each channel's dy to the one that `at` says, or a share
 * of it to all. */
static inline void spread(const struct orr_window *w, const struct orr_view *v,
			  const float *restrict at, const float *restrict dy, float *restrict dx)
{
	int64_t m = w->channels;

	for (int64_t i = 0; i < m && at; i++) {
		int64_t row = v->y + (int64_t)at[i] / w->side;
		int64_t column = v->x + (int64_t)at[i] % w->side;

		dx[(row * w->width + column) * m + i] += dy[i];
	}
	for (int64_t i = v->row; i < v->row_end && !at; i++)
		for (int64_t j = v->column; j < v->column_end; j++)
			add_share(m, share_of(w), dy, dx + (i * w->width + j) * m);
}

ORR_VECTOR static void pool_backward(struct orr_device *d, int64_t n, const struct orr_window *w,
				     const float *restrict at, const float *restrict dy,
				     float *restrict dx)
{
	int64_t places = orr_window_places(w), m = w->channels;

	memset(dx, 0, (size_t)(n * orr_window_image(w)) * sizeof(*dx));
	for (int64_t s = 0; s < n; s++, dx += orr_window_image(w))
		for (int64_t p = 0; p < places; p++, dy += m) {
			struct orr_view v = orr_window_view(w, p);

			spread(w, &v, at ? at + (s * places + p) * m : NULL, dy, dx);
		}
}

const struct orr_image_kernels orr_images_cpu = {ORR_IMAGE_KERNELS(ORR_KERNEL)};
