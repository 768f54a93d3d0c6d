/* Parameters that stages have in common: which sets a cut leaves, and what they cost, by hand. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/plan.h"
#include "plan/plan_file.h"
#include "pipelines.h"
#include "suite.h"

#define NODES \
	"node [forward=1, backward=1, parameters=8, update=1]; a [share=x]; b [share=y]; " \
	"c [share=x, parameters=8]; d [share=y]; e [share=z]; f [share=z]; a -> b -> c -> d -> " \
	"e -> f; "

static struct orr_pipeline *cut(struct orr_graph **g, const char *text, const int *stage_of,
				int n_stages)
{
	struct orr_machine machine = orr_machine_default(0);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	*g = parse_graph(text);
	ck_assert_msg(!orr_partition_as(&p, *g, &machine, stage_of, n_stages, 1, &err), "%s",
		      err.msg);
	return p;
}

/* "0,1: 8; 0,2: 8 frozen" */
static const char *print_sets(const struct orr_pipeline *p)
{
	static char text[256];
	size_t n = 0;

	text[0] = '\0';
	for (int t = 0; t < p->n_tied; t++) {
		for (int i = 0; i < p->tied[t].n_stages; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%d",
					      i   ? ","
					      : t ? "; "
						  : "",
					      p->tied[t].stages[i]);
		n += (size_t)snprintf(text + n, sizeof(text) - n, ": %lld%s",
				      (long long)p->tied[t].bytes,
				      p->tied[t].frozen ? " frozen" : "");
	}
	return text;
}

static const struct {
	const char *more, *sets;
	int n_stages, stage_of[6], bytes[6], tied[6];
} cuts[] = {
	/* every operator a stage */
	{"",
	 "0,2: 8; 1,3: 8; 4,5: 8",
	 6,
	 {0, 1, 2, 3, 4, 5},
	 {8, 8, 8, 8, 8, 8},
	 {8, 8, 8, 8, 8, 8}},
	/* two sets of the same stages are one; inside a stage a set counts once */
	{"", "0,1: 16", 2, {0, 0, 1, 1, 1, 1}, {16, 24}, {16, 16}},
	{"", "", 1, {0, 0, 0, 0, 0, 0}, {24}, {0}},
	{"", "0,1: 8", 2, {0, 0, 0, 1, 1, 1}, {16, 16}, {8, 8}},
	/* what is frozen makes no gradient, and is a set of its own */
	{"a [frozen=true]; c [frozen=true];",
	 "0,1: 8 frozen; 0,1: 8",
	 2,
	 {0, 0, 1, 1, 1, 1},
	 {16, 24},
	 {8, 8}},
};

