#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* A rank's report of a step: its jobs in the order of its workers, its updates, and the metrics of
 * its forward passes. The ranks agree on who comes where, so nothing else is in it. */

static size_t times(const struct orr_run *run, int rank)
{
	size_t n = 0;

	for (int w = 0; w < run->pipeline->n_workers; w++)
		if (run->rank_of[w] == rank)
			n += 2 * (size_t)(run->jobs->first[w + 1] - run->jobs->first[w]);
	for (int i = 0; i < run->data.n_owned; i++)
		if (run->data.owned[i].update >= 0 && run->rank_of[run->data.owned[i].w] == rank)
			n += 2 * (size_t)orr_jobs_n_updates(run->jobs, run->data.owned[i].s);
	return n;
}

static size_t metrics(const struct orr_run *run, int rank)
{
	size_t n = 0;

	for (int j = 0; j < run->jobs->n_jobs; j += run->jobs->n_passes)
		n += run->rank_of[run->jobs->compute[j]] == rank &&
		     orr_program_has_loss(run->programs[orr_jobs_at(run->jobs, j).s]);
	return n;
}

static size_t report_bytes(const struct orr_run *run, int rank)
{
	return times(run, rank) * sizeof(int64_t) + metrics(run, rank) * sizeof(struct orr_metrics);
}

/* Where StarPU's clock starts: what to add to it to have CLOCK_MONOTONIC_RAW. It is read between
 * two looks at that one; the closest ones say most. */
static int64_t starpu_clock(void)
{
	int64_t best = INT64_MAX, offset = 0;

	for (int i = 0; i < 64; i++) {
		struct timespec before, after;
		int64_t start, there, length;

		clock_gettime(CLOCK_MONOTONIC_RAW, &before);
		there = (int64_t)(starpu_timing_now() * 1e3);
		clock_gettime(CLOCK_MONOTONIC_RAW, &after);
		start = (int64_t)before.tv_sec * 1000000000 + before.tv_nsec;
		length = (int64_t)after.tv_sec * 1000000000 + after.tv_nsec - start;
		if (length >= best)
			continue;
		best = length;
		offset = start + length / 2 - there;
	}
	return offset;
}

int orr_gather_init(struct orr_run *run, struct orr_error *err)
{
	size_t most = 0;
	int code;

	if (run->n_ranks == 1)
		return 0;
	if (!(run->report_bytes = calloc((size_t)run->n_ranks, sizeof(*run->report_bytes))))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d ranks", run->n_ranks);
	for (int k = 0; k < run->n_ranks; k++) {
		if (run->rank && k != run->rank)
			continue;
		run->report_bytes[k] = report_bytes(run, k);
		most = run->report_bytes[k] > most ? run->report_bytes[k] : most;
	}
	if (!(run->report = malloc(most)))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for a report of %zu bytes", most);
	if ((code = orr_ranks_clock(&run->clock_ns, err)))
		return code;
	run->clock_ns += starpu_clock();
	return 0;
}

/* Copy times between the report and the timeline, one way or the other. */
static void copy_time(int64_t **at, int64_t *time_ns, bool out, int64_t clock_ns)
{
	if (out)
		**at = *time_ns + clock_ns;
	else
		*time_ns = **at;
	(*at)++;
}

/* Fill the report of this rank (out), or take what rank `rank` has written. */
static void exchange(struct orr_run *run, struct orr_slot *slot, int rank, bool out)
{
	const struct orr_jobs *jobs = run->jobs;
	struct orr_timeline *t = slot->timeline;
	int64_t *at = run->report;
	char *rest;

	for (int w = 0; w < run->pipeline->n_workers; w++)
		for (int i = jobs->first[w]; i < jobs->first[w + 1] && run->rank_of[w] == rank;
		     i++) {
			copy_time(&at, &t->start_ns[jobs->by_worker[i]], out, run->clock_ns);
			copy_time(&at, &t->end_ns[jobs->by_worker[i]], out, run->clock_ns);
		}
	for (int u = 0; u < t->n_updates; u++) {
		if (run->rank_of[t->updates[u].w] != rank)
			continue;
		copy_time(&at, &t->updates[u].start_ns, out, run->clock_ns);
		copy_time(&at, &t->updates[u].end_ns, out, run->clock_ns);
	}
	rest = (char *)at;
	for (int j = 0; j < jobs->n_jobs; j += jobs->n_passes) {
		struct orr_job job = orr_jobs_at(jobs, j);
		struct orr_metrics *m =
			&slot->metrics[job.s * run->pipeline->n_microbatches + job.b];

		if (run->rank_of[jobs->compute[j]] != rank ||
		    !orr_program_has_loss(run->programs[job.s]))
			continue;
		memcpy(out ? (void *)rest : (void *)m, out ? (void *)m : (void *)rest, sizeof(*m));
		rest += sizeof(*m);
	}
}

/* Rank 0's own times, to the clock that all share. */
static void shift_own(const struct orr_run *run, struct orr_timeline *t)
{
	for (int j = 0; j < t->jobs->n_jobs; j++)
		if (orr_run_computes(run, j)) {
			t->start_ns[j] += run->clock_ns;
			t->end_ns[j] += run->clock_ns;
		}
	for (int u = 0; u < t->n_updates; u++)
		if (orr_run_has(run, t->updates[u].w)) {
			t->updates[u].start_ns += run->clock_ns;
			t->updates[u].end_ns += run->clock_ns;
		}
}

int orr_gather_step(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	int code = 0;

	if (run->n_ranks == 1)
		return 0;
	if (run->rank) {
		exchange(run, slot, run->rank, true);
		return orr_ranks_send(0, ORR_RANKS_GATHER, run->report,
				      run->report_bytes[run->rank], err);
	}
	shift_own(run, slot->timeline);
	for (int k = 1; k < run->n_ranks && !code; k++)
		if (!(code = orr_ranks_receive(k, ORR_RANKS_GATHER, run->report,
					       run->report_bytes[k], err)))
			exchange(run, slot, k, false);
	slot->end_ns = orr_now_ns();
	return code;
}
