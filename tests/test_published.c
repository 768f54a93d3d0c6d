/* Published schedules that go round the workers, both ways over them, or fold at their end:
 * makespan, peak and order against closed forms. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "suite.h"

static int smaller(int x, int y)
{
	return x < y ? x : y;
}

/* ---- interleaved ---- */

static const struct {
	int p, v, m, f, b;
} rings[] = {
	{4, 2, 8, 1, 2},  {8, 2, 48, 1, 2}, {2, 2, 4, 1, 1}, {2, 5, 6, 1, 2},
	{4, 1, 8, 1, 2},  {4, 3, 4, 1, 2},  {8, 4, 8, 1, 2}, {3, 3, 12, 2, 1},
	{5, 2, 25, 3, 4}, {1, 4, 3, 1, 2},  {6, 2, 6, 2, 3}, {16, 2, 32, 1, 1},
};

START_TEST(interleaved_divides_the_bubble_by_v)
{
	int p = rings[_i].p, v = rings[_i].v, m = rings[_i].m, both = rings[_i].f + rings[_i].b;
	struct orr_pipeline *pipeline = make_chain(p * v, rings[_i].f, rings[_i].b);

	for (int breadth = 0; breadth < 2; breadth++) {
		struct way way;

		way_init(&way, pipeline, breadth ? "interleaved:order=breadth" : "interleaved", p,
			 m);
		/* extra over ideal: (P-1)/(v m); 7.3 % with P = 8, v = 2, m = 48 */
		ck_assert_int_eq(units(way.tried.figures->makespan_ns), (m * v + p - 1) * both);
		if (p == 8 && m == 48)
			ck_assert_double_eq_tol(100.0 *
							(double)(way.tried.figures->makespan_ns -
								 m * v * both * ORR_UNIT_NS) /
							(double)(m * v * both * ORR_UNIT_NS),
						7.3, 0.05);
		for (int r = 0; r < p; r++)
			ck_assert_int_eq(
				way.tried.figures->worker[r].peak_stash,
				breadth ? m * v
					: smaller(2 * (p - r - 1) + (v - 1) * p + 1, m * v));
		way_fini(&way);
	}
	orr_pipeline_destroy(pipeline);
}
END_TEST

static size_t append(char *text, size_t size, size_t used, int s, char d, int b)
{
	return used +
	       (size_t)snprintf(text + used, size - used, "%s%d%c%d", used ? " " : "", s, d, b);
}

/* The k-th forward or backward of a worker, counted as Megatron-LM does: groups of P microbatches
 * pass the stages of the worker in turn. */
static size_t append_kth(char *text, size_t size, size_t used, int r, int k, char d, int p, int v)
{
	int turn = k / p % v, s = (d == 'F' ? turn : v - 1 - turn) * p + r;

	return append(text, size, used, s, d, k / (p * v) * p + k % p);
}

START_TEST(interleaved_runs_the_order_of_megatron)
{
	int p = rings[_i].p, v = rings[_i].v, m = rings[_i].m, total = m * v;
	struct orr_pipeline *pipeline = make_chain(p * v, rings[_i].f, rings[_i].b);
	char want[4096];
	struct way way;

	way_init(&way, pipeline, "interleaved", p, m);
	for (int r = 0; r < p; r++) {
		int warm_up = smaller(2 * (p - r - 1) + (v - 1) * p, total);
		size_t used = 0;

		for (int k = 0; k < warm_up; k++)
			used = append_kth(want, sizeof(want), used, r, k, 'F', p, v);
		for (int k = warm_up; k < total; k++) {
			used = append_kth(want, sizeof(want), used, r, k, 'F', p, v);
			used = append_kth(want, sizeof(want), used, r, k - warm_up, 'B', p, v);
		}
		for (int k = total - warm_up; k < total; k++)
			used = append_kth(want, sizeof(want), used, r, k, 'B', p, v);
		ck_assert_str_eq(way_order(&way, r), want);
	}
	way_end(&way);
}
END_TEST

