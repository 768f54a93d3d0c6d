/* Searching the order of a plan: never longer than the plan's, in its memory, on its links. */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "orrery/open.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/orrery.h"
#include "orrery/plan.h"
#include "orrery/search.h"
#include "simulate/simulate.h"
#include "orrery/timeline.h"
#include "pipelines.h"
#include "suite.h"

struct costs {
	int64_t forward, backward, weight, stash_bytes, parameter_bytes, activation_bytes;
};

static struct orr_plan *make(struct orr_graph **g, const char *source, const struct costs *c,
			     const char *workers, const char *links, struct orr_plan_options o)
{
	struct orr_study_costs costs = {c->forward * ORR_UNIT_NS,
					c->backward * ORR_UNIT_NS,
					c->weight * ORR_UNIT_NS,
					c->activation_bytes,
					c->stash_bytes,
					c->parameter_bytes,
					true};
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};

	o.samples = 1;
	o.flops_per_s = 1;
	o.activations = true;
	o.numerics.optimizer = ORR_OPTIMIZER_MOMENTUM;
	ck_assert_msg(!orr_graph_read(g, source, &err) && !orr_graph_set_costs(*g, &costs, &err) &&
			      !orr_levels_parse(&o.levels, workers, links, NULL, NULL, &err) &&
			      !orr_plan_create(&plan, *g, &o, &err),
		      "%s", err.msg);
	return plan;
}

static int64_t most_memory(const struct orr_plan *plan)
{
	const struct orr_figures *f = plan->tried.figures;

	return f->worker[orr_figures_fullest(f)].memory_bytes;
}

/* The same another time. */
static void search_again(struct orr_plan *again, const struct orr_plan *plan)
{
	struct orr_error err = {""};

	ck_assert_msg(!orr_plan_search(again, 0, 0, &err), "%s", err.msg);
	ck_assert_int_eq(again->tried.jobs->n_jobs, plan->tried.jobs->n_jobs);
	ck_assert_mem_eq(again->tried.timeline->start_ns, plan->tried.timeline->start_ns,
			 (size_t)plan->tried.jobs->n_jobs *
				 sizeof(*plan->tried.timeline->start_ns));
}

#define SLOW 3 /* of the cases, and as restarts are: in the suite it is searched once */

START_TEST(a_search_is_never_longer_and_keeps_to_the_memory)
{
	static const struct {
		const char *graph, *workers, *links;
		struct costs costs;
		int m;
		int64_t memory, makespan; /* 0: only no longer; units */
	} cases[] = {
		/* the bound: work of the busiest worker, and what lies before and after it */
		{"towers:3,3/2", "8", NULL, {1, 1, 1, 0, 0, 0}, 16, 0, 52},
		{"chain:4", "4", NULL, {1, 1, 1, 0, 0, 0}, 8, 0, 27},
		{"chain:4", "4", NULL, {1, 1, 1, 100, 1000, 0}, 8, 3400, 27},
		{"chain:4", "4", "100B/s", {1, 1, 1, 100, 1000, 50}, 8, 3400, 0},
		{"chain:4", "4", "100B/s", {1, 2, 1, 100, 0, 100}, 8, 0, 0},
		{"towers:2,1/2", "5", "50B/s", {1, 2, 2, 10, 0, 100}, 6, 0, 0},
	};
	struct orr_plan_options o = {
		.straight = true, .n_microbatches = cases[_i].m, .memory_bytes = cases[_i].memory};
	struct orr_graph *g = NULL, *g_again = NULL;
	struct orr_plan *plan =
		make(&g, cases[_i].graph, &cases[_i].costs, cases[_i].workers, cases[_i].links, o);
	struct orr_plan *again = make(&g_again, cases[_i].graph, &cases[_i].costs,
				      cases[_i].workers, cases[_i].links, o);
	int64_t before_ns = plan->tried.figures->makespan_ns,
		memory = cases[_i].memory ? cases[_i].memory : most_memory(plan);
	struct orr_error err = {""};

	ck_assert_msg(!orr_plan_search(plan, 0, 0, &err), "%s", err.msg);
	ck_assert_int_eq(plan->sought.from_ns, before_ns);
	ck_assert_int_le(plan->tried.figures->makespan_ns, before_ns);
	ck_assert_int_ge(plan->tried.figures->makespan_ns, plan->tried.figures->lower_bound_ns);
	ck_assert_int_le(most_memory(plan), memory);
	ck_assert_msg(!orr_timeline_check(plan->tried.timeline, &err), "%s", err.msg);
	if (cases[_i].makespan)
		ck_assert_int_eq(plan->tried.figures->makespan_ns,
				 cases[_i].makespan * ORR_UNIT_NS);
	else
		ck_assert_int_lt(plan->tried.figures->makespan_ns, before_ns);
	if (_i != SLOW || suite_takes(_i))
		search_again(again, plan);
	orr_plan_destroy(plan);
	orr_plan_destroy(again);
	orr_graph_destroy(g);
	orr_graph_destroy(g_again);
}
END_TEST

