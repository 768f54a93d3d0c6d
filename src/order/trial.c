#include "trial.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/machine.h"
#include "base/sort.h"

static int allocate(struct orr_trial *t, struct orr_error *err)
{
	const struct orr_pipeline *p = t->jobs.pipeline;
	size_t n = (size_t)t->jobs.n_jobs, n_stages = (size_t)p->n_stages;
	size_t n_edges = (size_t)p->n_microbatches * (size_t)(2 * p->n_edges + 2 * p->n_stages);

	t->jobs.compute = calloc(n, sizeof(*t->jobs.compute));
	t->jobs.by_worker = calloc(n, sizeof(*t->jobs.by_worker));
	t->jobs.rank = calloc(n, sizeof(*t->jobs.rank));
	t->jobs.first = calloc((size_t)p->n_workers + 1, sizeof(*t->jobs.first));
	t->duration = calloc(n, sizeof(*t->duration));
	t->up = calloc(n, sizeof(*t->up));
	t->down = calloc(n, sizeof(*t->down));
	t->before = calloc(n_edges, sizeof(*t->before));
	t->after = calloc(n_edges, sizeof(*t->after));
	t->delay = calloc(n_edges, sizeof(*t->delay));
	t->first_before = calloc(n + 1, sizeof(*t->first_before));
	t->first_after = calloc(n + 1, sizeof(*t->first_after));
	t->start = calloc(n, sizeof(*t->start));
	t->waits = calloc(n, sizeof(*t->waits));
	t->queue = calloc(n, sizeof(*t->queue));
	t->left = calloc(n_stages, sizeof(*t->left));
	t->n_of = calloc((size_t)p->n_workers, sizeof(*t->n_of));
	if (!t->jobs.compute || !t->jobs.by_worker || !t->jobs.rank || !t->jobs.first ||
	    !t->duration || !t->up || !t->down || !t->before || !t->after || !t->delay ||
	    !t->first_before || !t->first_after || !t->start || !t->waits || !t->queue ||
	    !t->left || !t->n_of)
		return orr_fail(err, ORR_E_NOMEM,
				"search: no memory for %d jobs; take fewer microbatches (-m)",
				t->jobs.n_jobs);
	return 0;
}

/* What j does to its worker's load. A stash that is recomputed is the input until B starts. */
static void weigh(struct orr_trial *t, int j)
{
	struct orr_job job = orr_jobs_at(&t->jobs, j);
	const struct orr_stage *stage = &t->jobs.pipeline->stages[job.s];
	int64_t early = stage->stash_bytes, all = early;

	if (stage->recompute) {
		early = stage->input_bytes;
		all = early > all ? early : all;
	}
	if (job.d == ORR_PASS_F)
		t->up[j] = (struct orr_load){1, early};
	if (job.d == ORR_PASS_B)
		t->up[j] = (struct orr_load){0, all - early};
	if (job.d == ORR_PASS_W)
		t->down[j] = (struct orr_load){1, all};
}

int orr_trial_create(struct orr_trial **out, const struct orr_pipeline *p, const int *worker,
		     struct orr_load limit, struct orr_error *err)
{
	struct orr_trial *t = calloc(1, sizeof(*t));
	struct orr_jobs *jobs;
	int *around = calloc((size_t)p->n_stages + 2, sizeof(*around)), code;

	if (!t || !around) {
		code = orr_fail(err, ORR_E_NOMEM, "search: no memory");
		goto out;
	}
	jobs = &t->jobs;
	jobs->pipeline = p;
	jobs->n_passes = ORR_N_PASSES;
	jobs->n_jobs = p->n_stages * p->n_microbatches * ORR_N_PASSES;
	t->limit = limit;
	if ((code = allocate(t, err)))
		goto out;
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int n = orr_jobs_predecessors(jobs, j, around);

		jobs->compute[j] = worker[job.s];
		jobs->first[worker[job.s] + 1]++;
		t->duration[j] = orr_pipeline_duration_ns(p, job.s, job.d, true);
		weigh(t, j);
		memcpy(t->before + t->first_before[j], around, (size_t)n * sizeof(*around));
		t->first_before[j + 1] = t->first_before[j] + n;
		n = orr_jobs_successors(jobs, j, t->after + t->first_after[j]);
		t->first_after[j + 1] = t->first_after[j] + n;
	}
	for (int j = 0; j < jobs->n_jobs; j++)
		for (int k = t->first_after[j]; k < t->first_after[j + 1]; k++)
			t->delay[k] = orr_trial_delay(t, j, t->after[k]);
	for (int w = 0; w < p->n_workers; w++)
		jobs->first[w + 1] += jobs->first[w];
	*out = t;
	t = NULL;
out:
	free(around);
	orr_trial_destroy(t);
	return code;
}

