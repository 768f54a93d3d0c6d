#include "gather.h"

#include <stdlib.h>
#include <string.h>
#include "orrery/ranks.h"
#include "runtime/tasks/stall.h"

/* A rank's report of a step: its jobs in the order of its workers, its updates, and the metrics of
 * its forward passes. The ranks agree on the order, so nothing else is in it. */

static size_t times(const struct orr_data *data, int rank)
{
	const struct orr_work *work = data->work;
	size_t n = 0;

	for (int w = 0; w < work->pipeline->n_workers; w++)
		if (work->rank_of[w] == rank)
			n += 2 * (size_t)(work->jobs->first[w + 1] - work->jobs->first[w]);
	for (int i = 0; i < data->n_owned; i++)
		if (data->owned[i].update >= 0 && work->rank_of[data->owned[i].w] == rank)
			n += 2 * (size_t)orr_jobs_n_updates(work->jobs, data->owned[i].s);
	return n;
}

/* The rank that computes it. */
static int rank_of_loss(const struct orr_work *work, int l, int b)
{
	int s = work->pipeline->stage_of[work->losses[l]];

	return work->rank_of[work->jobs->compute[orr_jobs_index(work->jobs, s, b, ORR_PASS_F)]];
}

static size_t metrics(const struct orr_work *work, int rank)
{
	size_t n = 0;

	for (int b = 0; b < work->pipeline->n_microbatches; b++)
		for (int l = 0; l < work->n_losses; l++)
			n += rank_of_loss(work, l, b) == rank;
	return n;
}

static size_t report_bytes(const struct orr_data *data, int rank)
{
	return times(data, rank) * sizeof(int64_t) +
	       metrics(data->work, rank) * sizeof(struct orr_metrics);
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

int orr_gather_init(struct orr_gather *gather, struct orr_slots *slots, struct orr_error *err)
{
	const struct orr_work *work = slots->data->work;
	size_t most = 0;
	int code;

	*gather = (struct orr_gather){.slots = slots};
	if ((code = orr_slots_timeline(&gather->timeline, slots->data, err)) || work->n_ranks == 1)
		return code;
	gather->report_bytes = calloc((size_t)work->n_ranks, sizeof(*gather->report_bytes));
	if (!gather->report_bytes)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d ranks", work->n_ranks);
	for (int k = 0; k < work->n_ranks; k++) {
		if (work->rank && k != work->rank)
			continue;
		gather->report_bytes[k] = report_bytes(slots->data, k);
		most = gather->report_bytes[k] > most ? gather->report_bytes[k] : most;
	}
	if (!(gather->report = malloc(most)))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for a report of %zu bytes", most);
	if ((code = orr_ranks_clock(&gather->clock_ns, err)))
		return code;
	gather->clock_ns += starpu_clock();
	return 0;
}

void orr_gather_fini(struct orr_gather *gather)
{
	orr_timeline_destroy(gather->timeline);
	free(gather->report_bytes);
	free(gather->report);
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
static void exchange(struct orr_gather *gather, struct orr_slot *slot, int rank, bool out)
{
	const struct orr_work *work = gather->slots->data->work;
	const struct orr_jobs *jobs = work->jobs;
	struct orr_timeline *t = slot->timeline;
	int64_t *at = gather->report;
	char *rest;

	for (int w = 0; w < work->pipeline->n_workers; w++)
		for (int i = jobs->first[w]; i < jobs->first[w + 1] && work->rank_of[w] == rank;
		     i++) {
			copy_time(&at, &t->start_ns[jobs->by_worker[i]], out, gather->clock_ns);
			copy_time(&at, &t->end_ns[jobs->by_worker[i]], out, gather->clock_ns);
		}
	for (int u = 0; u < t->n_updates; u++) {
		if (work->rank_of[t->updates[u].w] != rank)
			continue;
		copy_time(&at, &t->updates[u].start_ns, out, gather->clock_ns);
		copy_time(&at, &t->updates[u].end_ns, out, gather->clock_ns);
	}
	rest = (char *)at;
	for (int b = 0; b < work->pipeline->n_microbatches; b++)
		for (int l = 0; l < work->n_losses; l++) {
			struct orr_metrics *m = &slot->metrics[orr_work_loss_at(work, l, b)];

			if (rank_of_loss(work, l, b) != rank)
				continue;
			memcpy(out ? (void *)rest : (void *)m, out ? (void *)m : (void *)rest,
			       sizeof(*m));
			rest += sizeof(*m);
		}
}

/* Rank 0's own times, to the clock that all share. */
static void shift_own(const struct orr_gather *gather, struct orr_timeline *t)
{
	const struct orr_work *work = gather->slots->data->work;

	for (int j = 0; j < t->jobs->n_jobs; j++)
		if (orr_jobs_has(t->jobs, j) && orr_work_computes(work, j)) {
			t->start_ns[j] += gather->clock_ns;
			t->end_ns[j] += gather->clock_ns;
		}
	for (int u = 0; u < t->n_updates; u++)
		if (orr_work_has(work, t->updates[u].w)) {
			t->updates[u].start_ns += gather->clock_ns;
			t->updates[u].end_ns += gather->clock_ns;
		}
}

/* Rank 0 gets the others' times and metrics; the slot's step has ended here. */
static int gather_step(struct orr_gather *gather, struct orr_slot *slot, struct orr_error *err)
{
	const struct orr_work *work = gather->slots->data->work;
	int code = 0;

	if (work->n_ranks == 1)
		return 0;
	if (work->rank) {
		exchange(gather, slot, work->rank, true);
		return orr_ranks_send(0, ORR_RANKS_GATHER, gather->report,
				      gather->report_bytes[work->rank], err);
	}
	shift_own(gather, slot->timeline);
	for (int k = 1; k < work->n_ranks && !code; k++)
		if (!(code = orr_ranks_receive(k, ORR_RANKS_GATHER, gather->report,
					       gather->report_bytes[k], err)))
			exchange(gather, slot, k, false);
	slot->flight.end_ns = orr_now_ns();
	return code;
}

/* Times from the first start of the step on. */
static void settle_timeline(struct orr_timeline *t)
{
	int64_t first = INT64_MAX;

	for (int j = 0; j < t->jobs->n_jobs; j++)
		if (orr_jobs_has(t->jobs, j) && t->start_ns[j] < first)
			first = t->start_ns[j];
	for (int j = 0; j < t->jobs->n_jobs; j++) {
		if (!orr_jobs_has(t->jobs, j))
			continue;
		t->start_ns[j] -= first;
		t->end_ns[j] -= first;
	}
	for (int u = 0; u < t->n_updates; u++) {
		t->updates[u].start_ns -= first;
		t->updates[u].end_ns -= first;
	}
}

int orr_gather_end(struct orr_gather *gather, struct orr_slot *slot, bool whole,
		   struct orr_error *err)
{
	struct orr_timeline *timeline = slot->timeline;
	int code = orr_stall_wait(gather->slots, slot, 0, err);

	if (code || (code = gather_step(gather, slot, err)))
		return code;
	gather->slots->n_finished++;
	if (!whole || slot->skipped)
		return 0;
	if (!gather->slots->data->work->rank)
		settle_timeline(timeline);
	slot->timeline = gather->timeline;
	gather->timeline = timeline;
	gather->has_timeline = true;
	return 0;
}
