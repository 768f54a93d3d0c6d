/* Failures: the expected goodput against draws and limits, and the best distance of copies against
 * a count and the closed forms. */
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

static const struct suite_test tests[] = {
	EACH(what_is_expected_is_what_comes_of_many_draws, N_OF(rows)),
	ONCE(rare_failures_cost_what_they_lose),
	EACH(the_best_number_of_steps_is_the_one_of_a_count, N_OF(rows)),
	EACH(the_best_is_found_where_expectations_do_not_differ, 3),
	EACH(closed_forms_are_near_the_best, 3),
	EACH(daly_is_as_published, 3),
};
SUITE("failures")