START_TEST(breadth_first_finishes_a_round_before_the_next)
{
	struct orr_pipeline *p = make_chain(4, 1, 2);
	struct way way;

	way_init(&way, p, "interleaved:order=breadth", 2, 3);
	ck_assert_str_eq(way_order(&way, 1), "1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B1 3B2 1B0 1B1 1B2");
	way_fini(&way);
	way_init(&way, p, "lpp:G=2,R=2,order=breadth", 4, 4);
	/* the second of the group of odd microbatches */
	ck_assert_str_eq(way_order(&way, 3), "1F1 1F3 3F1 3F3 3B1 3B3 1B1 1B3");
	way_end(&way);
}
END_TEST

START_TEST(looped_orders_divide_the_bubble_by_the_rounds)
{
	static const struct {
		const char *schedule;
		int s, w, m, g, r;
	} rows[] = {{"lpp:G=2,R=4", 8, 8, 16, 2, 4},
		    {"lpp:G=1,R=4", 12, 4, 8, 1, 4},
		    {"fslpp:G=3,R=2", 8, 6, 12, 3, 2},
		    {"lpp:G=4,R=1", 3, 4, 8, 4, 1},
		    {"fslpp:G=2,R=6", 6, 12, 24, 2, 6}};
	static const char *const orders[] = {"breadth", "depth"};

	for (int i = 0; i < N_OF(rows); i++)
		for (int k = 0; k < 2; k++) {
			struct orr_pipeline *p = make_chain(rows[i].s, 1, 2);
			struct way way;
			char text[64];

			snprintf(text, sizeof(text), "%s,order=%s", rows[i].schedule, orders[k]);
			way_init(&way, p, text, rows[i].w, rows[i].m);
			ck_assert_int_eq(units(way.tried.figures->makespan_ns),
					 3 * (rows[i].m / rows[i].g * rows[i].s / rows[i].r +
					      rows[i].r - 1));
			way_end(&way);
		}
}
END_TEST

/* ---- both ways ---- */

START_TEST(chimera_idles_half_as_long_as_1f1b)
{
	for (int s = 2; s <= 16; s += 2)
		for (int m = s; m <= 4 * s; m += s) {
			struct orr_pipeline *p = make_chain(s, 1, 1);
			struct way way;

			way_init(&way, p, "chimera", s, m);
			/* (S-2)/2 forwards and (S-2)/2 backwards; 1f1b: S-1 of each */
			ck_assert_int_eq(units(way.tried.figures->makespan_ns), 2 * m + s - 2);
			for (int w = 0; w < s; w++) {
				ck_assert_int_eq(units(way.tried.figures->worker[w].idle_ns),
						 s - 2);
				ck_assert_int_ge(way.tried.figures->worker[w].peak_stash,
						 s / 2 + 1 < s ? s / 2 + 1 : s);
				ck_assert_int_le(way.tried.figures->worker[w].peak_stash, s);
			}
			for (int stage = 0; stage < s; stage++)
				ck_assert_int_eq(way.tried.jobs->first_owner[stage + 1] -
							 way.tried.jobs->first_owner[stage],
						 2);
			way_end(&way);
		}
}
END_TEST

/* Li & Hoefler, table 2: (S-2)/(3m/2 + S-2) with a backward of two forwards and m = S. */
START_TEST(chimera_with_long_backwards_has_the_published_bubble)
{
	for (int s = 2; s <= 16; s += 2) {
		struct orr_pipeline *p = make_chain(s, 1, 2);
		struct way way;

		way_init(&way, p, "chimera", s, s);
		ck_assert_double_eq_tol(way.tried.figures->bubble, (s - 2) / (1.5 * s + s - 2),
					1e-12);
		way_end(&way);
	}
}
END_TEST

