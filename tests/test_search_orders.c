/* What a search begins with: how an order is timed, the order that holds least, and the named
 * schedules with every value of their parameters. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "schedule/table.h"
#include "orrery/search.h"
#include "order/cyclic.h"
#include "order/smallest.h"
#include "order/timed.h"
#include "suite.h"

/* Stages that may have several sources and several sinks. */
static struct orr_pipeline *make_random(int n_stages)
{
	struct orr_pipeline *p;
	char edges[512] = "";

	for (int s = 1; s < n_stages; s++)
		for (int from = 0; from < s; from++)
			if (!suite_draw(3))
				snprintf(edges + strlen(edges), sizeof(edges) - strlen(edges),
					 " %d>%d", from, s);
	p = make_pipeline(n_stages, edges, 0, 0, 0, 1, 0, 8);
	p->has_weight = true;
	for (int s = 0; s < n_stages; s++) {
		p->stages[s].forward_ns = 1 + suite_draw(9);
		p->stages[s].backward_ns = 1 + suite_draw(9);
		p->stages[s].weight_ns = 1 + suite_draw(9);
	}
	return p;
}

/* ---- how long an order takes ---- */

static int64_t simulate(const struct orr_timed *timed, int64_t *n, bool *waited)
{
	const struct orr_pipeline *p = timed->jobs.pipeline;
	static char name[] = "order";
	struct orr_table table = {.name = name,
				  .n_stages = p->n_stages,
				  .n_workers = p->n_workers,
				  .n_microbatches = p->n_microbatches,
				  .split_backward = true,
				  .compute = timed->jobs.compute,
				  .priority = n};
	struct orr_timeline *t = NULL;
	struct orr_schedule schedule;
	struct orr_jobs *jobs = NULL;
	int64_t end = 0;

	orr_table_schedule(&schedule, &table);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &schedule, NULL), 0);
	ck_assert_int_eq(orr_simulate(&t, jobs, NULL), 0);
	for (int j = 0; j < jobs->n_jobs; j++)
		end = t->end_ns[j] > end ? t->end_ns[j] : end;
	for (int i = 0; i < t->n_transfers; i++)
		*waited = *waited || t->transfers[i].start_ns > t->end_ns[t->transfers[i].producer];
	orr_timeline_destroy(t);
	orr_jobs_destroy(jobs);
	return end;
}

/* Any order that extends all edges: passes of a microbatch by depth, microbatches mixed by chance.
 */
static void draw_order(int64_t *n, const struct orr_pipeline *p)
{
	int64_t from[16] = {0};

	for (int b = 1; b < p->n_microbatches; b++)
		from[b] = from[b - 1] + suite_draw(3 * p->n_stages);
	for (int j = 0; j < p->n_stages * p->n_microbatches * ORR_N_PASSES; j++) {
		int d = j % ORR_N_PASSES, s = j / ORR_N_PASSES % p->n_stages,
		    b = j / ORR_N_PASSES / p->n_stages;
		int64_t place = d == ORR_PASS_F ? s : 3 * p->n_stages - 2 * s + d;

		n[j] = (from[b] + place) * 16 + b;
	}
}

