#include "orrery/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"
#include "deal.h"

int orr_jobs_count(const struct orr_jobs *jobs)
{
	int n = 0;

	for (int i = 0; i < jobs->pipeline->n_stages * jobs->n_passes; i++)
		n += orr_jobs_has(jobs, i);
	return n * jobs->pipeline->n_microbatches;
}

int64_t orr_jobs_stash_bytes(const struct orr_jobs *jobs, int j)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	int64_t stash = orr_pipeline_stash_bytes(p, job.s, job.b), input;

	if (orr_jobs_last_pass(jobs, job.s) == ORR_PASS_F)
		return 0;
	/* the stash includes the part of the input that the backward reads; F runs again from all
	 * of the input */
	input = orr_pipeline_input_bytes(p, job.s, job.b);
	if (job.d != ORR_PASS_F)
		stash += orr_pipeline_again_bytes(p, job.s, job.b, jobs->n_passes == 3);
	if (jobs->recompute[job.s] && (job.d == ORR_PASS_F || input > stash))
		stash = input;
	return orr_pipeline_share(p, job.s, stash);
}

int64_t orr_jobs_moved_bytes(const struct orr_jobs *jobs, int j)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	int64_t stash = orr_pipeline_stash_bytes(p, job.s, job.b);

	if (p->microbatches || p->stages[job.s].again_bytes ||
	    orr_jobs_last_pass(jobs, job.s) == ORR_PASS_F ||
	    (jobs->recompute[job.s] && job.d == ORR_PASS_F))
		return orr_jobs_stash_bytes(jobs, j);
	return orr_pipeline_share(
		p, job.s, stash - (job.d == ORR_PASS_F ? 0 : p->stages[job.s].passing_bytes));
}

int64_t orr_jobs_edge_bytes(const struct orr_jobs *jobs, int j, int k)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job from = orr_jobs_at(jobs, j), to = orr_jobs_at(jobs, k);
	bool gradient = from.d != ORR_PASS_F;
	const struct orr_edge *edge =
		gradient ? orr_pipeline_edge(p, to.s, from.s) : orr_pipeline_edge(p, from.s, to.s);

	return orr_pipeline_edge_bytes(p, (int)(edge - p->edges), gradient ? to.b : from.b,
				       gradient);
}

const int *orr_jobs_room(int *n, const struct orr_jobs *jobs, int j, bool after)
{
	const struct orr_room *room = jobs->room;
	const int *first = !room ? NULL : after ? room->first_after : room->first_before;

	*n = first ? first[j + 1] - first[j] : 0;
	return first ? (after ? room->after : room->before) + first[j] : NULL;
}

bool orr_jobs_is_cap(const struct orr_jobs *jobs, int k, int j)
{
	int n, from = orr_jobs_at(jobs, k).s, to = orr_jobs_at(jobs, j).s;
	const int *room = orr_jobs_room(&n, jobs, j, false);

	for (int i = 0; i < n; i++)
		if (room[i] == k)
			return true;
	return from == to && orr_jobs_at(jobs, k).b != orr_jobs_at(jobs, j).b;
}

int orr_jobs_receiver(const struct orr_jobs *jobs, int j, int s, int w)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int b = p->stages[s].gather ? 0 : orr_jobs_at(jobs, j).b,
	    end = p->stages[s].gather ? p->n_microbatches : b + 1;

	for (; b < end; b++)
		if (orr_jobs_number_at(jobs, orr_jobs_index(jobs, s, b, ORR_PASS_F), w) >= 0)
			return orr_jobs_index(jobs, s, b, ORR_PASS_F);
	return -1;
}

/* The first of those that read the output of that number there; -1: none does. */
static int output_receiver(const struct orr_jobs *jobs, int j, int number, int w)
{
	const struct orr_fanout *x = &jobs->pipeline->outputs[number - jobs->pipeline->n_edges];
	int first = -1, least = 0;

	for (int i = 0; i < x->n_readers; i++) {
		int k = orr_jobs_receiver(jobs, j, x->readers[i], w),
		    position =
			    k < 0 ? 0 : orr_jobs_position(jobs, k, orr_jobs_number_at(jobs, k, w));

		if (k < 0 || (first >= 0 && position > least))
			continue;
		first = k;
		least = position;
	}
	return first;
}

