/* Failures: the expected goodput against draws and limits, the best distance of copies against a
 * count and the closed forms, and one failure against a training that is walked step by step. */
#include <check.h>
#include <math.h>

#include "base/random.h"
#include "simulate/failures.h"
#include "suite.h"

#define S INT64_C(1000000000)

static const struct {
	struct orr_failures f;
	int64_t step_ns;
} rows[] = {
	{{10800 * S, 2 * S, 30 * S, false}, 5700000000},
	{{60 * S, 2 * S, 5 * S, false}, S},
	{{10 * S, 8 * S, 2 * S, false}, S / 100},
	{{3600 * S, S / 10, 0, false}, S / 7},
	{{100 * S, 1, 40 * S, false}, 3 * S},
	{{10 * S, S, S, false}, 100 * S},
};

/* The goodput of a training in which n failures are drawn. */
static double draw(const struct orr_failures *f, int64_t step_ns, int64_t every, int n)
{
	double use = (double)step_ns * (double)every, all = 0, done = 0;
	uint64_t state = 1;

	for (int i = 0; i < n; i++) {
		/* above 0, so that the logarithm is finite */
		double drawn = ldexp((double)((orr_random(&state) >> 11) + 1), -53);
		double lasts = -log(drawn) * (double)f->mtbf_ns;

		all += lasts;
		if (lasts > (double)f->restart_ns)
			done += floor((lasts - (double)f->restart_ns) / (use + (double)f->copy_ns));
	}
	return done * use / all;
}

START_TEST(what_is_expected_is_what_comes_of_many_draws)
{
	const struct orr_failures *f = &rows[_i].f;

	for (int64_t every = 1; every < 100; every *= 3) {
		double expected = orr_failures_goodput(f, rows[_i].step_ns, every);
		double drawn = draw(f, rows[_i].step_ns, every, 200000);

		ck_assert_msg(fabs(drawn - expected) < 0.003, "every %lld: %.5f, and drawn %.5f",
			      (long long)every, expected, drawn);
	}
}
END_TEST

/* Once in 30 years: copies are all that is paid. Then half a step is lost, and a restart. */
START_TEST(rare_failures_cost_what_they_lose)
{
	struct orr_failures f = {1000000000 * S, 2 * S, 30 * S, false};
	double without = 50.0 / 52, lost;

	ck_assert_double_eq_tol(orr_failures_goodput(&f, 5 * S, 10), without, 1e-6);
	f.mtbf_ns = 1000000 * S;
	lost = (30 + 52.0 / 2) / 1e6;
	ck_assert_double_eq_tol(orr_failures_goodput(&f, 5 * S, 10) / without, 1 - lost, 1e-8);
}
END_TEST

START_TEST(the_best_number_of_steps_is_the_one_of_a_count)
{
	const struct orr_failures *f = &rows[_i].f;
	int64_t best = 1, n = 2 * f->mtbf_ns / rows[_i].step_ns + 2;

	for (int64_t k = 2; k < n; k++)
		if (orr_failures_goodput(f, rows[_i].step_ns, k) >
		    orr_failures_goodput(f, rows[_i].step_ns, best))
			best = k;
	ck_assert_int_eq(orr_failures_best(f, rows[_i].step_ns), best);
}
END_TEST

/* Steps so short that the next expectation differs by less than rounding, and restarts so long that
 * all are 0. */
START_TEST(the_best_is_found_where_expectations_do_not_differ)
{
	static const struct {
		struct orr_failures f;
		int64_t step_ns;
		double best;
	} cases[] = {{{1000000000 * S, 2 * S, 5 * S, false}, 2, 31622109938511},
		     {{S, S, 1000 * S, false}, 2, 420702830},
		     {{S, 800 * S, 0, false}, S / 500, 500}};

	ck_assert_double_eq_tol((double)orr_failures_best(&cases[_i].f, cases[_i].step_ns) /
					cases[_i].best,
				1, 1e-6);
}
END_TEST

/* In the best distance T, e^((T + C) / M) (1 - T / M) = 1, which steps of a millisecond come near;
 * Daly's series is off by a term of (C / 2M)^(3/2), Young's by C. */
START_TEST(closed_forms_are_near_the_best)
{
	static const struct orr_failures cases[] = {{10800 * S, 2 * S, 30 * S, false},
						    {600 * S, 3 * S, 60 * S, false},
						    {60 * S, 2 * S, 0, false}};
	const struct orr_failures *f = &cases[_i];
	double mean = (double)f->mtbf_ns, copy = (double)f->copy_ns;
	double best = (double)(orr_failures_best(f, S / 1000) * (S / 1000));
	double young = (double)orr_failures_young_ns(f), daly = (double)orr_failures_daly_ns(f);

	ck_assert_double_eq_tol(exp((best + copy) / mean) * (1 - best / mean), 1, 1e-5);
	ck_assert_double_eq_tol(daly / best, 1, pow(copy / (2 * mean), 1.5) + 1e-4);
	ck_assert_double_eq_tol((young - best) / copy, 1, 0.4);
}
END_TEST

