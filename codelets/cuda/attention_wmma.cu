/* Attention of bfloat16 on tensor cores: products of 16 x 16 x 16, added up in float32. A block has
 * some rows of a head in shared memory, SIDE of them a warp's; tiles of OTHERS rows pass by.
 * Forward and dq: the rows are queries and keys pass by; dk and dv: the other way round. Where in a
 * warp an element of a product lies is the device's own: what goes by row does so in shared memory,
 * two lanes a row. */
#include "attention.h"

#ifndef ORR_CUDA_EMULATION
#include <cuda_bf16.h>
#include <mma.h>
#endif

namespace wmma = nvcuda::wmma;

#define SIDE 16
#define OTHERS 32
#define MOST_WIDTH 128
#define QUERY_WARPS 4 /* of a block of the forward */
#define BACK_WARPS 2  /* of one of the backward, which keeps twice as much of a row */
#define PAD 8         /* of a row of bfloat16: 16 bytes, so that rows begin in other banks */
#define SCORES 36     /* floats from a row of scores to the next */
#define WEIGHTS (OTHERS + PAD)

typedef wmma::fragment<wmma::matrix_a, SIDE, SIDE, SIDE, __nv_bfloat16, wmma::row_major> left;
typedef wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, __nv_bfloat16, wmma::row_major> right;
typedef wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, __nv_bfloat16, wmma::col_major> turned;
typedef wmma::fragment<wmma::accumulator, SIDE, SIDE, SIDE, float> sum;

__device__ inline const __nv_bfloat16 *read_as(const uint16_t *x)
{
	return reinterpret_cast<const __nv_bfloat16 *>(x);
}

/* Of a head: its width, the pitch of its rows in shared memory, and whether those in memory begin
 * at multiples of 16 bytes. */
struct shape {
	int width, pitch;
	bool wide;
};

/* What a warp has of its own. */
struct own {
	float *scores, *slope_scores; /* [SIDE][SCORES] */
	uint16_t *weights, *slopes;   /* [SIDE][WEIGHTS] */
};

/* Bytes of n_rows of a head and of what n_warps have: `scores` arrays of floats, `weights` of
 * bfloat16. */
static size_t shared_bytes(int64_t width, int n_rows, int n_warps, int scores, int weights)
{
	size_t warp = SIDE * (SCORES * sizeof(float) * (size_t)scores +
			      WEIGHTS * sizeof(uint16_t) * (size_t)weights);

	return (size_t)n_rows * (size_t)(width + PAD) * sizeof(uint16_t) + (size_t)n_warps * warp;
}

/* n rows, row_values apart, to a tile of `rows`; zeros behind them. */
__device__ inline void fetch(const shape &h, int rows, int64_t n, const uint16_t *from,
			     int64_t row_values, uint16_t *to)
{
	const int eights = h.width / 8;

	for (int at = (int)threadIdx.x; at < rows * eights; at += (int)blockDim.x) {
		int r = at / eights, e = at % eights * 8;
		const uint16_t *there = from + r * row_values + e;
		uint16_t *here = to + r * h.pitch + e;

		if (r < n && h.wide)
			*reinterpret_cast<uint4 *>(here) = *reinterpret_cast<const uint4 *>(there);
		else
			for (int k = 0; k < 8; k++)
				here[k] = r < n ? there[k] : (uint16_t)0;
	}
}

/* scores: of the warp's rows with the others. */
__device__ inline void multiply(const shape &h, const uint16_t *rows, const uint16_t *others,
				float *scores)
{
	left a;
	turned b;
	sum s[OTHERS / SIDE];

	for (int c = 0; c < OTHERS / SIDE; c++)
		wmma::fill_fragment(s[c], 0.0f);
	for (int e = 0; e < h.width; e += SIDE) {
		wmma::load_matrix_sync(a, read_as(rows + e), (unsigned)h.pitch);
		ORR_UNROLL
		for (int c = 0; c < OTHERS / SIDE; c++) {
			wmma::load_matrix_sync(b, read_as(others + c * SIDE * h.pitch + e),
					       (unsigned)h.pitch);
			wmma::mma_sync(s[c], a, b, s[c]);
		}
	}
	for (int c = 0; c < OTHERS / SIDE; c++)
		wmma::store_matrix_sync(scores + c * SIDE, s[c], SCORES, wmma::mem_row_major);
}

