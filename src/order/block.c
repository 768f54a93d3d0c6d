#include "block.h"

#include "base/max.h"
#include "base/sort.h"
#include "timed.h"

int orr_block_init(struct orr_block *block, const struct orr_pipeline *p, bool split,
		   int n_microbatches, int64_t interval, struct orr_error *err)
{
	int n_passes = split ? 3 : 2, n = p->n_stages * n_microbatches, code;

	*block = (struct orr_block){.pipeline = p,
				    .n_stages = p->n_stages,
				    .n_passes = n_passes,
				    .n_microbatches = n_microbatches,
				    .interval = interval};
	orr_arrays_make(&block->all, block->worker, n);
	orr_arrays_make(&block->all, block->start, (size_t)n * (size_t)n_passes);
	orr_arrays_make(&block->all, block->length, (size_t)p->n_stages * (size_t)n_passes);
	if ((code = orr_arrays_check(&block->all, "block", err)))
		return code;
	for (int i = 0; i < n * n_passes; i++)
		block->start[i] = ORR_BLOCK_FREE;
	for (int i = 0; i < p->n_stages * n_passes; i++)
		block->length[i] = !split && i % n_passes == ORR_PASS_B ? 2 : 1;
	return 0;
}

static int64_t length_of(const struct orr_block *block, int i)
{
	return block->length[i % (block->n_stages * block->n_passes)];
}

/* ---- the reservation table: is a cell modulo T of one worker taken? ---- */

/* From `start` on pass i takes its cells of the table, which are free; else nothing happens. */
static bool reserve(const struct orr_block *block, bool *table, int i, int64_t start)
{
	int64_t length = length_of(block, i), n_free = 0;

	while (n_free < length && !table[modulo(start + n_free, block->interval)])
		n_free++;
	if (n_free < length || length > block->interval)
		return false;
	for (int64_t t = start; t < start + length; t++)
		table[modulo(t, block->interval)] = true;
	return true;
}

/* The cells of passes whose starts are given; then those of the others, which are Ws, in the order
 * in which their Bs end, each from there on the first that are free. */
static int reserve_all(struct orr_block *block, bool *tables, struct orr_keyed *keyed,
		       struct orr_error *err)
{
	int n = block->n_stages * block->n_microbatches * block->n_passes, n_keyed = 0, n_given,
	    code;

	for (int i = 0; i < n; i++)
		if (block->start[i] != ORR_BLOCK_FREE)
			keyed[n_keyed++] = (struct orr_keyed){block->start[i], i};
	n_given = n_keyed;
	for (int i = ORR_PASS_W; block->n_passes == 3 && i < n; i += 3)
		if (block->start[i] == ORR_BLOCK_FREE)
			keyed[n_keyed++] = (struct orr_keyed){
				block->start[i - 1] + length_of(block, i - 1), i};
	if (n_keyed > n_given && (code = orr_sort(keyed + n_given, n_keyed - n_given, err)))
		return code;
	for (int k = 0; k < n_keyed; k++) {
		int i = keyed[k].value, w = block->worker[i / block->n_passes];
		int64_t t = keyed[k].key, last = t + (k < n_given ? 1 : block->interval);

		while (t < last && !reserve(block, tables + w * block->interval, i, t))
			t++;
		if (t == last)
			return orr_fail(err, ORR_E_INPUT,
					"block: passes of worker %d fall together when it is "
					"repeated every %lld cells: repeat later",
					w, (long long)block->interval);
		block->start[i] = t;
	}
	return 0;
}

int orr_block_fill(struct orr_block *block, struct orr_error *err)
{
	struct orr_arrays all = {0};
	struct orr_keyed *keyed;
	bool *tables;
	int code;

	orr_arrays_make(&all, tables, block->pipeline->n_workers * block->interval);
	orr_arrays_make(&all, keyed, block->n_stages * block->n_microbatches * block->n_passes);
	if (!(code = orr_arrays_check(&all, "block", err)))
		code = reserve_all(block, tables, keyed, err);
	orr_arrays_free(&all);
	return code;
}

/* ---- from a block to an order ---- */

int orr_block_repeat(struct orr_timed *t, const struct orr_block *block, struct orr_error *err)
{
	int code;

	for (int j = 0; j < t->jobs.n_jobs; j++) {
		struct orr_job job = orr_jobs_at(&t->jobs, j);
		int round = job.b / block->n_microbatches, b = job.b % block->n_microbatches;

		t->start[j] = block->start[orr_block_at(block, job.s, b, job.d)] +
			      round * block->interval;
	}
	if ((code = orr_timed_order(t, t->start, err)))
		return code;
	for (int w = 0; w < t->jobs.pipeline->n_workers; w++)
		t->most[w] = orr_timed_peak(t, w);
	/* the block was checked: only what waits for a whole minibatch can deadlock */
	if (!orr_timed_time(t))
		return orr_fail(err, ORR_E_INPUT,
				"an order that repeats deadlocks where a stage gathers the "
				"minibatch (gather=): take gpipe or auto");
	return 0;
}

int orr_block_lay_out(struct orr_block *block, int64_t stashes, int64_t *n, int64_t *makespan_ns,
		      struct orr_error *err)
{
	struct orr_timed *t = NULL;
	int code;

	if ((code = orr_block_fill(block, err)) ||
	    (code = orr_timed_create(&t, block->pipeline, block->worker, block->n_microbatches,
				     block->n_passes, false, err)) ||
	    (code = orr_block_repeat(t, block, err)))
		goto out;
	for (int w = 0; w < block->pipeline->n_workers; w++)
		if (t->most[w].stashes < stashes)
			t->most[w] = (struct orr_load){stashes, INT64_MAX};
	if ((code = orr_reorder(t, block->n_microbatches * block->n_stages * block->n_passes,
				err)) ||
	    (code = orr_timed_number(t, n, err)))
		goto out;
	if (makespan_ns)
		*makespan_ns = t->makespan_ns;
out:
	orr_timed_destroy(t);
	return code;
}