/* As the paper's figures 3 to 5 have it, in minutes. */
START_TEST(daly_is_as_published)
{
	static const struct {
		int64_t mtbf, copy;
		double interval;
	} cases[] = {{1440, 5, 117}, {360, 5, 57}, {15, 5, 9.1}};
	struct orr_failures f = {cases[_i].mtbf * 60 * S, cases[_i].copy * 60 * S, 600 * S, false};

	ck_assert_double_eq_tol((double)orr_failures_daly_ns(&f) / 60e9, cases[_i].interval,
				_i < 2 ? 0.5 : 0.05);
}
END_TEST

/* Steps of 10, on one worker fewer 15, and restarts of 7. */
START_TEST(a_loss_is_followed_as_by_hand)
{
	static const struct {
		const char *text;
		int64_t done, into, from, fewer, all, next, lost;
	} cases[] = {
		/* in the middle of step 4, with a copy after each; that of step 3 counts at 32 */
		{"0@34:copy=2,restart=7", 3, 4, 3, 0, 41, 51, 11},
		{"0@32:copy=2,restart=7", 3, 2, 3, 0, 39, 49, 9},
		{"0@31:copy=2,restart=7", 3, 1, 2, 0, 38, 58, 18},
		/* before any copy counts: from the beginning */
		{"0@11:copy=2,restart=7", 1, 1, 0, 0, 18, 38, 18},
		{"0@0:copy=0,restart=7", 0, 0, 0, 0, 7, 17, 7},
		{"0@10:copy=0,restart=7", 1, 0, 1, 0, 17, 27, 7},
		/* every third step; just before and after that of step 6 counts */
		{"0@58:copy=2,restart=7,every=3", 5, 8, 3, 0, 65, 95, 35},
		{"0@61:copy=2,restart=7,every=3", 6, 1, 3, 0, 68, 108, 38},
		{"0@62:copy=2,restart=7,every=3", 6, 2, 6, 0, 69, 79, 9},
		/* away until 55, in a step from 41 to 56, or from 56 to 71: a copy, a restart */
		{"0@34:copy=2,restart=7,for=21", 3, 4, 3, 1, 65, 56, 25},
		{"0@34:copy=2,restart=7,for=22", 3, 4, 3, 1, 65, 56, 25},
		{"0@34:for=23,restart=7,every=1,copy=2", 3, 4, 3, 2, 80, 56, 30},
		/* back before the step that it broke off is reached again */
		{"0@58:copy=2,restart=7,every=3,for=8", 5, 8, 3, 1, 89, 109, 49},
		/* a copy of 25 holds the next step up: step 3 lasts from 20 to 45 */
		{"0@44:copy=25,restart=7,every=2", 2, 24, 0, 0, 51, 96, 51},
		{"0@45:copy=25,restart=7,every=2", 3, 0, 2, 0, 52, 72, 17},
	};
	struct orr_outage outage;
	struct orr_recovery r;

	ck_assert_int_eq(orr_outage_parse(&outage, cases[_i].text, "", NULL), 0);
	ck_assert_int_eq(orr_outage_follow(&r, &outage, 10 * S, 15 * S, NULL), 0);
	ck_assert_int_eq(r.done, cases[_i].done);
	ck_assert_int_eq(r.into_ns, cases[_i].into * S);
	ck_assert_int_eq(r.from, cases[_i].from);
	ck_assert_int_eq(r.fewer, cases[_i].fewer);
	ck_assert_int_eq(r.all_ns, cases[_i].all * S);
	ck_assert_int_eq(r.next_ns, cases[_i].next * S);
	ck_assert_int_eq(r.lost_ns, cases[_i].lost * S);
}
END_TEST

/* When a step ends that begins now, after `done` of them; fresh: no copy is to be written first. */
static int64_t end_of_step(const struct orr_outage *f, int64_t step_ns, int64_t now, int64_t done,
			   bool fresh)
{
	bool copies = done && done % f->every == 0 && !fresh;

	return now + (copies && f->copy_ns > step_ns ? f->copy_ns : step_ns);
}

static int64_t undisturbed(const struct orr_outage *f, int64_t step_ns, int64_t steps)
{
	int64_t now = 0;

	for (int64_t i = 0; i < steps; i++)
		now = end_of_step(f, step_ns, now, i, false);
	return now;
}

