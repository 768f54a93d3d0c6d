#ifndef ORR_LAY_OUT_H
#define ORR_LAY_OUT_H
/* From a building block to the order of every worker's jobs. */
#include <stdint.h>
#include "block.h"

struct orr_timed;

/* The jobs of block's pipeline on block's workers, for every block of that placement. */
int orr_block_time(struct orr_timed **out, const struct orr_block *block, struct orr_error *err);
/* Repeat a filled block over all microbatches: the order of every worker, timed; none may hold more
 * than it does in that. */
int orr_block_repeat(struct orr_timed *t, const struct orr_block *block, struct orr_error *err);
/* Reorder the repeated block. */
int orr_block_reorder(struct orr_timed *t, const struct orr_block *block, struct orr_error *err);

/* Fill, repeat, squeeze and reorder: n of every job, as a schedule's place() writes it. On no
 * worker does the peak stash, in stages or in bytes, exceed that of the repeated block. */
int orr_block_lay_out(struct orr_block *block, int64_t *n, struct orr_error *err);

/* The same where each worker may hold up to `stashes` stage stashes, if that is more than the block
 * does. *makespan_ns, if not NULL, is the time on free links. */
int orr_block_lay_out_within(struct orr_block *block, int64_t stashes, int64_t *n,
			     int64_t *makespan_ns, struct orr_error *err);
#endif