/* sums, E times 16 columns of the warp's rows, have the others added by their weights. */
template <int E>
__device__ inline void add_others(const shape &h, const uint16_t *weights, const uint16_t *others,
				  sum *sums)
{
	left a;
	right b;

	for (int k = 0; k < OTHERS; k += SIDE) {
		wmma::load_matrix_sync(a, read_as(weights + k), WEIGHTS);
		ORR_UNROLL
		for (int e = 0; e < E; e++)
			if (e * SIDE < h.width) {
				wmma::load_matrix_sync(b, read_as(others + k * h.pitch + e * SIDE),
						       (unsigned)h.pitch);
				wmma::mma_sync(sums[e], a, b, sums[e]);
			}
	}
}

/* The warp's sums, each times the factor of its lanes' row, to the n rows of a matrix from `to` on.
 */
template <int E>
__device__ inline void leave(const shape &h, int64_t n, float factor, const sum *sums,
			     float *scratch, int64_t row_values, uint16_t *to)
{
	int r = (int)threadIdx.x % 32 / 2, first = (int)threadIdx.x % 2 * 8;

	ORR_UNROLL
	for (int e = 0; e < E; e++) {
		float v[8];

		if (e * SIDE >= h.width)
			continue;
		__syncwarp();
		wmma::store_matrix_sync(scratch, sums[e], SCORES, wmma::mem_row_major);
		__syncwarp();
		for (int k = 0; k < 8; k++)
			v[k] = scratch[r * SCORES + first + k] * factor;
		if (r >= n)
			continue;
		if (h.wide)
			orr_store<8>(to + r * row_values + e * SIDE + first, v);
		else
			for (int k = 0; k < 8; k++)
				orr_put(to + r * row_values + e * SIDE + first + k, v[k]);
	}
}

template <int E> __device__ inline void clear(sum *sums)
{
	ORR_UNROLL
	for (int e = 0; e < E; e++)
		wmma::fill_fragment(sums[e], 0.0f);
}

/* ---- forward ---- */

__device__ inline float pair_most(float v)
{
	float other = __shfl_xor_sync(ORR_ALL_LANES, v, 1);

	return other > v || isnan(other) ? other : v;
}

/* A lane's half of a row of scores, of which it sees the first `seen`, becomes exponentials, less
 * the largest of the row so far. Returns what scales the sums before. */
__device__ inline float soften(const float *scores, int seen, float factor, float *most,
			       float *total, uint16_t *weights)
{
	float now = -INFINITY, past, sum_now = 0;

	for (int c = 0; c < seen; c++) {
		float s = factor * scores[c];

		now = s > now || isnan(s) ? s : now;
	}
	now = pair_most(now);
	now = now > *most || isnan(now) ? now : *most;
	seen = now == -INFINITY ? 0 : seen;
	for (int c = 0; c < SIDE; c++) {
		float p = c < seen ? orr_exp_of(factor * scores[c] - now) : 0.0f;

		sum_now += p;
		weights[c] = orr_bf16_of(p);
	}
	sum_now += __shfl_xor_sync(ORR_ALL_LANES, sum_now, 1);
	if (now == -INFINITY) /* nothing seen so far */
		return 1;
	past = *most == -INFINITY ? 0.0f : orr_exp_of(*most - now);
	*total = *total * past + sum_now;
	*most = now;
	return past;
}

/* Each row of the sums times its factor, of which every lane has that of its row. */
template <int E>
__device__ inline void scale(const shape &h, float factor, float *scratch, sum *sums)
{
	int r = (int)threadIdx.x % 32 / 2, first = (int)threadIdx.x % 2 * 8;
	sum factors;

	__syncwarp();
	for (int k = 0; k < 8; k++)
		scratch[r * SCORES + first + k] = factor;
	__syncwarp();
	wmma::load_matrix_sync(factors, scratch, SCORES, wmma::mem_row_major);
	ORR_UNROLL
	for (int e = 0; e < E; e++)
		for (int i = 0; i < sums[e].num_elements && e * SIDE < h.width; i++)
			sums[e].x[i] *= factors.x[i];
}

