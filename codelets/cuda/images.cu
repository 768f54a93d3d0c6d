/* Windows over images, and pools. A thread writes an element and adds up what belongs to it, in the
 * order of a CPU. */
#include "launch.h"

#include "../shapes.h"

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

/* f(w, i) for i below n, which computes indices up to `most`: in 32 bits where that is enough,
 * since they are divided a lot. */
template <class I, class F> struct in_window {
	window<I> w;
	F f;
	__device__ void operator()(I i) const { f(w, i); }
};

template <class F>
static void each_cell(struct orr_device *d, const char *name, int64_t n, int64_t most,
		      const struct orr_window *w, F f)
{
	if (n > INT32_MAX - ORR_MOST_BLOCKS * ORR_BLOCK || most > INT32_MAX)
		orr_each(d, name, n, in_window<int64_t, F>{*w, f});
	else
		orr_each(d, name, (int32_t)n, in_window<int32_t, F>{*w, f});
}

/* The window with V channels as one, so that an index is computed for 4 V bytes; x and rows then
 * hold V floats each. */
template <int V> static struct orr_window in_lanes(struct orr_window w)
{
	w.first /= V, w.count /= V, w.channels /= V;
	return w;
}

static bool fours(const struct orr_window *w, const float *x, const float *rows)
{
	return (w->first | w->count | w->channels) % 4 == 0 && orr_address(x, rows) % 16 == 0;
}

template <int V>
static void unfold_by(struct orr_device *d, int64_t n, const struct orr_window *of, const float *x,
		      float *rows)
{
	const struct orr_window lanes = in_lanes<V>(*of);
	const auto *from = reinterpret_cast<const orr_values<V, float> *>(x);
	auto *to = reinterpret_cast<orr_values<V, float> *>(rows);
	int64_t cells = n * orr_window_places(&lanes) * orr_window_seen(&lanes);

	each_cell(d, "unfold", cells, n * orr_window_image(&lanes), &lanes,
		  [=] __device__(const auto &w, auto i) {
			  auto c = i % w.count, k = i / w.count % (w.side * w.side);
			  auto place = i / w.count / (w.side * w.side);
			  auto column = place % w.columns, r = place / w.columns;
			  auto y = r % w.rows * w.stride - w.padding + k / w.side;
			  auto at = column * w.stride - w.padding + k % w.side;
			  bool inside = y >= 0 && y < w.height && at >= 0 && at < w.width;
			  auto pixel = (r / w.rows * w.height + y) * w.width + at;

			  to[i] = inside ? from[pixel * w.channels + w.first + c]
					 : orr_values<V, float>{};
		  });
}

static void unfold(struct orr_device *d, int64_t n, const struct orr_window *of, const float *x,
		   float *rows)
{
	(fours(of, x, rows) ? unfold_by<4> : unfold_by<1>)(d, n, of, x, rows);
}

template <int V>
static void fold_by(struct orr_device *d, int64_t n, const struct orr_window *of, const float *rows,
		    float *x)
{
	const struct orr_window lanes = in_lanes<V>(*of);
	const auto *from = reinterpret_cast<const orr_values<V, float> *>(rows);
	auto *to = reinterpret_cast<orr_values<V, float> *>(x);
	int64_t read = n * orr_window_places(&lanes) * orr_window_seen(&lanes);
	int64_t written = n * orr_window_image(&lanes);

	each_cell(d, "fold", n * lanes.height * lanes.width * lanes.count,
		  read > written ? read : written, &lanes, [=] __device__(const auto &w, auto i) {
			  cell at(i, w.height, w.width, w.count);
			  auto first = at.s * w.rows * w.columns, area = w.side * w.side;
			  orr_values<V, float> sum{};

			  each_seer(w, at.y, at.x, [&](auto place, auto k) {
				  auto seen = from[((first + place) * area + k) * w.count + at.c];

				  for (int lane = 0; lane < V; lane++)
					  sum.at[lane] += seen.at[lane];
			  });
			  to[((at.s * w.height + at.y) * w.width + at.x) * w.channels + w.first +
			     at.c] = sum;
		  });
}

static void fold(struct orr_device *d, int64_t n, const struct orr_window *of, const float *rows,
		 float *x)
{
	(fours(of, x, rows) ? fold_by<4> : fold_by<1>)(d, n, of, rows, x);
}

/* As windows of a pixel: each matrix is an image. */
static void turn(struct orr_device *d, int64_t n, int64_t rows, int64_t columns, const float *x,
		 float *y)
{
	const struct orr_window matrix = {rows, columns, 1, 1, 1, 0, 0, 1};

	each_cell(d, "turn", n * rows * columns, n * rows * columns, &matrix,
		  [=] __device__(const auto &w, auto i) {
			  auto r = i % w.height, c = i / w.height % w.width;
			  auto k = i / w.height / w.width;

			  y[i] = x[(k * w.height + r) * w.width + c];
		  });
}

static void pool_forward(struct orr_device *d, int64_t n, const struct orr_window *of,
			 const float *x, float *y, float *at)
{
	each_cell(d, at ? "max_pool" : "mean_pool", n * orr_window_places(of) * of->channels,
		  n * orr_window_image(of), of, [=] __device__(const auto &w, auto i) {
			  cell to(i, w.rows, w.columns, w.channels);
			  const float *image = x + to.s * w.height * w.width * w.channels + to.c;
			  float most = -INFINITY, sum = 0;
			  decltype(i) best = -1;

			  each_seen(w, to.y, to.x, [&](auto k, auto pixel) {
				  float v = image[pixel * w.channels];

				  sum += v;
				  if (best < 0 || v > most || v != v)
					  most = v, best = k;
			  });
			  y[i] = at ? most : sum * (1.0f / (float)(w.side * w.side));
			  if (at)
				  at[i] = (float)best;
		  });
}

static void pool_backward(struct orr_device *d, int64_t n, const struct orr_window *of,
			  const float *at, const float *dy, float *dx)
{
	each_cell(d, at ? "max_pool backward" : "mean_pool backward", n * orr_window_image(of),
		  n * orr_window_places(of) * of->channels, of,
		  [=] __device__(const auto &w, auto i) {
			  cell to(i, w.height, w.width, w.channels);
			  auto first = to.s * w.rows * w.columns;
			  float sum = 0, share = 1.0f / (float)(w.side * w.side);

			  each_seer(w, to.y, to.x, [&](auto place, auto k) {
				  auto j = (first + place) * w.channels + to.c;

				  if (!at)
					  sum += share * dy[j];
				  else if ((decltype(k))at[j] == k)
					  sum += dy[j];
			  });
			  dx[i] = sum;
		  });
}

const struct orr_image_kernels orr_images_cuda = {ORR_IMAGE_KERNELS(ORR_KERNEL)};
