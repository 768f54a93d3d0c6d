/* Attention in tiles that lie in shared memory. A block has some rows, ORR_EACH of them a warp's;
 * tiles of others pass by, a lane for each. Forward and dq: the rows are queries and keys pass by;
 * dk and dv: the other way round. A: float, or uint16_t of bfloat16. */
#include "attention.h"
#include "rows.h"

#define ORR_EACH 4   /* rows of a warp */
#define ORR_LANES 32 /* others at once, at most */

/* Of a block. */
struct tile {
	int rows, lanes;
	int64_t pitch; /* of a tile that lanes read, each a row of it: in different banks */
	size_t bytes;
	bool by_four; /* what it reads may be read so */
};

/* own, others: arrays of rows and of the others; weights: arrays of rows x lanes; together: the
 * addresses of all that it reads, or-ed. */
static struct tile tile_of(int64_t width, int own, int others, int weights, uintptr_t together)
{
	struct tile t = {32, ORR_LANES, width + 1, 0, width % 4 == 0 && together % 16 == 0};

	for (;;) {
		t.bytes =
			sizeof(float) * (size_t)(t.rows * width * own + t.lanes * t.pitch * others +
						 (int64_t)t.rows * t.lanes * weights);
		if (t.bytes <= ORR_SHARED || (t.rows == ORR_EACH && t.lanes == 1))
			return t;
		if (t.rows > ORR_EACH && t.rows * 2 > t.lanes)
			t.rows /= 2;
		else
			t.lanes /= 2;
	}
}

__device__ inline float as_read(const struct orr_attention &a, float x)
{
	return a.rounded ? orr_bf16_float(orr_bf16_of(x)) : x;
}

template <int V, class A>
__device__ inline void fetch_by(const struct orr_attention &a, int rows, int64_t n, const A *from,
				int64_t row_floats, int64_t pitch, float *to)
{
	const int parts = (int)a.width / V;

	for (int at = (int)threadIdx.x; at < rows * parts; at += (int)blockDim.x) {
		int r = at / parts, e = at % parts * V;
		float v[V] = {};

		if (r < n)
			orr_load<V>(v, from + r * row_floats + e);
		for (int k = 0; k < V; k++)
			to[r * pitch + e + k] = as_read(a, v[k]);
	}
}

/* n rows of a head, row_floats apart, to a tile of `rows`; zeros behind them. */
template <class A>
__device__ inline void fetch(const struct orr_attention &a, const struct tile &t, int rows,
			     int64_t n, const A *from, int64_t row_floats, int64_t pitch, float *to)
{
	if (t.by_four)
		fetch_by<4>(a, rows, n, from, row_floats, pitch, to);
	else
		fetch_by<1>(a, rows, n, from, row_floats, pitch, to);
}

__device__ inline void clear(int64_t count, float *x)
{
	for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
		x[i] = 0;
}

/* The products of the warp's rows with the lane's other. */
__device__ inline void dots(int64_t width, const float *rows, const float *other, float *to)
{
	for (int k = 0; k < ORR_EACH; k++)
		to[k] = 0;
	for (int64_t e = 0; e < width; e++)
		for (int k = 0; k < ORR_EACH; k++)
			to[k] += rows[k * width + e] * other[e];
}

/* sums, the warp's rows, are scaled and have the others added, by their weights. */
__device__ inline void add_others(const struct tile &t, int64_t width, const float *weights,
				  const float *others, const float *scale, float *sums)
{
	for (int64_t e = threadIdx.x % 32; e < width; e += 32) {
		float s[ORR_EACH];

		for (int k = 0; k < ORR_EACH; k++)
			s[k] = sums[k * width + e] * (scale ? scale[k] : 1.0f);
		for (int j = 0; j < t.lanes; j++) {
			float x = others[j * t.pitch + e];

			for (int k = 0; k < ORR_EACH; k++)
				s[k] += weights[k * t.lanes + j] * x;
		}
		for (int k = 0; k < ORR_EACH; k++)
			sums[k * width + e] = s[k];
	}
}

__device__ inline float warp_most(float v)
{
	return row_fold<32>(v, [](float a, float b) { return b > a || isnan(b) ? b : a; });
}

/* ---- forward ---- */

/* The row's scores become exponentials, less the largest so far; *past is what scales the sums
 * before. */
