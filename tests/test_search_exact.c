/* 625 small steps, searched and solved: how often the search finds the shortest order, and that no
 * bound is above it. And 375 in which one bound says more than all others. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exact_order.h"
#include "order/bounds.h"
#include "order/timed.h"
#include "pipelines.h"
#include "orrery/search.h"
#include "suite.h"

#define ALL 125 /* steps of a kind */
#define ROUNDS suite_drawn(ALL)
#define MOST_NODES 3000000

static const struct {
	const char *what;
	bool bytes, given, span, sources;
	int n_optimal, n_proven; /* at least, of ALL */
	int worst; /* per mille above the optimum, at most; likewise the bound below it */
	int slack;
} sets[] = {
	{"stashes", false, false, false, false, 125, 114, 0, 60},
	{"stashes, drawn placements", false, true, false, false, 125, 113, 0, 43},
	{"bytes beside parameters, with updates", true, false, false, false, 125, 86, 0, 87},
	{"spans", false, true, true, false, 125, 52, 0, 339},
	{"several sources and sinks", false, false, false, true, 125, 120, 0, 31},
};

static struct orr_pipeline *make_step(int which)
{
	int n_stages = 2 + suite_draw(3), m = n_stages > 3   ? 2
					      : n_stages > 2 ? 2
							     : 3 + suite_draw(2);
	int n_workers = 2 + suite_draw(n_stages - 1);
	char edges[64] = "";
	struct orr_pipeline *p;

	for (int s = 1; s < n_stages; s++) {
		int from = suite_draw(3) ? s - 1 : suite_draw(s);

		if (sets[which].sources && suite_draw(2))
			continue;
		for (int t = 0; t < s; t++)
			if (t == from || !suite_draw(4))
				snprintf(edges + strlen(edges), sizeof(edges) - strlen(edges),
					 " %d>%d", t, s);
	}
	p = make_pipeline(n_stages, edges, 1, 1, 1, 1, 0, 0);
	p->has_weight = true;
	p->machine.latency_ns = suite_draw(2) ? suite_draw(4) : 0;
	for (int s = 0; s < n_stages; s++) {
		p->stages[s].forward_ns = 2 + suite_draw(12);
		p->stages[s].backward_ns = 2 + suite_draw(12);
		p->stages[s].weight_ns = 1 + suite_draw(12);
		p->stages[s].stash_bytes = sets[which].bytes ? 4 + suite_draw(16) : 1;
		p->stages[s].parameter_bytes = sets[which].bytes ? 1 + suite_draw(8) : 0;
		p->stages[s].update_ns = sets[which].bytes ? suite_draw(6) : 0;
	}
	ck_assert(!orr_pipeline_set_step(p, n_workers, m, NULL));
	return p;
}

/* Little memory, if enough for a microbatch on every placement as a rule. */
static void limit(struct orr_search_options *options, const struct orr_pipeline *p, int which)
{
	int64_t stashes = 0, parameters = 0;

	if (!sets[which].bytes) {
		options->stashes = (p->n_stages - 1) / p->n_workers + 1 + suite_draw(2);
		return;
	}
	for (int s = 0; s < p->n_stages; s++) {
		stashes += p->stages[s].stash_bytes;
		parameters += 4 * p->stages[s].parameter_bytes; /* AdamW's, with gradients */
	}
	options->memory_bytes =
		(parameters + stashes) * (8 + suite_draw(8)) / (8 * p->n_workers) + 8;
}

static void set_limits(struct exact_order *x, const struct orr_search_options *options)
{
	for (int w = 0; w < x->p->n_workers; w++) {
		x->stashes[w] = options->stashes ? options->stashes : INT32_MAX;
		x->bytes[w] = options->memory_bytes ? options->memory_bytes : INT32_MAX;
	}
	for (int s = 0; s < x->p->n_stages && options->memory_bytes; s++)
		x->bytes[x->worker[s]] -= 4 * x->p->stages[s].parameter_bytes;
}

struct tally {
	int n, n_open, n_optimal, n_proven;
	int64_t worst, slack; /* per mille */
};

