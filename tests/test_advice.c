/* What plan advises: each with a number and an option, and with the option the number comes true.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/orrery.h"
#include "plan/advice.h"
#include "orrery/plan.h"
#include "orrery/timeline.h"
#include "graphs.h"
#include "suite.h"

static struct orr_plan *make(const struct orr_graph *g, const char *workers, const char *links,
			     struct orr_plan_options o)
{
	o.activations = true;
	o.numerics.optimizer = ORR_OPTIMIZER_MOMENTUM;
	return make_plan(g, workers, links, o);
}

static void join_lines(void *user, const char *line)
{
	strncat(strncat(user, line, 600), "\n", 2);
}

/* Fails unless the advice has it. Returns where it begins. */
static const char *advised(const struct orr_plan *plan, const char *text)
{
	static char all[4000];
	const char *at;

	*all = '\0';
	ck_assert_int_eq(orr_plan_advise(plan, join_lines, all, NULL), 0);
	at = strstr(all, text);
	ck_assert_msg(at != NULL, "'%s' in: %s", text, all);
	return at;
}

static const char even[] = "digraph g { node [forward=1 backward=1]; a -> b }";

START_TEST(what_is_well_is_not_advised_on)
{
	struct orr_graph *g = parse_graph(even);
	struct orr_plan *plan = make(
		g, "2", NULL, (struct orr_plan_options){.straight = true, .n_microbatches = 8});
	char text[4000] = "";

	ck_assert_int_eq(orr_plan_advise(plan, join_lines, text, NULL), 0);
	ck_assert_str_eq(text, "");
	plan_end(plan, g);
}
END_TEST

START_TEST(more_microbatches_leave_less_unused)
{
	struct orr_graph *g = parse_graph(even);
	struct orr_plan_options o = {.straight = true, .n_microbatches = 4};
	struct orr_plan *plan = make(g, "2", NULL, o);

	advised(plan, "4 microbatches are few for a depth of 2: filling and draining leave about "
		      "20% of the time unused; "
		      "[microbatches] 8 leaves 11%");
	ck_assert_double_eq_tol(plan->tried.figures->bubble, 0.20, 0.005);
	orr_plan_destroy(plan);
	o.n_microbatches = 8;
	plan = make(g, "2", NULL, o);
	ck_assert_double_eq_tol(plan->tried.figures->bubble, 0.11, 0.005);
	plan_end(plan, g);
}
END_TEST

START_TEST(replicas_want_a_multiple)
{
	struct orr_graph *g = parse_graph("digraph g { a [forward=1 backward=1]; }");
	struct orr_plan_options o = {.n_microbatches = 4};
	struct orr_plan *plan = make(g, "3", NULL, o);

	advised(plan, "stage 0's 3 replicas share 4 microbatches unevenly: 33% of their time is "
		      "unused; give a multiple, [microbatches] 6");
	ck_assert_double_eq_tol(plan->tried.figures->bubble, 0.33, 0.005);
	orr_plan_destroy(plan);
	o.n_microbatches = 6;
	plan = make(g, "3", NULL, o);
	ck_assert_double_eq_tol(plan->tried.figures->bubble, 0, 1e-9);
	plan_end(plan, g);
}
END_TEST

START_TEST(replicas_share_a_large_operator)
{
	struct orr_graph *g = parse_graph(
		"digraph g { a [forward=3 backward=3]; b [forward=1 backward=1]; a -> b }");
	struct orr_plan_options o = {.straight = true, .n_microbatches = 8};
	struct orr_plan *plan = make(g, "2", NULL, o);
	double slowest_s = plan->slowest_s;

	advised(plan,
		"uneven: stage 0 computes 1.50 times what each worker would if all shared evenly\n"
		"  one operator is all of that: allow replicas (leave [straight] out)");
	orr_plan_destroy(plan);
	o.straight = false;
	plan = make(g, "2", NULL, o);
	ck_assert_double_eq_tol(slowest_s / plan->slowest_s, 1.50, 0.005);
	plan_end(plan, g);
}
END_TEST

/* in one part for each worker 40 at best, in any 30. */
static const char eight[] = "digraph g { node [forward=4 backward=6]; a; b; c; d; node [forward=8 "
			    "backward=12]; e; f; g; h;"
			    "a -> b -> c -> d -> e -> f -> g -> h }";

START_TEST(pieces_balance_what_neighbours_cannot)
{
	struct orr_graph *g = parse_graph(eight);
	struct orr_plan_options o = {.straight = true, .n_microbatches = 16};
	struct orr_plan *plan = make(g, "4", NULL, o);
	struct orr_error err = {""};

	ck_assert_double_eq_tol(plan->slowest_s, 40, 1e-9);
	advised(plan, "computes 1.33 times what each worker would if all shared evenly\n"
		      "  operators that need not be neighbours could come to 1.00 times: "
		      "leave [contiguous] out");
	orr_plan_destroy(plan);
	o.pieces = true;
	plan = make(g, "4", NULL, o);
	ck_assert(plan->world == ORR_WORLD_PIECES && plan->slowest.proven &&
		  plan->worlds[ORR_WORLD_PIECES].fits && plan->worlds[ORR_WORLD_DAG].fits);
	ck_assert_double_eq_tol(plan->slowest_s / (plan->one_worker_s / 4), 1.00, 1e-9);
	for (int w = 0; w < 4; w++) /* as the simulator counts it */
		ck_assert_int_eq(plan->tried.figures->worker[w].busy_ns, 16 * 30 * ORR_UNIT_NS);
	ck_assert_int_lt(plan->tried.figures->makespan_ns, plan->worlds[ORR_WORLD_DAG].makespan_ns);
	/* and a search goes on from there */
	ck_assert_msg(!orr_plan_search(plan, 0, 0, &err), "%s", err.msg);
	ck_assert_int_le(plan->tried.figures->makespan_ns, plan->sought.from_ns);
	plan_end(plan, g);
}
END_TEST

