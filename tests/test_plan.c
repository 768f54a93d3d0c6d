/* Planning: where to cut and how often to replicate. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "plan/hierarchy.h"
#include "plan/ideals.h"
#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/orrery.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"
#include "orrery/timeline.h"
#include "graphs.h"
#include "pipelines.h"
#include "suite.h"

static struct orr_ideals *make_ideals(const struct orr_graph *g, int most)
{
	struct orr_machine machine = orr_machine_default(1);
	struct orr_ideals *x = NULL;
	struct orr_error err = {""};

	ck_assert_msg(orr_ideals_create(&x, g, &machine, 1, 1, most, NULL, &err) == 0, "%s",
		      err.msg);
	return x;
}

/* n_stages 0: nothing fits. */
static struct orr_hierarchy search(const struct orr_ideals *x, const char *workers,
				   const char *links, struct orr_hierarchy_options o)
{
	struct orr_hierarchy h;
	struct orr_error err = {""};

	ck_assert_msg(orr_levels_parse(&o.levels, workers, links, NULL, NULL, &err) == 0, "%s",
		      err.msg);
	ck_assert_msg(!orr_hierarchy_find(&h, x, &o, &err), "%s", err.msg);
	return h;
}

/* A chain with room for every term: two operators of 3 s and 1 s; 4 GB and 1 GB of parameters, 2 GB
 * between. */
static const char two[] =
	"digraph g { a [forward=\"1s\" backward=\"2s\" parameters=\"4GB\" activation=\"2GB\"];"
	"b [forward=\"0.5s\" backward=\"0.5s\" parameters=\"1GB\"]; a -> b }";

