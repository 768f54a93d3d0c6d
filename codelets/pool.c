/* The largest and the mean of what a window sees, channel by channel. */
#include "kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "shapes.h"
#include "vector.h"

static inline void larger(int64_t count, float number, const float *restrict x, float *restrict y,
			  float *restrict at)
{
	for (int64_t c = 0; c < count; c++) {
		bool wins = x[c] > y[c] || x[c] != x[c];

		y[c] = wins ? x[c] : y[c];
		at[c] = wins ? number : at[c];
	}
}

ORR_VECTOR static void max_pool(const struct orr_window *w, const float *restrict x,
				float *restrict y, float *restrict at)
{
	int64_t n_rows = orr_window_rows(w), n_columns = orr_window_columns(w), n = w->channels;

	for (int64_t r = 0; r < n_rows; r++)
		for (int64_t c = 0; c < n_columns; c++, y += n, at += n) {
			struct orr_view v = orr_window_view(w, r, c);

			for (int64_t i = 0; i < n; i++)
				y[i] = -INFINITY,
				at[i] = (float)((v.row - v.y) * w->side + v.column - v.x);
			for (int64_t i = v.row; i < v.row_end; i++)
				for (int64_t j = v.column; j < v.column_end; j++)
					larger(n, (float)((i - v.y) * w->side + j - v.x),
					       x + (i * w->width + j) * n, y, at);
		}
}

void orr_max_pool_forward(int64_t n, const struct orr_window *w, const float *x, float *y,
			  float *at)
{
	int64_t image = orr_window_image(w), out = orr_window_places(w) * w->channels;

	for (int64_t s = 0; s < n; s++)
		max_pool(w, x + s * image, y + s * out, at + s * out);
}

void orr_max_pool_backward(int64_t n, const struct orr_window *w, const float *at, const float *dy,
			   float *dx)
{
	int64_t n_rows = orr_window_rows(w), n_columns = orr_window_columns(w), m = w->channels;

	memset(dx, 0, (size_t)(n * orr_window_image(w)) * sizeof(*dx));
	for (int64_t s = 0; s < n; s++, dx += orr_window_image(w))
		for (int64_t r = 0; r < n_rows; r++)
			for (int64_t c = 0; c < n_columns; c++, at += m, dy += m)
				for (int64_t i = 0; i < m; i++) {
					int64_t k = (int64_t)at[i];
					int64_t row = r * w->stride - w->padding + k / w->side;
					int64_t column = c * w->stride - w->padding + k % w->side;

					dx[(row * w->width + column) * m + i] += dy[i];
				}
}

static inline void add_run(int64_t count, const float *restrict from, float *restrict to)
{
	for (int64_t i = 0; i < count; i++)
		to[i] += from[i];
}

static inline void add_share(int64_t count, float share, const float *restrict from,
			     float *restrict to)
{
	for (int64_t i = 0; i < count; i++)
		to[i] += share * from[i];
}

static inline float share_of(const struct orr_window *w)
{
	return 1.0f / (float)(w->side * w->side);
}

ORR_VECTOR static void mean_pool(const struct orr_window *w, const float *restrict x,
				 float *restrict y)
{
	int64_t n_rows = orr_window_rows(w), n_columns = orr_window_columns(w), n = w->channels;
	float share = share_of(w);

	for (int64_t r = 0; r < n_rows; r++)
		for (int64_t c = 0; c < n_columns; c++, y += n) {
			struct orr_view v = orr_window_view(w, r, c);

			for (int64_t i = 0; i < n; i++)
				y[i] = 0;
			for (int64_t i = v.row; i < v.row_end; i++)
				for (int64_t j = v.column; j < v.column_end; j++)
					add_run(n, x + (i * w->width + j) * n, y);
			for (int64_t i = 0; i < n; i++)
				y[i] *= share;
		}
}

void orr_mean_pool_forward(int64_t n, const struct orr_window *w, const float *x, float *y)
{
	for (int64_t s = 0; s < n; s++)
		mean_pool(w, x + s * orr_window_image(w),
			  y + s * orr_window_places(w) * w->channels);
}

ORR_VECTOR static void mean_pool_backward(const struct orr_window *w, const float *restrict dy,
					  float *restrict dx)
{
	int64_t n_rows = orr_window_rows(w), n_columns = orr_window_columns(w), n = w->channels;
	float share = share_of(w);

	for (int64_t r = 0; r < n_rows; r++)
		for (int64_t c = 0; c < n_columns; c++, dy += n) {
			struct orr_view v = orr_window_view(w, r, c);

			for (int64_t i = v.row; i < v.row_end; i++)
				for (int64_t j = v.column; j < v.column_end; j++)
					add_share(n, share, dy, dx + (i * w->width + j) * n);
		}
}

void orr_mean_pool_backward(int64_t n, const struct orr_window *w, const float *dy, float *dx)
{
	memset(dx, 0, (size_t)(n * orr_window_image(w)) * sizeof(*dx));
	for (int64_t s = 0; s < n; s++)
		mean_pool_backward(w, dy + s * orr_window_places(w) * w->channels,
				   dx + s * orr_window_image(w));
}
