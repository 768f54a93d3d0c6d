#include "plan_order.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "pipeline/microbatches.h"
#include "pipeline/parameter_cost.h"
#include "orrery/pipeline.h"
#include "orrery/try.h"
#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"
#include "schedule/table.h"
#include "orrery/timeline.h"

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const struct orr_assignment *x = data;

	(void)d;
	return x->workers[x->first[s] + x->turns[s * p->n_microbatches + b]];
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p;
	return ((const struct orr_assignment *)data)->cap[s];
}

/* Stages of one worker that come out alike go along the stages, and back. */
static int64_t by_depth(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int depth = p->stages[s].depth;

	(void)data;
	return d == ORR_PASS_F ? (2 * (int64_t)b + p->depth - depth) * 2 * p->n_stages + s
			       : (2 * (int64_t)b + p->depth + depth - 1) * 2 * p->n_stages +
					 2 * p->n_stages - 1 - s;
}

static int64_t backward_first(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			      const void *data)
{
	int64_t n = (int64_t)b * p->n_stages;

	(void)data;
	return d == ORR_PASS_F ? (int64_t)p->n_stages * p->n_microbatches + n + s
			       : n + p->n_stages - 1 - s;
}

void orr_assignment_cap(struct orr_assignment *x, const struct orr_pipeline *p)
{
	for (int s = p->n_stages - 1; s >= 0; s--) {
		int64_t most = 0;

		for (int i = 0; i < p->stages[s].n_out; i++)
			most = larger(most, x->cap[orr_stage_after(p, s, i)]);
		x->cap[s] = x->replicas[s] + (int)most;
	}
}

/* The least memory of a worker of stage s; 0: none is limited. */
static int64_t least_memory(const struct orr_assignment *x, const struct orr_pipeline *p, int s)
{
	int64_t least = 0;

	for (int i = 0; i < x->replicas[s]; i++) {
		int64_t bytes = orr_machine_memory(&p->machine, x->workers[x->first[s] + i]);

		least = bytes && (!least || bytes < least) ? bytes : least;
	}
	return least;
}

void orr_assignment_fit(struct orr_assignment *x, const struct orr_pipeline *p)
{
	x->tight = false;
	x->wanted_bytes = 0;
	for (int s = 0; s < p->n_stages; s++) {
		int64_t fixed = 0, stash = 0, wanted = 0, room,
			memory_bytes = least_memory(x, p, s);

		for (int t = 0; t < p->n_stages; t++) { /* of one worker */
			if (x->workers[x->first[t]] != x->workers[x->first[s]])
				continue;
			fixed += orr_parameters_kept(&p->numerics, p->stages[t].parameter_bytes,
						     orr_stage_trained_bytes(&p->stages[t]),
						     x->replicas[t]) +
				 p->stages[t].tied_trained_bytes; /* of a ring's */
			stash += p->stages[t].stash_bytes;
			wanted += p->stages[t].stash_bytes *
				  ((x->cap[t] + x->replicas[t] - 1) / x->replicas[t]);
		}
		x->wanted_bytes = larger(x->wanted_bytes, fixed + wanted);
		room = larger(1, stash > 0 ? (memory_bytes - fixed) / stash : p->n_microbatches);
		if (!memory_bytes || fixed + wanted <= memory_bytes ||
		    room >= (x->cap[s] + x->replicas[s] - 1) / x->replicas[s])
			continue;
		x->cap[s] = (int)room * x->replicas[s];
		x->tight = true;
	}
}

/* Freeze the order in which a worker started its jobs. Where several start at once, all but the
 * last take no time: forwards go first, each along the stages and then back. */
static int freeze(struct orr_table **out, const struct orr_timeline *t, struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int *listed = calloc((size_t)jobs->n_jobs + 1, sizeof(*listed)), n = 0, code;

	if (!listed)
		return orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d jobs", jobs->n_jobs);
	if ((code = orr_table_create(out, "plan", p->n_stages, p->n_workers, p->n_microbatches,
				     false, err)))
		goto out;
	for (int pass = 0; pass < 2; pass++)
		for (int b = 0; b < p->n_microbatches; b++)
			for (int k = 0; k < p->n_stages; k++) {
				int j = orr_jobs_index(jobs, pass ? p->n_stages - 1 - k : k, b,
						       (enum orr_pass)pass);

				(*out)->compute[j] = orr_jobs_has(jobs, j) ? jobs->compute[j] : -1;
				if (!orr_jobs_has(jobs, j))
					continue;
				(*out)->priority[j] =
					t->start_ns[j] * 2 + (t->end_ns[j] > t->start_ns[j]);
				listed[n++] = j;
			}
	code = orr_rank((*out)->priority, listed, n, err);
out:
	free(listed);
	return code;
}

