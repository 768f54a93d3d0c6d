/* Plans that seek splits: never longer than what was tried, within memory, the same from a file. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs.h"
#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "pipeline/partition.h"
#include "rewrite/rewrite.h"
#include "orrery/schedule.h"
#include "schedule/table.h"
#include "suite.h"
#include "plan/plan_file.h"

static struct orr_plan_options options_for(const char *workers, int m)
{
	struct orr_plan_options o = {.activations = true,
				     .unpin = true,
				     .n_microbatches = m,
				     .samples = 48 / m,
				     .flops_per_s = 1e10};
	struct orr_error err = {""};

	ck_assert(!orr_levels_parse(&o.levels, workers,
				    strchr(workers, 'x') ? "10GB/s,1GB/s" : "10GB/s", NULL, NULL,
				    &err));
	return o;
}

static struct orr_split_plan *seek(struct orr_graph *g, const char *splits,
				   const struct orr_plan_options *o)
{
	struct orr_split_plan *x = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_split_plan_create(&x, g, splits, o, &err), "%s", err.msg);
	return x;
}

static int64_t makespan(const struct orr_split_plan *x)
{
	return (x->graph ? x->tried.figures : x->plan->tried.figures)->makespan_ns;
}

static const struct {
	const char *model, *workers;
	int m;
} cases[] = {{"gpt", "4", 1}, {"gpt", "2", 4}, {"encoder_decoder", "2", 2}};

static struct orr_graph *read_model(const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), ORR_SOURCE "/graphs/%s.dot", name);
	return read_graph(path);
}

static int64_t most_memory(const struct orr_figures *f)
{
	return f->worker[orr_figures_fullest(f)].memory_bytes;
}

/* The shortest of its tries, each of which is what planning that split alone finds, and no longer
 * than the plan without. */