int64_t orr_jobs_sent_bytes(const struct orr_jobs *jobs, int j, int k, int i)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job from = orr_jobs_at(jobs, j), to = orr_jobs_at(jobs, k);
	const struct orr_stage *stage = &p->stages[from.s];
	int64_t sent = orr_jobs_edge_bytes(jobs, j, k), own = sent;
	int w = orr_jobs_worker(jobs, k, i), n_shared = 0, n_brought = 0;

	if (from.d != ORR_PASS_F)
		return sent;
	if (p->stages[to.s].gather && orr_jobs_receiver(jobs, j, to.s, w) != k)
		return -1;
	for (int n = 0; n < stage->n_sent; n++) {
		int64_t bytes = orr_pipeline_output_bytes(p, stage->sent[n], from.b);
		bool brings;

		if (!orr_pipeline_reads(p, to.s, stage->sent[n]))
			continue;
		brings = output_receiver(jobs, j, stage->sent[n], w) == k;
		n_shared++;
		n_brought += brings;
		own -= bytes;
		sent -= brings ? 0 : bytes;
	}
	return n_shared && !n_brought && !own ? -1 : sent;
}

int orr_jobs_sender(const struct orr_jobs *jobs, int j, int k, int i)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job from = orr_jobs_at(jobs, j), to = orr_jobs_at(jobs, k);
	int w = orr_jobs_worker(jobs, k, i), n = orr_jobs_n_at(jobs, j),
	    v = orr_jobs_worker(jobs, j, i % n);

	if (orr_jobs_number_at(jobs, j, w) >= 0 || orr_jobs_is_cap(jobs, j, k))
		return -1;
	if (from.s == to.s)
		return v;
	if (orr_jobs_sent_bytes(jobs, j, k, i) < 0)
		return -1;
	for (int b = 0; b < from.b && from.d != ORR_PASS_F && p->stages[from.s].gather; b++)
		if (jobs->compute[orr_jobs_index(jobs, from.s, b, from.d)] == jobs->compute[j])
			return -1;
	return v;
}

bool orr_jobs_awaits(const struct orr_jobs *jobs, int j, int k, int to, int w)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, k);
	const struct orr_stage *stage = &p->stages[orr_jobs_at(jobs, j).s];
	int i = orr_jobs_number_at(jobs, to, w);

	if (orr_jobs_at(jobs, to).s == job.s)
		return orr_jobs_sender(jobs, j, to, i) >= 0;
	for (int n = 0; n < stage->n_sent; n++)
		if (orr_pipeline_reads(p, job.s, stage->sent[n]) &&
		    output_receiver(jobs, j, stage->sent[n], w) == to)
			return true;
	return false;
}

static int pass_beside(const struct orr_jobs *jobs, int j, int step)
{
	int first = j - j % jobs->n_passes, end = first + jobs->n_passes;

	for (j += step; j >= first && j < end; j += step)
		if (orr_jobs_has(jobs, j))
			return j;
	return -1;
}

int orr_jobs_next_pass(const struct orr_jobs *jobs, int j)
{
	return pass_beside(jobs, j, 1);
}

int orr_jobs_pass_before(const struct orr_jobs *jobs, int j)
{
	return pass_beside(jobs, j, -1);
}

/* by_worker, first and position from an order of n jobs. */
static void deal(struct orr_jobs *jobs, const struct orr_keyed *order, int n)
{
	int n_workers = jobs->pipeline->n_workers;

	memset(jobs->first, 0, ((size_t)n_workers + 1) * sizeof(*jobs->first));
	for (int i = 0; i < n; i++)
		for (int k = 0; k < orr_jobs_n_at(jobs, order[i].value); k++)
			jobs->first[orr_jobs_worker(jobs, order[i].value, k) + 1]++;
	for (int w = 0; w < n_workers; w++)
		jobs->first[w + 1] += jobs->first[w];
	for (int i = 0; i < n; i++) {
		int j = order[i].value;

		for (int k = 0; k < orr_jobs_n_at(jobs, j); k++) {
			int *next = &jobs->first[orr_jobs_worker(jobs, j, k)];

			jobs->position[j * jobs->most_at + k] = *next;
			jobs->by_worker[(*next)++] = j;
		}
	}
	/* every beginning has become the next one's */
	for (int w = n_workers; w > 0; w--)
		jobs->first[w] = jobs->first[w - 1];
	jobs->first[0] = 0;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < orr_jobs_n_at(jobs, order[i].value); k++)
			jobs->position[order[i].value * jobs->most_at + k] -=
				jobs->first[orr_jobs_worker(jobs, order[i].value, k)];
}

int orr_jobs_sort(struct orr_jobs *jobs, const int64_t *n, bool all, struct orr_error *err)
{
	struct orr_keyed *order = malloc((size_t)jobs->n_jobs * sizeof(*order));
	int n_sorted = 0, code;

	if (!order)
		return orr_no_memory(err, "order of jobs");
	for (int j = 0; j < jobs->n_jobs; j++)
		if (all || orr_jobs_has(jobs, j))
			order[n_sorted++] = (struct orr_keyed){n[j], j};
	if (!(code = orr_sort(order, n_sorted, err)))
		deal(jobs, order, n_sorted);
	free(order);
	return code;
}

