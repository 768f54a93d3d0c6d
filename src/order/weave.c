/* From a block to the order of every worker: repeat it, then squeeze out the gaps. */
#include "weave.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

static int allocate(struct orr_weave *weave, struct orr_error *err)
{
	const struct orr_pipeline *p = weave->jobs.pipeline;
	size_t n = (size_t)weave->jobs.n_jobs;
	size_t n_edges = (size_t)p->n_microbatches * (size_t)(2 * p->n_edges + 2 * p->n_stages);

	weave->jobs.compute = calloc(n, sizeof(*weave->jobs.compute));
	weave->jobs.by_worker = calloc(n, sizeof(*weave->jobs.by_worker));
	weave->jobs.first = calloc((size_t)p->n_workers + 1, sizeof(*weave->jobs.first));
	weave->duration = calloc(n, sizeof(*weave->duration));
	weave->start = calloc(n, sizeof(*weave->start));
	weave->peak = calloc((size_t)p->n_workers, sizeof(*weave->peak));
	weave->before = calloc(n_edges, sizeof(*weave->before));
	weave->after = calloc(n_edges, sizeof(*weave->after));
	weave->first_before = calloc(n + 1, sizeof(*weave->first_before));
	weave->first_after = calloc(n + 1, sizeof(*weave->first_after));
	weave->waits = calloc(n, sizeof(*weave->waits));
	weave->queue = calloc(n, sizeof(*weave->queue));
	weave->next = calloc(n, sizeof(*weave->next));
	weave->keyed = calloc(n, sizeof(*weave->keyed));
	if (!weave->jobs.compute || !weave->jobs.by_worker || !weave->jobs.first ||
	    !weave->duration || !weave->start || !weave->peak || !weave->before || !weave->after ||
	    !weave->first_before || !weave->first_after || !weave->waits || !weave->queue ||
	    !weave->next || !weave->keyed)
		return orr_fail(err, ORR_E_NOMEM,
				"block: no memory for %d jobs; take fewer microbatches (-m)",
				weave->jobs.n_jobs);
	return 0;
}

int orr_weave_create(struct orr_weave **out, const struct orr_block *block, struct orr_error *err)
{
	struct orr_weave *weave = calloc(1, sizeof(*weave));
	const struct orr_pipeline *p = block->pipeline;
	struct orr_jobs *jobs;
	int *around = calloc((size_t)p->n_stages + 2, sizeof(*around)), code;

	if (!weave || !around) {
		code = orr_fail(err, ORR_E_NOMEM, "block: no memory");
		goto out;
	}
	jobs = &weave->jobs;
	weave->n_kinds = block->n_microbatches * p->n_stages * block->n_passes;
	jobs->pipeline = p;
	jobs->n_passes = block->n_passes;
	jobs->n_jobs = p->n_stages * p->n_microbatches * block->n_passes;
	if ((code = allocate(weave, err)))
		goto out;
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int n_before = orr_jobs_predecessors(jobs, j, around), n_after;

		jobs->compute[j] =
			block->worker[job.b % block->n_microbatches * p->n_stages + job.s];
		jobs->first[jobs->compute[j] + 1]++;
		weave->duration[j] =
			orr_pipeline_duration_ns(p, job.s, job.d, block->n_passes == 3);
		memcpy(weave->before + weave->first_before[j], around,
		       (size_t)n_before * sizeof(*around));
		weave->first_before[j + 1] = weave->first_before[j] + n_before;
		n_after = orr_jobs_successors(jobs, j, weave->after + weave->first_after[j]);
		weave->first_after[j + 1] = weave->first_after[j] + n_after;
	}
	for (int w = 0; w < p->n_workers; w++)
		jobs->first[w + 1] += jobs->first[w];
	*out = weave;
	weave = NULL;
out:
	free(around);
	orr_weave_destroy(weave);
	return code;
}

void orr_weave_destroy(struct orr_weave *weave)
{
	if (!weave)
		return;
	free(weave->jobs.compute);
	free(weave->jobs.by_worker);
	free(weave->jobs.first);
	free(weave->duration);
	free(weave->start);
	free(weave->peak);
	free(weave->before);
	free(weave->after);
	free(weave->first_before);
	free(weave->first_after);
	free(weave->waits);
	free(weave->queue);
	free(weave->next);
	free(weave->keyed);
	free(weave);
}

