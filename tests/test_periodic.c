/* Periodic patterns and allocations: the theorems of [Beaumont21], each as the figures that it
 * promises. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order/allocate.h"
#include "order/periodic.h"
#include "pipelines.h"
#include "suite.h"

static struct orr_star make_star(const struct orr_pipeline *p, int64_t period)
{
	struct orr_star x;
	struct orr_error err = {""};

	ck_assert_msg(!orr_star_init(&x, p, period * ORR_UNIT_NS, &err), "%s", err.msg);
	return x;
}

/* A chain of uneven stages, in units; ends with 0. */
static struct orr_pipeline *make_uneven(const int *forward, const int *backward)
{
	struct orr_pipeline *p;
	int n = 0;

	while (forward[n])
		n++;
	p = make_chain(n, 1, 1);
	for (int s = 0; s < n; s++) {
		p->stages[s].forward_ns = forward[s] * ORR_UNIT_NS;
		p->stages[s].backward_ns = backward[s] * ORR_UNIT_NS;
		p->stages[s].stash_bytes = 1;
	}
	return p;
}

static int64_t makespan_of(struct orr_pipeline *p, const char *schedule, int n_microbatches)
{
	struct way way;
	int64_t makespan;

	way_init(&way, p, schedule, p->n_stages, n_microbatches);
	makespan = way.tried.figures->makespan_ns;
	way_fini(&way);
	return makespan;
}

/* ---- 1F1B* ---- */

static const struct {
	int forward[6], backward[6];
	int period;
} chains[] = {
	{{1, 1, 1}, {1, 1, 1}, 2},       {{1, 1, 1}, {1, 1, 1}, 3},
	{{1, 1, 1}, {1, 1, 1}, 4},       {{1, 1, 1}, {1, 1, 1}, 6},
	{{1, 1, 1}, {2, 2, 2}, 5},       {{2, 1, 1}, {1, 2, 1}, 4},
	{{1, 2, 1}, {1, 1, 3}, 4},       {{1, 1, 1, 1}, {1, 1, 1, 1}, 2},
	{{1, 1, 1, 1}, {1, 1, 1, 1}, 4}, {{1, 1, 1, 1}, {1, 1, 1, 1}, 5},
};

/* Two windows modulo the period. */
static bool collide(int a, int a_length, int b, int b_length, int period)
{
	int gap = ((b - a) % period + period) % period;

	return gap < a_length || gap + b_length > period;
}

/* Try every 1-periodic pattern with waits up to a period: the fewest that each stage can hold.
 * gap[s] is before F(s), gap[n + i] before the i-th backward from the end. */
static void enumerate(const int *forward, const int *backward, int n, int period, int *fewest,
		      int *found)
{
	int gap[12] = {0}, start_f[6], start_b[6];

	for (;;) {
		int time = 0, i = 0;
		bool valid = true;

		for (int s = 0; s < n; s++) {
			start_f[s] = time + gap[s];
			time = start_f[s] + forward[s];
		}
		for (int s = n - 1; s >= 0; s--) {
			start_b[s] = time + gap[n + n - 1 - s];
			time = start_b[s] + backward[s];
			valid = valid &&
				!collide(start_f[s], forward[s], start_b[s], backward[s], period);
		}
		for (int s = 0; s < n && valid; s++) {
			int held = (start_b[s] + backward[s] - start_f[s] + period - 1) / period;

			fewest[s] = held < fewest[s] ? held : fewest[s];
		}
		*found += valid;
		for (i = 1; i < 2 * n && ++gap[i] == period; i++)
			gap[i] = 0;
		if (i == 2 * n)
			return;
	}
}

