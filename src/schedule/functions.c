/* A schedule's functions, evaluated once and checked. */
#include "orrery/jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"
#include "deal.h"
#include "functions.h"
#include "gang_order.h"
#include "async.h"
#include "room.h"
#include "versions.h"

static int refuse_worker(const struct orr_jobs *jobs, const struct orr_schedule *schedule, int j,
			 struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	bool placed = jobs->compute[j] < 0 || jobs->compute[j] >= p->n_workers;

	return orr_fail(err, ORR_E_INPUT,
			"schedule %s: job %d%c%d is %s worker %d, and the workers are 0 to %d: "
			"correct its %s, or set [workers]",
			jobs->schedule, job.s, orr_pass_letter(job.d), job.b,
			placed ? "placed on" : "owned by",
			placed ? jobs->compute[j] : jobs->weights[j], p->n_workers - 1,
			!placed           ? "weights()"
			: schedule->place ? "place()"
					  : "compute()");
}

/* A plug-in's refusal is taken as one line, whatever it wrote, and its code as one of ours. */
static int refuse_for(const struct orr_schedule *schedule, int code, struct orr_error *own,
		      struct orr_error *err)
{
	char text[sizeof(own->msg)];

	if (code >= 0)
		code = ORR_E_INPUT;
	own->msg[sizeof(own->msg) - 1] = '\0';
	if (!*own->msg)
		return orr_fail(err, code,
				"schedule %s does not serve this pipeline and does not say why",
				schedule->name);
	return orr_fail(err, code, "%s", orr_utf8_print(text, sizeof(text), own->msg));
}

/* The step as place() leaves it, starting from compute() and priority(). */
static int evaluate_place(struct orr_jobs *jobs, const struct orr_schedule *schedule, bool *stays,
			  struct orr_error *err)
{
	struct orr_placed layout = {
		.worker = jobs->compute, .n = jobs->priority, .observer = schedule->observer};
	struct orr_error own = {""};
	int code = schedule->place(jobs->pipeline, schedule->data, &layout, &own);

	jobs->bound_ns = layout.bound_ns;
	jobs->span_bound_ns = layout.span_bound_ns;
	*stays = layout.stays;
	if (code)
		return refuse_for(schedule, code, &own, err);
	if (jobs->bound_ns < 0 || jobs->span_bound_ns < 0)
		return orr_fail(err, ORR_E_INPUT,
				"schedule %s: the lower bound that it gives is negative: correct "
				"%s in its place(), or leave it 0",
				schedule->name, jobs->bound_ns < 0 ? "bound_ns" : "span_bound_ns");
	return 0;
}

/* Where each job is computed, n, and where its parameters are. */
static int evaluate_jobs(struct orr_jobs *jobs, const struct orr_schedule *schedule, bool *stays,
			 struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int code;

	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);

		if (!orr_jobs_has(jobs, j))
			continue;
		jobs->compute[j] = -1;
		if (schedule->compute)
			jobs->compute[j] =
				schedule->compute(p, job.s, job.b, job.d, schedule->data);
		if (schedule->priority)
			jobs->priority[j] =
				schedule->priority(p, job.s, job.b, job.d, schedule->data);
	}
	if (schedule->place && (code = evaluate_place(jobs, schedule, stays, err)))
		return code;
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);

		if (!orr_jobs_has(jobs, j)) { /* is where F is, and then, if anybody looks */
			int forward = orr_jobs_index(jobs, job.s, job.b, ORR_PASS_F);

			jobs->compute[j] = jobs->compute[forward];
			jobs->priority[j] = jobs->priority[forward];
			jobs->weights[j] = jobs->weights[forward];
			continue;
		}
		if (schedule->weights) /* else the same array */
			jobs->weights[j] =
				schedule->weights(p, job.s, job.b, job.d, schedule->data);
		if (jobs->compute[j] < 0 || jobs->compute[j] >= p->n_workers ||
		    jobs->weights[j] < 0 || jobs->weights[j] >= p->n_workers)
			return refuse_worker(jobs, schedule, j, err);
	}
	return 0;
}