/* Jobs of pass d of stage s: that of microbatch b, or with all those of every one. */
static int add_jobs(const struct orr_jobs *jobs, int *list, int n, int s, int b, enum orr_pass d,
		    bool all)
{
	int end = all ? jobs->pipeline->n_microbatches : b + 1;

	for (b = all ? 0 : b; b < end; b++)
		list[n++] = orr_jobs_index(jobs, s, b, d);
	return n;
}

/* list holds n; returns the number with those for room. */
static int add_room(const struct orr_jobs *jobs, int j, bool after, int *list, int n)
{
	int n_room;
	const int *room = orr_jobs_room(&n_room, jobs, j, after);

	for (int i = 0; i < n_room; i++)
		list[n++] = room[i];
	return n;
}

int orr_jobs_predecessors(const struct orr_jobs *jobs, int j, int *predecessors)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];
	int n = 0, cap = orr_jobs_cap(jobs, job.s);

	if (!orr_jobs_has(jobs, j))
		return 0;
	if (job.d == ORR_PASS_F) {
		for (int i = 0; i < stage->n_in; i++)
			n = add_jobs(jobs, predecessors, n, orr_stage_before(p, job.s, i), job.b,
				     ORR_PASS_F, stage->gather);
		if (cap && job.b >= cap)
			predecessors[n++] = orr_jobs_index(jobs, job.s, job.b - cap,
							   orr_jobs_last_pass(jobs, job.s));
		return add_room(jobs, j, false, predecessors, n);
	}
	predecessors[n++] = orr_jobs_pass_before(jobs, j);
	for (int i = 0; i < stage->n_out && job.d == orr_jobs_first_backward(jobs, job.s); i++) {
		int after = orr_stage_after(p, job.s, i);

		if (!p->edges[stage->out[i]].detached)
			n = add_jobs(jobs, predecessors, n, after, job.b, ORR_PASS_B,
				     p->stages[after].gather);
	}
	return add_room(jobs, j, false, predecessors, n);
}

int orr_jobs_successors(const struct orr_jobs *jobs, int j, int *successors)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];
	int n = 0, cap = orr_jobs_cap(jobs, job.s), next = orr_jobs_next_pass(jobs, j);

	if (!orr_jobs_has(jobs, j))
		return 0;
	for (int i = 0; i < stage->n_out && job.d == ORR_PASS_F; i++) {
		int after = orr_stage_after(p, job.s, i);

		n = add_jobs(jobs, successors, n, after, job.b, ORR_PASS_F,
			     p->stages[after].gather);
	}
	for (int i = 0; i < stage->n_in && job.d == ORR_PASS_B; i++) {
		int before = orr_stage_before(p, job.s, i);

		if (!p->edges[stage->in[i]].detached)
			n = add_jobs(jobs, successors, n, before, job.b,
				     orr_jobs_first_backward(jobs, before), stage->gather);
	}
	if (next >= 0)
		successors[n++] = next;
	if (cap && job.d == orr_jobs_last_pass(jobs, job.s) && job.b < p->n_microbatches - cap)
		successors[n++] = orr_jobs_index(jobs, job.s, job.b + cap, ORR_PASS_F);
	return add_room(jobs, j, true, successors, n);
}

bool orr_jobs_shards(const struct orr_jobs *jobs, int s)
{
	return jobs->pipeline->numerics.shard_optimizer && orr_jobs_ring_size(jobs, s) > 1;
}

int64_t orr_jobs_update_ns(const struct orr_jobs *jobs, int s, int w)
{
	int64_t ns = orr_pipeline_update_ns(jobs->pipeline, s, w);
	int r = orr_jobs_ring_size(jobs, s);

	return orr_jobs_shards(jobs, s) ? (ns + r - 1) / r : ns;
}

/* Of a gang the slowest worker decides. */
static int64_t longest(const struct orr_jobs *jobs, int j, enum orr_pass d)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	int64_t most = 0;

	for (int i = 0; i < orr_jobs_n_at(jobs, j); i++)
		most = larger(most, orr_pipeline_job_ns(jobs->pipeline, job.s, job.b, d,
							orr_jobs_worker(jobs, j, i),
							jobs->n_passes == 3));
	return most;
}

void orr_jobs_renew(struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);

		if (!orr_jobs_has(jobs, j))
			continue;
		jobs->duration_ns[j] = longest(jobs, j, job.d);
		/* where only the schedule asks for it, the pipeline does not know */
		if (jobs->recompute[job.s] && !p->stages[job.s].recompute && job.d != ORR_PASS_F &&
		    job.d == orr_jobs_first_backward(jobs, job.s))
			jobs->duration_ns[j] += longest(jobs, j, ORR_PASS_F);
	}
}