__device__ inline float soften(float score, bool seen, float *most, float *total, float *past)
{
	float now = warp_most(seen ? score : -INFINITY), p;

	now = now > *most || isnan(now) ? now : *most;
	if (now == -INFINITY && !isnan(*most)) { /* nothing seen so far */
		*past = 1;
		return 0;
	}
	p = seen ? orr_exp_of(score - now) : 0.0f;
	*past = *most == -INFINITY ? 0.0f : orr_exp_of(*most - now);
	*total = *total * *past + row_sum<32>(p);
	*most = now;
	return p;
}

/* A row that has added up all keys; a total of 0: there were none. */
template <class A>
__device__ inline void finish(int64_t width, const float *from, float most, float total, A *to,
			      float *sum)
{
	float part = orr_part_of(total);

	for (int64_t e = threadIdx.x % 32; e < width; e += 32)
		orr_put(to + e, from[e] * part);
	if (threadIdx.x % 32 == 0)
		*sum = orr_sum_of(most, total);
}

template <class A>
__global__ void __launch_bounds__(ORR_BLOCK)
	tiles_forward(struct orr_attention a, struct tile t, float factor, const A *q, const A *k,
		      const A *v, const float *lengths, A *y, float *sums)
{
	ORR_SHARED_FLOATS(shared);
	float *queries = shared, *out = queries + t.rows * a.width,
	      *others = out + t.rows * a.width;
	float *weights = others + t.lanes * t.pitch;
	int64_t q_row = a.heads * a.width, k_row = a.kv_heads * a.width;
	int64_t n_tiles = orr_ceil(a.queries, t.rows), items = a.n * a.heads * n_tiles;
	int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 * ORR_EACH;

	for (int64_t at = blockIdx.x; at < items; at += gridDim.x) {
		const item i(at, a.heads, n_tiles, t.rows);
		int64_t row = i.sample * a.queries + i.first, rest = a.queries - i.first;
		int64_t from =
			i.sample * a.keys * k_row + i.head / (a.heads / a.kv_heads) * a.width;
		int64_t keys = orr_attention_keys(&a, lengths ? lengths + i.sample : NULL);
		float most[ORR_EACH], total[ORR_EACH], past[ORR_EACH], s[ORR_EACH];

		for (int r = 0; r < ORR_EACH; r++)
			most[r] = -INFINITY, total[r] = 0;
		if (a.causal && keys > i.first + t.rows)
			keys = i.first + t.rows;
		__syncthreads();
		fetch(a, t, t.rows, rest, q + row * q_row + i.head * a.width, q_row, a.width,
		      queries);
		clear(t.rows * a.width, out);
		for (int64_t j = 0; j < keys; j += t.lanes) {
			int64_t there = from + j * k_row;

			__syncthreads();
			fetch(a, t, t.lanes, keys - j, k + there, k_row, t.pitch, others);
			__syncthreads();
			if (lane < t.lanes)
				dots(a.width, queries + warp * a.width, others + lane * t.pitch, s);
			for (int r = 0; r < ORR_EACH; r++) {
				bool seen = lane < t.lanes && j + lane < keys &&
					    !(a.causal && j + lane > i.first + warp + r);
				float p = soften(factor * (seen ? s[r] : 0.0f), seen, &most[r],
						 &total[r], &past[r]);

				if (lane < t.lanes)
					weights[(warp + r) * t.lanes + lane] = as_read(a, p);
			}
			__syncthreads();
			fetch(a, t, t.lanes, keys - j, v + there, k_row, t.pitch, others);
			__syncthreads();
			add_others(t, a.width, weights + warp * t.lanes, others, past,
				   out + warp * a.width);
		}
		__syncthreads();
		for (int r = 0; r < ORR_EACH && warp + r < rest; r++) {
			A *to = y + (row + warp + r) * q_row + i.head * a.width;
			int64_t at_sum = (i.sample * a.heads + i.head) * a.queries + i.first;

			finish(a.width, out + (warp + r) * a.width, most[r], keys ? total[r] : 0,
			       to, sums + at_sum + warp + r);
		}
	}
}

/* ---- backward ---- */