/* Number the workers so that every job is at its home; where no numbers do, they stay. */
static int take_homes(struct orr_jobs *jobs, const int *home, struct orr_error *err)
{
	int n_workers = jobs->pipeline->n_workers, free_worker = 0;
	int *to = malloc(2 * (size_t)n_workers * sizeof(*to)), *from = to + n_workers;

	if (!to)
		return orr_no_memory(err, "jobs");
	for (int w = 0; w < n_workers; w++)
		to[w] = from[w] = -1;
	for (int j = 0; j < jobs->n_jobs; j++) {
		int w = jobs->compute[j], h = home[j / jobs->n_passes];

		if (to[w] < 0 && from[h] < 0) {
			to[w] = h;
			from[h] = w;
		} else if (to[w] != h) {
			goto out;
		}
	}
	for (int w = 0; w < n_workers; w++) { /* those without a job */
		if (to[w] >= 0)
			continue;
		while (from[free_worker] >= 0)
			free_worker++;
		to[w] = free_worker;
		from[free_worker] = w;
	}
	for (int j = 0; j < jobs->n_jobs; j++) {
		if (jobs->weights != jobs->compute)
			jobs->weights[j] = to[jobs->weights[j]];
		jobs->compute[j] = to[jobs->compute[j]];
	}
out:
	free(to);
	return 0;
}

static int refuse_equal(const struct orr_jobs *jobs, const struct orr_schedule *schedule, int w,
			int j, int k, struct orr_error *err)
{
	struct orr_job x = orr_jobs_at(jobs, j), y = orr_jobs_at(jobs, k);

	return orr_fail(err, ORR_E_INPUT,
			"schedule %s: jobs %d%c%d and %d%c%d on worker %d have the same priority "
			"%lld: make %s distinct on each worker",
			jobs->schedule, x.s, orr_pass_letter(x.d), x.b, y.s, orr_pass_letter(y.d),
			y.b, w, (long long)jobs->priority[j],
			schedule->priority ? "priority()" : "n of place()");
}

/* *equal: are there ties on a worker? Without it the first of them is refused. */
static int evaluate_order(struct orr_jobs *jobs, const struct orr_schedule *schedule, bool *equal,
			  struct orr_error *err)
{
	int code = orr_jobs_sort(jobs, jobs->priority, false, err), tied = -1, before = -1, at = 0;

	for (int w = 0; w < jobs->pipeline->n_workers && !code; w++)
		for (int i = jobs->first[w] + 1; i < jobs->first[w + 1]; i++) {
			int j = jobs->by_worker[i], k = jobs->by_worker[i - 1];
			int64_t n = jobs->priority[j], least = tied < 0 ? n : jobs->priority[tied];

			if (n != jobs->priority[k] || n > least ||
			    (n == least && j > tied && tied >= 0))
				continue;
			tied = j;
			before = k;
			at = w;
		}
	if (tied < 0)
		return code;
	if (!equal)
		return refuse_equal(jobs, schedule, at, before, tied, err);
	*equal = true;
	return 0;
}

static int evaluate_caps(struct orr_jobs *jobs, const struct orr_schedule *schedule,
			 struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int s = 0; s < p->n_stages && jobs->cap; s++) {
		jobs->cap[s] = schedule->in_flight(p, s, schedule->data);
		if (jobs->cap[s] < 0)
			return orr_fail(err, ORR_E_INPUT,
					"schedule %s: in_flight() of stage %d is %d: return 1 or "
					"more, or 0 for no cap",
					schedule->name, s, jobs->cap[s]);
		if (orr_jobs_last_pass(jobs, s) == ORR_PASS_F)
			jobs->cap[s] = 0; /* it keeps nothing */
	}
	return 0;
}

static void evaluate_recompute(struct orr_jobs *jobs, const struct orr_schedule *schedule)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int s = 0; s < p->n_stages; s++)
		/* one that gathers would read the whole minibatch again: it keeps less */
		jobs->recompute[s] =
			orr_jobs_last_pass(jobs, s) != ORR_PASS_F && !p->stages[s].gather &&
			(p->stages[s].recompute ||
			 (schedule->recompute && schedule->recompute(p, s, schedule->data)));
}

/* Jobs to where they are, and into the orders there. */
static int take_gangs(struct orr_jobs *jobs, const struct orr_schedule *schedule,
		      struct orr_error *err)
{
	bool strict = jobs->order == ORR_ORDER_STRICT, equal = false;
	int64_t *n = malloc((size_t)jobs->n_jobs * sizeof(*n));
	int code;