START_TEST(
	an_order_takes_as_long_as_the_simulator_says_where_no_transfer_waits_and_no_longer_elsewhere)
{
	int n_waited = 0, n_on_links = 0;

	suite_random = 3;
	for (int round = 0; round < suite_drawn(300); round++) {
		struct orr_pipeline *p = make_random(2 + suite_draw(6));
		int worker[8], n_workers = 1 + suite_draw(4);
		struct orr_timed *timed = NULL;
		int64_t n[8 * 8 * ORR_N_PASSES], exact;
		bool waited = false;

		p->machine.latency_ns = suite_draw(3);
		p->machine.bandwidth_bytes_per_s = suite_draw(4) ? 1e9 * (1 + suite_draw(8)) : 0;
		ck_assert_int_eq(orr_pipeline_set_step(p, n_workers, 1 + suite_draw(8), NULL), 0);
		for (int s = 0; s < p->n_stages; s++)
			worker[s] = suite_draw(n_workers);
		ck_assert_int_eq(orr_timed_create(&timed, p, worker, 1, ORR_N_PASSES, true, NULL),
				 0);
		draw_order(n, p);
		ck_assert_int_eq(orr_timed_order(timed, n, NULL), 0);
		ck_assert(orr_timed_time(timed));
		exact = simulate(timed, n, &waited);
		if (waited)
			ck_assert_int_le(timed->makespan_ns, exact);
		else
			ck_assert_int_eq(timed->makespan_ns, exact);
		n_waited += waited;
		n_on_links += !waited && p->machine.bandwidth_bytes_per_s > 0 && n_workers > 1;
		orr_timed_destroy(timed);
		orr_pipeline_destroy(p);
	}
	ck_assert_int_gt(n_waited, suite_drawn(300) / 10);
	ck_assert_int_gt(n_on_links, suite_drawn(300) / 10);
}
END_TEST

/* ---- the order that holds least ---- */

struct exhaustion {
	const struct orr_pipeline *p;
	const int *worker;
	int held[8];
	bool done[8][2];
	int best;
};

static bool is_ready(const struct exhaustion *x, int s, int d)
{
	const struct orr_stage *stage = &x->p->stages[s];

	if (x->done[s][d] || (d && !x->done[s][0]))
		return false;
	for (int i = 0; i < (d ? stage->n_out : stage->n_in); i++)
		if (!x->done[d ? orr_stage_after(x->p, s, i) : orr_stage_before(x->p, s, i)][d] &&
		    !(d && x->p->edges[stage->out[i]].detached))
			return false;
	return true;
}

/* Every order of one microbatch. */
static void exhaust(struct exhaustion *x, int left, int most)
{
	if (most >= x->best)
		return;
	if (!left)
		x->best = most;
	for (int i = 0; i < 2 * x->p->n_stages; i++) {
		int s = i / 2, d = i % 2, *held = &x->held[x->worker[s]];

		if (!is_ready(x, s, d))
			continue;
		x->done[s][d] = true;
		*held += d ? -1 : 1;
		exhaust(x, left - 1, *held > most ? *held : most);
		*held -= d ? -1 : 1;
		x->done[s][d] = false;
	}
}

START_TEST(the_order_that_holds_least_is_found)
{
	int n_less = 0;

	suite_random = 5;
	for (int round = 0; round < suite_drawn(200); round++) {
		struct orr_pipeline *p = make_random(2 + suite_draw(5));
		int worker[8], n_workers = 1 + suite_draw(3), all[8] = {0}, most = 0;
		struct exhaustion x = {.p = p, .worker = worker, .best = 100};
		int64_t of_one[8 * ORR_N_PASSES];
		struct orr_smallest found = {.n = of_one};
		struct orr_timed *timed = NULL;
		int64_t n[8 * 2 * ORR_N_PASSES];

		ck_assert_int_eq(orr_pipeline_set_step(p, n_workers, 2, NULL), 0);
		for (int e = 0; e < p->n_edges; e++) /* no gradient comes back */
			p->edges[e].detached = round % 2 && !suite_draw(3);
		for (int s = 0; s < p->n_stages; s++) {
			worker[s] = suite_draw(n_workers);
			all[worker[s]]++;
			most = all[worker[s]] > most ? all[worker[s]] : most;
		}
		exhaust(&x, 2 * p->n_stages, 0);
		n_less += x.best < most;
		for (int limit = 1; limit <= most; limit++) {
			int excess = 0;

			ck_assert_int_eq(
				orr_timed_create(&timed, p, worker, 1, ORR_N_PASSES, true, NULL),
				0);
			for (int w = 0; w < p->n_workers; w++)
				timed->most[w] = (struct orr_load){limit, INT64_MAX};
			ck_assert_int_eq(orr_smallest_find(&found, timed, NULL), 0);
			ck_assert(found.exact);
			ck_assert_msg((found.excess <= 0) == (x.best <= limit) &&
					      (found.excess <= 0 || found.excess == x.best - limit),
				      "round %d, limit %d: excess %lld, the least is %d", round,
				      limit, (long long)found.excess, x.best);
			for (int j = 0; j < p->n_stages * 2 * ORR_N_PASSES; j++)
				n[j] = j / ORR_N_PASSES / p->n_stages * 100 +
				       found.n[j % (p->n_stages * ORR_N_PASSES)];
			ck_assert_int_eq(orr_timed_order(timed, n, NULL), 0);
			ck_assert(orr_timed_time(timed));
			for (int w = 0; w < n_workers; w++)
				excess += orr_timed_excess(timed, w);
			ck_assert_int_eq(excess == 0, x.best <= limit);
			orr_timed_destroy(timed);
		}
		orr_pipeline_destroy(p);
	}
	ck_assert_int_gt(n_less, suite_drawn(200) / 10);
}
END_TEST