/* How a schedule does: its makespan, then its largest peak. */
static int try_schedule(struct orr_table **best, int64_t least[2],
			const struct orr_schedule *schedule, const struct orr_pipeline *p,
			struct orr_error *err)
{
	const struct orr_figures *f;
	struct orr_table *table = NULL;
	struct orr_try tried;
	int64_t peak, makespan_ns;
	int code;

	if ((code = orr_try_init(&tried, p, schedule, NULL, err)) ||
	    (code = orr_try_time(&tried, err)))
		goto out;
	makespan_ns = orr_timeline_makespan(tried.timeline);
	if (*best && makespan_ns > least[0]) /* whatever the memory */
		goto out;
	if ((code = orr_figures_create(&tried.figures, tried.timeline, err)))
		goto out;
	f = tried.figures;
	peak = f->worker[orr_figures_fullest(f)].memory_bytes;
	if (*best && makespan_ns == least[0] && peak >= least[1])
		goto out;
	if ((code = freeze(&table, tried.timeline, err)))
		goto out;
	orr_table_destroy(*best);
	*best = table;
	table = NULL;
	least[0] = makespan_ns;
	least[1] = peak;
out:
	orr_table_destroy(table);
	orr_try_fini(&tried);
	return code;
}

int orr_assignment_order(struct orr_table **out, const struct orr_assignment *x,
			 const struct orr_pipeline *p, int64_t *makespan_ns, struct orr_error *err)
{
	struct orr_schedule closed = {.name = "1f1b",
				      .summary = "",
				      .order = ORR_ORDER_STRICT,
				      .compute = compute,
				      .priority = by_depth,
				      .data = x};
	struct orr_schedule greedy = {.name = "1f1b-rr",
				      .summary = "",
				      .order = ORR_ORDER_GREEDY,
				      .compute = compute,
				      .priority = backward_first,
				      .in_flight = in_flight,
				      .data = x};
	struct orr_table *best = NULL;
	int64_t least[2] = {INT64_MAX, INT64_MAX};
	int code;

	if ((!x->tight && (code = try_schedule(&best, least, &closed, p, err))) ||
	    (code = try_schedule(&best, least, &greedy, p, err))) {
		orr_table_destroy(best);
		return code;
	}
	*out = best;
	*makespan_ns = least[0];
	return 0;
}

int orr_pipeline_flatten(struct orr_pipeline **out, const struct orr_pipeline *p,
			 struct orr_error *err)
{
	size_t n_stages = (size_t)p->n_stages;
	struct orr_arrays all = {0};
	struct orr_stage *stages = orr_arrays_add(&all, n_stages, sizeof(*stages));
	struct orr_edge *edges =
		orr_arrays_add(&all, (size_t)p->n_edges + n_stages, sizeof(*edges));
	int n = p->n_edges, code = orr_arrays_check(&all, "plan", err);

	if (code)
		return code;
	memcpy(stages, p->stages, (size_t)p->n_stages * sizeof(*stages));
	if (n)
		memcpy(edges, p->edges, (size_t)n * sizeof(*edges));
	for (int s = 0; s < p->n_stages; s++) {
		bool linked = s + 1 == p->n_stages;

		for (int i = 0; i < p->stages[s].n_in; i++) /* creating adds them again */
			stages[s].input_bytes -= p->edges[p->stages[s].in[i]].bytes;
		for (int i = 0; i < p->stages[s].n_out && !linked; i++)
			linked = orr_stage_after(p, s, i) == s + 1;
		if (!linked) /* stages keep the passes that they have */
			edges[n++] = (struct orr_edge){
				.from = s,
				.to = s + 1,
				.detached = !p->stages[s + 1].has_input_gradient ||
					    (!p->stages[s].has_input_gradient &&
					     !p->stages[s].has_weight_gradient)};
	}
	if ((code = orr_pipeline_create(out, stages, p->n_stages, edges, n, err)))
		goto out;
	(*out)->has_weight = p->has_weight;
	(*out)->units = p->units;
	(*out)->numerics = p->numerics;
	(*out)->machine = p->machine;
	if ((code = orr_pipeline_tie(*out, p->tied, p->n_tied, err)) ||
	    (code = orr_pipeline_set_outputs(*out, p->outputs, p->n_outputs, err)) ||
	    (p->microbatches && (code = orr_microbatches_copy(*out, p, err))) ||
	    (code = orr_pipeline_set_step(*out, p->n_workers, p->n_microbatches, err))) {
		orr_pipeline_destroy(*out);
		*out = NULL;
	}
out:
	orr_arrays_free(&all);
	return code;
}