	if (!n)
		return orr_no_memory(err, "jobs");
	if ((code = orr_gangs_order(n, jobs, err)) || (code = orr_gangs_settle(jobs, err)) ||
	    (code = evaluate_order(jobs, schedule, &equal, err)) || !strict ||
	    (!equal && !orr_jobs_sequence(jobs, NULL, NULL)))
		goto out;
	if (schedule->asynchronous) {
		code = orr_fail(err, ORR_E_INPUT,
				"schedule %s: without a flush n orders the jobs of all workers, "
				"and with gang= or with= two jobs of a worker have the same: take "
				"a schedule that flushes",
				schedule->name);
		goto out;
	}
	memcpy(jobs->priority, n, (size_t)jobs->n_jobs * sizeof(*n));
	code = evaluate_order(jobs, schedule, &equal, err);
out:
	free(n);
	return code;
}

/* Owners as they are found, each once for a set of parameters. */
struct owners {
	struct orr_jobs *jobs;
	int *seen; /* [n_workers] the last set that counted it, + 1 */
	int n, room;
};

static int add_owner(struct owners *x, int set, int w, struct orr_error *err)
{
	if (x->seen[w] == set + 1)
		return 0;
	x->seen[w] = set + 1;
	if (!orr_grow(&x->jobs->owners, x->n, &x->room, sizeof(int)))
		return orr_no_memory(err, "jobs");
	x->jobs->owners[x->n++] = w;
	return 0;
}

/* Owners in the order of the first microbatch that they serve, which replicas have in turns. */
static int find_rings(struct orr_jobs *jobs, int n_owners, struct orr_error *err)
{
	int alike = jobs->pipeline->alike;

	jobs->ring = jobs->owners;
	if (alike < 2)
		return 0;
	if (!(jobs->ring = calloc((size_t)n_owners * (size_t)alike, sizeof(*jobs->ring))))
		return orr_no_memory(err, "jobs");
	for (int i = 0; i < n_owners * alike; i++)
		jobs->ring[i] = jobs->owners[i / alike] + i % alike * jobs->pipeline->n_workers;
	return 0;
}

/* Of a stage by the first microbatch that they serve, of tied parameters stage by stage. */
static int find_owners(struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct owners x = {jobs, calloc((size_t)p->n_workers, sizeof(*x.seen)), 0, 0};
	int code = 0;

	if (!x.seen)
		return orr_no_memory(err, "jobs");
	for (int s = 0; s < p->n_stages; s++) {
		jobs->first_owner[s] = x.n;
		for (int i = 0; i < p->n_microbatches * jobs->n_passes && !code; i++) {
			int b = i / jobs->n_passes, d = i % jobs->n_passes;
			int j = orr_jobs_index(jobs, s, b, (enum orr_pass)d);

			if (orr_jobs_has(jobs, j))
				code = add_owner(&x, s, jobs->weights[j], err);
		}
	}
	jobs->first_owner[p->n_stages] = x.n;
	for (int t = 0; t < p->n_tied; t++) {
		const struct orr_tied *tied = &p->tied[t];

		for (int i = 0; i < tied->n_stages; i++)
			for (int k = jobs->first_owner[tied->stages[i]];
			     k < jobs->first_owner[tied->stages[i] + 1] && !code; k++)
				code = add_owner(&x, p->n_stages + t, jobs->owners[k], err);
		jobs->first_owner[p->n_stages + t + 1] = x.n;
	}
	free(x.seen);
	return code ? code : find_rings(jobs, x.n, err);
}

/* Without a flush their versions would be those of several stages at once; a gang splits them. */
static int check_tied(const struct orr_jobs *jobs, const struct orr_schedule *schedule,
		      struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int t = 0; t < p->n_tied; t++) {
		const struct orr_tied *tied = &p->tied[t];

		for (int i = 0; i < tied->n_stages; i++)
			if (orr_pipeline_n_at(p, tied->stages[i]) > 1)
				return orr_fail(err, ORR_E_INPUT,
						"stages %d and %d share parameters, and stage %d "
						"is split over a gang: take gang= or share= away",
						tied->stages[0], tied->stages[1], tied->stages[i]);
		if (!tied->frozen && schedule->asynchronous)
			return orr_fail(err, ORR_E_INPUT,
					"schedule %s never flushes, and stages %d and %d share "
					"parameters, of which they would read different versions: "
					"take a schedule that flushes, or put both into one stage",
					schedule->name, tied->stages[0], tied->stages[1]);
	}
	return 0;
}

/* Of a stage's parameters: what its owners keep, gradients, optimizer and versions too, what they
 * exchange, and what jobs on other workers fetch and send back. jobs NULL: of one owner. */