START_TEST(no_one_periodic_pattern_holds_less_than_star) /* theorem 3 */
{
	struct orr_pipeline *p = make_uneven(chains[_i].forward, chains[_i].backward);
	struct orr_star x = make_star(p, chains[_i].period);
	int fewest[6] = {99, 99, 99, 99, 99, 99}, found = 0;

	enumerate(chains[_i].forward, chains[_i].backward, p->n_stages, chains[_i].period, fewest,
		  &found);
	ck_assert_int_gt(found, 0);
	for (int s = 0; s < p->n_stages; s++)
		ck_assert_msg(fewest[s] == x.in_flight[s],
			      "stage %d: a pattern holds %d, 1F1B* holds %d", s, fewest[s],
			      x.in_flight[s]);
	orr_arrays_free(&x.all);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(star_keeps_its_period_and_its_memory)
{
	struct orr_pipeline *p = make_uneven(chains[_i].forward, chains[_i].backward);
	struct orr_star x = make_star(p, chains[_i].period);
	char schedule[40];
	struct way way;

	snprintf(schedule, sizeof(schedule), "1f1b-star:T=%d", chains[_i].period);
	p->units = true;
	way_init(&way, p, schedule, p->n_stages, 20);
	for (int s = 0; s < p->n_stages; s++)
		ck_assert_int_eq(way.tried.figures->worker[s].peak_stash, x.in_flight[s]);
	ck_assert_int_le(way.tried.figures->makespan_ns,
			 x.backward_ns[0] + 19 * x.period_ns + p->stages[0].backward_ns);
	way_fini(&way);
	orr_arrays_free(&x.all);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(every_period_has_its_smallest_memory)
{
	static const int forward[] = {1, 1, 1, 1, 0}, backward[] = {1, 1, 1, 1, 0};
	static const struct {
		int period, in_flight;
	} expected[] = {{2, 4}, {4, 2}, {6, 2}, {8, 1}};
	struct orr_pipeline *p = make_uneven(forward, backward);
	struct orr_star_point *points = NULL;
	int n = 0;

	ck_assert_int_eq(orr_star_points(&points, &n, p, NULL), 0);
	ck_assert_int_eq(n, 4);
	for (int i = 0; i < n; i++) {
		ck_assert_int_eq(points[i].period_ns, expected[i].period * ORR_UNIT_NS);
		ck_assert_int_eq(points[i].in_flight, expected[i].in_flight);
		ck_assert_int_eq(points[i].stash_bytes, expected[i].in_flight);
	}
	free(points);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(too_short_a_period_is_refused)
{
	struct orr_pipeline *p = make_chain(3, 1, 2),
			    *towers = make_towers((const int[]){2, 2, 0}, 1, 1, 1);
	struct orr_star x;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_star_init(&x, p, 2 * ORR_UNIT_NS, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "the longest stage takes"), "%s", err.msg);
	ck_assert_int_eq(orr_star_init(&x, towers, 0, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "for chains"), "%s", err.msg);
	orr_pipeline_destroy(p);
	orr_pipeline_destroy(towers);
}
END_TEST

/* ---- k-periodic patterns ---- */

START_TEST(only_k_periodic_reaches_its_period) /* theorem 4, k = 2..8 */
{
	int k = _i, n = k + 1, m = 840; /* every j up to 8 divides it */

	for (int j = 1; j <= k; j++) {
		struct orr_pipeline *p = make_chain(n, 1, 1);
		char schedule[40];
		int64_t period;
		struct way way;

		snprintf(schedule, sizeof(schedule), "k-periodic:k=%d", j);
		period = makespan_of(p, schedule, 2 * m) - makespan_of(p, schedule, m);
		/* m microbatches take 2 (1 + 1/j) each */
		ck_assert_int_eq(period, 2 * (m + m / j) * ORR_UNIT_NS);
		way_init(&way, p, schedule, n, m);
		for (int s = 0; s < n; s++) /* the memory of the theorem: k, k, k - 1, .., 1 */
			ck_assert_int_le(way.tried.figures->worker[s].peak_stash,
					 s == 0 ? k : k + 1 - s);
		/* of n microbatches in a row, one of j + 1 is left out */
		ck_assert_int_eq(way.tried.figures->worker[0].peak_stash, n - n / (j + 1));
		way_end(&way);
	}
}
END_TEST

START_TEST(no_one_periodic_pattern_reaches_it) /* theorem 4, the other half, by trying them all */
{
	static const int unit[] = {1, 1, 1, 1, 1};
	int k = _i, n = k + 1;

	for (int period = 2; period <= 4; period++) {
		int fewest[6] = {99, 99, 99, 99, 99, 99}, found = 0;

		enumerate(unit, unit, n, period, fewest, &found);
		/* k + 1 microbatches on the first stage unless the period is 4 = 2 (1 + 1/1) */
		ck_assert_int_eq(fewest[0] <= k, period >= 4);
	}
}
END_TEST

/* ---- allocations ---- */

static int64_t contiguous(const int64_t *work, const int64_t *bytes, int n, int n_workers,
			  int64_t memory)
{
	struct orr_layers layers = {n, work, bytes, NULL};
	struct orr_allocation a;

	ck_assert_int_eq(orr_allocate_contiguous(&a, NULL, &layers, n_workers, memory, NULL), 0);
	return a.period_ns;
}

/* The best there is, checked against what it says of every worker. */
static int64_t anyhow(const int64_t *work, const int64_t *bytes, int n, int n_workers,
		      int64_t memory)
{
	struct orr_layers layers = {n, work, bytes, NULL};
	int64_t load[16] = {0}, held[16] = {0}, most = 0;
	struct orr_allocation a;
	int worker_of[64];

	ck_assert_int_eq(
		orr_allocate_any(&a, worker_of, &layers, n_workers, memory, 10000000, NULL), 0);
	ck_assert(a.proven);
	if (a.period_ns < 0)
		return -1;
	for (int i = 0; i < n; i++) {
		load[worker_of[i]] += work[i];
		held[worker_of[i]] += bytes ? bytes[i] : 0;
	}
	for (int w = 0; w < n_workers; w++) {
		most = load[w] > most ? load[w] : most;
		ck_assert(!memory || held[w] <= memory);
	}
	ck_assert_int_eq(most, a.period_ns);
	return a.period_ns;
}

START_TEST(published_layer_times_are_cut_as_published)
{
	static const int64_t work[] = {10, 10, 10, 10, 20, 20, 20, 20};

	ck_assert_int_eq(contiguous(work, NULL, 8, 4, 0), 40);
	ck_assert_int_eq(anyhow(work, NULL, 8, 4, 0), 30);
}
END_TEST

START_TEST(pieces_can_be_almost_twice_as_slow) /* theorem 5, times 2k + 1 so that epsilon is 1 */
{
	int k = _i, unit = 2 * k + 1, n = 0;
	int64_t work[64];

	for (int part = 0; part < k; part++) {
		work[n++] = k * unit;
		work[n++] = 1;
		work[n++] = (k - 1) * unit;
		work[n++] = 1;
	}
	work[n++] = k * unit;
	for (int i = 0; i < (k - 2) * unit + 1; i++)
		work[n++] = 1;
	work[n++] = unit;
	ck_assert_int_eq(anyhow(work, NULL, n, 2 * k + 1, 0), k * unit);
	/* 2k - 1, and an epsilon layer */
	ck_assert_int_ge(contiguous(work, NULL, n, 2 * k + 1, 0), (2 * k - 1) * unit);
	ck_assert_int_le(contiguous(work, NULL, n, 2 * k + 1, 0), (2 * k - 1) * unit + 1);
}
END_TEST

START_TEST(pieces_may_not_fit_where_others_do) /* lemma 2 */
{
	static const int64_t work[] = {1, 1, 1}, bytes[] = {1, 2, 1};

	ck_assert_int_eq(contiguous(work, bytes, 3, 2, 2), -1);
	ck_assert_int_eq(anyhow(work, bytes, 3, 2, 2), 2);
	ck_assert_int_eq(contiguous(work, bytes, 3, 2, 3), 2);
}
END_TEST

START_TEST(memory_can_make_pieces_any_times_slower) /* theorem 6, k = 3, 4, 5 */
{
	int k = _i, n = 2 * k + 1, memory = k + 2;
	int64_t work[16], bytes[16];

	for (int i = 0; i < n; i++) {
		work[i] = i < k ? 1 : i == k ? k : k - 1;
		bytes[i] = i < k ? memory - 1 : i == k ? memory : 1;
	}
	ck_assert_int_eq(anyhow(work, bytes, n, k + 2, memory), k);
	ck_assert_int_eq(contiguous(work, bytes, n, k + 2, memory), k * (k - 1));
}
END_TEST

START_TEST(random_allocations_match_trying_all)
{
	for (unsigned seed = 1; seed <= 60; seed++) {
		int64_t work[7], bytes[7], best = -1, memory = seed % 3 ? 0 : 14;
		unsigned state = seed * 2654435761u;

		for (int i = 0; i < 7; i++) {
			state = state * 1664525u + 1013904223u;
			work[i] = 1 + state / 65536 % 9;
			bytes[i] = 1 + state / 4096 % 7;
		}
		for (int code = 0; code < 2187; code++) { /* 3 ^ 7 */
			int64_t load[3] = {0}, held[3] = {0}, most = 0;

			for (int i = 0, rest = code; i < 7; i++, rest /= 3) {
				load[rest % 3] += work[i];
				held[rest % 3] += bytes[i];
			}
			for (int w = 0; w < 3; w++) {
				most = load[w] > most ? load[w] : most;
				if (memory && held[w] > memory)
					most = INT64_MAX / 2;
			}
			if (most < INT64_MAX / 2 && (best < 0 || most < best))
				best = most;
		}
		ck_assert_int_eq(anyhow(work, bytes, 7, 3, memory), best);
	}
}
END_TEST

/* ---- transfers as stages, on 2P - 1 resources ---- */

static int own(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)b, (void)d, (void)data;
	return s;
}

/* The order of the wide chain's stages that compute. */
static int64_t of_wide(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data)
{
	const struct orr_star *x = data;

	(void)p;
	return (d == ORR_PASS_F ? x->forward_ns : x->backward_ns)[2 * s] * 2 +
	       2 * b * x->period_ns + (int)d;
}

static int64_t period_on_links(struct orr_pipeline *p, const struct orr_star *x, bool half_duplex)
{
	struct orr_schedule schedule = {.name = "wide",
					.summary = "",
					.order = ORR_ORDER_STRICT,
					.compute = own,
					.priority = of_wide,
					.data = x};
	struct orr_cluster *cluster =
		parse_cluster("graph { bandwidth=\"1B/s\"; duplex=%s; a [repeat=3] }",
			      half_duplex ? "half" : "full");
	int64_t makespan[2];

	p->machine = orr_machine_of(cluster, 0);
	for (int i = 0; i < 2; i++) {
		struct way way;

		way_init_own(&way, p, &schedule, p->n_stages, 40 << i);
		makespan[i] = way.tried.figures->makespan_ns;
		way_fini(&way);
	}
	orr_cluster_destroy(cluster);
	return makespan[1] - makespan[0];
}

START_TEST(transfers_as_stages_give_the_period_of_links)
{
	static const struct {
		int forward, backward, bytes; /* a byte takes a second */
	} cases[] = {{1, 1, 1}, {1, 2, 1}, {2, 3, 1}, {1, 1, 2}, {1, 1, 3}};
	int P = 3, wide = 2 * P - 1;
	struct orr_pipeline *p = make_pipeline(P, "0>1 1>2", cases[_i].forward, cases[_i].backward,
					       0, 1, 0, cases[_i].bytes);
	struct orr_pipeline *w = make_chain(wide, cases[_i].forward, cases[_i].backward);
	struct orr_star x;
	int64_t period, full;
	int work;

	for (int s = 1; s < wide; s += 2)
		w->stages[s].forward_ns = w->stages[s].backward_ns = cases[_i].bytes * ORR_UNIT_NS;
	x = make_star(w, 0);
	w->units = true;
	period = makespan_of(w, "1f1b-star", 80) - makespan_of(w, "1f1b-star", 40);
	ck_assert_int_eq(period, 40 * x.period_ns);
	ck_assert_int_eq(period_on_links(p, &x, true), period);
	/* there and back at once, in the same order: shorter where the link has most to do */
	full = period_on_links(p, &x, false);
	work = cases[_i].forward + cases[_i].backward;
	ck_assert_int_ge(full,
			 40 * ORR_UNIT_NS * (cases[_i].bytes > work ? cases[_i].bytes : work));
	ck_assert(2 * cases[_i].bytes > work ? full < period : full == period);
	orr_arrays_free(&x.all);
	orr_pipeline_destroy(w);
	orr_pipeline_destroy(p);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(no_one_periodic_pattern_holds_less_than_star, N_OF(chains)),
	EACH(star_keeps_its_period_and_its_memory, N_OF(chains)),
	ONCE(every_period_has_its_smallest_memory),
	ONCE(too_short_a_period_is_refused),
	{&only_k_periodic_reaches_its_period, 2, 9},
	{&no_one_periodic_pattern_reaches_it, 2, 5},
	ONCE(published_layer_times_are_cut_as_published),
	{&pieces_can_be_almost_twice_as_slow, 2, 4},
	ONCE(pieces_may_not_fit_where_others_do),
	{&memory_can_make_pieces_any_times_slower, 3, 6},
	ONCE(random_allocations_match_trying_all),
	EACH(transfers_as_stages_give_the_period_of_links, 5),
};
SUITE("periodic")