template <int E>
__global__ void __launch_bounds__(QUERY_WARPS * 32)
	wmma_forward(struct orr_attention a, struct shape h, float factor, const uint16_t *q,
		     const uint16_t *k, const uint16_t *v, const float *lengths, uint16_t *y,
		     float *sums)
{
	ORR_SHARED_FLOATS(shared);
	const int rows = QUERY_WARPS * SIDE, warp = (int)threadIdx.x / 32,
		  lane = (int)threadIdx.x % 32, r = warp * SIDE + lane / 2, half = lane % 2 * SIDE;
	uint16_t *queries = reinterpret_cast<uint16_t *>(shared), *keys = queries + rows * h.pitch,
		 *values = keys + OTHERS * h.pitch;
	float *floats = reinterpret_cast<float *>(values + OTHERS * h.pitch);
	float *scores = floats + warp * SIDE * SCORES;
	uint16_t *halves = reinterpret_cast<uint16_t *>(floats + QUERY_WARPS * SIDE * SCORES);
	uint16_t *weights = halves + warp * SIDE * WEIGHTS;
	int64_t q_row = a.heads * a.width, k_row = a.kv_heads * a.width;
	int64_t n_tiles = orr_ceil(a.queries, rows), items = a.n * a.heads * n_tiles;

	for (int64_t at = blockIdx.x; at < items; at += gridDim.x) {
		const item i(at, a.heads, n_tiles, rows);
		int64_t row = i.sample * a.queries + i.first, rest = a.queries - i.first;
		int64_t from =
			i.sample * a.keys * k_row + i.head / (a.heads / a.kv_heads) * a.width;
		int64_t all = orr_attention_keys(&a, lengths ? lengths + i.sample : NULL);
		int64_t end = a.causal && all > i.first + rows ? i.first + rows : all;
		/* of the lane's row */
		int64_t mine = a.causal && all > i.first + r + 1 ? i.first + r + 1 : all;
		float most = -INFINITY, total = 0;
		sum out[E];

		clear<E>(out);
		__syncthreads();
		fetch(h, rows, rest, q + row * q_row + i.head * a.width, q_row, queries);
		for (int64_t j = 0; j < end; j += OTHERS) {
			int64_t seen = mine - j - half;
			float past;

			__syncthreads();
			fetch(h, OTHERS, end - j, k + from + j * k_row, k_row, keys);
			fetch(h, OTHERS, end - j, v + from + j * k_row, k_row, values);
			__syncthreads();
			multiply(h, queries + warp * SIDE * h.pitch, keys, scores);
			__syncwarp();
			past = soften(scores + lane / 2 * SCORES + half,
				      (int)(seen < 0      ? 0
					    : seen < SIDE ? seen
							  : SIDE),
				      factor, &most, &total, weights + lane / 2 * WEIGHTS + half);
			if (__any_sync(ORR_ALL_LANES, past != 1))
				scale<E>(h, past, scores, out);
			__syncwarp();
			add_others<E>(h, weights, values, out);
		}
		leave<E>(h, rest - warp * SIDE, orr_part_of(total), out, scores, q_row,
			 y + (row + warp * SIDE) * q_row + i.head * a.width);
		if (half == 0 && r < rest)
			sums[(i.sample * a.heads + i.head) * a.queries + i.first + r] =
				orr_sum_of(most, total);
	}
}

/* ---- backward ---- */

/* A tile of others passes by: numbers j to j + OTHERS, of which there are `rest`, beginning `there`
 * values into their matrices; `mine` is the number of the lane's row. */
template <bool KEYS>
__device__ inline void weigh(const struct orr_attention &a, float factor,
			     const struct pass<uint16_t> &b, const own &w, int64_t mine, int64_t j,
			     int64_t sums_at, int64_t keys)
{
	int lane = (int)threadIdx.x % 32, r = lane / 2, half = lane % 2 * SIDE;

	for (int c = half; c < half + SIDE; c++) {
		float p = w.scores[r * SCORES + c], s = w.slope_scores[r * SCORES + c];

		meet(a, b, factor, sums_at, KEYS ? j + c : mine, KEYS ? mine : j + c, keys, &p, &s);
		w.slopes[r * WEIGHTS + c] = orr_bf16_of(s);
		if (KEYS)
			w.weights[r * WEIGHTS + c] = orr_bf16_of(p);
	}
}

