/* 500 small graphs on any workers, planned and solved: how often the plan is the best, and that no
 * bound is above it. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "exact.h"
#include "graphs.h"
#include "orrery/figures.h"
#include "orrery/orrery.h"
#include "pipelines.h"
#include "suite.h"

/* Steps in free links, with the order of the jobs; and microbatches one after the other without
 * end, with links that take time. */
static const struct {
	const char *what;
	int n, n_stages, n_workers; /* instances; at most */
	bool step, memory, added;
	int n_optimal, worst; /* at least, and per mille above the optimum, at most */
} sets[] = {
	{"steps", 150, 4, 3, true, false, false, 150, 0},
	{"steps in little memory", 150, 4, 2, true, true, false, 149, 12},
	/* two stages of a worker that read the same are sent it twice; solved, once */
	{"throughput, links overlapped", 100, 7, 4, false, false, false, 92, 250},
	{"throughput, links added", 100, 7, 4, false, false, true, 100, 0},
};

static int draw(uint32_t *random, int low, int high)
{
	*random = *random * 1664525u + 1013904223u;
	return low + (int)(*random >> 16) % (high - low + 1);
}

/* The same problem for both: as a graph, and in numbers. A stash is a byte, a link carries one
 * byte in a unit each way, and where there and back are added, two. */
static void draw_problem(struct exact *x, char *text, size_t size, int which, int i)
{
	uint32_t random = (uint32_t)(1000 * which + i + 1) * 2654435761u + 1;
	int n = 0;

	*x = (struct exact){.n_stages = draw(&random, 2, sets[which].n_stages),
			    .n_workers = draw(&random, 2, sets[which].n_workers),
			    .n_microbatches = 2};
	n += snprintf(text + n, size - (size_t)n, "digraph g { node [stash=\"1B\"];");
	for (int s = 0; s < x->n_stages; s++) {
		for (int d = 0; d < 3; d++)
			x->duration[s][d] = draw(&random, 1, 9);
		x->sends[s] = sets[which].step ? 0 : draw(&random, 0, 20);
		n += snprintf(text + n, size - (size_t)n,
			      "o%d [forward=%d, backward=%d, weight=%d, activation=\"%dB\"];", s,
			      (int)x->duration[s][0], (int)x->duration[s][1],
			      (int)x->duration[s][2], (int)x->sends[s]);
		for (int from = 0; from < s; from++) {
			if (draw(&random, 0, from == s - 1 ? 6 : 2))
				if (from < s - 1)
					continue;
			x->from[x->n_edges] = from;
			x->to[x->n_edges++] = s;
			n += snprintf(text + n, size - (size_t)n, "o%d -> o%d;", from, s);
		}
	}
	x->most = sets[which].memory ? (x->n_stages + 1) / 2 + draw(&random, 0, 1) : 0;
	(void)snprintf(text + n, size - (size_t)n, "}");
}

struct tally {
	int n_optimal, n_proven;
	double above, worst; /* of all, and the most */
};

/* No plan is below the optimum, and no bound above it. */
static void hold(struct tally *tally, const char *text, double best, double ours, double bound)
{
	double little = 1e-9, above = ours > best * (1 + little) ? ours / best - 1 : 0;

	ck_assert_msg(ours >= best * (1 - little), "%s: found %g, best is %g", text, ours, best);
	ck_assert_msg(bound <= best * (1 + little), "%s: bound %g, best is %g", text, bound, best);
	tally->n_optimal += above <= 0;
	tally->n_proven += bound > best * (1 - little);
	tally->above += above;
	tally->worst = above > tally->worst ? above : tally->worst;
}

static void solve(struct tally *tally, const struct exact *x, const char *text, int which)
{
	struct orr_plan_options o = {.straight = true,
				     .pieces = true,
				     .activations = true,
				     .added = sets[which].added,
				     .by_makespan = sets[which].step,
				     .memory_bytes = x->most,
				     .n_microbatches = x->n_microbatches,
				     .samples = 1,
				     .flops_per_s = 1,
				     .levels = {.n = 1,
						.workers = {x->n_workers},
						.bytes_per_s = {sets[which].step    ? 0
								: sets[which].added ? 2
										    : 1}}};
	struct orr_graph *g = parse_graph(text);
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};
	int64_t ours;

	ck_assert_msg(!orr_plan_create(&plan, g, &o, &err), "%s: %s", text, err.msg);
	if (sets[which].step) {
		ck_assert_msg(!orr_plan_search(plan, 0, 0, &err), "%s: %s", text, err.msg);
		ours = plan->tried.figures->makespan_ns;
		/* looking for one as long shows that there is one */
		hold(tally, text, (double)(exact_anywhere(x, ours / ORR_UNIT_NS + 1) * ORR_UNIT_NS),
		     (double)ours, (double)plan->sought.anywhere_ns);
	} else {
		double best = (double)(exact_busiest(x, sets[which].added) * ORR_UNIT_NS) * 1e-9;

		hold(tally, text, best, plan->slowest_s, plan->slowest.pieces_bound_s);
		ck_assert_msg(plan->slowest.least_s <= best * (1 + 1e-9),
			      "%s: at least %g, best is %g", text, plan->slowest.least_s, best);
	}
	plan_end(plan, g);
}

