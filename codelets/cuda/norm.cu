/* Layer norm, or the same without mean and bias. Sums are float: of a thread's own elements, which
 * are few, then by a tree. What a row's mean loses by that the second pass over it finds again. */
#include "rows.h"
#include "sums.h"

/* a: a number of the type of x and dx, b: of y and dy. */
static void layernorm_forward(struct orr_device *d, const struct orr_norm *of, const float *x,
			      const float *gain, const float *bias, float *y, float *normal)
{
	const struct orr_norm norm = *of;
	const int64_t width = norm.width;
	float *factors = normal + norm.n * width;
	uintptr_t all = orr_address(x, gain, y, normal) | (norm.centred ? orr_address(bias) : 0);

	by_typed_row(d, "layernorm", norm.n, width, whole(width), all,
		     [=] __device__(auto t, auto a, auto b, int64_t r, float *room) {
			     constexpr int V = t.V;
			     const kept_row<decltype(a)> row = {room, orr_as(a, x) + r * width};
			     float mean = 0, variance, factor;
			     /* of differences from the mean, and of their squares */
			     struct pair rest = {0, 0};

			     t.keep(width, row, [&](int64_t, float v) { mean += v; });
			     mean = norm.centred ? t.sum(mean) / (float)width : 0.0f;
			     t.each(width, row, [&](int64_t, float v) {
				     rest += {v - mean, (v - mean) * (v - mean)};
			     });
			     rest = t.sum(rest);
			     rest.a = norm.centred ? rest.a / (float)width : 0.0f;
			     variance = rest.b / (float)width - rest.a * rest.a;
			     variance = variance < 0.0f ? 0.0f : variance; /* NaN stays */
			     factor = 1.0f / sqrtf(variance + (float)norm.epsilon);
			     if (!t.x())
				     factors[r] = factor;
			     t.each(width, [&](int64_t i) {
				     float v[V], g[V], u[V] = {};

				     load<V>(v, row, i);
				     orr_load<V>(g, gain + i);
				     if (norm.centred)
					     orr_load<V>(u, bias + i);
				     for (int k = 0; k < V; k++) {
					     v[k] = (v[k] - mean - rest.a) * factor;
					     u[k] = norm.centred ? v[k] * g[k] + u[k] : v[k] * g[k];
				     }
				     orr_store<V>(normal + r * width + i, v);
				     orr_store<V>(orr_as(b, y) + r * width + i, u);
			     });
		     });
}

/* ---- backward ---- */

/* The formulas of a row. Two kernels have them, which must have the same bits: so it is said here
 * what is one operation of a multiplication and an addition, and what is two. `along`: of the
 * gradient along the normal row. */
__device__ inline float slope_of(float dy, float gain, float v, struct pair *sums)
{
	float slope = __fmul_rn(dy, gain);

	sums->a += slope;
	sums->b = fmaf(slope, v, sums->b);
	return slope;
}

__device__ inline float dx_of(float factor, float slope, float v, float mean, float along)
{
	return __fmul_rn(factor, fmaf(-v, along, slope - mean));
}

template <int T>
__device__ inline struct pair row_means(const struct orr_norm &norm, struct pair sums)
{
	sums = row_sum<T>(sums);
	return {norm.centred ? sums.a / (float)norm.width : 0.0f, sums.b / (float)norm.width};
}

static void find_dx(struct orr_device *d, const struct orr_norm *of, const float *normal,
		    const float *gain, const float *dy, float *dx)
{
	const struct orr_norm norm = *of;
	const int64_t width = norm.width;
	const float *factors = normal + norm.n * width;

	by_typed_row(d, "layernorm backward", norm.n, width, 2 * whole(width),
		     orr_address(normal, gain, dy, dx),
		     [=] __device__(auto t, auto a, auto b, int64_t r, float *room) {
			     constexpr int V = t.V;
			     const kept_row<float> row = {room, normal + r * width};
			     const kept_row<decltype(b)> slopes = {
				     room ? room + whole(width) : NULL, orr_as(b, dy) + r * width};
			     float factor = factors[r];
			     struct pair sums = {0, 0};

			     t.each(width, [&](int64_t i) {
				     float v[V], g[V], w[V];

				     orr_load<V>(v, row.row + i);
				     orr_load<V>(g, slopes.row + i);
				     orr_load<V>(w, gain + i);
				     if (room) {
					     orr_store<V>(row.kept + i, v);
					     orr_store<V>(slopes.kept + i, g);
				     }
				     for (int k = 0; k < V; k++)
					     (void)slope_of(g[k], w[k], v[k], &sums);
			     });
			     sums = row_means<t.T>(norm, sums);
			     t.each(width, [&](int64_t i) {
				     float v[V], g[V], w[V];

				     load<V>(v, row, i);
				     load<V>(g, slopes, i);
				     orr_load<V>(w, gain + i);
				     for (int k = 0; k < V; k++)
					     g[k] = dx_of(factor, __fmul_rn(g[k], w[k]), v[k],
							  sums.a, sums.b);
				     orr_store<V>(orr_as(a, dx) + r * width + i, g);
			     });
		     });
}

/* Elements of a row that a thread has in registers. */
#define OWN 16

/* Where the sums of backward_strips go. */
struct gradients {
	float *gains, *sums; /* of strips */
	unsigned *tickets;   /* of groups, then of all of them */
	bool add;
	float *gain, *bias; /* bias NULL: there is none */
};