/* It begins where auto ends, on the same stages in the same memory. */
START_TEST(a_search_is_no_longer_than_auto)
{
	static const struct {
		const char *graph;
		int trunk, towers[3];
		const char *workers;
		int n_workers, m, memory;
	} cases[] = {
		{"chain:8", 8, {0}, "2", 2, 5, 5},
		{"towers:2,2/2", 2, {2, 2}, "2", 2, 6, 5},
	};
	const struct costs costs = {1296, 1322, 976, 1, 0, 0};
	struct orr_plan_options o = {.straight = true,
				     .pieces = true,
				     .n_microbatches = cases[_i].m,
				     .memory_bytes = cases[_i].memory};
	struct orr_graph *g = NULL;
	struct orr_plan *plan = make(&g, cases[_i].graph, &costs, cases[_i].workers, NULL, o);
	struct orr_pipeline *p = make_towers(cases[_i].towers, cases[_i].trunk, 1296, 1322);
	struct orr_error err = {""};
	struct way way;
	char name[32];

	p->has_weight = true;
	for (int s = 0; s < p->n_stages; s++)
		p->stages[s].weight_ns = 976 * ORR_UNIT_NS;
	(void)snprintf(name, sizeof(name), "auto:memory=%dB", cases[_i].memory);
	way_init(&way, p, name, cases[_i].n_workers, cases[_i].m);
	ck_assert_msg(!orr_plan_search(plan, 0, 0, &err), "%s", err.msg);
	printf("%s: auto %lld, plan %lld\n", cases[_i].graph,
	       (long long)(way.tried.figures->makespan_ns / ORR_UNIT_NS),
	       (long long)(plan->tried.figures->makespan_ns / ORR_UNIT_NS));
	ck_assert_int_le(plan->tried.figures->makespan_ns, way.tried.figures->makespan_ns);
	ck_assert_int_le(most_memory(plan), cases[_i].memory);
	way_end(&way);
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
}
END_TEST

/* The makespan of two towers on two workers in little memory. */
static int64_t search_towers(int restarts)
{
	static const int forward[] = {7, 3, 9, 4, 8, 2, 6, 5},
			 backward[] = {4, 8, 2, 6, 5, 3, 7, 7};
	struct orr_plan_options o = {.levels = {.n = 1, .workers = {2}},
				     .straight = true,
				     .pieces = true,
				     .by_makespan = true,
				     .n_microbatches = 3,
				     .samples = 1,
				     .flops_per_s = 1,
				     .memory_bytes = 6};
	struct orr_study_costs costs = {ORR_UNIT_NS, ORR_UNIT_NS, ORR_UNIT_NS, 0, 1, 0, true};
	struct orr_graph *g = NULL;
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};
	int64_t makespan_ns;

	ck_assert(!orr_graph_read(&g, "towers:3,2/3", &err) &&
		  !orr_graph_set_costs(g, &costs, &err));
	for (int i = 0; i < g->n_operators; i++) {
		g->operators[i].forward_ns = forward[i] * ORR_UNIT_NS;
		g->operators[i].backward_ns = backward[i] * ORR_UNIT_NS;
	}
	ck_assert_msg(!orr_plan_create(&plan, g, &o, &err) &&
			      !orr_plan_search(plan, restarts, 0, &err),
		      "%s", err.msg);
	ck_assert_int_eq(plan->sought.restarts, restarts);
	makespan_ns = plan->tried.figures->makespan_ns;
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
	return makespan_ns;
}

/* And as many of them find the same. */
START_TEST(restarts_find_what_one_search_does_not)
{
	int64_t once = search_towers(1);

	ck_assert_int_lt(once, search_towers(0));
	if (suite_takes(SLOW))
		ck_assert_int_eq(once, search_towers(1));
}
END_TEST

START_TEST(replicas_are_not_searched)
{
	struct orr_graph *g = NULL;
	struct orr_plan *plan = make(&g, "chain:1", &(struct costs){1, 1, 1, 0, 0, 0}, "2", NULL,
				     (struct orr_plan_options){.n_microbatches = 4});
	struct orr_error err = {""};

	ck_assert_int_eq(orr_plan_search(plan, 0, 0, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "stage 0 has 2: give [straight]"), "%s", err.msg);
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
}
END_TEST

/* auto on links: no longer than any named schedule that fits as many stashes, on the same links. */
START_TEST(links_are_respected)
{
	static const char *const names[] = {"1f1b", "zb-h1", "eager-1f1b", "gpipe"};
	struct orr_pipeline *p = make_whole_chain(4, 1, 1, 1, 0, 0, 100);
	struct orr_machine machine = orr_machine_default(4);
	struct way found, named;

	machine.bandwidth_bytes_per_s =
		_i ? 50 : 100; /* a transfer takes as long as a pass, or twice */
	way_init_on(&found, p, "auto:effort=1,memory=8", &machine, 8);
	for (int i = 0; i < N_OF(names); i++) {
		way_init_on(&named, p, names[i], &machine, 8);
		ck_assert_msg(found.tried.figures->makespan_ns <= named.tried.figures->makespan_ns,
			      "%s", names[i]);
		ck_assert_int_le(found.tried.figures->lower_bound_ns,
				 named.tried.figures->makespan_ns);
		way_fini(&named);
	}
	way_end(&found);
}
END_TEST

