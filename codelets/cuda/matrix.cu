/* Matrices in tiles of 32 columns and 8 rows: rounded, added up. */
#include "sums.h"

/* What is rounded in one launch, in memory of its own for kernels. */
struct roundings {
	struct orr_rounding pieces[ORR_MOST_ROUNDINGS];
};

/* Four columns of a row. */
__device__ inline void round_four(const struct orr_rounding &p, int64_t r, int64_t c, bool quads)
{
	const float *from = p.from + r * p.columns;
	float v[4] = {};

	if (quads && c < p.columns)
		orr_load<4>(v, from + c);
	for (int64_t k = 0; k < 4 && c + k < p.columns && !quads; k++)
		v[k] = from[c + k];
	orr_store<4>(static_cast<uint16_t *>(p.to) + r * orr_rounded_columns(p.columns) + c, v);
}

/* Piece blockIdx.y. */
__global__ void __launch_bounds__(ORR_BLOCK)
	round_pieces(const __grid_constant__ struct roundings all)
{
	const struct orr_rounding &p = all.pieces[blockIdx.y];
	int64_t fours = orr_rounded_columns(p.columns) / 4, stride = (int64_t)gridDim.x * ORR_BLOCK;
	bool quads = p.columns % 4 == 0 && reinterpret_cast<uintptr_t>(p.from) % 16 == 0;

	for (int64_t i = (int64_t)blockIdx.x * ORR_BLOCK + threadIdx.x; i < p.rows * fours;
	     i += stride)
		round_four(p, i / fours, i % fours * 4, quads);
}

void orr_cuda_round(struct orr_device *d, const struct orr_rounding *pieces, int n_pieces)
{
	struct roundings all = {};
	int64_t most = 0;

	for (int i = 0; i < n_pieces; i++) {
		int64_t fours = pieces[i].rows * orr_rounded_columns(pieces[i].columns) / 4;

		all.pieces[i] = pieces[i];
		most = fours > most ? fours : most;
	}
	orr_launch(d, "round", round_pieces, dim3(orr_blocks(most, ORR_BLOCK), (unsigned)n_pieces),
		   ORR_BLOCK, 0, all);
}

template <class A>
static void add_bias(struct orr_device *d, int64_t n, int64_t width, const A *bias, A *y)
{
	start(d, "bias", n, width, [=] __device__(int64_t r, int64_t c) {
		A *to = y + r * width + c;

		orr_put(to, orr_get(to) + orr_get(bias + c));
	});
}

void orr_cuda_add_bias(struct orr_device *d, int64_t n, int64_t width, bool halves,
		       const void *bias, void *y)
{
	orr_typed(halves, [=](auto a) { add_bias(d, n, width, orr_as(a, bias), orr_as(a, y)); });
}

/* ---- sums down the columns ---- */

/* Strip blockIdx.y of each column, to row blockIdx.y of gains and sums; the last of the strips that
 * is there adds them up. Y threads go down a column. */
template <bool GAIN, int Y, class A>
__global__ void __launch_bounds__(ORR_BLOCK)
	sum_strips(int64_t n, int64_t width, int64_t rows, const A *dy, const float *normal,
		   float *gains, float *sums, unsigned *tickets, bool add, float *gain, float *sum)
{
	constexpr int X = ORR_BLOCK / Y;
	int64_t begin = blockIdx.y * rows, end = begin + rows < n ? begin + rows : n;
	int64_t x = threadIdx.x % X, y = threadIdx.x / X, turn = (int64_t)gridDim.x * X;

	for (int64_t first = (int64_t)blockIdx.x * X; first < width; first += turn) {
		int64_t c = first + x, at = blockIdx.y * width + c;
		float s = 0, g = 0;

		for (int64_t r = begin + y; r < end && c < width; r += Y) {
			float v = orr_get(dy + r * width + c);

			s += v;
			if constexpr (GAIN)
				g = fmaf(v, normal[r * width + c], g);
		}
		s = down<Y>(s);
		if constexpr (GAIN)
			g = down<Y>(g);
		if (y || c >= width)
			continue;
		if (sum)
			sums[at] = s;
		if constexpr (GAIN)
			gains[at] = g;
	}
	if (!last_of(tickets + blockIdx.x, gridDim.y))
		return;
	for (int64_t first = (int64_t)blockIdx.x * X; first < width; first += turn) {
		if (sum)
			sum_groups<Y>(gridDim.y, width, first, sums, add, sum);
		if constexpr (GAIN)
			sum_groups<Y>(gridDim.y, width, first, gains, add, gain);
	}
}

size_t orr_cuda_sums_bytes(int64_t n, int64_t width)
{
	return 2 * orr_cuda_aligned(orr_most_strips(n) * width, sizeof(float));
}

void orr_cuda_column_sums(struct orr_device *d, int64_t n, int64_t width, const float *dy,
			  const float *normal, bool add, float *gain, float *sum)
{
	bool wide = width > ORR_NARROW;
	char *room = orr_cuda_workspace(d);
	float *sums = reinterpret_cast<float *>(room);
	float *gains = reinterpret_cast<float *>(room + orr_cuda_sums_bytes(n, width) / 2);
	dim3 grid(orr_blocks(width, wide ? ORR_BLOCK : ORR_TILE_X), (unsigned)orr_strips(n));

	orr_typed(d->halves, [=](auto a) {
		using A = decltype(a);

		orr_launch(
			d, "column sums",
			gain ? (wide ? sum_strips<true, 1, A> : sum_strips<true, ORR_TILE_Y, A>)
			     : (wide ? sum_strips<false, 1, A> : sum_strips<false, ORR_TILE_Y, A>),
			grid, ORR_BLOCK, 0, n, width, orr_strip_rows(n), orr_as(a, dy), normal,
			gains, sums, d->cuda->tickets, add, gain, sum);
	});
}