START_TEST(every_term_of_the_cost_counts)
{
	static const struct {
		const char *workers, *links;
		int m; /* 0: as PipeDream's optimizer counts */
		bool activations;
		int n_stages;
		double slowest_s;
	} cases[] = {
		{"1", NULL, 0, true, 1, 4},
		{"2", NULL, 0, true, 1, 2}, /* two replicas of everything */
		{"2", "100GB/s", 0, true, 1,
		 2.05}, /* 4 * 5 GB / (100 GB/s * 2) = 0.1 s, shared by two */
		{"2", "1GB/s", 0, false, 2, 3}, /* 5 s of exchange are too much: a | b */
		{"2", "1GB/s", 0, true, 1,
		 4}, /* and 2 * 2 GB / 1 GB/s between them, which PipeDream adds, as slow as one */
		{"4", "1GB/s", 0, false, 2, 3}, /* two replicas of a: (3 + 8) / 2; no better */
		{"2x2", "100GB/s,100GB/s", 0, false, 1,
		 1.05}, /* (2.05 + 0.1 / 2) / 2: the group shares the exchange */
		{"2", NULL, 10, true, 1, 2},
		{"2", "100GB/s", 10, true, 1,
		 2.005}, /* a ring of 2 * 1/2 * 5 GB takes 0.05 s, once in 10 microbatches */
		{"2", "1GB/s", 10, true, 1, 2.5},
		{"2", "1GB/s", 2, true, 2,
		 3}, /* a ring of 5 s in 2; 2 s each way beside 3 s of a */
		{"2", "500MB/s", 2, true, 1, 4}, /* each way as slow as one worker */
		{"2", "1GB/s", 2, false, 2, 3},
		{"4", "1GB/s", 10, false, 2,
		 1 + 1.6 / 3}, /* three replicas of a: 2 * 2/3 * 4 GB in 10 microbatches */
		{"4", "1GB/s", 10, true, 2,
		 1 + 1.6 / 3}, /* three links with 2 s each way among them to b */
		{"1x2", "1B/s,1GB/s", 10, true, 1, 2.5}, /* nobody uses the inner link */
		{"2x1", "1GB/s,1B/s", 10, true, 1, 2.5},
	};
	struct orr_graph *g = parse_graph(two);
	struct orr_ideals *x = make_ideals(g, 100);
	struct orr_hierarchy_options o = {.activations = cases[_i].activations,
					  .n_microbatches = cases[_i].m,
					  .least_in_flight = 1};
	struct orr_hierarchy h = search(x, cases[_i].workers, cases[_i].links, o);

	ck_assert_double_eq_tol(h.slowest_s, cases[_i].slowest_s, 1e-9);
	ck_assert_int_eq(h.n_stages, cases[_i].n_stages);
	free(h.stages);
	orr_ideals_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

/* 2 s each way beside 3 s of a, in turn as slow as one worker: on groups that are alike, too, which
 * are planned level by level. */
START_TEST(a_machine_says_whether_directions_take_turns)
{
	static const char *const machines[] = {"graph { w [repeat=2] }",
					       "graph { duplex=half; w [repeat=2] }"};
	struct orr_graph *g = parse_graph(two);
	struct orr_ideals *x = make_ideals(g, 100);

	for (int half = 0; half < 2; half++)
		for (int outer = 0; outer < 2; outer++) {
			struct orr_cluster *cluster = parse_cluster("%s", machines[half]);
			struct orr_machine machine = orr_machine_of(cluster, 0);
			struct orr_hierarchy_options o = {.activations = true,
							  .n_microbatches = 2,
							  .least_in_flight = 1,
							  .machine = &machine};
			struct orr_hierarchy h =
				search(x, outer ? "1x2" : "2", outer ? "1GB/s,1GB/s" : "1GB/s", o);

			ck_assert_double_eq_tol(h.slowest_s, half ? 4 : 3, 1e-9);
			free(h.stages);
			orr_cluster_destroy(cluster);
		}
	orr_ideals_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(ideals_are_counted)
{
	static const struct {
		const char *graph;
		int n;
	} cases[] = {
		{"chain:5", 6},
		{"towers:3,3/2", 4 * 4 + 2},
		{"towers:2,3,4/1", 3 * 4 * 5 + 1},
	};
	struct orr_graph *g = read_graph(cases[_i].graph);
	struct orr_ideals *x = make_ideals(g, 1000);

	ck_assert_int_eq(x->n, cases[_i].n);
	ck_assert(!x->coarse && !x->flattened);
	for (int i = 1; i < x->n; i++)
		ck_assert(orr_ideals_inside(x, 0, i) && orr_ideals_inside(x, i, x->n - 1));
	orr_ideals_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

/* h costs nothing, nor do i and j, which read nothing else: three prefixes of a chain of two are
 * left. */
START_TEST(what_reads_only_free_operators_makes_no_cuts)
{
	struct orr_graph *g = parse_graph(
		"digraph g { node [forward=0]; h; i; j; k [stash=1]; node [forward=1]; a; b;"
		"h -> i -> a -> b; h -> j -> b; h -> k }");
	struct orr_ideals *x = make_ideals(g, 100);

	ck_assert_int_eq(x->n, 2 * 3); /* what keeps a stash is not free */
	for (int i = 0; i < g->n_operators; i++)
		ck_assert_int_eq(x->unit_of[i] < 0, strchr("hij", *g->operators[i].name) != NULL);
	orr_ideals_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(too_many_ideals_are_made_fewer)
{
	struct orr_graph *g = read_graph("towers:40,40,40,40/20");
	struct orr_ideals *x = make_ideals(g, 600);

	ck_assert_int_le(x->n, 600);
	ck_assert(x->coarse && !x->flattened);
	/* nothing is lost */
	ck_assert_int_eq(x->compute_ns[x->n - 1], 180 * INT64_C(2000000000));
	orr_ideals_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(memory_forbids_stages)
{
	struct orr_graph *g = parse_graph(two);
	struct orr_ideals *x = make_ideals(g, 100);
	struct orr_hierarchy_options o = {.numerics.optimizer = ORR_OPTIMIZER_MOMENTUM,
					  .least_in_flight = 1,
					  .memory_bytes = INT64_C(12000000000)};
	struct orr_hierarchy h = search(x, "2", NULL, o);

	ck_assert_int_eq(h.n_stages, 2); /* 15 GB for both do not fit, 12 GB and 3 GB do */
	free(h.stages);
	o.memory_bytes--;
	ck_assert_int_eq(search(x, "2", NULL, o).n_stages, 0);
	orr_ideals_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(links_without_levels_are_refused)
{
	struct orr_levels levels;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_levels_parse(&levels, "4", "10GB/s,1GB/s", NULL, NULL, &err),
			 ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "1 level: give as many links"), "%s", err.msg);
}
END_TEST

/* ---- whole plans ---- */

START_TEST(branches_side_by_side_beat_the_chain)
{
	static const struct {
		const char *graph, *workers;
		int backward, dag, chain, dag_peak, chain_peak;
	} cases[] = {
		{"towers:3,3/2", "8", 1, 40, 46, 5, 8},
		{"towers:3,3/2", "8", 2, 60, 69, 5, 8},
		{"towers:4,2/2", "8", 2, 63, 69, 6, 8},
		{"towers:2,2,2,2/2", "10", 1, 38, 50, 4, 10},
		{"chain:4", "4", 2, 57, 57, 4, 4},
	};
	struct orr_graph *g = read_graph(cases[_i].graph);
	struct orr_plan *plan;

	set_costs(g, 1, cases[_i].backward, 1, 0);
	plan = make_plan(g, cases[_i].workers, NULL,
			 (struct orr_plan_options){.straight = true, .n_microbatches = 16});
	ck_assert(plan->world == ORR_WORLD_DAG && plan->worlds[ORR_WORLD_DAG].fits &&
		  plan->worlds[ORR_WORLD_CHAIN].fits);
	ck_assert_int_eq(plan->worlds[ORR_WORLD_DAG].makespan_ns, cases[_i].dag * ORR_UNIT_NS);
	ck_assert_int_eq(plan->worlds[ORR_WORLD_CHAIN].makespan_ns, cases[_i].chain * ORR_UNIT_NS);
	ck_assert_int_eq(plan->worlds[ORR_WORLD_DAG].peak_stash, cases[_i].dag_peak);
	ck_assert_int_eq(plan->worlds[ORR_WORLD_CHAIN].peak_stash, cases[_i].chain_peak);
	ck_assert_int_eq(plan->tried.figures->makespan_ns, plan->worlds[ORR_WORLD_DAG].makespan_ns);
	plan_end(plan, g);
}
END_TEST

START_TEST(replicas_share_the_microbatches)
{
	/* [Narayanan19] figure 8: the first stage takes twice as long and has two replicas */
	struct orr_graph *g = parse_graph(
		"digraph g { a [forward=2 backward=2]; b [forward=1 backward=1]; a -> b }");
	struct orr_plan *plan =
		make_plan(g, "3", NULL, (struct orr_plan_options){.n_microbatches = 30});

	ck_assert_double_eq_tol(plan->slowest_s, 2, 1e-9);
	ck_assert_double_eq_tol(plan->one_worker_s, 6, 1e-9);
	/* 6 units on each of three workers for every three microbatches, and what it takes to fill
	 * and drain */
	ck_assert_int_le(plan->tried.figures->makespan_ns, 66 * ORR_UNIT_NS);
	plan_end(plan, g);
}
END_TEST

/* Two groups of two workers: a pipeline inside each, and the groups share the microbatches. What a
 * microbatch sends stays on the fast links; only gradients go between groups. */
START_TEST(levels_place_what_talks_much_close_together)
{
	static const int workers[] = {0, 2, 1, 3};
	struct orr_graph *g = parse_graph(
		"digraph g { node [forward=50 backward=50 parameters=\"10B\" activation=\"100B\"];"
		"a -> b }");
	struct orr_plan_options o = {.n_microbatches = 4,
				     .numerics.optimizer = ORR_OPTIMIZER_MOMENTUM,
				     .memory_bytes = 40,
				     .activations = true};
	struct orr_plan *plan = make_plan(g, "2x2", "100B/s,1B/s", o);

	ck_assert_int_eq(plan->pipeline->n_stages, 2);
	ck_assert_mem_eq(plan->workers, workers, sizeof(workers));
	/* F F, 1 s to b, B F B, 1 s back, B, and two parts of 5 B of the gradients go round */
	ck_assert_int_eq(plan->tried.figures->makespan_ns,
			 (50 + 1 + 4 * 50 + 1 + 50 + 10) * ORR_UNIT_NS);
	plan_end(plan, g);
}
END_TEST

START_TEST(memory_is_counted_as_the_simulator_does)
{
	struct orr_plan_options o = {.straight = true,
				     .n_microbatches = 16,
				     .numerics.optimizer = ORR_OPTIMIZER_MOMENTUM};
	struct orr_graph *g = read_graph("chain:4");
	struct orr_plan *plan;
	const char *why;

	set_costs(g, 1, 2, 100, 1000);
	plan = make_plan(g, "4", NULL, o);
	ck_assert_int_eq(plan->worlds[ORR_WORLD_DAG].memory_bytes, 3 * 1000 + 4 * 100);
	orr_plan_destroy(plan);
	o.memory_bytes = 3400;
	plan = make_plan(g, "4", NULL, o);
	orr_plan_destroy(plan);
	o.memory_bytes = 3000;
	why = refuse_plan(g, "4", o);
	ck_assert_msg(strstr(why, "no plan fits [memory] 3kB") && strstr(why, "on worker 0") &&
			      strstr(why, "100 B more, for parameters (12 B a parameter: 4 "
					  "weights, 4 gradient, 4 momentum) and 1 stash: ") &&
			      strstr(why, "what fits is [memory] 3100B"),
		      "%s", why);
	orr_graph_destroy(g);
}
END_TEST

/* Fewer microbatches in flight fit less memory: a step is no longer than that of 1F1B* with as many
 * [Beaumont21]. */
START_TEST(less_memory_holds_fewer_microbatches)
{
	static const int period[] = {12, 6, 6, 3}; /* of 1F1B*, with 1, 2, 2 and 4 */
	struct orr_plan_options o = {.straight = true,
				     .n_microbatches = 16,
				     .numerics.optimizer = ORR_OPTIMIZER_MOMENTUM};
	struct orr_graph *g = read_graph("chain:4");

	set_costs(g, 1, 2, 100, 1000);
	for (int held = 1; held <= 4; held++) {
		struct orr_plan *plan;

		o.memory_bytes = 3000 + 100 * held;
		plan = make_plan(g, "4", NULL, o);
		ck_assert_int_eq(plan->worlds[ORR_WORLD_DAG].memory_bytes, o.memory_bytes);
		ck_assert_int_eq(plan->in_flight, held);
		ck_assert_int_eq(plan->wanted_bytes, held < 4 ? 3400 : 0);
		ck_assert_int_le(plan->tried.figures->makespan_ns,
				 (15 * period[held - 1] + 12) * ORR_UNIT_NS);
		orr_plan_destroy(plan);
	}
	orr_graph_destroy(g);
}
END_TEST

/* The least that is said to fit, does. */
START_TEST(what_is_said_to_fit_fits)
{
	/* evenly cut by time, the parameters are uneven */
	struct orr_graph *g = parse_graph(
		"digraph g { node [forward=1 backward=1 parameters=\"100B\"]; a; b; node "
		"[forward=3 backward=3 parameters=\"50B\"]; c; a -> b -> c }");
	struct orr_plan_options o = {.straight = true,
				     .n_microbatches = 4,
				     .numerics.optimizer = ORR_OPTIMIZER_MOMENTUM,
				     .memory_bytes = 299};
	struct orr_plan *plan;

	ASSERT_HAS(refuse_plan(g, "2", o), "what fits is [memory] 450B");
	o.memory_bytes = 450;
	plan = make_plan(g, "2", NULL, o);
	ck_assert_double_eq_tol(plan->slowest_s, 8, 1e-9); /* a | b c */
	plan_end(plan, g);
}
END_TEST

/* What profile writes: jobs take an overhead each, and updates come once a step. On two stages of F
 * = 1 and B = 2 + 1 with an overhead of 1: (m + P - 1) (2 + 4), then stage 0 updates for 5 + 1. */
START_TEST(updates_and_overheads_are_planned_for)
{
	struct orr_graph *g =
		parse_graph("digraph g { overhead=1; node [forward=1 backward=2 weight=1 update=5];"
			    "a -> b }");
	struct orr_plan *plan = make_plan(
		g, "2", NULL, (struct orr_plan_options){.straight = true, .n_microbatches = 10});

	ck_assert_int_eq(plan->tried.figures->makespan_ns, (11 * 6 + 6) * ORR_UNIT_NS);
	/* a tenth of an update and its overhead for each of ten microbatches */
	ck_assert_double_eq_tol(plan->slowest_s, 6.6, 1e-9);
	plan_end(plan, g);
	/* what is updated long leaves the worker that computes long */
	g = parse_graph("digraph g { a [forward=1 backward=1 update=32]; b [forward=1 backward=1];"
			"c [forward=1 backward=1]; d [forward=1 backward=1]; a -> b -> c -> d }");
	plan = make_plan(g, "2", NULL,
			 (struct orr_plan_options){.straight = true, .n_microbatches = 8});
	ck_assert_double_eq_tol(plan->slowest_s, 6, 1e-9); /* a | b c d */
	plan_end(plan, g);
}
END_TEST

START_TEST(memory_moves_the_cut)
{
	/* evenly cut, the first stage would hold two large stashes */
	struct orr_graph *g =
		parse_graph("digraph g { a [forward=1 backward=1 stash=\"60B\"];"
			    "b [forward=1 backward=1 stash=\"60B\"]; c [forward=1 backward=1];"
			    "d [forward=1 backward=1]; a -> b -> c -> d }");
	struct orr_plan_options o = {.straight = true, .n_microbatches = 8, .memory_bytes = 120};
	struct orr_plan *plan = make_plan(g, "2", NULL, o);

	ck_assert_double_eq_tol(plan->slowest_s, 6, 1e-9); /* a | b c d */
	ck_assert_int_le(plan->worlds[ORR_WORLD_DAG].memory_bytes, 120);
	orr_plan_destroy(plan);
	o.memory_bytes = 0;
	plan = make_plan(g, "2", NULL, o);
	ck_assert_double_eq_tol(plan->slowest_s, 4, 1e-9);
	plan_end(plan, g);
}
END_TEST

START_TEST(pins_are_kept)
{
	static const char text[] =
		"digraph g { node [forward=1 backward=1]; a [stage=0]; b [stage=0]; c [stage=0];"
		"d [stage=1]; e [stage=%d]; a -> b -> c -> d -> e }";
	char source[300];
	struct orr_plan_options o = {.n_microbatches = 8};

	for (int last = 1; last <= 2; last++) { /* as many stages as workers, and one more */
		struct orr_graph *g =
			parse_graph((snprintf(source, sizeof(source), text, last), source));
		struct orr_plan *plan = make_plan(g, "2", NULL, o);

		ck_assert_int_eq(plan->pipeline->n_stages, last + 1);
		for (int i = 0; i < 5; i++)
			ck_assert_int_eq(plan->pipeline->stage_of[i], i < 3    ? 0
								      : i == 3 ? 1
									       : last);
		ck_assert_int_eq(plan->replicas[0], 1);
		ck_assert_double_eq_tol(plan->slowest_s, 6, 1e-9); /* 3 operators of 2 */
		ck_assert((plan->world == ORR_WORLD_PIECES) == (last == 2));
		if (last == 2)
			ck_assert_int_eq(plan->workers[plan->first[1]],
					 plan->workers[plan->first[2]]);
		orr_plan_destroy(plan);
		o.unpin = o.straight = true;
		plan = make_plan(g, "5", NULL, o);
		ck_assert_int_eq(plan->pipeline->n_stages, 5);
		orr_plan_destroy(plan);
		o.unpin = false;
		orr_graph_destroy(g);
	}
}
END_TEST

START_TEST(a_cost_that_is_missing_among_others_is_refused)
{
	static const char *const lost[][2] = {{"", "no forward"},
					      {"backward=2", "no forward"},
					      {"forward=1", "no backward"},
					      {"forward=1 backward=2", NULL}};
	char source[300];

	for (int i = 0; i < N_OF(lost); i++) {
		struct orr_graph *g = parse_graph(
			(snprintf(source, sizeof(source),
				  "digraph { x [op=input columns=\"0:8\"];"
				  "y [op=input columns=\"8\"]; a [op=linear features=4 forward=1 "
				  "backward=2]; b [op=linear features=1 %s];"
				  "l [op=mse forward=1 backward=1]; x -> a -> b -> l; y -> l }",
				  lost[i][0]),
			 source));
		struct orr_plan_options o = {.n_microbatches = 1};

		if (!lost[i][1]) {
			plan_end(make_plan(g, "2", NULL, o), g);
			continue;
		}
		ASSERT_HAS(refuse_plan(g, "2", o), "node b: ");
		ASSERT_HAS(refuse_plan(g, "2", o), lost[i][1]);
		orr_graph_destroy(g);
	}
}
END_TEST

START_TEST(nothing_that_takes_time_is_refused)
{
	struct orr_graph *g =
		parse_graph("digraph g { a [parameters=\"1kB\"]; b [parameters=\"1kB\"]; a -> b }");
	struct orr_plan_options o = {.n_microbatches = 1};

	ASSERT_HAS(refuse_plan(g, "2", o), "no operator takes any time");
	orr_graph_destroy(g);
}
END_TEST

/* Cut in the middle, a chain is joined at its ends, and stays as it is beside the cut. */
START_TEST(a_known_cut_is_refined_where_it_is)
{
	struct orr_graph *g = read_graph("chain:40");
	struct orr_machine machine = orr_machine_default(2);
	struct orr_ideals *x = NULL;
	struct orr_error err = {""};
	int stage_of[40];

	set_costs(g, 1, 2, 0, 0);
	for (int i = 0; i < 40; i++)
		stage_of[i] = i >= 20;
	ck_assert_msg(!orr_ideals_create(&x, g, &machine, 1, 1, 12, stage_of, &err), "%s", err.msg);
	ck_assert(x && x->coarse && x->n <= 12);
	for (int i = 18; i < 22; i++)
		ck_assert_int_ne(x->unit_of[i], x->unit_of[i - 1]);
	ck_assert_int_eq(x->unit_of[0], x->unit_of[8]);
	ck_assert_int_eq(x->unit_of[39], x->unit_of[31]);
	orr_ideals_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

/* Two workers of 2 units a stage, 3 there and 2 back, as the edges say, which a link's directions
 * carry beside each other, or in turn. */
START_TEST(a_link_is_as_busy_as_its_busier_direction)
{
	static const char *const machines[] = {
		"graph { bandwidth=\"100B/s\"; a [repeat=2] }",
		"graph { bandwidth=\"100B/s\"; duplex=half; a [repeat=2] }"};
	struct orr_graph *g = parse_graph("digraph g { node [forward=1 backward=1]; a -> b "
					  "[bytes=\"300B\" gradient_bytes=\"200B\"] }");
	struct orr_plan_options o = {.straight = true,
				     .activations = true,
				     .pieces = _i / 2,
				     .n_microbatches = 8,
				     .samples = 1,
				     .flops_per_s = 1,
				     .levels = {.n = 1, .workers = {2}}};
	struct orr_cluster *cluster = NULL;
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};
	double busy_s = _i % 2 ? 5 : 3;

	ck_assert_msg(!orr_cluster_parse(&cluster, "m.dot", machines[_i % 2], &err), "%s", err.msg);
	o.cluster = cluster;
	ck_assert_msg(!orr_plan_create(&plan, g, &o, &err), "%s", err.msg);
	if (plan->pipeline->n_stages == 2)
		ck_assert_double_eq_tol(plan->costs[0].link_s, busy_s, 1e-9);
	ck_assert_double_eq_tol(plan->slowest_s, busy_s < 4 ? busy_s : 4, 1e-9);
	plan_end(plan, g);
	orr_cluster_destroy(cluster);
}
END_TEST

/* Of two replicas, one microbatch each at a time: no sum waits for the latency. */
START_TEST(replicas_without_parameters_add_up_nothing)
{
	struct orr_graph *g = parse_graph("digraph g { a [forward=1 backward=1] }");
	struct orr_cluster *cluster = parse_cluster("graph { latency=100; a [repeat=2] }");
	struct orr_plan_options o = {.n_microbatches = 8,
				     .samples = 1,
				     .flops_per_s = 1,
				     .levels = {.n = 1, .workers = {2}},
				     .cluster = cluster};
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_plan_create(&plan, g, &o, &err), "%s", err.msg);
	ck_assert_double_eq_tol(plan->slowest_s, 1, 1e-9);
	ck_assert_int_eq(plan->tried.figures->makespan_ns, 8 * ORR_UNIT_NS);
	plan_end(plan, g);
	orr_cluster_destroy(cluster);
}
END_TEST

/* Two stages of 12 units, and half a unit there and half a unit back. */
START_TEST(links_are_overlapped_or_added)
{
	static const char four[] =
		"digraph g { node [forward=2 backward=4 activation=\"50B\"]; a -> b -> c -> d }";
	struct orr_graph *g = parse_graph(four);
	struct orr_plan_options o = {.straight = true,
				     .activations = true,
				     .added = _i % 2,
				     .pieces = _i / 2,
				     .n_microbatches = 8};
	struct orr_plan *plan = make_plan(g, "2", "100B/s", o);

	ck_assert_double_eq_tol(plan->slowest.overlapped_s, 12, 1e-9);
	ck_assert_double_eq_tol(plan->slowest.added_s, 13, 1e-9);
	ck_assert_double_eq_tol(plan->slowest_s, o.added ? 13 : 12, 1e-9);
	ck_assert_double_eq_tol(plan->slowest.least_s, 12, 1e-9);
	plan_end(plan, g);
}
END_TEST

static bool is_enough(void)
{
	return true;
}

/* Then no others are tried, of another world neither. */
START_TEST(a_first_plan_is_enough)
{
	static const char towers[] = "digraph g { node [forward=1 backward=2 activation=\"1B\"];"
				     "a -> b -> c -> x; d -> e -> x; x -> y }";
	struct orr_graph *g = parse_graph(towers);
	struct orr_plan_options o = {.by_makespan = true,
				     .pieces = true,
				     .n_microbatches = 8,
				     .samples = 1,
				     .flops_per_s = 1e9,
				     .levels = {.n = 1, .workers = {3}}};
	struct orr_plan *first = NULL, *best = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_plan_create(&best, g, &o, &err), "%s", err.msg);
	o.enough = is_enough;
	ck_assert_msg(!orr_plan_create(&first, g, &o, &err), "%s", err.msg);
	ck_assert_int_gt(best->worlds[ORR_WORLD_PIECES].n_stages, 0);
	ck_assert_int_eq(first->worlds[ORR_WORLD_PIECES].n_stages, 0);
	ck_assert_int_ge(first->tried.figures->makespan_ns, best->tried.figures->makespan_ns);
	orr_plan_destroy(first);
	plan_end(best, g);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(every_term_of_the_cost_counts, 16),
	ONCE(a_machine_says_whether_directions_take_turns),
	EACH(ideals_are_counted, 3),
	ONCE(what_reads_only_free_operators_makes_no_cuts),
	ONCE(too_many_ideals_are_made_fewer),
	ONCE(a_known_cut_is_refined_where_it_is),
	EACH(a_link_is_as_busy_as_its_busier_direction, 4),
	EACH(links_are_overlapped_or_added, 4),
	ONCE(replicas_without_parameters_add_up_nothing),
	ONCE(memory_forbids_stages),
	ONCE(links_without_levels_are_refused),
	EACH(branches_side_by_side_beat_the_chain, 5),
	ONCE(replicas_share_the_microbatches),
	ONCE(levels_place_what_talks_much_close_together),
	ONCE(memory_is_counted_as_the_simulator_does),
	ONCE(less_memory_holds_fewer_microbatches),
	ONCE(what_is_said_to_fit_fits),
	ONCE(memory_moves_the_cut),
	ONCE(updates_and_overheads_are_planned_for),
	ONCE(pins_are_kept),
	ONCE(a_cost_that_is_missing_among_others_is_refused),
	ONCE(nothing_that_takes_time_is_refused),
	ONCE(a_first_plan_is_enough),
};
SUITE("plan")
