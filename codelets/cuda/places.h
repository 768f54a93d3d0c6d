#pragma once
/* (private to the .cu files) Kernels over the places of a matrix, in tiles of 32 columns and 8
 * rows: a grid of tiles(columns, rows), blocks of tile(). */
#include "launch.h"

static inline dim3 tiles(int64_t columns, int64_t rows)
{
	int64_t x = orr_ceil(columns, ORR_TILE_X), y = orr_ceil(rows, ORR_TILE_Y);

	return dim3((unsigned)(x < ORR_MOST_BLOCKS ? x : ORR_MOST_BLOCKS),
		    (unsigned)(y < ORR_MOST_BLOCKS ? y : ORR_MOST_BLOCKS));
}

static inline dim3 tile()
{
	return dim3(ORR_TILE_X, ORR_TILE_Y);
}

/* f(row, column) for all of them. */
template <class F> __device__ inline void each_place(int64_t rows, int64_t columns, F f)
{
	int64_t turn_y = (int64_t)gridDim.y * ORR_TILE_Y, turn_x = (int64_t)gridDim.x * ORR_TILE_X;

	for (int64_t r = (int64_t)blockIdx.y * ORR_TILE_Y + threadIdx.y; r < rows; r += turn_y)
		for (int64_t c = (int64_t)blockIdx.x * ORR_TILE_X + threadIdx.x; c < columns;
		     c += turn_x)
			f(r, c);
}

template <class F>
__global__ void __launch_bounds__(ORR_TILE_X *ORR_TILE_Y)
	at_each(int64_t rows, int64_t columns, F f)
{
	each_place(rows, columns, f);
}

/* f(row, column) for all places of a matrix. */
template <class F>
static void start(struct orr_device *d, const char *name, int64_t rows, int64_t columns, F f)
{
	const auto kernel = at_each<F>;

	if (!rows || !columns)
		return;
	ORR_LAUNCH(kernel, tiles(columns, rows), tile(), 0, d->cuda->stream, rows, columns, f);
	orr_cuda_ok(d, cudaGetLastError(), name);
}