START_TEST(order_of_chimera_is_the_published_one)
{
	struct orr_pipeline *p = make_chain(4, 1, 1);
	struct way way;

	/* worker 0: stage 0 of microbatches 0 and 2, stage 3 of 1 and 3 */
	way_init(&way, p, "chimera", 4, 4);
	ck_assert_str_eq(way_order(&way, 0), "0F0 0F2 3F1 3B1 3F3 3B3 0B0 0B2");
	ck_assert_str_eq(way_order(&way, 1), "1F0 2F1 1F2 2F3 2B1 1B0 2B3 1B2");
	way_fini(&way);
	/* the next four start while these end */
	way_init(&way, p, "chimera", 4, 8);
	ck_assert_str_eq(way_order(&way, 0),
			 "0F0 0F2 3F1 3B1 3F3 3B3 0B0 0F4 0B2 0F6 3F5 3B5 3F7 3B7 0B4 0B6");
	way_end(&way);
}
END_TEST

START_TEST(gems_holds_one_stash_and_waits_for_whole_waves)
{
	static const int costs[][2] = {{1, 1}, {1, 2}, {2, 3}};

	for (int s = 2; s <= 9; s++)
		for (int m = 1; m <= 9; m += 2)
			for (int k = 0; k < 3; k++) {
				int f = costs[k][0], b = costs[k][1];
				struct orr_pipeline *p = make_chain(s, f, b);
				struct way way;

				way_init(&way, p, "gems", s, m);
				ck_assert_int_eq(units(way.tried.figures->makespan_ns),
						 (m - 1) * (s * b + f) + s * (f + b));
				for (int w = 0; w < s; w++)
					ck_assert_int_eq(way.tried.figures->worker[w].peak_stash,
							 1);
				way_end(&way);
			}
}
END_TEST

/* ---- folds ---- */

START_TEST(hanayo_divides_the_bubble_by_twice_the_waves)
{
	for (int n = 2; n <= 8; n++)
		for (int waves = 1; waves <= 3; waves++)
			for (int m = n; m <= 4 * n; m += n) {
				struct orr_pipeline *p = make_chain(2 * waves * n, 1, 1);
				struct way way;

				way_init(&way, p, "hanayo", n, m);
				ck_assert_int_eq(units(way.tried.figures->makespan_ns),
						 2 * (2 * waves * m + n - 1));
				for (int w = 0; w < n;
				     w++) /* as much as 1f1b's first worker, at most */
					ck_assert_int_le(way.tried.figures->worker[w].peak_stash,
							 2 * waves * n);
				way_end(&way);
			}
}
END_TEST

START_TEST(hanayo_with_long_backwards_gains_from_more_in_flight)
{
	struct orr_pipeline *p = make_chain(8, 1, 2);
	struct way few, more;

	way_init(&few, p, "hanayo", 4, 16);
	way_init(&more, p, "hanayo:in_flight=8", 4, 16);
	ck_assert_int_eq(units(few.tried.figures->makespan_ns), 136);
	ck_assert_int_eq(units(more.tried.figures->makespan_ns), 110);
	way_fini(&few);
	way_end(&more);
}
END_TEST

START_TEST(waves_fold_at_both_ends)
{
	static const int workers[] = {0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0};
	struct orr_pipeline *p = make_chain(12, 1, 1);
	struct way way;

	way_init(&way, p, "hanayo", 3, 2);
	for (int s = 0; s < 12; s++)
		ck_assert_int_eq(
			way.tried.jobs->compute[orr_jobs_index(way.tried.jobs, s, 0, ORR_PASS_F)],
			workers[s]);
	way_end(&way);
}
END_TEST

static const struct {
	int f, b, w;
} splits[] = {{1, 1, 1}, {2, 3, 2}, {2, 2, 1}, {3, 4, 3}, {4, 4, 3}};