START_TEST(what_is_found_is_the_best_as_a_rule_and_no_bound_is_above_it)
{
	struct tally tally = {0};
	struct exact x;
	char text[2048];
	int n = suite_drawn(sets[_i].n);

	for (int i = 0; i < n; i++) {
		draw_problem(&x, text, sizeof(text), _i, i);
		solve(&tally, &x, text, _i);
	}
	printf("%s: %d of %d at the optimum, %d proven; %.2f%% above it on average, %.1f%% at "
	       "worst\n",
	       sets[_i].what, tally.n_optimal, n, tally.n_proven, 100 * tally.above / n,
	       100 * tally.worst);
	ck_assert_int_le(n - tally.n_optimal, sets[_i].n - sets[_i].n_optimal);
	ck_assert(1000 * tally.worst <= sets[_i].worst + 1e-6);
}
END_TEST

#define PARKED 50

/* Two stages in little memory, whose stashes may be parked over free links. */
START_TEST(auto_parks_where_memory_is_short)
{
	int n_optimal = 0, n_helped = 0, n = suite_drawn(PARKED);
	double above = 0;

	for (int i = 0; i < n; i++) {
		uint32_t random = (uint32_t)(i + 1) * 2654435761u + 1;
		struct exact x = {.n_stages = 2,
				  .n_workers = draw(&random, 1, 2),
				  .n_microbatches = draw(&random, 3, 4),
				  .n_edges = 1,
				  .to = {1},
				  .most = draw(&random, 2, 3)};
		struct orr_pipeline *p = make_pipeline(2, "0>1", 1, 1, 1, 1, 0, 0);
		char name[64];
		struct way way;
		int64_t ours, best, bound;

		for (int s = 0; s < 2; s++) {
			for (int d = 0; d < 3; d++)
				x.duration[s][d] = draw(&random, 1, 5);
			p->stages[s].forward_ns = x.duration[s][0] * ORR_UNIT_NS;
			p->stages[s].backward_ns = x.duration[s][1] * ORR_UNIT_NS;
			p->stages[s].weight_ns = x.duration[s][2] * ORR_UNIT_NS;
			p->stages[s].park = ORR_HOST;
		}
		p->prefetch = 1;
		(void)snprintf(name, sizeof(name), "auto:memory=%d", x.most);
		way_init(&way, p, name, x.n_workers, x.n_microbatches);
		ours = way.tried.figures->makespan_ns / ORR_UNIT_NS;
		bound = way.tried.figures->lower_bound_ns / ORR_UNIT_NS;
		for (int w = 0; w < x.n_workers; w++)
			ck_assert_int_le(way.tried.figures->worker[w].peak_stash, x.most);
		way_end(&way);
		x.parks = true;
		best = exact_anywhere(&x, ours + 1);
		ck_assert_int_le(best, ours);
		ck_assert_int_le(bound, best);
		x.parks = false;
		n_helped += exact_anywhere(&x, INT64_MAX) > best;
		n_optimal += ours == best;
		above += (double)(ours - best) / (double)best;
	}
	printf("parked: %d of %d at the optimum, %.2f%% above it on average; %d shorter than "
	       "without\n",
	       n_optimal, n, 100 * above / n, n_helped);
	ck_assert_int_eq(n_optimal, n);
}
END_TEST

START_TEST(the_exact_solver_agrees_with_closed_forms)
{
	/* unit times: the second worker waits for one F, and then never; on one worker, the work */
	const struct exact chain = {.n_stages = 2,
				    .n_workers = 2,
				    .n_microbatches = 3,
				    .duration = {{1, 1, 1}, {1, 1, 1}},
				    .n_edges = 1,
				    .from = {0},
				    .to = {1}};
	const int apart[] = {0, 1}, together[] = {0, 0};
	struct exact tight = chain;

	ck_assert_int_eq(exact_on(&chain, apart, INT64_MAX), 3 * 3 + 1);
	ck_assert_int_eq(exact_on(&chain, together, INT64_MAX), 2 * 3 * 3);
	tight.most = 1; /* every microbatch there and back before the next: F F B B, W beside B */
	ck_assert_int_eq(exact_on(&tight, apart, INT64_MAX), 3 * 5);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(the_exact_solver_agrees_with_closed_forms),
	ONCE(auto_parks_where_memory_is_short),
	EACH(what_is_found_is_the_best_as_a_rule_and_no_bound_is_above_it, N_OF(sets)),
};
SUITE("exact")
