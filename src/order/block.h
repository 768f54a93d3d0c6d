#ifndef ORR_BLOCK_H
#define ORR_BLOCK_H
/* A building block: the passes of one microbatch (or of a few) laid out in cells of time, to be
 * started again every T cells [Qi24]. It is modulo scheduling: T is the initiation interval,
 * workers are the resources, the cells taken modulo T are the reservation table, and the lifespan
 * of a stash is the lifetime of a register. A block decides an order for every worker; how long
 * jobs last is the pipeline's business, so cells need not be seconds. Any stage DAG, any placement.
 */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/error.h"
#include "orrery/pipeline.h"

/* A start that is not given: W goes to the first cell that is free after its B. */
#define ORR_BLOCK_FREE INT64_MIN

struct orr_block {
	const struct orr_pipeline *pipeline; /* borrowed; its workers count */
	int n_stages;
	int n_passes;       /* 3, or 2 where B is the whole backward */
	int n_microbatches; /* in one block: more than 1 where only several together repeat without
			       collision */
	int64_t interval; /* T, in cells: from the start of one microbatch to the start of the next
			   */
	int *worker;      /* [n_microbatches * n_stages] */
	int64_t *start;   /* [n_microbatches * n_stages * n_passes], in cells; any origin */
	int64_t *length;  /* [n_stages * n_passes], in cells, at least 1 */
};

/* A block without starts, all W free, every stage on worker 0. A cell is a pass: B takes 2 where it
 * is the whole backward. */
int orr_block_create(struct orr_block **out, const struct orr_pipeline *p, bool split,
		     int n_microbatches, int64_t interval, struct orr_error *err);
void orr_block_destroy(struct orr_block *block); /* NULL is fine */

static inline int orr_block_at(const struct orr_block *block, int s, int b, enum orr_pass d)
{
	return (b * block->n_stages + s) * block->n_passes + (int)d;
}

/* Give every free W a cell, first come first served, and refuse a block in which a pass starts
 * before one that it waits for has ended, or in which two passes of a worker fall together modulo
 * T. */
int orr_block_fill(struct orr_block *block, struct orr_error *err);
#endif