START_TEST(a_cut_leaves_sets_of_the_parameters_that_stages_share)
{
	struct orr_graph *g;
	struct orr_pipeline *p;
	char text[512];

	snprintf(text, sizeof(text), "digraph { " NODES "%s }", cuts[_i].more);
	p = cut(&g, text, cuts[_i].stage_of, cuts[_i].n_stages);
	ck_assert_str_eq(print_sets(p), cuts[_i].sets);
	for (int s = 0; s < p->n_stages; s++) {
		ck_assert_int_eq(p->stages[s].parameter_bytes, cuts[_i].bytes[s]);
		ck_assert_int_eq(p->stages[s].tied_trained_bytes, cuts[_i].tied[s]);
		ck_assert_int_eq(p->stages[s].update_ns,
				 (cuts[_i].bytes[s] - p->stages[s].frozen_bytes) / 8 * ORR_UNIT_NS);
	}
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(what_is_shared_changes_the_fingerprint)
{
	static const char *const texts[] = {
		"digraph { node [forward=1]; a; b; c; a -> b -> c }",
		"digraph { node [forward=1]; a [share=x]; b [share=x]; c; a -> b -> c }",
		"digraph { node [forward=1]; a; b [share=x]; c [share=x]; a -> b -> c }"};
	char prints[3][24];

	for (int i = 0; i < 3; i++) {
		struct orr_graph *g = parse_graph(texts[i]);

		orr_graph_fingerprint(g, prints[i]);
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(prints[i], prints[k]);
		orr_graph_destroy(g);
	}
}
END_TEST

static const struct {
	int64_t bytes;
	int n, stages[3];
	const char *message;
} refused[] = {
	{8,
	 1,
	 {0},
	 "pipeline: tied parameters of 1 stages and 8 bytes: give two stages or more, "
	 "and their size"},
	{-1,
	 2,
	 {0, 1},
	 "pipeline: tied parameters of 2 stages and -1 bytes: give two stages or "
	 "more, and their size"},
	{8, 2, {1, 3}, "pipeline: tied parameters of stage 3: name stages from 0 to 2, ascending"},
	{8, 2, {1, 1}, "pipeline: tied parameters of stage 1: name stages from 0 to 2, ascending"},
	{9,
	 2,
	 {1, 2},
	 "pipeline: 9 bytes of tied parameters in stage 1, which has fewer trained "
	 "ones: count them in its parameter_bytes"},
};

START_TEST(sets_that_cannot_be_are_refused)
{
	struct orr_pipeline *p = make_pipeline(3, "0>1 1>2", 1, 1, 0, 0, 8, 0);
	struct orr_tied tied = {refused[_i].bytes, false, refused[_i].n, refused[_i].stages};
	struct orr_error err = {""};

	ck_assert_int_eq(orr_pipeline_tie(p, &tied, 1, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, refused[_i].message);
	ck_assert_int_eq(p->n_tied, 0);
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- what they cost ---- */

/* Stages over edges, F 1 and B 2 units, update 1; `tied` names those that share all their 8 MB. */
static struct orr_pipeline *tied_pipeline(int n_stages, const char *edges, const char *tied)
{
	struct orr_pipeline *p = make_pipeline(n_stages, edges, 1, 2, 0, 0, 8000000, 0);
	struct orr_tied set = {.bytes = 8000000};
	struct orr_error err = {""};
	int stages[8];

	for (const char *c = tied; *c; c++)
		stages[set.n_stages++] = *c - '0';
	set.stages = stages;
	for (int s = 0; s < n_stages; s++)
		p->stages[s].update_ns = ORR_UNIT_NS;
	ck_assert_msg(!orr_pipeline_tie(p, &set, *tied ? 1 : 0, &err), "%s", err.msg);
	return p;
}

/* 4 microbatches, links of 4 MB/s and a latency. What k workers share of 8 MB goes round in 2 (k-1)
 * steps of 8/k MB. Memory: 16 bytes a parameter, 32 MB a stage, and 8 MB for what a ring brings. */
static const struct {
	const char *edges, *tied, *schedule;
	int n_stages, n_workers;
	int64_t latency, makespan, reduced[4], parameters[4], memory[4];
} costs[] = {
	/* B of stage 0 ends last, at 5 times 3; the ring takes 2 (latency + 1), the update 1 */
	{"0>1", "", "1f1b", 2, 2, 0, 16, {0, 0}, {8, 8}, {32, 32}},
	{"0>1", "01", "1f1b", 2, 2, 0, 18, {8, 8}, {8, 8}, {40, 40}},
	/* B of stage 0 ends at 19: all but the first and the last microbatch wait a latency */
	{"0>1", "", "1f1b", 2, 2, 1, 20, {0, 0}, {8, 8}, {32, 32}},
	{"0>1", "01", "1f1b", 2, 2, 1, 24, {8, 8}, {8, 8}, {40, 40}},
	/* on one worker: one copy, nothing goes round; both stages update */
	{"0>1", "", "gpipe", 2, 1, 0, 26, {0}, {16}, {64}},
	{"0>1", "01", "gpipe", 2, 1, 0, 26, {0}, {8}, {32}},
	/* three workers, 4 steps of 8/3 MB: stage 2 and 1 wait for stage 0; 2 stays out of it */
	{"0>1 1>2", "012", "gpipe", 3, 3, 0, 0, {10, 10, 10}, {8, 8, 8}, {40, 40, 40}},
	{"0>1 1>2", "02", "gpipe", 3, 3, 0, 0, {8, 0, 8}, {8, 8, 8}, {40, 32, 40}},
	/* replicas: a ring for what is shared, none for what is not there besides; stage 1 has its
	   own */
	{"0>1 1>2", "02", "ddp", 3, 2, 0, 0, {16, 16}, {16, 16}, {80, 80}},
	{"0>1 1>2", "", "ddp", 3, 2, 0, 0, {24, 24}, {24, 24}, {120, 120}},
	/* two ways down a chain: the owners of both stages are the same two workers */
	{"0>1", "01", "chimera", 2, 2, 0, 0, {8, 8}, {8, 8}, {40, 40}},
};

START_TEST(tied_parameters_cost_what_is_counted_by_hand)
{
	struct orr_pipeline *p = tied_pipeline(costs[_i].n_stages, costs[_i].edges, costs[_i].tied);
	struct orr_machine machine = orr_machine_default(costs[_i].n_workers);
	struct orr_error err = {""};
	struct way way;

	machine.bandwidth_bytes_per_s = 4e6;
	machine.latency_ns = costs[_i].latency * ORR_UNIT_NS;
	way_init_on(&way, p, costs[_i].schedule, &machine, 4);
	ck_assert_msg(!orr_timeline_check(way.tried.timeline, &err), "%s", err.msg);
	if (costs[_i].makespan)
		ck_assert_int_eq(units(way.tried.figures->makespan_ns), costs[_i].makespan);
	for (int w = 0; w < costs[_i].n_workers; w++) {
		const struct orr_worker_figures *f = &way.tried.figures->worker[w];

		ck_assert_int_eq(f->all_reduce_bytes / 1000000, costs[_i].reduced[w]);
		ck_assert_int_eq(f->parameter_bytes, costs[_i].parameters[w] * 1000000);
		ck_assert_int_eq(f->memory_bytes, costs[_i].memory[w] * 1000000);
	}
	way_end(&way);
}
END_TEST

START_TEST(the_checker_knows_what_updates_wait_for)
{
	struct orr_pipeline *p = tied_pipeline(2, "0>1", "01");
	struct orr_machine machine = orr_machine_default(2);
	struct orr_error err = {""};
	struct orr_timeline *t;
	struct way way;

	machine.bandwidth_bytes_per_s = 4e6;
	way_init_on(&way, p, "1f1b", &machine, 4);
	t = way.tried.timeline;
	ck_assert_int_eq(t->n_updates, 2);
	ck_assert_int_eq(t->updates[1].s, 1);
	t->updates[1].start_ns -= ORR_UNIT_NS; /* before the ring's end */
	ck_assert_int_eq(orr_timeline_check(t, &err), ORR_E_RUNTIME);
	ck_assert_str_eq(err.msg, "timeline: the update of stage 1 on worker 1 starts before its "
				  "gradients are added up");
	t->updates[1].start_ns -= 2 * ORR_UNIT_NS; /* and before stage 0 has its last gradient */
	t->updates[1].end_ns -= 3 * ORR_UNIT_NS;
	ck_assert_int_eq(orr_timeline_check(t, &err), ORR_E_RUNTIME);
	ck_assert_str_eq(err.msg, "timeline: the update of stage 1 on worker 1 starts before its "
				  "gradients are added up");
	t->n_transfers = 0;
	ck_assert_int_eq(orr_timeline_check(t, &err), ORR_E_RUNTIME);
	ck_assert_str_eq(err.msg, "timeline: the update of stage 1 on worker 1 starts before job "
				  "0B3 ends");
	way_end(&way);
}
END_TEST

static const struct {
	const char *schedule, *tied;
	int gang;
	const char *message;
} unserved[] = {
	{"pipedream", "01", 0,
	 "schedule pipedream never flushes, and stages 0 and 1 share parameters, of which they "
	 "would read different versions: take a schedule that flushes, or put both into one stage"},
	{"gpipe", "01", 2,
	 "stages 0 and 1 share parameters, and stage 1 is split over a gang: take gang= or share= "
	 "away"},
	{"pipedream", "", 0, ""},
	{"gpipe", "", 2, ""},
};

START_TEST(where_they_cannot_be_they_are_refused)
{
	struct orr_pipeline *p = tied_pipeline(2, "0>1", unserved[_i].tied);
	struct orr_error err = {""};
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;

	p->stages[1].gang.n = unserved[_i].gang;
	ck_assert_int_eq(orr_pipeline_set_step(p, 2, 4, &err), 0);
	ck_assert_int_eq(orr_choice_init(&choice, unserved[_i].schedule, &err), 0);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &choice.schedule, &err),
			 *unserved[_i].message ? ORR_E_INPUT : 0);
	ck_assert_str_eq(err.msg, unserved[_i].message);
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
}
END_TEST

/* The plan of a chain of two, a worker each: its slowest stage pays for the ring, and its step ends
 * with it; as a file it reads back to the same step. */
START_TEST(a_plan_counts_the_ring_and_reads_back)
{
	static const char *const texts[] = {
		"digraph { node [forward=1, backward=2, parameters=\"8MB\"]; a; b; a -> b }",
		"digraph { node [forward=1, backward=2, parameters=\"8MB\", share=w]; a; b; a -> b "
		"}"};
	struct orr_plan *plans[2];
	struct orr_graph *g[2];
	struct orr_pipeline *p = NULL;
	struct orr_choice choice;
	struct orr_try tried;
	struct orr_error err = {""};
	char path[] = "/tmp/orrery-tied-XXXXXX.json";
	json_t *json;
	int stage_of[2], fd = mkstemps(path, 5);

	ck_assert_int_ge(fd, 0);
	close(fd);
	for (int i = 0; i < 2; i++) {
		struct orr_plan_options o = {
			.n_microbatches = 4, .straight = true, .activations = true};

		g[i] = parse_graph(texts[i]);
		o.levels = (struct orr_levels){.n = 1, .workers = {2}, .bytes_per_s = {4e6}};
		o.samples = 1;
		o.flops_per_s = 1e10;
		ck_assert_msg(!orr_plan_create(&plans[i], g[i], &o, &err), "%s", err.msg);
		ck_assert_int_eq(plans[i]->pipeline->n_stages, 2);
	}
	ck_assert_int_eq(plans[1]->pipeline->n_tied, 1);
	ck_assert_int_eq(units(plans[0]->tried.figures->makespan_ns), 15);
	ck_assert_int_eq(units(plans[1]->tried.figures->makespan_ns), 17);
	ck_assert_double_eq_tol(plans[1]->costs[0].communication_s, 2.0 / 4, 1e-9);
	ck_assert_double_eq_tol(plans[0]->costs[0].communication_s, 0, 1e-9);
	json = orr_plan_json(plans[1], true, &err);
	ck_assert_int_eq(json_dump_file(json, path, 0), 0);
	json_decref(json);
	ck_assert_msg(!orr_choice_init(&choice, path, &err) &&
			      !orr_plan_file_stages(choice.plan, g[1], stage_of, &err) &&
			      !orr_partition_as(&p, g[1], &plans[1]->pipeline->machine, stage_of, 2,
						1, &err) &&
			      !orr_pipeline_set_step(p, 2, 4, &err) &&
			      !orr_try_init(&tried, p, &choice.schedule, NULL, &err) &&
			      !orr_try_run(&tried, &err),
		      "%s", err.msg);
	ck_assert_int_eq(tried.figures->makespan_ns, plans[1]->tried.figures->makespan_ns);
	ck_assert_int_eq(tried.figures->worker[1].all_reduce_bytes, 8000000);
	orr_try_fini(&tried);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
	for (int i = 0; i < 2; i++) {
		orr_plan_destroy(plans[i]);
		orr_graph_destroy(g[i]);
	}
	(void)unlink(path);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_cut_leaves_sets_of_the_parameters_that_stages_share, N_OF(cuts)),
	ONCE(what_is_shared_changes_the_fingerprint),
	EACH(sets_that_cannot_be_are_refused, N_OF(refused)),
	EACH(tied_parameters_cost_what_is_counted_by_hand, N_OF(costs)),
	ONCE(the_checker_knows_what_updates_wait_for),
	EACH(where_they_cannot_be_they_are_refused, N_OF(unserved)),
	ONCE(a_plan_counts_the_ring_and_reads_back),
};
SUITE("tied")