START_TEST(dualpipe_v_keeps_within_the_published_bubble_and_memory)
{
	int f = splits[_i].f, b = splits[_i].b, w = splits[_i].w;

	for (int n = 1; n <= 9; n++)
		for (int m = 2 * n; m <= 6 * n; m += n + 1) {
			struct orr_pipeline *chain = make_chain(2 * n, f, b);
			struct way way;

			for (int s = 0; s < 2 * n; s++)
				chain->stages[s].weight_ns = w * ORR_UNIT_NS;
			chain->has_weight = true;
			way_init(&way, chain, "dualpipe-v", n, m);
			/* (P-1)(F&B + B - 3W), where B is the whole backward and F&B one job after
			 * the other */
			for (int x = 0; x < n; x++) {
				ck_assert_int_le(units(way.tried.figures->worker[x].idle_ns),
						 (n - 1) * (f + 2 * (b + w) - 3 * w));
				ck_assert_int_le(way.tried.figures->worker[x].peak_stash,
						 2 * n + 1);
			}
			if (f == 1) /* better at unit times: nothing waits for the other half of a
				       pair */
				ck_assert_int_eq(units(way.tried.figures->makespan_ns),
						 6 * m + n - 1);
			way_end(&way);
		}
}
END_TEST

START_TEST(order_of_dualpipe_v_is_the_published_one)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 1, 1, 1, 0, 0);
	struct way way;

	way_init(&way, p, "dualpipe-v", 2, 4);
	ck_assert_str_eq(way_order(&way, 0),
			 "0F0 0F1 0F2 3F0 3B0 3W0 3F1 0F3 3B1 3W1 3F2 0B0 0W0 3B2 3W2 3F3 0B1 0W1 "
			 "3B3 3W3 0B2 0W2 0B3 0W3");
	ck_assert_str_eq(way_order(&way, 1),
			 "1F0 2F0 1F1 2F1 1F2 2B0 2W0 2F2 1B0 1W0 1F3 2B1 2W1 2F3 1B1 1W1 "
			 "2B2 2W2 1B2 1W2 2B3 1B3 2W3 1W3");
	way_end(&way);
}
END_TEST

/* ---- any graph, any number of microbatches ---- */

static bool any(int n_stages, int n_workers)
{
	return n_stages && n_workers;
}

static bool one_a_worker(int n_stages, int n_workers)
{
	return n_stages == n_workers;
}

static bool two_a_worker(int n_stages, int n_workers)
{
	return n_stages == 2 * n_workers;
}

static bool whole_rounds(int n_stages, int n_workers)
{
	return n_stages % n_workers == 0;
}

static bool whole_waves(int n_stages, int n_workers)
{
	return n_stages % (2 * n_workers) == 0;
}

static const struct {
	const char *schedule;
	bool (*serves)(int n_stages, int n_workers);
} served[] = {
	{"interleaved", whole_rounds}, {"interleaved:order=breadth", whole_rounds},
	{"chimera", one_a_worker},     {"gems", one_a_worker},
	{"hanayo", whole_waves},       {"hanayo:in_flight=1", whole_waves},
	{"dualpipe-v", two_a_worker},  {"lpp:order=breadth", any},
	{"lpp:order=depth", any},      {"fslpp:order=breadth", any},
	{"fslpp:order=depth", any},
};

START_TEST(every_dag_and_every_number_of_microbatches_is_served)
{
	static const char *const graphs[] = {
		"", "0>1 1>2 2>3 3>4 4>5 5>6 6>7 7>8 8>9 9>10 10>11",
		"0>1 1>2 2>6 3>4 4>5 5>6 6>7 7>8 8>9 9>10 10>11",
		"0>11 1>11 2>11 3>11 4>7 7>8 8>11 5>6 6>9 9>10",
		"0>1 0>2 0>3 1>4 2>5 3>6 4>7 5>7 6>7 0>7 7>8 8>9 9>10 10>11 0>11"};
	static const int microbatches[] = {1, 2, 3, 5, 8, 12, 13, 25};

	for (int g = 0; g < N_OF(graphs); g++)
		for (int m = 0; m < N_OF(microbatches); m++)
			for (int n = 1; n <= 12; n++) {
				struct orr_pipeline *p =
					make_pipeline(12, graphs[g], 1, 2, 0, 1, 3, 2);
				struct orr_machine machine = orr_machine_default(n);
				struct way way;

				bool runs =
					way_try(&way, p, served[_i].schedule, n, microbatches[m]);

				ck_assert_msg(runs == served[_i].serves(12, n), "%s on %d workers",
					      served[_i].schedule, n);
				if (runs) {
					way_fini(&way);
					machine.latency_ns = ORR_UNIT_NS / 3;
					way_init_on(&way, p, served[_i].schedule, &machine,
						    microbatches[m]);
					way_fini(&way);
				}
				orr_pipeline_destroy(p);
			}
}
END_TEST