template <bool KEYS, int E>
__global__ void __launch_bounds__(BACK_WARPS * 32)
	wmma_backward(struct orr_attention a, struct shape h, float factor, struct pass<uint16_t> b)
{
	ORR_SHARED_FLOATS(shared);
	const int rows = BACK_WARPS * SIDE, warp = (int)threadIdx.x / 32,
		  r = warp * SIDE + (int)threadIdx.x % 32 / 2;
	uint16_t *mine = reinterpret_cast<uint16_t *>(shared), *my_slopes = mine + rows * h.pitch;
	uint16_t *others = my_slopes + rows * h.pitch, *other_slopes = others + OTHERS * h.pitch;
	float *floats = reinterpret_cast<float *>(other_slopes + OTHERS * h.pitch) +
			warp * SIDE * (2 * SCORES + WEIGHTS);
	uint16_t *halves = reinterpret_cast<uint16_t *>(floats + 2 * SIDE * SCORES);
	const own w = {floats, floats + SIDE * SCORES, halves, halves + SIDE * WEIGHTS};
	const back_item<KEYS> all(a);
	int64_t n_tiles = orr_ceil(all.n_rows, rows), items = a.n * all.heads * n_tiles;

	for (int64_t at = blockIdx.x; at < items; at += gridDim.x) {
		const item i(at, all.heads, n_tiles, rows);
		int64_t rest = all.n_rows - i.first, from = all.from(i);
		int64_t keys = orr_attention_keys(&a, b.lengths ? b.lengths + i.sample : NULL);
		sum sums[E], values[KEYS ? E : 1];

		clear<E>(sums);
		clear<KEYS ? E : 1>(values);
		__syncthreads();
		fetch(h, rows, rest, (KEYS ? b.k : b.q) + from, all.row, mine);
		fetch(h, rows, rest, (KEYS ? b.v : b.dy) + from, all.row, my_slopes);
		all.each_tile(i, keys, rows, OTHERS,
			      [&](int64_t j, int64_t n, int64_t there, int64_t sums_at) {
				      __syncthreads();
				      fetch(h, OTHERS, n, (KEYS ? b.q : b.k) + there, all.other_row,
					    others);
				      fetch(h, OTHERS, n, (KEYS ? b.dy : b.v) + there,
					    all.other_row, other_slopes);
				      __syncthreads();
				      multiply(h, mine + warp * SIDE * h.pitch, others, w.scores);
				      multiply(h, my_slopes + warp * SIDE * h.pitch, other_slopes,
					       w.slope_scores);
				      __syncwarp();
				      weigh<KEYS>(a, factor, b, w, i.first + r, j, sums_at, keys);
				      __syncwarp();
				      add_others<E>(h, w.slopes, others, sums);
				      if constexpr (KEYS)
					      add_others<E>(h, w.weights, other_slopes, values);
			      });
		uint16_t *to = KEYS ? b.dk : b.dq;
		int64_t place = from + warp * SIDE * all.row;

		if (to)
			leave<E>(h, rest - warp * SIDE, 1, sums, w.scores, all.row, to + place);
		if constexpr (KEYS)
			if (b.dv)
				leave<E>(h, rest - warp * SIDE, 1, values, w.scores, all.row,
					 b.dv + place);
	}
}

/* ---- from the host ---- */

bool orr_attention_is_wmma(const struct orr_attention *a)
{
	return a->width % SIDE == 0 && a->width <= MOST_WIDTH;
}

static shape shape_of(const struct orr_attention *a, uintptr_t together)
{
	return {(int)a->width, (int)a->width + PAD, together % 16 == 0};
}

/* f(a tile's products beside each other) */
template <class F> static void by_head(const struct orr_attention *a, F f)
{
	if (a->width <= 64)
		f(std::integral_constant<int, 4>());
	else
		f(std::integral_constant<int, 8>());
}

void orr_attention_wmma_forward(struct orr_device *d, const struct orr_attention *a, float factor,
				const uint16_t *q, const uint16_t *k, const uint16_t *v,
				const float *lengths, uint16_t *y, float *sums)
{
	shape h = shape_of(a, orr_address(q, k, v, y));
	int rows = QUERY_WARPS * SIDE + 2 * OTHERS;

	by_head(a, [=](auto e) {
		orr_launch(d, "attention", wmma_forward<e.value>,
			   orr_tile_blocks(a, false, QUERY_WARPS * SIDE), QUERY_WARPS * 32,
			   shared_bytes(a->width, rows, QUERY_WARPS, 1, 1), *a, h, factor, q, k, v,
			   lengths, y, sums);
	});
}

void orr_attention_wmma_backward(struct orr_device *d, const struct orr_attention *a, float factor,
				 struct pass<uint16_t> b)
{
	shape h = shape_of(a, orr_address(b.q, b.k, b.v, b.dy, b.dq, b.dk, b.dv));
	size_t bytes = shared_bytes(a->width, 2 * (BACK_WARPS * SIDE + OTHERS), BACK_WARPS, 2, 2);

	by_head(a, [=](auto e) {
		if (b.dq)
			orr_launch(d, "attention backward", wmma_backward<false, e.value>,
				   orr_tile_blocks(a, false, BACK_WARPS * SIDE), BACK_WARPS * 32,
				   bytes, *a, h, factor, b);
		if (b.dk || b.dv)
			orr_launch(d, "attention backward", wmma_backward<true, e.value>,
				   orr_tile_blocks(a, true, BACK_WARPS * SIDE), BACK_WARPS * 32,
				   bytes, *a, h, factor, b);
	});
}
