/* Windows over images as rows of a matrix, so that a convolution is a product. */
#include "kernels.h"

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

void orr_unfold(int64_t n, const struct orr_window *w, const float *x, float *rows)
{
	int64_t n_rows = orr_window_rows(w), n_columns = orr_window_columns(w);
	int64_t row = w->side * w->count;

	for (int64_t s = 0; s < n; s++, x += orr_window_image(w))
		for (int64_t r = 0; r < n_rows; r++)
			for (int64_t c = 0; c < n_columns; c++) {
				struct orr_view v = orr_window_view(w, r, c);

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

ORR_VECTOR static void fold(const struct orr_window *w, const float *restrict rows,
			    float *restrict x)
{
	int64_t n_rows = orr_window_rows(w), n_columns = orr_window_columns(w);

	for (int64_t r = 0; r < n_rows; r++)
		for (int64_t c = 0; c < n_columns; c++, rows += orr_window_seen(w)) {
			struct orr_view v = orr_window_view(w, r, c);

			add_view(w, &v, rows, x);
		}
}

void orr_fold(int64_t n, const struct orr_window *w, const float *rows, float *x)
{
	for (int64_t s = 0; s < n; s++) {
		clear(w, x);
		fold(w, rows, x);
		rows += orr_window_places(w) * orr_window_seen(w);
		x += orr_window_image(w);
	}
}

void orr_turn(int64_t n, int64_t rows, int64_t columns, const float *x, float *y)
{
	for (int64_t k = 0; k < n; k++, x += rows * columns, y += rows * columns)
		for (int64_t c = 0; c < columns; c++)
			for (int64_t r = 0; r < rows; r++)
				y[c * rows + r] = x[r * columns + c];
}
