#include "lay_out.h"

#include "reorder.h"
#include "timed.h"

int orr_block_time(struct orr_timed **out, const struct orr_block *block, struct orr_error *err)
{
	return orr_timed_create(out, block->pipeline, block->worker, block->n_microbatches,
				block->n_passes, false, err);
}

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

int orr_block_reorder(struct orr_timed *t, const struct orr_block *block, struct orr_error *err)
{
	return orr_reorder(t, block->n_microbatches * block->n_stages * block->n_passes, err);
}

int orr_block_lay_out_within(struct orr_block *block, int64_t stashes, int64_t *n,
			     int64_t *makespan_ns, struct orr_error *err)
{
	struct orr_timed *t = NULL;
	int code;

	if ((code = orr_block_fill(block, err)) || (code = orr_block_time(&t, block, err)) ||
	    (code = orr_block_repeat(t, block, err)))
		goto out;
	for (int w = 0; w < block->pipeline->n_workers; w++)
		if (t->most[w].stashes < stashes)
			t->most[w] = (struct orr_load){stashes, INT64_MAX};
	if ((code = orr_block_reorder(t, block, err)))
		goto out;
	if ((code = orr_timed_number(t, n, err)))
		goto out;
	if (makespan_ns)
		*makespan_ns = t->makespan_ns;
out:
	orr_timed_destroy(t);
	return code;
}

int orr_block_lay_out(struct orr_block *block, int64_t *n, struct orr_error *err)
{
	return orr_block_lay_out_within(block, 0, n, NULL, err);
}
