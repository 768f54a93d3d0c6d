#pragma once
/* The V fold: two stages a worker, down and up again; stages i and 2P-1-i are on worker i of P
 * [Qi24]. And its published blocks: four starts a worker, F of its first stage, F and B of its
 * second, B of its first, every 6 cells. d0 lies between neighbours in the forward passes of the
 * first half and the backward passes of the second, d1 in the others; k avoids collisions [Qi24,
 * table 1 and appendix F]. */
#include <stdbool.h>
#include <stdint.h>
#include "block.h"

/* A block of 2P stages, placed; every start is free. */
static inline int orr_fold_create(struct orr_block **out, const struct orr_pipeline *p, bool split,
				  struct orr_error *err)
{
	int code = orr_block_create(out, p, split, 1, 6, err);

	for (int s = 0; !code && s < p->n_stages; s++)
		(*out)->worker[s] = s < p->n_workers ? s : p->n_stages - 1 - s;
	return code;
}

/* Set the starts of worker i; its Ws become free. */
static inline void orr_fold_set(struct orr_block *block, int i, const int64_t *cell)
{
	int first = orr_block_at(block, i, 0, ORR_PASS_F);
	int second = orr_block_at(block, block->n_stages - 1 - i, 0, ORR_PASS_F);

	block->start[first] = cell[0];
	block->start[second] = cell[1];
	block->start[second + ORR_PASS_B] = cell[2];
	block->start[first + ORR_PASS_B] = cell[3];
	if (block->n_passes == 3)
		block->start[first + ORR_PASS_W] = block->start[second + ORR_PASS_W] =
			ORR_BLOCK_FREE;
}

/* d0 = d1 = 1 */
static inline void orr_fold_v_min(int64_t P, int64_t i, int64_t *cell)
{
	int64_t k = P % 3 ? 0 : 2;

	cell[0] = i;
	cell[1] = 2 * P - 1 - i;
	cell[2] = 2 * P + k + i;
	cell[3] = 4 * P + k - 1 - i;
}

/* d0 = 2, d1 = 1 */
static inline void orr_fold_v_half(int64_t P, int64_t i, int64_t *cell)
{
	int64_t k = P % 2 ? 0 : 3;

	cell[0] = 2 * i;
	cell[1] = 3 * P - 2 - i;
	cell[2] = 3 * P + k + 2 * i - 1;
	cell[3] = 6 * P + k - 2 - i;
}

/* d0 = 4, d1 = 2 */
static inline void orr_fold_v_zb(int64_t P, int64_t i, int64_t *cell)
{
	cell[0] = 4 * i;
	cell[1] = 6 * P - 5 - 2 * i;
	cell[2] = 6 * P - 4 + 4 * i;
	cell[3] = 12 * P - 9 - 2 * i;
}
