#include "seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "schedule.h"
#include "simulate.h"
#include "sort.h"
#include "timeline.h"

void orr_seeds_fini(struct orr_seeds *seeds)
{
	for (int i = 0; i < seeds->n; i++) {
		free(seeds->seeds[i].worker);
		free(seeds->seeds[i].n);
	}
	free(seeds->seeds);
	memset(seeds, 0, sizeof(*seeds));
}

/* One worker a stage, which owns it, and B as long as the pipeline says. */
static bool suits(const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int j = 0; j < jobs->n_jobs; j++)
		if (jobs->compute[j] != jobs->compute[orr_jobs_at(jobs, j).s * jobs->n_passes] ||
		    jobs->weights[j] != jobs->compute[j])
			return false;
	for (int s = 0; s < p->n_stages; s++)
		if (jobs->recompute[s] != p->stages[s].recompute)
			return false;
	return true;
}

/* Jobs as they ran. A whole backward becomes B and W, one after the other. */
static int number(int64_t *n, const struct orr_jobs *jobs, const struct orr_timeline *timeline,
		  struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_keyed *keyed = malloc((size_t)jobs->n_jobs * sizeof(*keyed));
	int code;

	if (!keyed)
		return orr_fail(err, ORR_E_NOMEM, "search: no memory for %d jobs", jobs->n_jobs);
	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = jobs->by_worker[i]; /* in a strict order, what starts at one time keeps its
					       place */

		keyed[i] = (struct orr_keyed){timeline->start_ns[j], j};
	}
	code = orr_sort(keyed, jobs->n_jobs, err);
	for (int i = 0; !code && i < jobs->n_jobs; i++) {
		struct orr_job job = orr_jobs_at(jobs, keyed[i].value);
		int64_t at = ((int64_t)job.b * p->n_stages + job.s) * ORR_N_PASSES + (int)job.d;

		n[at] = 2 * i;
		if (jobs->n_passes == 2 && job.d == ORR_PASS_B)
			n[at + 1] = 2 * i + 1;
	}
	free(keyed);
	return code;
}

static int add(struct orr_seeds *seeds, const char *name, const struct orr_jobs *jobs,
	       const struct orr_timeline *timeline, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_seed *seed;

	if (seeds->n == seeds->room) {
		int room = 2 * seeds->room + 16;
		struct orr_seed *grown = realloc(seeds->seeds, (size_t)room * sizeof(*grown));

		if (!grown)
			return orr_fail(err, ORR_E_NOMEM, "search: no memory");
		seeds->seeds = grown;
		seeds->room = room;
	}
	seed = &seeds->seeds[seeds->n++];
	seed->name = name;
	seed->worker = calloc((size_t)p->n_stages, sizeof(*seed->worker));
	seed->n = calloc((size_t)p->n_stages * (size_t)p->n_microbatches * ORR_N_PASSES,
			 sizeof(*seed->n));
	if (!seed->worker || !seed->n)
		return orr_fail(err, ORR_E_NOMEM, "search: no memory");
	for (int s = 0; s < p->n_stages; s++)
		seed->worker[s] = jobs->compute[s * jobs->n_passes];
	return number(seed->n, jobs, timeline, err);
}

int orr_seeds_add(struct orr_seeds *seeds, const struct orr_timeline *timeline,
		  struct orr_error *err)
{
	const struct orr_jobs *jobs = timeline->jobs;

	return suits(jobs) ? add(seeds, jobs->schedule, jobs, timeline, err) : 0;
}

/* A schedule that does not serve p is no seed, and no failure. */
static int try_schedule(struct orr_seeds *seeds, const struct orr_pipeline *p,
			const struct orr_schedule *schedule, struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(p->n_workers);
	struct orr_jobs *jobs = NULL;
	struct orr_timeline *timeline = NULL;
	struct orr_error why = {""};
	int code;

	machine.latency_ns = p->latency_ns;
	machine.bandwidth_bytes_per_s = p->bandwidth_bytes_per_s;
	code = orr_jobs_create(&jobs, p, schedule, &why);
	if (code)
		return code == ORR_E_NOMEM ? orr_fail(err, code, "%s", why.msg) : 0;
	if (!(code = orr_simulate(&timeline, jobs, &machine, err)))
		code = orr_seeds_add(seeds, timeline, err);
	orr_timeline_destroy(timeline);
	orr_jobs_destroy(jobs);
	return code;
}

struct capped {
	const int *worker;
	int most;
};

static int compute_capped(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)b, (void)d;
	return ((const struct capped *)data)->worker[s];
}

static int64_t backward_first(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	int64_t n = (int64_t)b * p->n_stages;

	(void)data;
	return d == ORR_PASS_F ? (int64_t)p->n_stages * p->n_microbatches + n + s
			       : n + p->n_stages - 1 - s;
}

static int in_flight_capped(const struct orr_pipeline *p, int s, const void *data)
{
	int most = ((const struct capped *)data)->most, depth = p->stages[s].depth;

	return depth < most ? depth : most;
}

int orr_seeds_add_capped(struct orr_seeds *seeds, const struct orr_pipeline *p, const int *worker, int most,
			 struct orr_error *err)
{
	struct capped capped = {worker, most};
	struct orr_schedule schedule = {.name = "capped", .summary = "", .order = ORR_ORDER_GREEDY,
					.compute = compute_capped, .priority = backward_first,
					.in_flight = in_flight_capped, .data = &capped};

	return try_schedule(seeds, p, &schedule, err);
}

int orr_seeds_gather(struct orr_seeds *seeds, const struct orr_pipeline *p, int64_t stashes,
		     struct orr_error *err)
{
	int code = 0;

	for (int i = 0; !code && orr_schedules[i]; i++)
		/* not the search itself; what a stream is good for is no makespan */
		if (!orr_schedules[i]->place && !orr_schedules[i]->stream)
			code = try_schedule(seeds, p, orr_schedules[i], err);
	for (int i = 0; !code && orr_schedules[i]; i++) {
		const struct orr_parameter *parameter = orr_schedules[i]->parameters;
		struct orr_schedule schedule = *orr_schedules[i];

		/* the first parameter is the memory: of 0, as much as it likes */
		if (schedule.place || strcmp(schedule.name, "adaptive") || !parameter ||
		    stashes > parameter[0].high)
			continue;
		schedule.data = &stashes;
		code = try_schedule(seeds, p, &schedule, err);
	}
	return code;
}
