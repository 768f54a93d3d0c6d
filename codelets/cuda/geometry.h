#pragma once
/* How kernels cut their work: which element belongs to which thread. Plain arithmetic, in 64 bits,
 * that depends on sizes and alignment alone, so that the same sums have the same order each time.
 */
#include <stdint.h>
#include "../elements.h"

#define ORR_BLOCK 256 /* threads of a block that goes element by element */
#ifndef ORR_MOST_BLOCKS
#define ORR_MOST_BLOCKS 4096 /* of a grid, which then takes several turns; fewer in tests */
#endif
#define ORR_TILE_X 32    /* a tile of a matrix: a warp along the row, */
#define ORR_TILE_Y 8     /* and rows */
#define ORR_NARROW 512   /* rows up to here are a warp's, wider ones a block's */
#define ORR_SHARED 49152 /* bytes of shared memory that every device has */

ORR_ELEMENT int64_t orr_ceil(int64_t n, int64_t by)
{
	return (n + by - 1) / by;
}

ORR_ELEMENT unsigned orr_blocks(int64_t items, int64_t per_block)
{
	int64_t blocks = orr_ceil(items, per_block);

	return (unsigned)(blocks < ORR_MOST_BLOCKS ? blocks : ORR_MOST_BLOCKS);
}

/* Sums down the columns: of strips of this number of rows, which a block has, then over strips by
 * groups, then over the groups. */
#define ORR_MOST_STRIPS 256
#define ORR_GROUP 16
ORR_ELEMENT int64_t orr_strip_rows(int64_t n)
{
	int64_t rows = orr_ceil(n, ORR_MOST_STRIPS);

	return rows < 16 ? 16 : rows;
}

ORR_ELEMENT int64_t orr_strips(int64_t n)
{
	return orr_ceil(n, orr_strip_rows(n));
}

/* No number of rows up to n has more: fewer rows can have more strips, 4096 256 and 4097 241. What
 * is given for the largest microbatch has to do for all. */
ORR_ELEMENT int64_t orr_most_strips(int64_t n)
{
	int64_t strips = orr_ceil(n, 16);

	return strips < ORR_MOST_STRIPS ? strips : ORR_MOST_STRIPS;
}
