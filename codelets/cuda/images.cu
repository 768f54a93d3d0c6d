/* Windows over images, and pools. A thread writes an element and adds up what belongs to it, in the
 * order of a CPU. */
#include "launch.h"

#include "../shapes.h"

/* Starts kind<I> for n cells; `most` is the largest index that it computes. Indices have 32 bits
 * where that is enough: they are divided a lot. */
#define START(d, n, most, kind, ...) \
	do { \
		if ((n) > INT32_MAX - ORR_MOST_BLOCKS * ORR_BLOCK || (most) > INT32_MAX) \
			kind<int64_t>(d, n, __VA_ARGS__); \
		else \
			kind<int32_t>(d, (int32_t)(n), __VA_ARGS__); \
	} while (0)

template <class I> struct window {
	I height, width, channels, side, stride, padding, first, count, rows, columns;

	window(const struct orr_window &w)
	    : height((I)w.height), width((I)w.width), channels((I)w.channels), side((I)w.side),
	      stride((I)w.stride), padding((I)w.padding), first((I)w.first), count((I)w.count),
	      rows((I)orr_window_rows(&w)), columns((I)orr_window_columns(&w))
	{
	}
};

/* Where cell i of an image's pixels x channels lies. */
template <class I> struct cell {
	I s, y, x, c;

	__device__ cell(I i, I height, I width, I channels)
	{
		c = i % channels, i /= channels;
		x = i % width, i /= width;
		y = i % height, s = i / height;
	}
};

/* f(place, pixel of the window) for the places that see a pixel, from the first to the last. */
template <class I, class F> __device__ inline void each_seer(const window<I> &w, I y, I x, F f)
{
	I below = y + w.padding, beside = x + w.padding;
	I row = below < w.side ? 0 : (below - w.side) / w.stride + 1;
	I column = beside < w.side ? 0 : (beside - w.side) / w.stride + 1;

	for (I r = row; r < w.rows && r * w.stride <= below; r++)
		for (I c = column; c < w.columns && c * w.stride <= beside; c++)
			f(r * w.columns + c,
			  (below - r * w.stride) * w.side + beside - c * w.stride);
}

/* f(pixel of the window, pixel of the image) for what the window sees at row r, column c. */
template <class I, class F> __device__ inline void each_seen(const window<I> &w, I r, I c, F f)
{
	I top = r * w.stride - w.padding, left = c * w.stride - w.padding;

	for (I y = top < 0 ? -top : 0; y < w.side && top + y < w.height; y++)
		for (I x = left < 0 ? -left : 0; x < w.side && left + x < w.width; x++)
			f(y * w.side + x, (top + y) * w.width + left + x);
}

template <class I>
static void unfold(struct orr_device *d, I n, window<I> w, const float *x, float *to)
{
	orr_each<I>(d, "unfold", n, [=] __device__(I i) {
		I c = i % w.count, k = i / w.count % (w.side * w.side);
		I place = i / w.count / (w.side * w.side);
		I column = place % w.columns, r = place / w.columns;
		I y = r % w.rows * w.stride - w.padding + k / w.side;
		I at = column * w.stride - w.padding + k % w.side;
		bool inside = y >= 0 && y < w.height && at >= 0 && at < w.width;
		I pixel = (r / w.rows * w.height + y) * w.width + at;

		to[i] = inside ? x[pixel * w.channels + w.first + c] : 0.0f;
	});
}

template <class I>
static void fold(struct orr_device *d, I n, window<I> w, const float *from, float *x)
{
	orr_each<I>(d, "fold", n, [=] __device__(I i) {
		cell<I> at(i, w.height, w.width, w.count);
		I first = at.s * w.rows * w.columns, area = w.side * w.side;
		float sum = 0;

		each_seer(w, at.y, at.x, [&](I place, I k) {
			sum += from[((first + place) * area + k) * w.count + at.c];
		});
		x[((at.s * w.height + at.y) * w.width + at.x) * w.channels + w.first + at.c] = sum;
	});
}

template <class I>
static void turn(struct orr_device *d, I n, int64_t n_rows, int64_t n_columns, const float *x,
		 float *y)
{
	I rows = (I)n_rows, columns = (I)n_columns;

	orr_each<I>(d, "turn", n, [=] __device__(I i) {
		I r = i % rows, c = i / rows % columns, k = i / rows / columns;

		y[i] = x[(k * rows + r) * columns + c];
	});
}

