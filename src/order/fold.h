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
static inline int orr_fold_init(struct orr_block *block, const struct orr_pipeline *p, bool split,
				struct orr_error *err)
{
	int code = orr_block_init(block, p, split, 1, 6, err);

	for (int s = 0; !code && s < p->n_stages; s++)
		block->worker[s] = s < p->n_workers ? s : p->n_stages - 1 - s;
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

enum orr_fold { ORR_FOLD_V_MIN, ORR_FOLD_V_HALF, ORR_FOLD_V_ZB };
#define ORR_N_FOLDS 3

/* Set the starts of all workers to those of a published block: F down and up the fold, B down and
 * up again, each part of it one cell after the one before, or later where passes would meet. */
static inline void orr_fold_publish(struct orr_block *block, enum orr_fold which)
{
	static const struct {
		int64_t d0, d1;
		int every, k; /* B waits k cells where P is a multiple of `every` */
		int late;     /* and B of the first half as many more */
	} folds[ORR_N_FOLDS] = {{1, 1, 3, 2, 0}, {2, 1, 2, 3, 1}, {4, 2, 1, 0, 0}};
	int P = block->pipeline->n_workers, k = P % folds[which].every ? 0 : folds[which].k;
	int64_t d0 = folds[which].d0, d1 = folds[which].d1, turn = (P - 1) * (d0 + d1) + 1;

	for (int i = 0; i < P; i++)
		orr_fold_set(block, i,
			     (const int64_t[]){d0 * i, turn - d1 * i, turn + 1 + k + d0 * i,
					       2 * turn + 1 + k + folds[which].late - d1 * i});
}