START_TEST(the_shortest_is_taken)
{
	struct orr_graph *g = read_model(cases[_i].model);
	struct orr_plan_options o = options_for(cases[_i].workers, cases[_i].m);
	struct orr_split_plan *x = seek(g, "any", &o);
	bool without = false;

	ck_assert_int_ge(x->n_tries, 2);
	for (int i = 0; i < x->n_tries; i++) {
		const struct orr_split_try *t = &x->tries[i];

		ck_assert_int_le(makespan(x), t->makespan_ns);
		without = without || !strcmp(t->splits, "1");
		if (strcmp(t->splits, x->splits) != 0 || !x->graph)
			continue;
		struct orr_split_plan *alone = seek(g, t->splits, &o);

		ck_assert_int_eq(makespan(alone), t->makespan_ns);
		ck_assert_int_eq(alone->n_groups, t->n_groups);
		orr_split_plan_destroy(alone);
	}
	ck_assert(without);
	if (x->graph) { /* groups hold what their workers do, but for some copies of parameters */
		int64_t held = most_memory(x->tried.figures),
			planned = most_memory(x->plan->tried.figures);

		ck_assert_int_le(llabs(planned - held), held / 1000);
	}
	if (cases[_i].m == 1) /* nothing else has more than one worker busy */
		ck_assert_msg(x->graph != NULL, "%s is not split", cases[_i].model);
	orr_split_plan_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

/* Where starting a job takes longer than all its work, a group takes what its workers do: one start
 * for each exchange, and none for each operator. */
START_TEST(starts_are_counted)
{
	struct orr_graph *g = read_model("gpt");
	struct orr_plan_options o = options_for("4", 4);
	struct orr_split_plan *x;
	int64_t groups, workers;

	g->overhead_ns = 10000000;
	x = seek(g, "2", &o);
	groups = x->plan->tried.figures->makespan_ns;
	workers = makespan(x);
	ck_assert_int_le(groups, workers * 5 / 4);
	ck_assert_int_ge(groups, workers * 4 / 5);
	orr_split_plan_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

/* Groups lie inside a node: of two nodes of two no split is among four. */
START_TEST(splits_stay_inside_a_node)
{
	struct orr_graph *g = read_model("gpt");
	struct orr_plan_options o = options_for("2x2", 2);
	struct orr_split_plan *x = seek(g, "any", &o);

	for (int i = 0; i < x->n_tries; i++)
		ck_assert_msg(!strchr(x->tries[i].splits, '4'), "%s", x->tries[i].splits);
	orr_split_plan_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

/* What needs less than one worker has: the plan does, in the simulator's count. */
START_TEST(memory_is_kept)
{
	struct orr_graph *g = read_model("gpt");
	struct orr_plan_options o = options_for("4", 8);
	struct orr_split_plan *free_memory = seek(g, "any", &o), *x;
	const struct orr_figures *f;
	int64_t least = INT64_MAX;

	for (int i = 0; i < free_memory->n_tries; i++)
		if (free_memory->tries[i].memory_bytes < least)
			least = free_memory->tries[i].memory_bytes;
	o.memory_bytes = least;
	x = seek(g, "any", &o);
	f = x->graph ? x->tried.figures : x->plan->tried.figures;
	for (int w = 0; w < f->n_workers; w++)
		ck_assert_int_le(f->worker[w].memory_bytes, least);
	ck_assert_int_ge(makespan(x), makespan(free_memory));
	orr_split_plan_destroy(x);
	orr_split_plan_destroy(free_memory);
	orr_graph_destroy(g);
}
END_TEST

/* A group is planned with what its workers hold while a backward computes operators again, of which
 * each has its part alone: not less, but for what is freed on the way little more. */
START_TEST(what_is_computed_again_is_counted)
{
	static const struct orr_plan_options o = {.activations = true,
						  .levels = {1, {2}, {10e9}, {0}},
						  .n_microbatches = 4,
						  .samples = 16,
						  .flops_per_s = 1e10};
	struct orr_graph *g =
		parse_graph("digraph m { x [op=input, columns=\"0:64\"];"
			    "y [op=input, columns=64]; h [op=linear, features=512];"
			    "r [op=gelu, recompute=true]; z [op=linear, features=16];"
			    "l [op=softmax_cross_entropy]; x -> h -> r -> z -> l; y -> l }");
	struct orr_split_plan *x = seek(g, "2", &o);
	int64_t held = most_memory(x->tried.figures);

	ck_assert_int_ge(most_memory(x->plan->tried.figures), held);
	ck_assert_int_le(most_memory(x->plan->tried.figures), held + held / 100);
	orr_split_plan_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

/* Written, read, and run on the graph that is read again. */
START_TEST(a_file_is_the_same_step)
{
	struct orr_graph *g = read_model("gpt"), *split = NULL;
	struct orr_plan_options o = options_for("4", 2);
	struct orr_split_plan *x = seek(g, "any", &o);
	struct orr_plan_file *file = NULL;
	struct orr_machine machine = orr_machine_default(4);
	struct orr_pipeline *p = NULL;
	struct orr_schedule schedule;
	struct orr_try tried;
	struct orr_error err = {""};
	char path[] = "plan-split-XXXXXX";
	json_t *json = orr_split_plan_json(x, false, &err);
	int *stage_of = calloc((size_t)g->n_operators, sizeof(*stage_of)), f = mkstemp(path);

	ck_assert(x->graph && json && stage_of && f >= 0);
	ck_assert(!json_dump_file(json, path, 0));
	ck_assert_msg(!orr_plan_file_read(&file, path, &err), "%s", err.msg);
	ck_assert_str_eq(file->splits, x->splits);
	ck_assert_int_eq(file->n_workers, 4);
	ck_assert(!orr_plan_file_stages(file, g, stage_of, &err));
	ck_assert(!orr_graph_split(&split, g, file->splits, &err));
	machine.flops_per_s = o.flops_per_s;
	machine.bandwidth_bytes_per_s = file->bandwidth_bytes_per_s;
	ck_assert(
		!orr_partition_as(&p, split, &machine, stage_of, file->n_stages, o.samples, &err));
	ck_assert(!orr_pipeline_set_step(p, file->n_workers, 2, &err));
	orr_table_schedule(&schedule, file->table);
	ck_assert_msg(!orr_try_init(&tried, p, &schedule, NULL, &err), "%s", err.msg);
	ck_assert_msg(!orr_try_run(&tried, &err), "%s", err.msg);
	ck_assert_int_eq(tried.figures->makespan_ns, makespan(x));
	orr_try_fini(&tried);
	orr_pipeline_destroy(p);
	orr_plan_file_destroy(file);
	orr_split_plan_destroy(x);
	orr_graph_destroy(split);
	json_decref(json);
	free(stage_of);
	(void)close(f);
	(void)unlink(path);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
	static const struct {
		const char *splits;
		int64_t memory_bytes;
		const char *message;
	} refusals[] = {
		{"8", 0, "split so: give more workers"},
		{"any", 1000, "4 workers and their memory split so"},
		{"c=2", 0, "split c: "},
	};
	struct orr_graph *g = read_model("gpt");

	for (int i = 0; i < N_OF(refusals); i++) {
		struct orr_plan_options o = options_for("4", 8);
		struct orr_split_plan *x = NULL;
		struct orr_error err = {""};

		o.memory_bytes = refusals[i].memory_bytes;
		ck_assert_int_eq(orr_split_plan_create(&x, g, refusals[i].splits, &o, &err),
				 ORR_E_INPUT);
		ck_assert_msg(strstr(err.msg, refusals[i].message) != NULL, "%s\nand not\n%s",
			      err.msg, refusals[i].message);
	}
	orr_graph_destroy(g);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(the_shortest_is_taken, N_OF(cases)), ONCE(starts_are_counted),
	ONCE(splits_stay_inside_a_node),          ONCE(memory_is_kept),
	ONCE(what_is_computed_again_is_counted),  ONCE(a_file_is_the_same_step),
	ONCE(what_does_not_fit_is_refused),
};
SUITE("plan_split")