/* Six stages of work 3, 3, 2, 2, 1, 1 in an order in which only parts that are no neighbours are
 * even. */
START_TEST(stages_are_placed_evenly)
{
	static const int64_t work[] = {3, 2, 1, 3, 2, 1};
	struct orr_pipeline *p = make_whole_chain(6, 1, 1, 1, 0, 0, 0);
	struct orr_search_options options = {.schedules = orr_schedules,
					     .placement = ORR_PLACEMENT_PLAN,
					     .effort = 1,
					     .seed = 1};
	struct orr_search_result result;
	struct orr_error err = {""};
	int64_t n[6 * 8 * 3], load[3] = {0};
	int worker[6];

	for (int s = 0; s < 6; s++) {
		p->stages[s].forward_ns = work[s] * ORR_UNIT_NS;
		p->stages[s].backward_ns = p->stages[s].weight_ns = 0;
	}
	ck_assert_int_eq(orr_pipeline_set_step(p, 3, 8, &err), 0);
	ck_assert_msg(!orr_search(worker, n, &result, p, &options, &err), "%s", err.msg);
	for (int s = 0; s < 6; s++)
		load[worker[s]] += work[s];
	for (int w = 0; w < 3; w++)
		ck_assert_int_eq(load[w], 4);
	ck_assert_int_ge(result.makespan_ns, result.bound_ns);
	orr_pipeline_destroy(p);
}
END_TEST

/* A search of auto's, and what its watcher saw. */
struct watched {
	int n_stages;
	const char *edges;
	atomic_int *n_begun; /* of searches that are to run at once; NULL: this one is alone */
	int n_told;
	int64_t told_ns, makespan_ns;
};

/* The first order is there: wait until the other search has one too. */
static void note(void *user, int64_t best_ns, int64_t bound_ns)
{
	struct watched *x = user;

	ck_assert_int_ge(best_ns, bound_ns);
	x->told_ns = best_ns;
	if (x->n_told++ || !x->n_begun)
		return;
	for (atomic_fetch_add(x->n_begun, 1); atomic_load(x->n_begun) < 2;)
		thrd_yield();
}

static int search_watched(void *user)
{
	struct watched *x = user;
	struct orr_pipeline *p = make_pipeline(x->n_stages, x->edges, 1, 1, 1, 0, 0, 0);
	struct orr_choice choice;
	struct orr_try tried = {0};
	struct orr_error err = {""};
	int code = orr_pipeline_set_step(p, 4, 8, &err);

	ck_assert_msg(!code && !orr_choice_init(&choice, "auto", &err), "%s", err.msg);
	choice.schedule.observer = (struct orr_observer){note, x};
	ck_assert_msg(!orr_try_init(&tried, p, &choice.schedule, NULL, &err) &&
			      !orr_try_run(&tried, &err),
		      "%s", err.msg);
	x->makespan_ns = tried.figures->makespan_ns;
	orr_try_fini(&tried);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
	return 0;
}

/* Each waits for the other in the middle of its search, and finds and tells what it does alone. */
START_TEST(two_threads_search_at_once)
{
	atomic_int n_begun = 0;
	struct watched alone[] = {{4, "0>1 1>2 2>3", NULL, 0, 0, 0},
				  {6, "0>1 1>2 2>3 3>4 4>5", NULL, 0, 0, 0}},
		       both[2];
	thrd_t threads[2];

	for (int i = 0; i < 2; i++) {
		search_watched(&alone[i]);
		ck_assert_int_gt(alone[i].n_told, 0);
		ck_assert_int_eq(alone[i].told_ns, alone[i].makespan_ns);
		both[i] = (struct watched){alone[i].n_stages, alone[i].edges, &n_begun, 0, 0, 0};
	}
	ck_assert_int_ne(alone[0].makespan_ns, alone[1].makespan_ns);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(thrd_create(&threads[i], search_watched, &both[i]), thrd_success);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(thrd_join(threads[i], NULL), thrd_success);
		ck_assert_int_eq(both[i].n_told, alone[i].n_told);
		ck_assert_int_eq(both[i].told_ns, alone[i].told_ns);
		ck_assert_int_eq(both[i].makespan_ns, alone[i].makespan_ns);
	}
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_search_is_never_longer_and_keeps_to_the_memory, 6),
	EACH(a_search_is_no_longer_than_auto, 2),
	ONCE(restarts_find_what_one_search_does_not),
	ONCE(replicas_are_not_searched),
	EACH(links_are_respected, 2),
	ONCE(stages_are_placed_evenly),
	ONCE(two_threads_search_at_once),
};
SUITE("plan_search")