/* Where there are too many ways to look at all of them, what is said is what was found. */
START_TEST(a_search_for_the_least_memory_that_was_cut_short_says_so)
{
	char edges[4096] = "";
	struct orr_search_options options = {.stashes = 7,
					     .schedules = orr_schedules,
					     .seed = 1,
					     .placement = ORR_PLACEMENT_STRAIGHT};
	struct orr_pipeline *p;
	struct orr_error err = {""};
	int worker[80];
	int64_t n[80 * ORR_N_PASSES];

	for (int s = 0; s < 40; s++) /* each of 40 outputs reads some of 40 inputs */
		for (int i = 0; i < 5; i++)
			snprintf(edges + strlen(edges), sizeof(edges) - strlen(edges), " %d>%d",
				 (s * 7 + i * 9) % 40, 40 + s);
	p = make_pipeline(80, edges, 1, 1, 1, 1, 0, 0);
	ck_assert_int_eq(orr_pipeline_set_step(p, 1, 1, NULL), 0);
	ck_assert_int_eq(orr_search(worker, n, NULL, p, &options, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "auto: no order was found that fits 7 stage stashes on a "
				      "worker, one microbatch "
				      "alone takes at most "),
		      "%s", err.msg);
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- the named schedules, with their parameters ---- */

static const struct {
	const char *name; /* of the schedule, and the parameter with %d for its value */
	int stages_per_worker, low, high;
	int least; /* steps that it serves, of all sizes */
} swept[] = {
	{"k-periodic:k=%d", 1, 1, 9, 36},          {"1f1b-star:T=%d", 1, 11, 50, 24},
	{"zb-1p:kept=%d", 1, 1, 100, 60},          {"zb-2p:kept=%d", 1, 1, 100, 60},
	{"hanayo:in_flight=%d", 2, 1, 9, 36},      {"adaptive:memory=%d", 2, 7, 12, 24},
	{"interleaved:order=breadth", 2, 0, 0, 4}, {"lpp:order=depth", 2, 0, 0, 4},
	{"lpp:order=breadth,G=1", 1, 0, 0, 4},
};

/* Auto in their memory is never longer than they are. */
static void compare_found(const struct way *theirs, const char *name, struct orr_pipeline *p,
			  bool span)
{
	const struct orr_figures *their = theirs->tried.figures, *our;
	int64_t their_ns, our_ns;
	struct way ours;
	char found[64];

	snprintf(found, sizeof(found), "auto:effort=0,memory=%d,objective=%s", peak_of(their),
		 span ? "span" : "makespan");
	way_init(&ours, p, found, p->n_workers, p->n_microbatches);
	our = ours.tried.figures;
	their_ns = span ? their->span_ns : their->makespan_ns;
	our_ns = span ? our->span_ns : our->makespan_ns;
	ck_assert_msg(our_ns <= their_ns, "%s takes %lld, %s %lld", name, (long long)their_ns,
		      found, (long long)our_ns);
	ck_assert_int_le(peak_of(our), peak_of(their));
	ck_assert_int_le(ours.tried.jobs->span_bound_ns, our_ns);
	ck_assert(span == (ours.tried.jobs->span_bound_ns > 0));
	way_fini(&ours);
}

/* On stages that differ; false: the schedule refuses them. */
static bool compare_swept(int which, int value, int n_workers, int m)
{
	static const int64_t costs[][3] = {{3, 4, 2}, {2, 5, 1}, {5, 3, 3}};
	struct orr_pipeline *p = make_chain(n_workers * swept[which].stages_per_worker, 1, 1);
	struct way theirs;
	char name[64];
	bool any;

	p->has_weight = true;
	for (int s = 0; s < p->n_stages; s++) {
		const int64_t *cost = costs[suite_draw(3)];

		p->stages[s].forward_ns = cost[0] * ORR_UNIT_NS;
		p->stages[s].backward_ns = cost[1] * ORR_UNIT_NS;
		p->stages[s].weight_ns = cost[2] * ORR_UNIT_NS;
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(name, sizeof(name), swept[which].name, value);
#pragma GCC diagnostic pop
	any = way_try(&theirs, p, name, n_workers, m);
	if (any) {
		compare_found(&theirs, name, p, false);
		compare_found(&theirs, name, p, true);
		way_fini(&theirs);
	}
	orr_pipeline_destroy(p);
	return any;
}

static const struct {
	int n_workers, n_microbatches;
} steps[] = {{3, 7}, {4, 8}, {6, 13}, {5, 9}};

START_TEST(auto_is_never_longer_than_a_schedule_with_any_parameters_in_the_same_memory)
{
	int n = 0;

	suite_random = 1;
	for (int i = 0; i < suite_drawn(N_OF(steps)); i++)
		for (int value = swept[_i].low; value <= swept[_i].high;
		     value += swept[_i].high > 20 ? 7 : 1)
			n += compare_swept(_i, value, steps[i].n_workers, steps[i].n_microbatches);
	printf("%s: %d steps\n", swept[_i].name, n);
	ck_assert_int_ge(n, suite_drawn(swept[_i].least));
}
END_TEST

/* That of the V of 8 workers, whose passes do not take as long as each other, with the order that
 * is best where they do; and no fewer than 16 microbatches' work. */
START_TEST(the_span_of_an_order_for_even_passes_is_reached_where_they_are_not)
{
	struct orr_pipeline *p = make_chain(16, 1, 1);
	struct way way;

	p->has_weight = true;
	for (int s = 0; s < p->n_stages; s++) {
		p->stages[s].forward_ns = 1296;
		p->stages[s].backward_ns = 1322;
		p->stages[s].weight_ns = 976;
	}
	way_init(&way, p, "auto:memory=16,objective=span,effort=0", 8, 16);
	ck_assert_int_le(way.tried.figures->span_ns, 119852);
	ck_assert_int_eq(way.tried.jobs->span_bound_ns, 16 * 2 * (1296 + 1322 + 976));
	way_end(&way);
}
END_TEST

/* ---- orders that repeat ---- */

/* Transfers take a thousand to a million times as long as jobs, so that as many microbatches are on
 * their way: then no list of jobs is run for all of them, which took time in proportion. */
START_TEST(nothing_repeats_where_transfers_take_far_longer_than_jobs)
{
	int n_lists = 0;

	for (int64_t bytes = 1; bytes <= 1000000; bytes *= 1000) {
		struct orr_pipeline *p = make_whole_chain(4, 1, 1, 1, 1, 0, bytes);
		int worker[] = {0, 1, 2, 3};
		struct orr_timed *timed = NULL;
		struct orr_cyclic cyclic;
		int64_t n[4 * 16 * ORR_N_PASSES];

		p->machine.bandwidth_bytes_per_s = 1e9 / (double)ORR_UNIT_NS;
		ck_assert_int_eq(orr_pipeline_set_step(p, 4, 16, NULL), 0);
		ck_assert_int_eq(orr_timed_create(&timed, p, worker, 1, ORR_N_PASSES, true, NULL),
				 0);
		for (int j = 0; j < N_OF(n); j++) /* all forwards first */
			n[j] = j % ORR_N_PASSES * N_OF(n) + j;
		ck_assert_int_eq(orr_timed_order(timed, n, NULL), 0);
		ck_assert(orr_timed_time(timed));
		ck_assert_int_eq(orr_cyclic_init(&cyclic, timed, 2, NULL), 0);
		ck_assert_msg((cyclic.n > 0) == (bytes < 1000), "%lld bytes", (long long)bytes);
		n_lists += cyclic.n > 0;
		orr_cyclic_fini(&cyclic);
		orr_timed_destroy(timed);
		orr_pipeline_destroy(p);
	}
	ck_assert_int_eq(n_lists, 1);
}
END_TEST

/* ---- steps that are like one ---- */

/* Chains of stages that take 12.96, 13.22 and 9.76 ms, with 0.05 ms from worker to worker. */
static const struct {
	int n_stages, n_workers, m, stashes, effort;
	int64_t most_ms;
} chains[] = {
	/* three stages a worker, the shortest there is; without 1.137 s */
	{6, 2, 8, 3, 1, 1107},
	/* with two, without 1.182 s */
	{8, 4, 8, 3, 1, 1082},
	/* by hand 6.370 s: two rows of 8, single stages down, and pairs up */
	{24, 8, 48, 12, 1, 6371},
	/* found in memory for 7 stashes, and tightened; without 2.068 s */
	{16, 8, 16, 6, 1, 1808},
	/* found without: from what is found in memory for 6 alone, it ends at 2.325 s */
	{16, 8, 16, 5, 8, 2294},
	/* three microbatches a repetition; with two or four 3.241 s */
	{6, 6, 80, 5, 8, 3171},
};

START_TEST(what_like_steps_take_is_where_a_search_starts)
{
	struct orr_pipeline *p;
	struct way way;
	struct orr_machine machine = orr_machine_default(chains[_i].n_workers);
	char name[64];

	if ((chains[_i].effort > 1 || chains[_i].n_stages > 8) && !suite_takes_all())
		return;
	p = make_chain(chains[_i].n_stages, 1, 1);
	p->has_weight = true;
	for (int s = 0; s < p->n_stages; s++) {
		p->stages[s].forward_ns = 12960000;
		p->stages[s].backward_ns = 13220000;
		p->stages[s].weight_ns = 9760000;
	}
	machine.latency_ns = 50000;
	(void)snprintf(name, sizeof(name), "auto:effort=%d,memory=%d", chains[_i].effort,
		       chains[_i].stashes);
	way_init_on(&way, p, name, &machine, chains[_i].m);
	printf("%s on a chain of %d: %.3f s\n", name, p->n_stages,
	       (double)way.tried.figures->makespan_ns * 1e-9);
	ck_assert_int_le(peak_of(way.tried.figures), chains[_i].stashes);
	ck_assert_int_le(way.tried.figures->makespan_ns, chains[_i].most_ms * 1000000);
	way_end(&way);
}
END_TEST

/* ---- effort ---- */

/* What a search of this effort finds, or 0: nothing fits. */
static int64_t makespan_with(const struct orr_pipeline *p, int stashes, int64_t effort, int related,
			     int64_t *bound_ns)
{
	struct orr_search_options options = {.schedules = orr_schedules,
					     .stashes = stashes,
					     .seed = 1,
					     .effort = effort,
					     .related = related};
	struct orr_search_result result;
	int worker[8];
	int64_t n[8 * 24 * ORR_N_PASSES];

	if (orr_search(worker, n, &result, p, &options, NULL))
		return 0;
	*bound_ns = result.bound_ns;
	return result.makespan_ns;
}

/* Efforts that end with a part of the search, and amid one. */
START_TEST(more_effort_never_finds_a_longer_order)
{
	static const int64_t efforts[] = {0, 1, 3};
	int n_open = 0, n_better = 0;

	suite_random = (uint64_t)_i + 7;
	for (int round = 0; n_open < suite_drawn(10); round++) {
		struct orr_pipeline *p = make_random(4 + suite_draw(4));
		int n_workers = 2 + suite_draw(3), stashes = 2 + suite_draw(3);
		int64_t bound_ns = 0, other_ns, before = INT64_MAX, first;

		ck_assert_int_lt(round, 200);
		ck_assert_int_eq(orr_pipeline_set_step(p, n_workers, 6 + suite_draw(18), NULL), 0);
		first = makespan_with(p, stashes, 0, 0, &bound_ns);
		for (int i = 0; i < N_OF(efforts) && first > bound_ns; i++) {
			int64_t now = makespan_with(p, stashes, efforts[i], 0, &bound_ns);

			ck_assert_msg(now <= before, "step %d of %d: effort %lld: %lld, less: %lld",
				      round, _i, (long long)efforts[i], (long long)now,
				      (long long)before);
			before = now;
		}
		/* nor with starts from like steps, which take long */
		if (first > bound_ns && n_open < 2)
			ck_assert_int_le(makespan_with(p, stashes, 3, 1, &other_ns), before);
		n_open += first > bound_ns;
		n_better += before < first;
		orr_pipeline_destroy(p);
	}
	printf("%d of %d steps: shorter with more effort\n", n_better, n_open);
	ck_assert_int_gt(n_better, suite_drawn(10) / 3);
}
END_TEST

static void count(void *user, int64_t best_ns, int64_t bound_ns)
{
	ck_assert_int_ge(best_ns, bound_ns);
	++*(int *)user;
}

/* A search by time is watched all along, also while it looks at orders that repeat. */
START_TEST(a_search_by_time_says_that_it_lives)
{
	struct orr_pipeline *p = make_chain(8, 2, 3);
	int n_told = 0, worker[8];
	struct orr_search_options options = {.schedules = orr_schedules,
					     .stashes = 6,
					     .seed = 1,
					     .effort = 1,
					     .seconds = 1,
					     .observer = {count, &n_told}};
	struct orr_search_result result;
	int64_t n[8 * 64 * ORR_N_PASSES];

	p->has_weight = true;
	for (int s = 0; s < p->n_stages; s++)
		p->stages[s].weight_ns = ORR_UNIT_NS;
	ck_assert_int_eq(orr_pipeline_set_step(p, 8, 64, NULL), 0);
	ck_assert_int_eq(orr_search(worker, n, &result, p, &options, NULL), 0);
	ck_assert_int_ge(result.makespan_ns, result.bound_ns);
	ck_assert_int_gt(n_told, 0);
	orr_pipeline_destroy(p);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(an_order_takes_as_long_as_the_simulator_says_where_no_transfer_waits_and_no_longer_elsewhere),
	ONCE(the_order_that_holds_least_is_found),
	ONCE(nothing_repeats_where_transfers_take_far_longer_than_jobs),
	EACH(what_like_steps_take_is_where_a_search_starts, N_OF(chains)),
	ONCE(a_search_for_the_least_memory_that_was_cut_short_says_so),
	EACH(more_effort_never_finds_a_longer_order, 2),
	ONCE(a_search_by_time_says_that_it_lives),
	EACH(auto_is_never_longer_than_a_schedule_with_any_parameters_in_the_same_memory,
	     N_OF(swept)),
	ONCE(the_span_of_an_order_for_even_passes_is_reached_where_they_are_not),
};
SUITE("search_orders")