struct orr_held orr_weave_peak(const struct orr_weave *weave, int w)
{
	struct orr_held held = {0, 0}, peak = {0, 0};

	for (int i = weave->jobs.first[w]; i < weave->jobs.first[w + 1]; i++) {
		int j = weave->jobs.by_worker[i];

		orr_held_add(&held, &peak, orr_weave_held(weave, j, true),
			     orr_weave_held(weave, j, false));
	}
	return peak;
}

/* Deal the jobs out to their workers in the order of weave->keyed. */
static void deal(struct orr_weave *weave)
{
	struct orr_jobs *jobs = &weave->jobs;

	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = weave->keyed[i].value;

		jobs->by_worker[jobs->first[jobs->compute[j]]++] = j;
	}
	for (int w = jobs->pipeline->n_workers; w > 0; w--)
		jobs->first[w] = jobs->first[w - 1];
	jobs->first[0] = 0;
}

int orr_weave_repeat(struct orr_weave *weave, const struct orr_block *block, struct orr_error *err)
{
	int code;

	for (int j = 0; j < weave->jobs.n_jobs; j++) {
		struct orr_job job = orr_jobs_at(&weave->jobs, j);
		int round = job.b / block->n_microbatches, b = job.b % block->n_microbatches;

		weave->keyed[j] =
			(struct orr_keyed){block->start[orr_block_at(block, job.s, b, job.d)] +
						   round * block->interval,
					   j};
	}
	if ((code = orr_sort(weave->keyed, weave->jobs.n_jobs, err)))
		return code;
	deal(weave);
	for (int w = 0; w < weave->jobs.pipeline->n_workers; w++)
		weave->peak[w] = orr_weave_peak(weave, w);
	return 0;
}

void orr_weave_squeeze(struct orr_weave *weave)
{
	const struct orr_jobs *jobs = &weave->jobs;
	int n_ready = 0, *next = weave->next;

	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
			int j = jobs->by_worker[i];

			weave->start[j] = 0;
			weave->waits[j] = weave->first_before[j + 1] - weave->first_before[j] +
					  (i > jobs->first[w]);
			next[j] = i + 1 < jobs->first[w + 1] ? jobs->by_worker[i + 1] : -1;
			if (!weave->waits[j])
				weave->queue[n_ready++] = j;
		}
	for (int i = 0; i < n_ready; i++) {
		int j = weave->queue[i], first = weave->first_after[j],
		    n = weave->first_after[j + 1] - first;
		int64_t end = weave->start[j] + weave->duration[j];

		for (int k = 0; k < n + (next[j] >= 0); k++) {
			int follower = k < n ? weave->after[first + k] : next[j];

			if (weave->start[follower] < end)
				weave->start[follower] = end;
			if (--weave->waits[follower] == 0)
				weave->queue[n_ready++] = follower;
		}
	}
	orr_weave_measure(weave);
}

void orr_weave_measure(struct orr_weave *weave)
{
	const struct orr_jobs *jobs = &weave->jobs;

	weave->makespan = weave->span = 0;
	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		int first, last;
		int64_t end;

		if (jobs->first[w] == jobs->first[w + 1])
			continue;
		first = jobs->by_worker[jobs->first[w]];
		last = jobs->by_worker[jobs->first[w + 1] - 1];
		end = weave->start[last] + weave->duration[last];
		if (weave->makespan < end)
			weave->makespan = end;
		if (weave->span < end - weave->start[first])
			weave->span = end - weave->start[first];
	}
}

static void swap(int **x, int **y)
{
	int *kept = *x;

	*x = *y;
	*y = kept;
}

void orr_weave_turn(struct orr_weave *weave)
{
	struct orr_jobs *jobs = &weave->jobs;

	weave->backwards = !weave->backwards;
	swap(&weave->before, &weave->after);
	swap(&weave->first_before, &weave->first_after);
	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		for (int i = jobs->first[w], k = jobs->first[w + 1] - 1; i < k; i++, k--) {
			int kept = jobs->by_worker[i];

			jobs->by_worker[i] = jobs->by_worker[k];
			jobs->by_worker[k] = kept;
		}
}

void orr_weave_number(const struct orr_weave *weave, int64_t *n)
{
	const struct orr_jobs *jobs = &weave->jobs;

	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++)
			n[jobs->by_worker[i]] = i - jobs->first[w];
}
