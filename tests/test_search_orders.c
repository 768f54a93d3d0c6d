/* What a search begins with: how an order is timed, the order that holds least, and the named
 * schedules with every value of their parameters. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "orrery/table.h"
#include "orrery/search.h"
#include "order/smallest.h"
#include "order/timed.h"
#include "suite.h"

static uint64_t random_state;

static int draw(int range)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int)((random_state >> 33) % (uint64_t)range);
}

/* Stages that may have several sources and several sinks. */
static struct orr_pipeline *make_random(int n_stages)
{
	struct orr_pipeline *p;
	char edges[512] = "";

	for (int s = 1; s < n_stages; s++)
		for (int from = 0; from < s; from++)
			if (!draw(3))
				snprintf(edges + strlen(edges), sizeof(edges) - strlen(edges),
					 " %d>%d", from, s);
	p = make_pipeline(n_stages, edges, 0, 0, 0, 1, 0, 8);
	p->has_weight = true;
	for (int s = 0; s < n_stages; s++) {
		p->stages[s].forward_ns = 1 + draw(9);
		p->stages[s].backward_ns = 1 + draw(9);
		p->stages[s].weight_ns = 1 + draw(9);
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
		from[b] = from[b - 1] + draw(3 * p->n_stages);
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

	random_state = 3;
	for (int round = 0; round < 300; round++) {
		struct orr_pipeline *p = make_random(2 + draw(6));
		int worker[8], n_workers = 1 + draw(4);
		struct orr_timed *timed = NULL;
		int64_t n[8 * 8 * ORR_N_PASSES], exact;
		bool waited = false;

		p->machine.latency_ns = draw(3);
		p->machine.bandwidth_bytes_per_s = draw(4) ? 1e9 * (1 + draw(8)) : 0;
		ck_assert_int_eq(orr_pipeline_set_step(p, n_workers, 1 + draw(8), NULL), 0);
		for (int s = 0; s < p->n_stages; s++)
			worker[s] = draw(n_workers);
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
	ck_assert_int_gt(n_waited, 30);
	ck_assert_int_gt(n_on_links, 30);
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
		if (!x->done[d ? orr_stage_after(x->p, s, i) : orr_stage_before(x->p, s, i)][d])
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

	random_state = 5;
	for (int round = 0; round < 200; round++) {
		struct orr_pipeline *p = make_random(2 + draw(5));
		int worker[8], n_workers = 1 + draw(3), all[8] = {0}, most = 0;
		struct exhaustion x = {.p = p, .worker = worker, .best = 100};
		struct orr_smallest found;
		struct orr_timed *timed = NULL;
		int64_t n[8 * 2 * ORR_N_PASSES];

		ck_assert_int_eq(orr_pipeline_set_step(p, n_workers, 2, NULL), 0);
		for (int s = 0; s < p->n_stages; s++) {
			worker[s] = draw(n_workers);
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
			orr_timed_set_limit(timed, (struct orr_load){limit, INT64_MAX});
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
			orr_smallest_fini(&found);
			orr_timed_destroy(timed);
		}
		orr_pipeline_destroy(p);
	}
	ck_assert_int_gt(n_less, 20);
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
} swept[] = {
	{"k-periodic:k=%d", 1, 1, 9},           {"1f1b-star:T=%d", 1, 11, 50},
	{"zb-1p:kept=%d", 1, 1, 100},           {"zb-2p:kept=%d", 1, 1, 100},
	{"hanayo:in_flight=%d", 2, 1, 9},       {"adaptive:memory=%d", 2, 7, 12},
	{"interleaved:order=breadth", 2, 0, 0}, {"lpp:order=depth", 2, 0, 0},
	{"lpp:order=breadth,G=1", 1, 0, 0},
};

START_TEST(auto_is_never_longer_than_a_schedule_with_any_parameters_in_the_same_memory)
{
	static const int64_t costs[][3] = {{3, 4, 2}, {2, 5, 1}, {5, 3, 3}};

	random_state = 1;
	for (int value = swept[_i].low; value <= swept[_i].high;
	     value += swept[_i].high > 20 ? 7 : 1) {
		struct orr_pipeline *p = make_chain(5 * swept[_i].stages_per_worker, 1, 1);
		struct way theirs, ours;
		char name[64], found[64];

		p->has_weight = true;
		for (int s = 0; s < p->n_stages; s++) {
			const int64_t *cost = costs[draw(3)];

			p->stages[s].forward_ns = cost[0] * ORR_UNIT_NS;
			p->stages[s].backward_ns = cost[1] * ORR_UNIT_NS;
			p->stages[s].weight_ns = cost[2] * ORR_UNIT_NS;
		}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(name, sizeof(name), swept[_i].name, value);
#pragma GCC diagnostic pop
		way_init(&theirs, p, name, 5, 9);
		snprintf(found, sizeof(found), "auto:effort=0,memory=%d",
			 peak_of(theirs.tried.figures));
		way_init(&ours, p, found, 5, 9);
		ck_assert_msg(ours.tried.figures->makespan_ns <= theirs.tried.figures->makespan_ns,
			      "%s takes %lld, %s %lld", name,
			      (long long)theirs.tried.figures->makespan_ns, found,
			      (long long)ours.tried.figures->makespan_ns);
		way_fini(&ours);
		way_fini(&theirs);
		orr_pipeline_destroy(p);
	}
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		ONCE(an_order_takes_as_long_as_the_simulator_says_where_no_transfer_waits_and_no_longer_elsewhere),
		ONCE(the_order_that_holds_least_is_found),
		ONCE(a_search_for_the_least_memory_that_was_cut_short_says_so),
		EACH(auto_is_never_longer_than_a_schedule_with_any_parameters_in_the_same_memory,
		     N_OF(swept)),
	};

	return suite_run("search_orders", tests, N_OF(tests));
}