static struct orr_recovery walk(const struct orr_outage *f, int64_t step_ns, int64_t fewer_ns)
{
	struct orr_recovery r = {.of = f, .step_ns = step_ns, .fewer_ns = f->for_ns ? fewer_ns : 0};
	int64_t now = 0, end, steps;
	bool away = f->for_ns, fresh = true;

	while ((end = end_of_step(f, step_ns, now, r.done, false)) <= f->at_ns) {
		now = end;
		r.done++;
	}
	r.into_ns = f->at_ns - now;
	for (int64_t c = f->every; c <= r.done; c += f->every)
		if (undisturbed(f, step_ns, c) + f->copy_ns <= f->at_ns)
			r.from = c;
	now = r.all_ns = f->at_ns + f->restart_ns;
	for (steps = r.from; away || steps <= r.done + 1 || fresh;) {
		now = end_of_step(f, away ? fewer_ns : step_ns, now, steps++, fresh);
		fresh = false;
		if (steps == r.done + 1)
			r.next_ns = now;
		if (!away)
			continue;
		r.fewer++;
		if (now < f->at_ns + f->for_ns)
			continue;
		now = r.all_ns = now + f->copy_ns + f->restart_ns;
		away = false;
		fresh = true;
	}
	r.lost_ns = now - undisturbed(f, step_ns, steps);
	return r;
}

START_TEST(a_loss_is_followed_as_step_by_step)
{
	suite_random = 1;
	for (int i = 0; i < 20000; i++) {
		struct orr_outage f = {.at_ns = suite_draw(200),
				       .copy_ns = suite_draw(2) ? suite_draw(10) : suite_draw(60),
				       .restart_ns = suite_draw(30),
				       .every = 1 + suite_draw(5)};
		int64_t step_ns = 1 + suite_draw(20), fewer_ns = 1 + suite_draw(30);
		struct orr_recovery r, walked;

		f.for_ns = suite_draw(2) ? f.restart_ns + 1 + suite_draw(100) : 0;
		walked = walk(&f, step_ns, fewer_ns);
		ck_assert_int_eq(orr_outage_follow(&r, &f, step_ns, fewer_ns, NULL), 0);
		ck_assert_msg(!memcmp(&r, &walked, sizeof(r)),
			      "case %d: from %lld, on fewer %lld, next %lld, lost %lld", i,
			      (long long)r.from, (long long)r.fewer, (long long)r.next_ns,
			      (long long)r.lost_ns);
	}
}
END_TEST

/* As far as times are read, they are counted. */
START_TEST(what_cannot_be_counted_is_refused)
{
	static const struct {
		const char *text;
		int64_t step_ns, fewer_ns;
		const char *refused;
	} cases[] = {
		{"0@1e9s:copy=1e9s,restart=1e9s", 1, 1, NULL},
		{"0@1e9s:copy=1e9s,restart=0s,for=1e9s", 1000000000 * S, 1000000000 * S, NULL},
		{"0@1e9s:copy=1e9s,restart=0s,for=1e9s", 1, 1000000000 * S, NULL},
		{"0@0s:copy=0s,restart=0s,for=1e9s", 2, 1, "has more steps than can be counted"},
		{"0@0s:copy=0s,restart=0s", 1000000000 * S + 1, 0, "longer than 1e9 s"},
		{"0@0s:copy=0s,restart=0s,every=1000000001", S, 0, "longer than 1e9 s"},
	};
	struct orr_outage outage;
	struct orr_recovery r;
	struct orr_error err = {""};
	int code;

	ck_assert_int_eq(orr_outage_parse(&outage, cases[_i].text, "", NULL), 0);
	code = orr_outage_follow(&r, &outage, cases[_i].step_ns, cases[_i].fewer_ns, &err);
	ck_assert_int_eq(code, cases[_i].refused ? ORR_E_INPUT : 0);
	ASSERT_HAS(err.msg, cases[_i].refused ? cases[_i].refused : "");
	if (!code) {
		ck_assert_int_ge(r.next_ns, outage.at_ns);
		ck_assert_int_ge(r.lost_ns, outage.restart_ns);
	}
}
END_TEST

static const struct suite_test tests[] = {
	EACH(what_is_expected_is_what_comes_of_many_draws, N_OF(rows)),
	ONCE(rare_failures_cost_what_they_lose),
	EACH(the_best_number_of_steps_is_the_one_of_a_count, N_OF(rows)),
	EACH(the_best_is_found_where_expectations_do_not_differ, 3),
	EACH(closed_forms_are_near_the_best, 3),
	EACH(daly_is_as_published, 3),
	EACH(a_loss_is_followed_as_by_hand, 15),
	ONCE(a_loss_is_followed_as_step_by_step),
	EACH(what_cannot_be_counted_is_refused, 6),
};
SUITE("failures")
