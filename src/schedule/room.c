#include "room.h"

#include <stdlib.h>

#include "base/arrays.h"
#include "base/max.h"
#include "load.h"
#include "orrery/jobs.h"

struct orr_load orr_jobs_adds(const struct orr_jobs *jobs, int j)
{
	int before = orr_jobs_pass_before(jobs, j);

	if (!orr_jobs_has(jobs, j) ||
	    orr_jobs_last_pass(jobs, orr_jobs_at(jobs, j).s) == ORR_PASS_F)
		return (struct orr_load){0, 0};
	return (struct orr_load){before < 0,
				 orr_jobs_stash_bytes(jobs, j) -
					 (before < 0 ? 0 : orr_jobs_stash_bytes(jobs, before))};
}

struct orr_load orr_jobs_frees(const struct orr_jobs *jobs, int j)
{
	bool last = orr_jobs_at(jobs, j).d != ORR_PASS_F && orr_jobs_has(jobs, j) &&
		    orr_jobs_next_pass(jobs, j) < 0;

	return (struct orr_load){last, last ? orr_jobs_stash_bytes(jobs, j) : 0};
}

static struct orr_load find_most(const struct orr_jobs *jobs, int w)
{
	struct orr_load held = {0, 0}, most = {0, 0};

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int j = jobs->by_worker[i];

		orr_load_add(&held, &most, orr_jobs_adds(jobs, j), orr_jobs_frees(jobs, j));
	}
	return most;
}

/* ---- edges ---- */

/* Of jobs: on each worker one frees once at most, and waits for one gate at most. */
struct pairs {
	const struct orr_jobs *jobs;
	int *around; /* [orr_jobs_most_around(jobs)] */
	int *before, *after, n;
};

/* Unless it is a dependency anyway. */
static void pair(struct pairs *pairs, int before, int after)
{
	for (int i = orr_jobs_predecessors(pairs->jobs, after, pairs->around) - 1; i >= 0; i--)
		if (pairs->around[i] == before)
			return;
	pairs->before[pairs->n] = before;
	pairs->after[pairs->n++] = after;
}

/* A job that waits for more than those before it did is a gate: later ones wait for it, and with it
 * for all that it waited for. */
static void find_worker(struct pairs *pairs, int w)
{
	const struct orr_jobs *jobs = pairs->jobs;
	struct orr_load most = find_most(jobs, w), held = {0, 0};
	int freeing = jobs->first[w], gate = -1;

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int j = jobs->by_worker[i], before = freeing;
		struct orr_load more = orr_jobs_adds(jobs, j);

		if (!more.stashes && !more.bytes)
			continue;
		if (gate >= 0)
			pair(pairs, gate, j);
		held = orr_load_sum(held, more, 1);
		for (; orr_load_exceeds(held, most); freeing++) {
			struct orr_load freed = orr_jobs_frees(jobs, jobs->by_worker[freeing]);

			if (!freed.stashes)
				continue;
			held = orr_load_sum(held, freed, -1);
			pair(pairs, jobs->by_worker[freeing], j);
		}
		gate = freeing > before ? j : gate;
	}
}

/* to[first[k]] to to[first[k+1]-1]: what is paired with key k. */
static void group(int *to, int *first, int n_jobs, const int *key, const int *value, int n)
{
	for (int i = 0; i < n; i++)
		first[key[i] + 1]++;
	for (int j = 0; j < n_jobs; j++)
		first[j + 1] += first[j];
	for (int i = n - 1; i >= 0; i--)
		to[--first[key[i] + 1]] = value[i];
	for (int j = 0; j < n_jobs; j++) /* each was moved to its beginning, one place later */
		first[j] = first[j + 1];
	first[n_jobs] = n;
}

static int check_moved(const struct orr_jobs *jobs, struct orr_error *err)
{
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int next = orr_jobs_has(jobs, j) ? orr_jobs_next_pass(jobs, j) : -1;

		if (next >= 0 && jobs->compute[next] != jobs->compute[j])
			return orr_fail(err, ORR_E_INPUT,
					"schedule %s: the stash of stage %d, microbatch %d, moves "
					"from worker %d to %d, and in greedy order memory is "
					"bounded only where stashes stay: leave [order] out",
					jobs->schedule, job.s, job.b, jobs->compute[j],
					jobs->compute[next]);
	}
	return 0;
}

/* The most that any job has; first: [n_jobs + 1]. */
static int find_widest(const int *first, int n_jobs, int most)
{
	for (int j = 0; j < n_jobs; j++)
		most = (int)larger(most, first[j + 1] - first[j]);
	return most;
}

static int create(struct orr_room **out, const struct orr_jobs *jobs, struct orr_error *err)
{
	size_t n_jobs = (size_t)jobs->n_jobs;
	size_t n = 2 * (size_t)jobs->first[jobs->pipeline->n_workers] + 1;
	struct orr_arrays all = {0};
	struct orr_room *room = calloc(1, sizeof(*room));
	struct pairs pairs = {.jobs = jobs,
			      .around =
				      orr_arrays_add(&all, orr_jobs_most_around(jobs), sizeof(int)),
			      .before = orr_arrays_add(&all, n, sizeof(int)),
			      .after = orr_arrays_add(&all, n, sizeof(int))};
	int code = check_moved(jobs, err);

	if (code || (code = orr_arrays_check(&all, "jobs", err)))
		goto out;
	if (!room || !(room->before = calloc(2 * (n + n_jobs + 1), sizeof(int)))) {
		code = orr_no_memory(err, "jobs");
		goto out;
	}
	room->after = room->before + n; /* all are one array */
	room->first_before = room->after + n;
	room->first_after = room->first_before + n_jobs + 1;
	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		find_worker(&pairs, w);
	group(room->before, room->first_before, jobs->n_jobs, pairs.after, pairs.before, pairs.n);
	group(room->after, room->first_after, jobs->n_jobs, pairs.before, pairs.after, pairs.n);
	room->most = find_widest(room->first_after, jobs->n_jobs,
				 find_widest(room->first_before, jobs->n_jobs, 0));
	*out = room;
	room = NULL;
out:
	orr_arrays_free(&all);
	orr_room_destroy(room);
	return code;
}

int orr_jobs_free(struct orr_jobs *jobs, struct orr_error *err)
{
	int code;

	if (jobs->async)
		return orr_fail(
			err, ORR_E_INPUT,
			"schedule %s never flushes, and its order says which version of the "
			"parameters a job reads: leave [order] out, or take one that flushes",
			jobs->schedule);
	if (jobs->park)
		return orr_fail(err, ORR_E_INPUT,
				"schedule %s parks stashes, which leave by a strict order: leave "
				"[order] or [park] out",
				jobs->schedule);
	if ((code = create(&jobs->room, jobs, err)))
		return code;
	jobs->order = ORR_ORDER_GREEDY;
	return 0;
}

void orr_room_destroy(struct orr_room *room)
{
	if (!room)
		return;
	free(room->before);
	free(room);
}