static void solve(struct tally *tally, const struct orr_pipeline *p, const int *worker,
		  const struct orr_search_options *options, const struct orr_search_result *found)
{
	struct exact_order x = {.p = p,
				.worker = worker,
				.most_nodes = MOST_NODES,
				.makespan = found->makespan_ns + 1,
				.span = found->makespan_ns + 1,
				.seeks_span = options->objective == ORR_OBJECTIVE_SPAN};
	int64_t best, above, below;

	set_limits(&x, options);
	tally->n_open += !exact_order_find(&x);
	best = x.seeks_span ? x.span : x.makespan;
	if (best > found->makespan_ns && x.n_nodes > x.most_nodes)
		best = found->makespan_ns; /* it gave up before it met this order */
	ck_assert_int_le(best, found->makespan_ns);
	above = 1000 * (found->makespan_ns - best) / best;
	below = 1000 * (best - found->bound_ns) / best;
	ck_assert_msg(found->bound_ns <= best, "step %d: the bound %lld is above the best, %lld",
		      tally->n, (long long)found->bound_ns, (long long)best);
	tally->n_optimal += found->makespan_ns == best;
	tally->n_proven += found->bound_ns == best;
	tally->worst = above > tally->worst ? above : tally->worst;
	tally->slack = below > tally->slack ? below : tally->slack;
	tally->n++;
}

enum decides {
	MEET, /* meet_ns, of spans */
	ROOM,
	CAPS /* worker_ns, in little memory on workers of several stages */
};

static const struct {
	const char *what;
	enum decides by;
	int n_below; /* of ALL, that no order is below it is shown of at least */
} deciding[] = {
	{"microbatches that meet", MEET, 40},
	{"rooms at both ends", ROOM, 113},
	{"what memory makes wait", CAPS, 94},
};

/* A chain, as a rule of stages that are alike, in which microbatches meet; else one in which
 * workers have several stages. */
static struct orr_pipeline *make_alike(int *worker, bool meets)
{
	int n_stages = meets ? 2 + suite_draw(2) : 3 + suite_draw(2),
	    n_workers = meets ? n_stages : 2;
	int m = (meets ? EXACT_JOBS : 42) / ORR_N_PASSES / n_stages - suite_draw(2);
	int forward = 1 + suite_draw(12), backward = 1 + suite_draw(suite_draw(3) ? 12 : 2),
	    weight = suite_draw(forward + 3);
	int spread = 1 + suite_draw(2);
	struct orr_pipeline *p = make_chain(n_stages, 1, 1);

	p->has_weight = true;
	p->machine.latency_ns = suite_draw(2) ? suite_draw(3) : 0;
	for (int s = 0; s < n_stages; s++) {
		p->stages[s].forward_ns = forward + suite_draw(spread);
		p->stages[s].backward_ns = backward + suite_draw(spread);
		p->stages[s].weight_ns = meets && s ? 0 : weight;
		worker[s] = s % n_workers;
	}
	ck_assert(!orr_pipeline_set_step(p, n_workers, m, NULL));
	return p;
}

/* Any few stages on two workers, with more microbatches than make_step() has. */
static struct orr_pipeline *make_joined(int *worker)
{
	struct orr_pipeline *p = make_step(1);

	for (int s = 0; s < p->n_stages; s++)
		worker[s] = suite_draw(2);
	ck_assert(!orr_pipeline_set_step(
		p, 2, EXACT_JOBS / ORR_N_PASSES / p->n_stages - suite_draw(2), NULL));
	return p;
}

/* Does one bound say most, and is there an order below it? */
static void look_below(struct tally *tally, const struct orr_pipeline *p, const int *worker,
		       enum decides by)
{
	bool meets = by == MEET;
	struct exact_order x = {
		.p = p, .worker = worker, .most_nodes = MOST_NODES / 20, .seeks_span = meets};
	int64_t stashes = by == ROOM ? p->n_stages - 1 + suite_draw(2) : 2 + suite_draw(2), best;
	struct orr_bounds bounds;
	struct orr_timed *timed;