static const struct {
	const char *schedule;
	int stages, workers;
	const char *message;
} refused[] = {
	{"interleaved", 6, 4,
	 "interleaved: 6 stages on 4 workers: every worker takes as many; set [workers] to a "
	 "divisor of the stages, or cut the model into a multiple of the workers"},
	{"chimera", 6, 4,
	 "two-way pipelines need a worker a stage, and there are 6 stages and 4 workers: set "
	 "[workers] 6"},
	{"gems", 2, 4,
	 "two-way pipelines need a worker a stage, and there are 2 stages and 4 workers: set "
	 "[workers] 2"},
	{"hanayo", 6, 4,
	 "hanayo: 6 stages on 4 workers: a wave goes down and up, two stages a worker; cut the "
	 "model into a multiple of 8 stages, or set [workers] to a divisor of 3"},
	{"dualpipe-v", 4, 4,
	 "dualpipe-v: 4 stages on 4 workers: it needs two stages a worker; set [workers] to half "
	 "of the stages, or cut the model into 8"},
};

START_TEST(what_cannot_be_served_is_refused_with_the_cure)
{
	struct orr_pipeline *p = make_chain(refused[_i].stages, 1, 2);
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_pipeline_set_step(p, refused[_i].workers, 8, &err), 0);
	ck_assert_int_eq(orr_choice_init(&choice, refused[_i].schedule, &err), 0);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &choice.schedule, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, refused[_i].message);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(words_name_the_values_of_a_parameter)
{
	struct orr_choice choice;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_choice_init(&choice, "lpp:order=depth,R=2", &err), 0);
	ck_assert_int_eq(choice.values[3].integer, 2);
	ck_assert_int_eq(choice.values[1].integer, 2);
	orr_choice_fini(&choice);
	ck_assert_int_eq(orr_choice_init(&choice, "interleaved:order=dept", &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "schedule interleaved: order=dept (did you mean depth?): write "
				  "one of depth|breadth");
	ck_assert_int_eq(orr_choice_init(&choice, "interleaved:order=", &err), ORR_E_INPUT);
	ck_assert_int_eq(orr_choice_init(&choice, "zb-2p:kept=0", &err), ORR_E_INPUT);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(interleaved_divides_the_bubble_by_v, N_OF(rings)),
	EACH(interleaved_runs_the_order_of_megatron, N_OF(rings)),
	ONCE(breadth_first_finishes_a_round_before_the_next),
	ONCE(looped_orders_divide_the_bubble_by_the_rounds),
	ONCE(chimera_idles_half_as_long_as_1f1b),
	ONCE(chimera_with_long_backwards_has_the_published_bubble),
	ONCE(order_of_chimera_is_the_published_one),
	ONCE(gems_holds_one_stash_and_waits_for_whole_waves),
	ONCE(hanayo_divides_the_bubble_by_twice_the_waves),
	ONCE(hanayo_with_long_backwards_gains_from_more_in_flight),
	ONCE(waves_fold_at_both_ends),
	EACH(dualpipe_v_keeps_within_the_published_bubble_and_memory, N_OF(splits)),
	ONCE(order_of_dualpipe_v_is_the_published_one),
	EACH(every_dag_and_every_number_of_microbatches_is_served, N_OF(served)),
	EACH(what_cannot_be_served_is_refused_with_the_cure, N_OF(refused)),
	ONCE(words_name_the_values_of_a_parameter),
};
SUITE("published")
