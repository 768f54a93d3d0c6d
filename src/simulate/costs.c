/* What jobs took in a step that was measured while all workers were busy: alone they share neither
 * caches nor memory with others, and take less. */
#include "gaps.h"

#include <stdlib.h>

#include "base/arrays.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "orrery/timeline.h"

static int64_t mean(int64_t sum, int n)
{
	return n ? sum / n : 0;
}

/* Do all the jobs that job i waits for run on worker w, have they ended by then, and does it own
 * the parameters? Others arrive; and updates wait for gradients of others, or for their norm. */
static bool is_ready(const struct orr_timeline *t, int i, int w, int64_t by_ns, int *around)
{
	const struct orr_jobs *jobs = t->jobs;
	int n;

	if (i >= jobs->n_jobs || jobs->weights[i] != w)
		return false;
	n = orr_jobs_predecessors(jobs, i, around);
	for (int k = 0; k < n; k++)
		if (orr_jobs_has(jobs, around[k]) &&
		    (jobs->compute[around[k]] != w || t->end_ns[around[k]] > by_ns))
			return false;
	return true;
}

int orr_timeline_gaps(int64_t *gaps, int *n_gaps, const struct orr_timeline *t,
		      struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	struct orr_arrays all = {0};
	struct orr_keyed *items = orr_arrays_add(
		&all, (size_t)jobs->n_jobs + (size_t)t->n_updates + 1, sizeof(*items));
	int *around = orr_arrays_add(&all, orr_jobs_most_around(jobs), sizeof(*around)),
	    code = orr_arrays_check(&all, "gaps between jobs", err);

	*n_gaps = 0;
	/* without a flush a round's jobs have those of others between them */
	for (int w = 0; w < jobs->pipeline->n_workers && !jobs->async && !code; w++) {
		int n;

		code = orr_timeline_list(items, &n, t, w, err);
		for (int i = 1; i < n && !code; i++) {
			int64_t end_ns = orr_timeline_end(t, items[i - 1].value);

			if (is_ready(t, items[i].value, w, end_ns, around))
				gaps[(*n_gaps)++] = items[i].key - end_ns;
		}
	}
	orr_arrays_free(&all);
	return code;
}

/* The mean of the gaps, which every job has before it. */
static int find_overhead(int64_t *overhead_ns, const struct orr_timeline *t, struct orr_error *err)
{
	int64_t *gaps = calloc((size_t)t->jobs->n_jobs + (size_t)t->n_updates + 1, sizeof(*gaps)),
		sum = 0;
	int n = 0, code = gaps ? orr_timeline_gaps(gaps, &n, t, err)
			       : orr_no_memory(err, "gaps between jobs");

	for (int i = 0; i < n; i++)
		sum += gaps[i];
	free(gaps);
	*overhead_ns = sum > 0 ? mean(sum, n) : 0;
	return code;
}

static void write_stage(const struct orr_timeline *t, struct orr_stage *stage, int s)
{
	int64_t sum[3] = {0}, update = 0;
	int n_updates = 0, m = t->jobs->pipeline->n_microbatches;

	for (int b = 0; b < m; b++)
		for (int d = 0; d < t->jobs->n_passes; d++) {
			int j = orr_jobs_index(t->jobs, s, b, (enum orr_pass)d);

			if (orr_jobs_has(t->jobs, j))
				sum[d] += t->end_ns[j] - t->start_ns[j];
		}
	for (int u = 0; u < t->n_updates; u++)
		if (t->updates[u].s == s) {
			update += t->updates[u].end_ns - t->updates[u].start_ns;
			n_updates++;
		}
	stage->forward_ns = mean(sum[ORR_PASS_F], m);
	stage->backward_ns = mean(sum[ORR_PASS_B], m);
	stage->weight_ns = mean(sum[ORR_PASS_W], m);
	stage->update_ns = mean(update, n_updates);
	/* B has run F again, and the simulator counts that by itself. */
	if (t->jobs->recompute[s] && stage->backward_ns > stage->forward_ns)
		stage->backward_ns -= stage->forward_ns;
	else if (t->jobs->recompute[s])
		stage->backward_ns = 0;
	if (stage->has_input_gradient)
		return;
	stage->weight_ns += stage->backward_ns; /* all of its B is that */
	stage->backward_ns = 0;
}

int orr_timeline_costs(const struct orr_timeline *t, struct orr_pipeline *p, struct orr_error *err)
{
	int64_t overhead_ns;
	int code = find_overhead(&overhead_ns, t, err);

	if (code)
		return code;
	for (int s = 0; s < p->n_stages; s++)
		write_stage(t, &p->stages[s], s);
	orr_pipeline_set_overhead(p, overhead_ns);
	orr_pipeline_free_microbatches(p->microbatches); /* all are as the mean */
	p->microbatches = NULL;
	p->has_weight = true;
	p->units = false;
	return 0;
}