	ck_assert(!orr_timed_create(&timed, p, worker, 1, ORR_N_PASSES, true, NULL));
	timed->seeks_span = meets;
	for (int w = 0; w < p->n_workers; w++) {
		x.stashes[w] = meets && w ? INT32_MAX : stashes;
		x.bytes[w] = INT32_MAX;
		timed->most[w] = (struct orr_load){x.stashes[w], INT64_MAX};
	}
	ck_assert(!orr_bounds_find(&bounds, timed, NULL));
	orr_timed_destroy(timed);
	best = by == MEET ? bounds.meet_ns : by == ROOM ? bounds.room_ns : bounds.worker_ns;
	if ((bounds.meet_ns < best) + (bounds.room_ns < best) + (bounds.worker_ns < best) != 2 ||
	    (by != CAPS && bounds.path_ns >= best) || bounds.memory_ns >= best)
		return;
	x.makespan = x.span = best;
	tally->n_proven += exact_order_find(&x);
	ck_assert_msg(x.makespan == best && x.span == best,
		      "step %d: there is an order below the bound of %lld", tally->n,
		      (long long)best);
	tally->n++;
}

START_TEST(no_order_is_below_a_bound_that_decides)
{
	struct tally tally = {0};
	int n_drawn = 0;

	suite_random = 71 + (uint64_t)_i;
	for (; tally.n < ROUNDS; n_drawn++) {
		int worker[EXACT_STAGES];
		enum decides by = deciding[_i].by;
		struct orr_pipeline *p =
			by == CAPS ? make_joined(worker) : make_alike(worker, by == MEET);

		look_below(&tally, p, worker, by);
		orr_pipeline_destroy(p);
		ck_assert_int_lt(n_drawn, 100 * ROUNDS);
	}
	printf("%s: deciding in %d of %d, of which %d are shown to have no order below\n",
	       deciding[_i].what, tally.n, n_drawn, tally.n_proven);
	ck_assert_int_le(tally.n - tally.n_proven, ALL - deciding[_i].n_below);
}
END_TEST

START_TEST(the_shortest_order_is_found_as_a_rule_and_no_bound_is_above_it)
{
	struct tally tally = {0};

	suite_random = 17 + (uint64_t)_i;
	for (int round = 0; tally.n < ROUNDS; round++) {
		struct orr_pipeline *p = make_step(_i);
		int given[EXACT_STAGES], worker[EXACT_STAGES];
		int64_t n[EXACT_JOBS];
		struct orr_search_options options = {
			.effort = 1,
			.schedules = orr_schedules,
			.seed = 1,
			.objective = sets[_i].span ? ORR_OBJECTIVE_SPAN : ORR_OBJECTIVE_MAKESPAN,
			.placement = sets[_i].given ? ORR_PLACEMENT_GIVEN : ORR_PLACEMENT_ANY,
			.worker = given};
		struct orr_search_result found;

		for (int s = 0; s < p->n_stages; s++)
			given[s] = suite_draw(p->n_workers);
		limit(&options, p, _i);
		ck_assert_int_lt(round, 4 * ROUNDS);
		if (!orr_search(worker, n, &found, p, &options, NULL))
			solve(&tally, p, worker, &options, &found);
		orr_pipeline_destroy(p);
	}
	printf("%s: of %d, %d optimal and %d proven, %d not solved; at most %.1f%% above the "
	       "optimum, bounds at most %.1f%% below\n",
	       sets[_i].what, tally.n, tally.n_optimal, tally.n_proven, tally.n_open,
	       (double)tally.worst / 10, (double)tally.slack / 10);
	ck_assert_int_le(tally.n - tally.n_optimal, ALL - sets[_i].n_optimal);
	ck_assert_int_le(tally.n - tally.n_proven, ALL - sets[_i].n_proven);
	ck_assert_int_le(tally.worst, sets[_i].worst);
	ck_assert_int_le(tally.slack, sets[_i].slack);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(the_shortest_order_is_found_as_a_rule_and_no_bound_is_above_it, N_OF(sets)),
	EACH(no_order_is_below_a_bound_that_decides, N_OF(deciding)),
};
SUITE("search_exact")