static double parameter_copies(const struct orr_jobs *jobs, int s)
{
	int n_owners = jobs ? jobs->first_owner[s + 1] - jobs->first_owner[s] : 1;
	double fetched = 0, copies = 6 + 2 * (jobs ? orr_jobs_n_updates(jobs, s) : 1);

	for (int b = 0; jobs && b < jobs->pipeline->n_microbatches; b++)
		for (int d = 0; d < jobs->n_passes; d++) {
			int j = orr_jobs_index(jobs, s, b, (enum orr_pass)d);

			fetched += orr_jobs_has(jobs, j) && jobs->weights[j] != jobs->compute[j];
		}
	return 2 * fetched +
	       n_owners * (copies + (jobs && jobs->versions ? jobs->versions->peak[s] : 0));
}

/* Bytes that a step keeps and moves must be countable as well: before jobs are placed (NULL) what
 * any schedule has, then what this one has. */
static int check_bytes(const struct orr_pipeline *p, const struct orr_jobs *jobs,
		       struct orr_error *err)
{
	double total = 0, most = 0;
	int largest = 0;

	for (int s = 0; s < p->n_stages; s++) {
		double bytes = (double)p->stages[s].stash_bytes + (double)p->stages[s].input_bytes;

		for (int i = 0; i < p->stages[s].n_out; i++) {
			const struct orr_edge *edge = &p->edges[p->stages[s].out[i]];

			bytes += (double)edge->bytes * orr_pipeline_n_at(p, edge->to) +
				 (double)edge->gradient_bytes * orr_pipeline_n_at(p, s);
		}
		bytes = bytes * ORR_N_PASSES * p->n_microbatches +
			(double)p->stages[s].parameter_bytes * parameter_copies(jobs, s);
		total += bytes;
		if (bytes > most) {
			most = bytes;
			largest = s;
		}
	}
	if (total < (double)(INT64_MAX / 4))
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"%d microbatches of %d stages, stage %d the largest, keep and move more than %lld "
		"bytes, more than can be counted: take smaller sizes or fewer of them",
		p->n_microbatches, p->n_stages, largest, (long long)(INT64_MAX / 4));
}

/* The longest that the jobs take: every stage runs F again, and all run one after the other. Where
 * place() may try any worker, with all transfers that there can be; of others simulate/network.h
 * counts those that there are. */
static int check_total(const struct orr_pipeline *p, const struct orr_schedule *schedule,
		       struct orr_error *err)
{
	double total = schedule->place ? 2.0 * p->n_edges * p->n_microbatches *
						 (double)p->machine.latency_ns
				       : 0,
	       most = 0, speed = 1;
	int longest = 0;

	for (int w = 0; w < p->n_workers; w++)
		speed = fmin(speed, orr_machine_speed(&p->machine, w));
	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_stage *stage = &p->stages[s];
		double step = (2 * (double)stage->forward_ns + (double)stage->backward_ns +
			       (double)stage->weight_ns) *
				      p->n_microbatches +
			      (double)stage->update_ns;

		step /= speed; /* of the slowest worker */
		total += step;
		if (step > most) {
			most = step;
			longest = s;
		}
	}
	if (total < (double)(INT64_MAX / 4))
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"%d microbatches of %d stages, stage %d the longest, last more than %lld s "
		"together, more than can be counted in nanoseconds: take shorter durations, a "
		"smaller latency or fewer of them",
		p->n_microbatches, p->n_stages, longest, (long long)(INT64_MAX / 4 / ORR_UNIT_NS));
}

static int allocate(struct orr_jobs *jobs, const struct orr_schedule *schedule,
		    struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	size_t n = (size_t)jobs->n_jobs, n_stages = (size_t)p->n_stages;

	jobs->compute = calloc(n, sizeof(*jobs->compute));
	jobs->weights = schedule->weights ? calloc(n, sizeof(*jobs->weights)) : jobs->compute;
	jobs->priority = calloc(n, sizeof(*jobs->priority));
	jobs->by_worker = calloc(n, sizeof(*jobs->by_worker));
	jobs->position = calloc(n, sizeof(*jobs->position));
	jobs->duration_ns = calloc(n, sizeof(*jobs->duration_ns));
	jobs->first = calloc((size_t)p->n_workers + 1, sizeof(*jobs->first));
	jobs->first_owner = calloc((size_t)orr_pipeline_n_sets(p) + 1, sizeof(*jobs->first_owner));
	jobs->recompute = calloc(n_stages, sizeof(*jobs->recompute));
	jobs->cap = schedule->in_flight ? calloc(n_stages, sizeof(*jobs->cap)) : NULL;
	if (!jobs->recompute || (schedule->in_flight && !jobs->cap) || !jobs->compute ||
	    !jobs->weights || !jobs->priority || !jobs->by_worker || !jobs->position ||
	    !jobs->duration_ns || !jobs->first || !jobs->first_owner)
		return orr_fail(
			err, ORR_E_NOMEM,
			"jobs: no memory for %d jobs; take fewer microbatches ([microbatches])",
			jobs->n_jobs);
	return 0;
}