void orr_trial_destroy(struct orr_trial *t)
{
	if (!t)
		return;
	free(t->jobs.compute);
	free(t->jobs.by_worker);
	free(t->jobs.rank);
	free(t->jobs.first);
	free(t->duration);
	free(t->up);
	free(t->down);
	free(t->before);
	free(t->after);
	free(t->delay);
	free(t->first_before);
	free(t->first_after);
	free(t->start);
	free(t->waits);
	free(t->queue);
	free(t->left);
	free(t->n_of);
	free(t);
}

int orr_trial_order(struct orr_trial *t, const int64_t *n, struct orr_error *err)
{
	struct orr_jobs *jobs = &t->jobs;
	struct orr_keyed *keyed = malloc((size_t)jobs->n_jobs * sizeof(*keyed));
	int code;

	if (!keyed)
		return orr_fail(err, ORR_E_NOMEM, "search: no memory to order %d jobs",
				jobs->n_jobs);
	for (int j = 0; j < jobs->n_jobs; j++)
		keyed[j] = (struct orr_keyed){n[j], j};
	if (!(code = orr_sort(keyed, jobs->n_jobs, err))) {
		memset(t->n_of, 0, (size_t)jobs->pipeline->n_workers * sizeof(*t->n_of));
		for (int i = 0; i < jobs->n_jobs; i++) {
			int j = keyed[i].value, w = jobs->compute[j];

			jobs->rank[j] = t->n_of[w]++;
			jobs->by_worker[jobs->first[w] + jobs->rank[j]] = j;
		}
	}
	free(keyed);
	return code;
}

int64_t orr_trial_delay(const struct orr_trial *t, int j, int k)
{
	const struct orr_pipeline *p = t->jobs.pipeline;
	const struct orr_machine machine = {.latency_ns = p->latency_ns,
					    .bandwidth_bytes_per_s = p->bandwidth_bytes_per_s};
	struct orr_job from = orr_jobs_at(&t->jobs, j), to = orr_jobs_at(&t->jobs, k);
	int low = from.s < to.s ? from.s : to.s, high = from.s < to.s ? to.s : from.s;

	if (t->jobs.compute[j] == t->jobs.compute[k])
		return 0;
	return orr_machine_transfer_ns(&machine, t->jobs.compute[j], t->jobs.compute[k],
				       orr_pipeline_edge_bytes(p, low, high));
}

/* Place a job whose start is known: the update of its stage runs right after the last weight
 * gradient. */
static int64_t end_on_worker(struct orr_trial *t, int j, int64_t end)
{
	struct orr_job job = orr_jobs_at(&t->jobs, j);

	if (job.d == ORR_PASS_W && --t->left[job.s] == 0)
		end += t->jobs.pipeline->stages[job.s].update_ns;
	return end;
}

static int begin(struct orr_trial *t)
{
	const struct orr_jobs *jobs = &t->jobs;
	int n_ready = 0;

	for (int s = 0; s < jobs->pipeline->n_stages; s++)
		t->left[s] = jobs->pipeline->n_microbatches;
	for (int j = 0; j < jobs->n_jobs; j++) {
		t->start[j] = 0;
		t->waits[j] = t->first_before[j + 1] - t->first_before[j] + (jobs->rank[j] > 0);
		if (!t->waits[j])
			t->queue[n_ready++] = j;
	}
	return n_ready;
}

static int arrive(struct orr_trial *t, int j, int64_t time, int n_ready)
{
	if (t->start[j] < time)
		t->start[j] = time;
	if (--t->waits[j] == 0)
		t->queue[n_ready++] = j;
	return n_ready;
}

bool orr_trial_time(struct orr_trial *t)
{
	const struct orr_jobs *jobs = &t->jobs;
	int n_ready = begin(t);

	t->makespan_ns = t->ends_ns = 0;
	t->n_timed += jobs->n_jobs;
	for (int i = 0; i < n_ready; i++) {
		int j = t->queue[i], w = jobs->compute[j],
		    place = jobs->first[w] + jobs->rank[j] + 1;
		int64_t end = t->start[j] + t->duration[j];

		for (int k = t->first_after[j]; k < t->first_after[j + 1]; k++)
			n_ready = arrive(t, t->after[k], end + t->delay[k], n_ready);
		end = end_on_worker(t, j, end);
		if (place < jobs->first[w + 1]) {
			n_ready = arrive(t, jobs->by_worker[place], end, n_ready);
			continue;
		}
		t->ends_ns += end;
		if (t->makespan_ns < end)
			t->makespan_ns = end;
	}
	return n_ready == jobs->n_jobs;
}

int orr_trial_excess(const struct orr_trial *t, int w)
{
	const struct orr_jobs *jobs = &t->jobs;
	int64_t room = t->room_bytes ? t->room_bytes[w] : t->limit.bytes;
	struct orr_load load = {0, 0};
	int excess = 0;

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int j = jobs->by_worker[i];

		load.stashes += t->up[j].stashes;
		load.bytes += t->up[j].bytes;
		excess += load.stashes > t->limit.stashes || load.bytes > room;
		load.stashes -= t->down[j].stashes;
		load.bytes -= t->down[j].bytes;
	}
	return excess;
}
