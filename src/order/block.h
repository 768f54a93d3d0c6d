#pragma once
/* A building block: the passes of one microbatch (or of a few) laid out in cells of time, to be
 * started again every T cells [Qi24]. It is modulo scheduling: T is the initiation interval,
 * workers are the resources, the cells taken modulo T are the reservation table, and the lifespan
 * of a stash is the lifetime of a register. A block decides an order for every worker; how long
 * jobs last is the pipeline's business: cells need not be seconds. Any stage DAG, any placement. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

struct orr_timed;

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
	struct orr_arrays all; /* these; free them */
};

/* A block without starts, all W free, every stage on worker 0. A cell is a pass: B takes 2 where it
 * is the whole backward. */
int orr_block_init(struct orr_block *block, const struct orr_pipeline *p, bool split,
		   int n_microbatches, int64_t interval, struct orr_error *err);

static inline int orr_block_at(const struct orr_block *block, int s, int b, enum orr_pass d)
{
	return (b * block->n_stages + s) * block->n_passes + (int)d;
}

/* Give every free W a cell, first come first served, and refuse a block in which two passes of a
 * worker fall together modulo T. Passes start after those that they wait for, and workers are the
 * pipeline's: the maker of the block sees to that. */
int orr_block_fill(struct orr_block *block, struct orr_error *err);

/* Repeat a filled block over all microbatches, in t of its pipeline and workers: the order of every
 * worker, timed; none may hold more than it does in that. */
int orr_block_repeat(struct orr_timed *t, const struct orr_block *block, struct orr_error *err);

/* Fill, repeat, squeeze and reorder: n of every job, as a schedule's place() writes it. On no
 * worker does the peak stash, in stages or in bytes, exceed that of the repeated block, or, if that
 * is more, `stashes` stage stashes. *makespan_ns, if not NULL, is the time on free links. */
int orr_block_lay_out(struct orr_block *block, int64_t stashes, int64_t *n, int64_t *makespan_ns,
		      struct orr_error *err);