int orr_jobs_evaluate(struct orr_jobs **out, const struct orr_pipeline *p,
		      const struct orr_schedule *schedule, const int *home, struct orr_error *err)
{
	struct orr_error own = {""};
	struct orr_jobs *jobs;
	bool stays = false;
	int code;

	if ((code = check_total(p, schedule, err)) || (code = check_bytes(p, NULL, err)))
		return code;
	if (schedule->check && (code = schedule->check(p, schedule->data, &own)))
		return refuse_for(schedule, code, &own, err);
	if (!(jobs = calloc(1, sizeof(*jobs))))
		return orr_no_memory(err, "jobs");
	jobs->pipeline = p;
	jobs->schedule = schedule->name;
	jobs->order = schedule->order == ORR_ORDER_GREEDY ? ORR_ORDER_GREEDY : ORR_ORDER_STRICT;
	jobs->n_passes = schedule->split_backward ? 3 : 2;
	jobs->most_at = 1;
	jobs->n_jobs = p->n_stages * p->n_microbatches * jobs->n_passes;
	if ((code = allocate(jobs, schedule, err)))
		goto out;
	evaluate_recompute(jobs, schedule);
	if ((code = evaluate_jobs(jobs, schedule, &stays, err)) ||
	    (home && (code = take_homes(jobs, home, err))) ||
	    (code = evaluate_order(jobs, schedule, NULL, err)) ||
	    (code = evaluate_caps(jobs, schedule, err)) ||
	    (code = orr_gathers_check(jobs, schedule, err)) ||
	    (code = check_tied(jobs, schedule, err)))
		goto out;
	orr_jobs_renew(jobs);
	if (orr_pipeline_has_gangs(p) && (code = take_gangs(jobs, schedule, err)))
		goto out;
	if ((!stays && (code = orr_jobs_evaluate_park(jobs, schedule, err))) ||
	    (code = find_owners(jobs, err)) || (code = orr_jobs_sequence(jobs, NULL, err)))
		goto out;
	if (schedule->asynchronous &&
	    ((code = orr_async_create(&jobs->async, jobs, schedule, err)) ||
	     (code = orr_versions_create(&jobs->versions, jobs, err))))
		goto out;
	if ((code = check_bytes(p, jobs, err)))
		goto out;
	if (schedule->order == ORR_ORDER_BOUNDED && (code = orr_jobs_free(jobs, err)))
		goto out;
	if (orr_pipeline_has_gangs(p))
		orr_jobs_renew(jobs); /* on other workers now */
	*out = jobs;
	jobs = NULL;
out:
	orr_jobs_destroy(jobs);
	return code;
}

void orr_groups_clear(struct orr_groups *groups)
{
	orr_jobs_destroy(groups->jobs);
	free(groups->cluster.workers);
	free(groups->cluster.groups);
	free(groups->cluster.pairs);
	free(groups->first);
	*groups = (struct orr_groups){0};
}

void orr_groups_destroy(struct orr_groups *groups)
{
	if (groups)
		orr_groups_clear(groups);
	free(groups);
}

void orr_jobs_destroy(struct orr_jobs *jobs)
{
	if (!jobs)
		return;
	if (jobs->weights != jobs->compute)
		free(jobs->weights);
	free(jobs->compute);
	free(jobs->priority);
	free(jobs->cap);
	free(jobs->recompute);
	free(jobs->park);
	free(jobs->by_worker);
	free(jobs->first);
	free(jobs->position);
	free(jobs->duration_ns);
	if (jobs->ring != jobs->owners)
		free(jobs->ring);
	free(jobs->owners);
	free(jobs->first_owner);
	orr_groups_destroy(jobs->groups);
	orr_room_destroy(jobs->room);
	orr_async_destroy(jobs->async);
	orr_versions_destroy(jobs->versions);
	free(jobs);
}

int orr_jobs_n_updates(const struct orr_jobs *jobs, int s)
{
	if (!jobs->pipeline->stages[s].has_weight_gradient)
		return 0;
	return jobs->versions ? jobs->pipeline->n_microbatches / jobs->versions->every[s] : 1;
}
