#pragma once
/* (private to the .cu files) Kernels over the places of a matrix, in tiles of 32 columns and 8
 * rows. */
#include "launch.h"

template <class F>
__global__ void __launch_bounds__(ORR_TILE_X *ORR_TILE_Y)
	at_each(int64_t rows, int64_t columns, F f)
{
	int64_t turn_y = (int64_t)gridDim.y * ORR_TILE_Y, turn_x = (int64_t)gridDim.x * ORR_TILE_X;

	for (int64_t r = (int64_t)blockIdx.y * ORR_TILE_Y + threadIdx.y; r < rows; r += turn_y)
		for (int64_t c = (int64_t)blockIdx.x * ORR_TILE_X + threadIdx.x; c < columns;
		     c += turn_x)
			f(r, c);
}

/* f(row, column) for all places of a matrix. */
template <class F>
static void start(struct orr_device *d, const char *name, int64_t rows, int64_t columns, F f)
{
	dim3 grid(orr_blocks(columns, ORR_TILE_X), orr_blocks(rows, ORR_TILE_Y));

	if (rows && columns)
		orr_launch(d, name, at_each<F>, grid, dim3(ORR_TILE_X, ORR_TILE_Y), 0, rows,
			   columns, f);
}