START_TEST(what_cannot_be_balanced_says_so)
{
	struct orr_graph *g =
		parse_graph("digraph g { node [forward=1 backward=1]; a -> b -> c -> d -> e }");
	struct orr_plan_options o = {.straight = true, .pieces = true, .n_microbatches = 40};
	struct orr_plan *plan = make(g, "4", NULL, o);

	advised(plan, "computes 1.60 times what each worker would if all shared evenly\n"
		      "  no placement of these operators, each on one of 4 workers, is better, "
		      "transfers left out: take "
		      "fewer workers ([workers])");
	ck_assert(plan->world != ORR_WORLD_PIECES); /* as good, and simpler */
	plan_end(plan, g);
}
END_TEST

/* Lemma 2 of [Beaumont21]: in one part a worker nothing fits, in pieces it does. */
START_TEST(pieces_fit_where_neighbours_do_not)
{
	struct orr_graph *g =
		parse_graph("digraph g { node [forward=1 backward=1]; a [parameters=\"100B\"];"
			    "b [parameters=\"200B\"]; c [parameters=\"100B\"]; a -> b -> c }");
	struct orr_plan_options o = {.straight = true,
				     .n_microbatches = 8,
				     .numerics.optimizer = ORR_OPTIMIZER_MOMENTUM,
				     .memory_bytes = 600};
	struct orr_plan *plan;

	ASSERT_HAS(refuse_plan(g, "2", o), "no plan fits [memory] 600B");
	o.pieces = true;
	plan = make(g, "2", NULL, o);
	ck_assert(plan->world == ORR_WORLD_PIECES && !plan->worlds[ORR_WORLD_DAG].fits &&
		  !plan->worlds[ORR_WORLD_CHAIN].fits);
	ck_assert_int_le(plan->worlds[ORR_WORLD_PIECES].memory_bytes, 600);
	ck_assert_int_eq(plan->workers[plan->first[0]], plan->workers[plan->first[2]]);
	plan_end(plan, g);
}
END_TEST

START_TEST(faster_links_take_their_share_away)
{
	struct orr_graph *g = parse_graph(
		"digraph g { node [forward=1 backward=1 activation=\"300B\"]; a -> b }");
	struct orr_plan_options o = {.straight = true, .by_makespan = false, .n_microbatches = 8};
	struct orr_plan *plan = make(g, "2", "100B/s", o);
	double slowest_s = plan->slowest_s;

	/* 300 B at 100 B/s each way: 3 s, one of them longer than computing */
	advised(plan,
		"spends 33% of the slowest stage's time on links: take faster ones ([bandwidth]), "
		"or fewer workers");
	orr_plan_destroy(plan);
	plan = make(g, "2", NULL, o);
	ck_assert_double_eq_tol(1 - plan->slowest_s / slowest_s, 0.33, 0.005);
	plan_end(plan, g);
}
END_TEST

START_TEST(a_full_worker_is_told_what_fills_it)
{
	struct orr_graph *g = parse_graph("digraph g { node [forward=1 backward=1 stash=\"100B\" "
					  "parameters=\"20B\"]; a -> b }");
	struct orr_plan_options o = {.straight = true, .n_microbatches = 8, .memory_bytes = 280};
	struct orr_plan *plan = make(g, "2", NULL, o);

	advised(plan,
		"worker 0 uses 93% of [memory], 77% of it stashes: simulate with [recompute] all");
	ck_assert_int_eq(plan->tried.figures->worker[0].memory_bytes, 260);
	ck_assert_int_eq(plan->tried.figures->worker[0].peak_stash_bytes, 200);
	plan_end(plan, g);
}
END_TEST

START_TEST(memory_that_keeps_workers_waiting_is_told)
{
	struct orr_graph *g = parse_graph("digraph g { node [forward=1 backward=1 stash=\"100B\" "
					  "parameters=\"20B\"]; a -> b }");
	struct orr_plan_options o = {.straight = true, .n_microbatches = 8, .memory_bytes = 200};
	struct orr_plan *plan = make(g, "2", NULL, o);

	/* one microbatch at a time: half of the time of two workers */
	advised(plan, "[memory] holds fewer microbatches than keep all workers busy: they do "
		      "nothing 50% of the time; "
		      "for the same stages [memory] 260B is enough");
	ck_assert_double_eq_tol(plan->tried.figures->bubble, 0.50, 1e-9);
	orr_plan_destroy(plan);
	o.memory_bytes = 260;
	plan = make(g, "2", NULL, o);
	ck_assert_double_eq_tol(plan->tried.figures->bubble, 0.11, 0.005);
	plan_end(plan, g);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(what_is_well_is_not_advised_on),
	ONCE(more_microbatches_leave_less_unused),
	ONCE(replicas_want_a_multiple),
	ONCE(replicas_share_a_large_operator),
	ONCE(pieces_balance_what_neighbours_cannot),
	ONCE(what_cannot_be_balanced_says_so),
	ONCE(pieces_fit_where_neighbours_do_not),
	ONCE(faster_links_take_their_share_away),
	ONCE(a_full_worker_is_told_what_fills_it),
	ONCE(memory_that_keeps_workers_waiting_is_told),
};
SUITE("advice")
