#include "gather.h"

#include <string.h>
#include "base/clock.h"
#include "orrery/run.h"
#include "runtime/tasks/stall.h"

/* What a rank tells of a step: the times of its jobs and updates, and the metrics of its forward
 * passes, with zeros for those of the others, so that the sum over ranks has all of them as they
 * are: nanoseconds and counts are far below 2^53. */

static bool computes_loss(const struct orr_work *work, int l, int b)
{
	int s = work->pipeline->stage_of[work->losses[l]];

	return orr_work_computes(work, orr_jobs_index(work->jobs, s, b, ORR_PASS_F));
}

/* Where StarPU's clock starts: what to add to it to have CLOCK_MONOTONIC_RAW. It is read between
 * two looks at that one; the closest ones say most. */
static int64_t starpu_clock(void)
{
	int64_t best = INT64_MAX, offset = 0;

	for (int i = 0; i < 64; i++) {
		int64_t start = orr_ns_now(CLOCK_MONOTONIC_RAW);
		int64_t there = (int64_t)(starpu_timing_now() * 1e3);
		int64_t length = orr_ns_now(CLOCK_MONOTONIC_RAW) - start;

		if (length >= best)
			continue;
		best = length;
		offset = start + length / 2 - there;
	}
	return offset;
}

void orr_gather_init(struct orr_gather *gather, struct orr_slots *slots)
{
	const struct orr_work *work = slots->data->work;
	struct orr_fault *fault = work->fault;

	*gather = (struct orr_gather){.slots = slots};
	if (fault->code ||
	    (fault->code = orr_slots_timeline(&gather->timeline, slots->data, &fault->err)) ||
	    work->n_ranks == 1)
		return;
	gather->n_numbers = 2 * (work->jobs->n_jobs + slots->data->n_updates) +
			    3 * orr_work_loss_at(work, 0, work->pipeline->n_microbatches);
	orr_arrays_make(work->arrays, gather->numbers, gather->n_numbers);
	if (orr_work_fails(work) || (fault->code = orr_ranks_clock(&gather->clock_ns, &fault->err)))
		return;
	gather->clock_ns += starpu_clock();
}

/* Times go to the next two numbers, if they are of this rank, or come from them. */
static void pass_times(double **at, int64_t *start_ns, int64_t *end_ns, bool own, bool tells,
		       int64_t clock_ns)
{
	if (tells && own) {
		(*at)[0] = (double)(*start_ns + clock_ns);
		(*at)[1] = (double)(*end_ns + clock_ns);
	} else if (!tells) {
		*start_ns = (int64_t)(*at)[0];
		*end_ns = (int64_t)(*at)[1];
	}
	*at += 2;
}

/* Between the slot and the numbers: tell what this rank has, or take what all have told. */
static void pass_all(const struct orr_gather *gather, struct orr_slot *slot, bool tells)
{
	const struct orr_work *work = gather->slots->data->work;
	struct orr_timeline *t = slot->timeline;
	double *at = gather->numbers;

	for (int j = 0; j < work->jobs->n_jobs; j++)
		if (orr_jobs_has(work->jobs, j))
			pass_times(&at, &t->start_ns[j], &t->end_ns[j], orr_work_computes(work, j),
				   tells, gather->clock_ns);
	for (int u = 0; u < t->n_updates; u++)
		pass_times(&at, &t->updates[u].start_ns, &t->updates[u].end_ns,
			   orr_work_has(work, t->updates[u].w), tells, gather->clock_ns);
	for (int b = 0; b < work->pipeline->n_microbatches; b++)
		for (int l = 0; l < work->n_losses; l++, at += 3) {
			struct orr_metrics *m = &slot->metrics[orr_work_loss_at(work, l, b)];

			if (!tells)
				memcpy(m, at, sizeof(*m));
			else if (computes_loss(work, l, b))
				memcpy(at, m, sizeof(*m));
		}
}

/* Rank 0 gets the others' times and metrics; the slot's step has ended here. */
static int gather_step(struct orr_gather *gather, struct orr_slot *slot, struct orr_error *err)
{
	const struct orr_work *work = gather->slots->data->work;
	int code;

	if (work->n_ranks == 1)
		return 0;
	memset(gather->numbers, 0, (size_t)gather->n_numbers * sizeof(*gather->numbers));
	pass_all(gather, slot, true);
	if ((code = orr_ranks_sum(gather->numbers, gather->n_numbers, err)) || work->rank)
		return code;
	pass_all(gather, slot, false);
	slot->flight.end_ns = orr_clock_ns();
	return 0;
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