/* A block's shared memory: rows and what is added up for them; the others; what ties them. */
struct parts {
	float *own, *own_slopes, *sum, *sum_v;
	float *others, *other_slopes, *slopes, *weights;
	__device__ parts(float *shared, const struct tile &t, int64_t row_floats, bool keys)
	{
		int64_t lane_floats = t.lanes * t.pitch;

		own = shared, own_slopes = own + row_floats, sum = own_slopes + row_floats;
		sum_v = sum + row_floats, others = sum_v + (keys ? row_floats : 0);
		other_slopes = others + lane_floats, slopes = other_slopes + lane_floats;
		weights = slopes + t.rows * t.lanes;
	}
};

/* A tile of others passes by: numbers j to j + lanes, of which there are `rest`, beginning `there`
 * floats into their matrices; those of the block begin with number `first`. */
template <bool KEYS, class A>
__device__ inline void pass_by(const struct orr_attention &a, const struct tile &t, float factor,
			       const struct pass<A> &b, const struct parts &m, int64_t first,
			       int64_t j, int64_t rest, int64_t there, int64_t sums_at,
			       int64_t keys)
{
	int64_t row = (KEYS ? a.heads : a.kv_heads) * a.width;
	int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 * ORR_EACH;
	float p[ORR_EACH], s[ORR_EACH];

	__syncthreads();
	fetch(a, t, t.lanes, rest, (KEYS ? b.q : b.k) + there, row, t.pitch, m.others);
	fetch(a, t, t.lanes, rest, (KEYS ? b.dy : b.v) + there, row, t.pitch, m.other_slopes);
	__syncthreads();
	if (lane < t.lanes) {
		dots(a.width, m.own + warp * a.width, m.others + lane * t.pitch, p);
		dots(a.width, m.own_slopes + warp * a.width, m.other_slopes + lane * t.pitch, s);
	}
	for (int r = 0; r < ORR_EACH && lane < t.lanes; r++) {
		int64_t mine = first + warp + r, other = j + lane;
		int at = (warp + r) * t.lanes + lane;

		meet(a, b, factor, sums_at, KEYS ? other : mine, KEYS ? mine : other, keys, &p[r],
		     &s[r]);
		m.slopes[at] = as_read(a, s[r]);
		if (KEYS)
			m.weights[at] = as_read(a, p[r]);
	}
	__syncthreads();
	add_others(t, a.width, m.slopes + warp * t.lanes, m.others, NULL, m.sum + warp * a.width);
	if (KEYS)
		add_others(t, a.width, m.weights + warp * t.lanes, m.other_slopes, NULL,
			   m.sum_v + warp * a.width);
}

/* n rows of a tile to those of a matrix, row_floats apart; to NULL: not wanted. */
template <class A>
__device__ inline void leave(int64_t n, int64_t width, const float *from, int64_t row_floats, A *to)
{
	for (int64_t e = threadIdx.x; to && e < n * width; e += blockDim.x)
		orr_put(to + e / width * row_floats + e % width, from[e]);
}

template <bool KEYS, class A>
__global__ void __launch_bounds__(ORR_BLOCK)
	tiles_backward(struct orr_attention a, struct tile t, float factor, struct pass<A> b)
{
	ORR_SHARED_FLOATS(shared);
	const parts m(shared, t, t.rows * a.width, KEYS);
	const back_item<KEYS> all(a);
	int64_t n_tiles = orr_ceil(all.n_rows, t.rows), items = a.n * all.heads * n_tiles;

	for (int64_t at = blockIdx.x; at < items; at += gridDim.x) {
		const item i(at, all.heads, n_tiles, t.rows);
		int64_t rest = all.n_rows - i.first, n = rest < t.rows ? rest : t.rows;
		int64_t from = all.from(i);
		int64_t keys = orr_attention_keys(&a, b.lengths ? b.lengths + i.sample : NULL);

		__syncthreads();
		fetch(a, t, t.rows, n, (KEYS ? b.k : b.q) + from, all.row, a.width, m.own);
		fetch(a, t, t.rows, n, (KEYS ? b.v : b.dy) + from, all.row, a.width, m.own_slopes);
		clear((KEYS ? 2 : 1) * t.rows * a.width, m.sum);
		all.each_tile(i, keys, t.rows, t.lanes,
			      [&](int64_t j, int64_t others, int64_t there, int64_t sums_at) {
				      pass_by<KEYS>(a, t, factor, b, m, i.first, j, others, there,
						    sums_at, keys);
			      });
		__syncthreads();
		leave(n, a.width, m.sum, all.row, KEYS ? (b.dk ? b.dk + from : NULL) : b.dq + from);
		if (KEYS)
			leave(n, a.width, m.sum_v, all.row, b.dv ? b.dv + from : NULL);
	}
}

