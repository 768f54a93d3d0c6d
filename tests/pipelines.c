#include "pipelines.h"
#include "suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/cost.h"
#include "pipeline/microbatches.h"

struct orr_pipeline *make_pipeline(int n_stages, const char *edges, int64_t forward,
				   int64_t backward, int64_t weight, int64_t stash_bytes,
				   int64_t parameter_bytes, int64_t edge_bytes)
{
	struct orr_stage *stages = calloc((size_t)n_stages, sizeof(*stages));
	struct orr_edge *list = calloc(strlen(edges) + 1, sizeof(*list));
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};
	int n_edges = 0, length = 0;

	ck_assert(stages && list);
	for (int s = 0; s < n_stages; s++)
		stages[s] = (struct orr_stage){.forward_ns = forward * ORR_UNIT_NS,
					       .backward_ns = backward * ORR_UNIT_NS,
					       .weight_ns = weight * ORR_UNIT_NS,
					       .stash_bytes = stash_bytes,
					       .parameter_bytes = parameter_bytes};
	for (const char *at = edges;
	     sscanf(at, "%d>%d%n", &list[n_edges].from, &list[n_edges].to, &length) == 2;
	     at += length)
		list[n_edges++].bytes = edge_bytes;
	ck_assert_msg(!orr_pipeline_create(&p, stages, n_stages, list, n_edges, &err), "%s",
		      err.msg);
	p->units = true;
	free(stages);
	free(list);
	return p;
}

struct orr_pipeline *make_chain(int n_stages, int64_t forward, int64_t backward)
{
	return make_whole_chain(n_stages, forward, backward, 0, 1, 0, 0);
}

struct orr_pipeline *make_whole_chain(int n_stages, int64_t forward, int64_t backward,
				      int64_t weight, int64_t stash_bytes, int64_t parameter_bytes,
				      int64_t edge_bytes)
{
	char edges[8192] = "";

	for (int s = 0, at = 0; s + 1 < n_stages; s++)
		at += snprintf(edges + at, sizeof(edges) - (size_t)at, " %d>%d", s, s + 1);
	return make_pipeline(n_stages, edges, forward, backward, weight, stash_bytes,
			     parameter_bytes, edge_bytes);
}

struct orr_pipeline *make_towers(const int *towers, int trunk, int64_t forward, int64_t backward)
{
	char edges[4096] = "";
	int n = 0, total = 0;

	for (int i = 0; towers[i]; i++)
		total += towers[i];
	for (int i = 0; towers[i]; i++)
		for (int k = 0; k < towers[i]; k++, n++)
			snprintf(edges + strlen(edges), sizeof(edges) - strlen(edges), " %d>%d", n,
				 k == towers[i] - 1 ? total : n + 1);
	for (int k = 0; k + 1 < trunk; k++)
		snprintf(edges + strlen(edges), sizeof(edges) - strlen(edges), " %d>%d", total + k,
			 total + k + 1);
	return make_pipeline(total + trunk, edges, forward, backward, 0, 1, 0, 0);
}

struct orr_pipeline *make_differ(struct orr_pipeline *p, const int *times, int n)
{
	struct orr_error err = {""};

	ck_assert_msg(!orr_microbatches_create(p, n, &err), "%s", err.msg);
	for (int b = 0; b < n; b++) {
		for (int s = 0; s < p->n_stages; s++) {
			struct orr_cost *cost = &p->microbatches->costs[b * p->n_stages + s];

			cost->forward_ns = cost->backward_ns = times[b] * ORR_UNIT_NS;
			cost->stash_bytes = 10 * times[b];
		}
		for (int e = 0; e < p->n_edges; e++)
			p->microbatches->bytes[b * p->n_edges + e] =
				p->microbatches->gradient_bytes[b * p->n_edges + e] = times[b];
	}
	orr_microbatches_settle(p);
	return p;
}

struct orr_cluster *parse_cluster(const char *format, ...)
{
	struct orr_cluster *cluster = NULL;
	struct orr_error err = {""};
	char text[4096];
	va_list values;

	va_start(values, format);
	(void)vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	ck_assert_msg(!orr_cluster_parse(&cluster, "m.dot", text, &err), "%s", err.msg);
	return cluster;
}

void way_init_on(struct way *way, struct orr_pipeline *p, const char *schedule,
		 const struct orr_machine *machine, int n_microbatches)
{
	struct orr_error err = {""};

	*way = (struct way){.pipeline = p};
	p->machine = *machine;
	ck_assert_msg(!orr_pipeline_set_step(p, machine->n_workers, n_microbatches, &err), "%s",
		      err.msg);
	ck_assert_msg(!orr_choice_init(&way->choice, schedule, &err), "%s", err.msg);
	ck_assert_msg(!orr_try_init(&way->tried, p, &way->choice.schedule, NULL, &err) &&
			      !orr_try_run(&way->tried, &err),
		      "%s: %s", schedule, err.msg);
	ck_assert_msg(way->tried.figures->lower_bound_ns <= way->tried.figures->makespan_ns,
		      "%s: the lower bound %lld is above the makespan %lld", schedule,
		      (long long)way->tried.figures->lower_bound_ns,
		      (long long)way->tried.figures->makespan_ns);
}