template <class I>
static void max_pool(struct orr_device *d, I n, window<I> w, const float *x, float *y, float *at)
{
	orr_each<I>(d, "max_pool", n, [=] __device__(I i) {
		cell<I> to(i, w.rows, w.columns, w.channels);
		const float *image = x + to.s * w.height * w.width * w.channels + to.c;
		float most = -INFINITY;
		I best = -1;

		each_seen(w, to.y, to.x, [&](I k, I pixel) {
			float v = image[pixel * w.channels];

			if (best < 0 || v > most || v != v)
				most = v, best = k;
		});
		y[i] = most;
		at[i] = (float)best;
	});
}

template <class I>
static void max_pool_back(struct orr_device *d, I n, window<I> w, const float *at, const float *dy,
			  float *dx)
{
	orr_each<I>(d, "max_pool backward", n, [=] __device__(I i) {
		cell<I> to(i, w.height, w.width, w.channels);
		I first = to.s * w.rows * w.columns;
		float sum = 0;

		each_seer(w, to.y, to.x, [&](I place, I k) {
			I j = (first + place) * w.channels + to.c;

			if ((I)at[j] == k)
				sum += dy[j];
		});
		dx[i] = sum;
	});
}

template <class I>
static void mean_pool(struct orr_device *d, I n, window<I> w, const float *x, float *y)
{
	orr_each<I>(d, "mean_pool", n, [=] __device__(I i) {
		cell<I> to(i, w.rows, w.columns, w.channels);
		const float *image = x + to.s * w.height * w.width * w.channels + to.c;
		float sum = 0;

		each_seen(w, to.y, to.x, [&](I, I pixel) { sum += image[pixel * w.channels]; });
		y[i] = sum * (1.0f / (float)(w.side * w.side));
	});
}

template <class I>
static void mean_pool_back(struct orr_device *d, I n, window<I> w, const float *dy, float *dx)
{
	orr_each<I>(d, "mean_pool backward", n, [=] __device__(I i) {
		cell<I> to(i, w.height, w.width, w.channels);
		I first = to.s * w.rows * w.columns;
		float sum = 0, share = 1.0f / (float)(w.side * w.side);

		each_seer(w, to.y, to.x, [&](I place, I) {
			sum += share * dy[(first + place) * w.channels + to.c];
		});
		dx[i] = sum;
	});
}

static void start_unfold(struct orr_device *d, int64_t n, const struct orr_window *w,
			 const float *x, float *rows)
{
	int64_t cells = n * orr_window_places(w) * orr_window_seen(w);

	START(d, cells, n * orr_window_image(w), unfold, *w, x, rows);
}

static void start_fold(struct orr_device *d, int64_t n, const struct orr_window *w,
		       const float *rows, float *x)
{
	int64_t most = n * orr_window_places(w) * orr_window_seen(w), pixels = w->height * w->width;

	most = most > n * orr_window_image(w) ? most : n * orr_window_image(w);
	START(d, n * pixels * w->count, most, fold, *w, rows, x);
}

static void start_turn(struct orr_device *d, int64_t n, int64_t rows, int64_t columns,
		       const float *x, float *y)
{
	int64_t cells = n * rows * columns;

	START(d, cells, cells, turn, rows, columns, x, y);
}

static void start_max_pool_forward(struct orr_device *d, int64_t n, const struct orr_window *w,
				   const float *x, float *y, float *at)
{
	int64_t cells = n * orr_window_places(w) * w->channels;

	START(d, cells, n * orr_window_image(w), max_pool, *w, x, y, at);
}

static void start_max_pool_backward(struct orr_device *d, int64_t n, const struct orr_window *w,
				    const float *at, const float *dy, float *dx)
{
	int64_t most = n * orr_window_places(w) * w->channels;

	START(d, n * orr_window_image(w), most, max_pool_back, *w, at, dy, dx);
}

static void start_mean_pool_forward(struct orr_device *d, int64_t n, const struct orr_window *w,
				    const float *x, float *y)
{
	int64_t cells = n * orr_window_places(w) * w->channels;

	START(d, cells, n * orr_window_image(w), mean_pool, *w, x, y);
}

static void start_mean_pool_backward(struct orr_device *d, int64_t n, const struct orr_window *w,
				     const float *dy, float *dx)
{
	int64_t most = n * orr_window_places(w) * w->channels;

	START(d, n * orr_window_image(w), most, mean_pool_back, *w, dy, dx);
}

const struct orr_image_kernels orr_images_cuda = {
	.unfold = start_unfold,
	.fold = start_fold,
	.turn = start_turn,
	.max_pool_forward = start_max_pool_forward,
	.max_pool_backward = start_max_pool_backward,
	.mean_pool_forward = start_mean_pool_forward,
	.mean_pool_backward = start_mean_pool_backward,
};