/* The sums of a block's threads, element by element, to a row. */
template <int T, int V>
__device__ inline void put_strip(int64_t width, const float (&own)[OWN], float *to)
{
	row_threads<T, V> t;

	if constexpr (T == 32) {
		__shared__ float all[ORR_TILE_Y][32 * OWN];

		__syncthreads();
		for (int e = 0; e < OWN / V; e++)
			for (int k = 0; k < V; k++)
				all[t.y()][V * (t.x() + T * e) + k] = own[V * e + k];
		__syncthreads();
		for (int64_t c = threadIdx.x; c < width; c += ORR_BLOCK) {
			float s = all[0][c];

			for (int k = 1; k < ORR_TILE_Y; k++)
				s += all[k][c];
			to[c] = s;
		}
	} else {
		for (int e = 0; e < OWN / V; e++)
			for (int k = 0; k < V; k++) {
				int64_t i = V * (int64_t)(t.x() + T * e) + k;

				if (i < width)
					to[i] = own[V * e + k];
			}
	}
}

/* The last block of a group of strips adds them up, and the last one of all the groups. */
__device__ inline void sum_blocks(int64_t width, const struct gradients &to)
{
	int64_t strips = gridDim.x, group = blockIdx.x / ORR_GROUP;
	int64_t groups = orr_ceil(strips, ORR_GROUP), count = strips_of(strips, group);
	int64_t first = group * ORR_GROUP * width;

	if (!last_of(to.tickets + group, (unsigned)count))
		return;
	for (int64_t c = threadIdx.x; c < width; c += ORR_BLOCK) {
		to.gains[first + c] = sum_of(count, width, to.gains + first + c);
		to.sums[first + c] = sum_of(count, width, to.sums + first + c);
	}
	if (!last_of(to.tickets + groups, (unsigned)groups))
		return;
	for (int64_t c = threadIdx.x; c < width; c += ORR_BLOCK) {
		put(to.gain + c, to.add, sum_of(groups, ORR_GROUP * width, to.gains + c));
		if (to.bias)
			put(to.bias + c, to.add, sum_of(groups, ORR_GROUP * width, to.sums + c));
	}
}

/* All of the backward for rows of up to OWN * T elements, which are read once; a block has a strip
 * of them. With the bits of find_dx() and column sums. */
template <int T, int V, class A, class B>
__global__ void __launch_bounds__(ORR_BLOCK)
	backward_strips(struct orr_norm norm, int64_t rows, const float *normal,
			const float *factors, const float *gain, const B *dy, A *dx,
			const __grid_constant__ struct gradients to)
{
	const int64_t width = norm.width, begin = blockIdx.x * rows;
	const int64_t end = begin + rows < norm.n ? begin + rows : norm.n;
	row_threads<T, V> t;
	float gains[OWN] = {}, sums[OWN] = {};

	for (int64_t r = begin + t.y(); r < end; r += t.rows) {
		float v[OWN], slope[OWN], factor = factors[r];
		struct pair means = {0, 0};

		for (int e = 0; e < OWN / V; e++) {
			int64_t i = V * (int64_t)(t.x() + T * e);
			float g[V], w[V];

			if (i >= width)
				continue;
			orr_load<V>(v + V * e, normal + r * width + i);
			orr_load<V>(g, dy + r * width + i);
			orr_load<V>(w, gain + i);
			for (int k = 0; k < V; k++) {
				int at = V * e + k;

				slope[at] = slope_of(g[k], w[k], v[at], &means);
				sums[at] += g[k];
				gains[at] = fmaf(g[k], v[at], gains[at]);
			}
		}
		means = row_means<T>(norm, means);
		for (int e = 0; e < OWN / V; e++) {
			int64_t i = V * (int64_t)(t.x() + T * e);

			if (i >= width)
				continue;
			for (int k = V * e; k < V * (e + 1); k++)
				slope[k] = dx_of(factor, slope[k], v[k], means.a, means.b);
			orr_store<V>(dx + r * width + i, slope + V * e);
		}
	}
	put_strip<T, V>(width, gains, to.gains + blockIdx.x * width);
	put_strip<T, V>(width, sums, to.sums + blockIdx.x * width);
	sum_blocks(width, to);
}

static void layernorm_backward(struct orr_device *d, const struct orr_norm *norm,
			       const float *normal, const float *gain, const float *dy,
			       float *apart, float *dx, float *dgain, float *dbias)
{
	int64_t width = norm->width;
	char *room = orr_cuda_workspace(d);
	const struct gradients to = {
		.gains = reinterpret_cast<float *>(room + orr_cuda_sums_bytes(norm->n, width) / 2),
		.sums = reinterpret_cast<float *>(room),
		.tickets = d->cuda->tickets,
		.add = apart != NULL,
		.gain = dgain,
		.bias = norm->centred ? dbias : NULL,
	};

	if (!dx || !dgain || width > OWN * (width > ORR_NARROW ? ORR_BLOCK : 32)) {
		if (dx)
			find_dx(d, norm, normal, gain, dy, dx);
		if (dgain)
			orr_cuda_column_sums(d, norm->n, width, dy, normal, apart, dgain, to.bias);
		return;
	}
	by_type(d, width, orr_address(normal, gain, dy, dx), [=](auto t, auto a, auto b) {
		orr_launch(d, "layernorm backward",
			   backward_strips<t.T, t.V, decltype(a), decltype(b)>,
			   (unsigned)orr_strips(norm->n), ORR_BLOCK, 0, *norm,
			   orr_strip_rows(norm->n), normal, normal + norm->n * width, gain,
			   orr_as(b, dy), orr_as(a, dx), to);
	});
}

const struct orr_norm_kernels orr_norms_cuda = {ORR_NORM_KERNELS(ORR_KERNEL)};