/* ---- from the host ---- */

static unsigned threads_of(const struct tile &t)
{
	return (unsigned)t.rows / ORR_EACH * 32;
}

static size_t bytes(const struct orr_attention *a)
{
	return ORR_BLAS_BYTES + orr_cuda_aligned(a->n * a->heads * a->queries, sizeof(float));
}

static void forward(struct orr_device *d, const struct orr_attention *a, const float *q,
		    const float *k, const float *v, const float *lengths, float *y, float *sums)
{
	const float factor = orr_attention_factor(a);
	const struct tile t = tile_of(a->width, 2, 1, 1, orr_address(q, k, v));

	orr_typed(d->halves, [=](auto n) {
		if constexpr (std::is_same_v<decltype(n), uint16_t>)
			if (orr_attention_is_wmma(a)) {
				orr_attention_wmma_forward(d, a, factor, orr_as(n, q), orr_as(n, k),
							   orr_as(n, v), lengths, orr_as(n, y),
							   sums);
				return;
			}
		orr_launch(d, "attention", tiles_forward<decltype(n)>,
			   orr_tile_blocks(a, false, t.rows), threads_of(t), t.bytes, *a, t, factor,
			   orr_as(n, q), orr_as(n, k), orr_as(n, v), lengths, orr_as(n, y), sums);
	});
}

/* along[sample][head][query]: y times dy, both as rows of the head. */
template <class A>
static void find_along(struct orr_device *d, const struct orr_attention &a, const A *y, const A *dy,
		       float *along)
{
	by_warp(d, "attention backward", a.n * a.heads * a.queries,
		[=] __device__(auto t, int64_t r) {
			int64_t i = r % a.queries, head = r / a.queries % a.heads;
			int64_t s = r / a.queries / a.heads;
			int64_t at = ((s * a.queries + i) * a.heads + head) * a.width;
			float sum = 0;

			t.each(a.width, [&](int64_t e) {
				sum += orr_get(y + at + e) * as_read(a, orr_get(dy + at + e));
			});
			sum = t.sum(sum);
			if (!t.x())
				along[r] = sum;
		});
}

static void input(struct orr_device *d, const struct orr_attention *a, const float *q,
		  const float *k, const float *v, const float *lengths, const float *y,
		  const float *sums, const float *dy, float *dq, float *dk, float *dv)
{
	const float factor = orr_attention_factor(a);
	float *along = reinterpret_cast<float *>(orr_cuda_workspace(d));
	const uintptr_t together = orr_address(q, k, v, dy);
	const struct tile t = tile_of(a->width, 3, 2, 1, together);
	const struct tile keys = tile_of(a->width, 4, 2, 2, together);

	orr_typed(d->halves, [=](auto n) {
		using A = decltype(n);
		const struct pass<A> b = {
			orr_as(n, q), orr_as(n, k), orr_as(n, v),
				orr_as(n, dy), lengths, sums, along, orr_as(n, dq), orr_as(n, dk),
				orr_as(n, dv)
		};

		find_along(d, *a, orr_as(n, y), b.dy, along);
		if constexpr (std::is_same_v<A, uint16_t>)
			if (orr_attention_is_wmma(a)) {
				orr_attention_wmma_backward(d, a, factor, b);
				return;
			}
		if (dq)
			orr_launch(d, "attention backward", tiles_backward<false, A>,
				   orr_tile_blocks(a, false, t.rows), threads_of(t), t.bytes, *a, t,
				   factor, b);
		if (dk || dv)
			orr_launch(d, "attention backward", tiles_backward<true, A>,
				   orr_tile_blocks(a, true, keys.rows), threads_of(keys),
				   keys.bytes, *a, keys, factor, b);
	});
}

const struct orr_attention_kernels orr_attention_cuda = {ORR_ATTENTION_KERNELS(ORR_KERNEL)};