void way_init(struct way *way, struct orr_pipeline *p, const char *schedule, int n_workers,
	      int n_microbatches)
{
	struct orr_machine machine = orr_machine_default(n_workers);

	way_init_on(way, p, schedule, &machine, n_microbatches);
}

void way_init_own(struct way *way, struct orr_pipeline *p, const struct orr_schedule *schedule,
		  int n_workers, int n_microbatches)
{
	struct orr_error err = {""};
	struct orr_try *x = &way->tried;

	*way = (struct way){.pipeline = p};
	ck_assert_msg(!orr_pipeline_set_step(p, n_workers, n_microbatches, &err) &&
			      !orr_jobs_create(&x->jobs, p, schedule, &err) &&
			      !orr_simulate(&x->timeline, x->jobs, &err) &&
			      !orr_timeline_check(x->timeline, &err) &&
			      !orr_figures_create(&x->figures, x->timeline, &err),
		      "%s: %s", schedule->name, err.msg);
}

bool way_try_on(struct way *way, struct orr_pipeline *p, const char *schedule,
		const struct orr_machine *machine, int n_microbatches)
{
	struct orr_error err = {""};
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	int code;

	p->machine = *machine;
	ck_assert_msg(!orr_pipeline_set_step(p, machine->n_workers, n_microbatches, &err), "%s",
		      err.msg);
	ck_assert_msg(!orr_choice_init(&choice, schedule, &err), "%s", err.msg);
	code = orr_jobs_create(&jobs, p, &choice.schedule, &err);
	if (code)
		ck_assert_msg(code == ORR_E_INPUT && *err.msg && choice.schedule.check,
			      "%s refuses: %s", schedule, err.msg);
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	if (!code)
		way_init_on(way, p, schedule, machine, n_microbatches);
	return !code;
}

bool way_try(struct way *way, struct orr_pipeline *p, const char *schedule, int n_workers,
	     int n_microbatches)
{
	struct orr_machine machine = orr_machine_default(n_workers);

	return way_try_on(way, p, schedule, &machine, n_microbatches);
}

int count_schedules(void)
{
	int n = 0;

	while (orr_schedules[n])
		n++;
	return n;
}

const char *quick_schedule(int i)
{
	return strcmp(orr_schedules[i]->name, "auto") ? orr_schedules[i]->name : "auto:effort=0";
}

void way_fini(struct way *way)
{
	orr_try_fini(&way->tried);
	orr_choice_fini(&way->choice);
}

void way_end(struct way *way)
{
	way_fini(way);
	orr_pipeline_destroy(way->pipeline);
}

const char *way_order(const struct way *way, int w)
{
	static char texts[2][4096];
	static int turn;
	char *text = texts[turn ^= 1];
	const struct orr_jobs *jobs = way->tried.jobs;
	int n = jobs->first[w + 1] - jobs->first[w];
	size_t used = 0;
	int64_t after = -1;

	*text = '\0';
	for (int i = 0; i < n; i++) { /* selection: few jobs, and no order but that of the starts */
		int next = -1;

		for (int k = jobs->first[w]; k < jobs->first[w + 1]; k++) {
			int j = jobs->by_worker[k];

			if (way->tried.timeline->start_ns[j] > after &&
			    (next < 0 || way->tried.timeline->start_ns[j] <
						 way->tried.timeline->start_ns[next]))
				next = j;
		}
		ck_assert_int_ge(next, 0);
		after = way->tried.timeline->start_ns[next];
		struct orr_job job = orr_jobs_at(jobs, next);
		used += (size_t)snprintf(text + used, sizeof(texts[0]) - used, "%s%d%c%d",
					 i ? " " : "", job.s, orr_pass_letter(job.d), job.b);
	}
	return text;
}

int64_t block_peak(const struct orr_block *block, int w)
{
	int64_t peak = 0;

	for (int sb = 0; sb < block->n_stages * block->n_microbatches; sb++) {
		int s = sb % block->n_stages, f = sb * block->n_passes;
		int64_t end = block->start[f + block->n_passes - 1] +
			      block->length[(s + 1) * block->n_passes - 1];

		if (block->worker[sb] == w)
			peak += (end - block->start[f] + block->interval - 1) / block->interval;
	}
	return peak;
}

int64_t units(int64_t ns)
{
	ck_assert_int_eq(ns % ORR_UNIT_NS, 0);
	return ns / ORR_UNIT_NS;
}

int peak_of(const struct orr_figures *f)
{
	int most = 0;

	for (int w = 0; w < f->n_workers; w++)
		most = f->worker[w].peak_stash > most ? f->worker[w].peak_stash : most;
	return most;
}
