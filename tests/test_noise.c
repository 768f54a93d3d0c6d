/* Noise: the draws, samples of a step against closed forms, and orders that are greedy in the
 * memory of the strict one. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/noise.h"
#include "schedule/room.h"
#include "orrery/open.h"
#include "pipelines.h"
#include "suite.h"

static const struct orr_noise lognormal = {ORR_NOISE_LOGNORMAL, 0.2, 1, 200};

static double factor(const struct orr_noise *noise, int sample, int s, int b, int d)
{
	return (double)orr_noise_factor(noise, sample, s, b, d) / ORR_NOISE_ONE;
}

/* ---- the draws ---- */

START_TEST(factors_have_the_mean_and_the_spread_that_they_are_asked_for)
{
	static const struct {
		const char *text;
		double deviation; /* of the factor; of lognormal: of its logarithm */
		double low, high;
	} rows[] = {{"lognormal:0.2", 0.2, 0.3, 3},
		    {"lognormal:1", 1, 0, 100},
		    {"uniform:0.1", 0.1 / 1.7320508, 0.9, 1.1},
		    {"normal:0.1", 0.1, 0.4, 1.6}};
	struct orr_noise noise = {.seed = 7};
	struct orr_error err = {""};
	char text[32];
	double sum = 0, squares = 0;
	const int n = 100000;

	ck_assert_msg(!orr_noise_parse(&noise, rows[_i].text, "noise", &err), "%s", err.msg);
	ck_assert_str_eq(orr_noise_print(text, sizeof(text), &noise), rows[_i].text);
	for (int k = 0; k < n; k++) {
		double x = factor(&noise, k / 60, k % 60 / 12, k % 12 / 3, k % 3);
		double centred = noise.kind == ORR_NOISE_LOGNORMAL
					 ? log(x) + noise.width * noise.width / 2
					 : x - 1;

		ck_assert_double_ge(x, rows[_i].low);
		ck_assert_double_le(x, rows[_i].high);
		sum += x;
		squares += centred * centred;
	}
	ck_assert_double_eq_tol(sum / n, 1, 0.012 * rows[_i].deviation + 0.0002);
	ck_assert_double_eq_tol(sqrt(squares / n) / rows[_i].deviation, 1, 0.01);
}
END_TEST

/* The same bits on every processor; computed apart, with the elementary functions of Python. */
START_TEST(factors_are_these)
{
	static const struct {
		struct orr_noise noise;
		int sample, s, b, d;
		int64_t factor;
	} rows[] = {
		{{ORR_NOISE_LOGNORMAL, 0.2, 1, 0}, 0, 0, 0, 0, 871831},
		{{ORR_NOISE_LOGNORMAL, 0.2, 1, 0}, 999, 23, 63, 2, 796500},
		{{ORR_NOISE_LOGNORMAL, 2, 5, 0}, 3, 1, 4, 1, 8593},
		{{ORR_NOISE_UNIFORM, 0.1, 1, 0}, 0, 0, 0, 0, 986766},
		{{ORR_NOISE_NORMAL, 0.1, 1, 0}, 0, 0, 0, 0, 962282},
		{{ORR_NOISE_NORMAL, 0, 1, 0}, 0, 0, 0, 0, ORR_NOISE_ONE},
		{{ORR_NOISE_LOGNORMAL, 0, 1, 0}, 0, 0, 0, 0, ORR_NOISE_ONE},
	};

	for (int i = 0; i < N_OF(rows); i++)
		ck_assert_msg(orr_noise_factor(&rows[i].noise, rows[i].sample, rows[i].s, rows[i].b,
					       rows[i].d) == rows[i].factor,
			      "row %d: %lld", i,
			      (long long)orr_noise_factor(&rows[i].noise, rows[i].sample, rows[i].s,
							  rows[i].b, rows[i].d));
}
END_TEST

/* A thousand lognormal draws against the quantiles of the distribution. */
START_TEST(normal_deviates_are_normal)
{
	const struct orr_noise noise = {ORR_NOISE_LOGNORMAL, 1, 3, 0};
	static const double quantiles[] = {-2.3263479, -1.6448536, -0.6744898, 0,
					   0.6744898,  1.6448536,  2.3263479},
			    shares[] = {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99};
	const int n = 200000;
	int below[N_OF(quantiles)] = {0};

	for (int k = 0; k < n; k++)
		for (int i = 0; i < N_OF(quantiles); i++)
			below[i] += log(factor(&noise, k, 0, 0, 0)) + 0.5 < quantiles[i];
	for (int i = 0; i < N_OF(quantiles); i++)
		ck_assert_double_eq_tol((double)below[i] / n, shares[i], 0.003);
}
END_TEST

START_TEST(what_is_no_noise_is_refused)
{
	static const char *const rows[][2] = {
		{"foo", "noise: 'foo': write lognormal:SIGMA, uniform:WIDTH or normal:SIGMA, such "
			"as lognormal:0.2"},
		{"lognormal", "noise: 'lognormal': write lognormal:SIGMA, uniform:WIDTH or "
			      "normal:SIGMA, such as lognormal:0.2"},
		{"foo:0.1", "noise: 'foo:0.1': write lognormal:SIGMA, uniform:WIDTH or "
			    "normal:SIGMA, such as lognormal:0.2"},
		{"lognormal:-0.2", "noise: -0.2 is out of range: say 0 to 2"},
		{"uniform:1.5", "noise: 1.5 is out of range: say 0 to 1"},
		{"normal:nan", "noise: nan is no number: say one from 0 to 1"},
	};
	struct orr_noise noise = {0};
	struct orr_error err = {""};

	ck_assert_int_eq(orr_noise_parse(&noise, rows[_i][0], "noise", &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, rows[_i][1]);
}
END_TEST

/* ---- samples ---- */

START_TEST(the_draws_of_a_job_are_the_same_under_every_schedule)
{
	struct orr_pipeline *p = make_chain(8, 3, 5);
	struct orr_error err = {""};
	int n_served = 0;

	for (int i = 0; orr_schedules[i]; i++) {
		struct orr_sample sample;
		struct way way;

		if (!way_try(&way, p, quick_schedule(i), 4, 8))
			continue;
		ck_assert_int_eq(orr_sample_init(&sample, way.tried.jobs, &err), 0);
		ck_assert_int_eq(orr_sample_draw(&sample, &lognormal, 17, &err), 0);
		for (int j = 0; j < way.tried.jobs->n_jobs; j++) {
			struct orr_job job = orr_jobs_at(way.tried.jobs, j);
			double plain = (double)way.tried.jobs->duration_ns[j];

			ck_assert_double_eq_tol(
				(double)sample.jobs.duration_ns[j],
				plain * factor(&lognormal, 17, job.s, job.b, (int)job.d), 0.5001);
		}
		orr_sample_fini(&sample);
		way_fini(&way);
		n_served++;
	}
	ck_assert_int_ge(n_served, 20);
	orr_pipeline_destroy(p);
}
END_TEST

static void assert_equal(const struct orr_spread *x, int64_t makespan_ns, const char *name)
{
	ck_assert_msg(x->plain_ns == makespan_ns && x->median_ns == makespan_ns &&
			      x->p95_ns == makespan_ns && x->worst_ns == makespan_ns,
		      "%s: %lld %lld %lld %lld, not %lld", name, (long long)x->plain_ns,
		      (long long)x->median_ns, (long long)x->p95_ns, (long long)x->worst_ns,
		      (long long)makespan_ns);
}

START_TEST(noise_of_no_width_changes_nothing)
{
	const struct orr_noise none = {(enum orr_noise_kind)_i, 0, 1, 3};
	struct orr_pipeline *p = make_chain(8, 3, 5);
	struct orr_error err = {""};

	for (int i = 0; orr_schedules[i]; i++) {
		struct orr_noisy noisy;
		struct way way;

		if (!way_try(&way, p, quick_schedule(i), 4, 8))
			continue;
		ck_assert_msg(!orr_noise_run(&noisy, way.tried.jobs, &none, &err), "%s", err.msg);
		assert_equal(&noisy.strict, way.tried.figures->makespan_ns, orr_schedules[i]->name);
		ck_assert_int_eq(noisy.has_greedy, !orr_schedules[i]->asynchronous);
		if (noisy.has_greedy)
			assert_equal(&noisy.greedy, noisy.greedy.plain_ns, orr_schedules[i]->name);
		way_fini(&way);
	}
	orr_pipeline_destroy(p);
}
END_TEST

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* One worker has all the work to do, in whatever order: the sum of its durations. */
START_TEST(one_worker_takes_the_sum_of_what_was_drawn)
{
	static const char *const names[] = {"gpipe", "1f1b", "zb-h1"};
	struct orr_pipeline *p = make_pipeline(3, "0>1 1>2", 3, 5, 2, 1, 0, 0);
	const struct orr_noise noise = {ORR_NOISE_LOGNORMAL, 0.3, 11, 41};
	struct orr_error err = {""};
	int64_t sums[41] = {0};
	struct orr_noisy noisy;
	struct way way;

	for (int s = 0; s < 3; s++)
		p->stages[s].update_ns = 7 * ORR_UNIT_NS;
	way_init(&way, p, names[_i], 1, 4);
	for (int k = 0; k < 41; k++) {
		struct orr_sample sample;

		ck_assert_int_eq(orr_sample_init(&sample, way.tried.jobs, &err), 0);
		ck_assert_int_eq(orr_sample_draw(&sample, &noise, k, &err), 0);
		for (int j = 0; j < way.tried.jobs->n_jobs; j++)
			sums[k] += sample.jobs.duration_ns[j];
		for (int s = 0; s < 3; s++)
			sums[k] += sample.pipeline.stages[s].update_ns;
		orr_sample_fini(&sample);
	}
	qsort(sums, 41, sizeof(*sums), compare);
	ck_assert_msg(!orr_noise_run(&noisy, way.tried.jobs, &noise, &err), "%s", err.msg);
	ck_assert_int_eq(noisy.strict.median_ns, sums[20]);
	ck_assert_int_eq(noisy.strict.p95_ns, sums[38]); /* ceil(0.95 * 41) = 39 */
	ck_assert_int_eq(noisy.strict.worst_ns, sums[40]);
	ck_assert_int_eq(noisy.greedy.median_ns, sums[20]);
	ck_assert_int_eq(noisy.greedy.worst_ns, sums[40]);
	ck_assert_int_eq(noisy.strict.plain_ns, (3 * 4 * 10 + 21) * ORR_UNIT_NS);
	way_end(&way);
}
END_TEST

/* One microbatch on a chain: F after F, then B after B; the mean of the sums is the sum of the
 * means, here to a hundredth. */
START_TEST(a_chain_of_one_microbatch_takes_the_sum_too)
{
	struct orr_pipeline *p = make_chain(6, 1, 2);
	const struct orr_noise noise = {ORR_NOISE_LOGNORMAL, 0.2, 1, 2000};
	struct orr_error err = {""};
	struct orr_noisy noisy;
	struct way way;
	double mean = 0;

	way_init(&way, p, "1f1b", 6, 1);
	for (int k = 0; k < noise.n_samples; k++)
		for (int s = 0; s < 6; s++)
			mean += (factor(&noise, k, s, 0, 0) + 2 * factor(&noise, k, s, 0, 1)) /
				noise.n_samples;
	ck_assert_double_eq_tol(mean, 18, 0.18);
	ck_assert_msg(!orr_noise_run(&noisy, way.tried.jobs, &noise, &err), "%s", err.msg);
	/* skewed to the right, but little of it is left in the sum of twelve */
	ck_assert_double_eq_tol((double)noisy.strict.median_ns / ORR_UNIT_NS, 18, 0.18);
	/* 18 + 1.645 standard deviations of 0.2 sqrt(6 (1 + 4)), and the skew */
	ck_assert_double_eq_tol((double)noisy.strict.p95_ns / ORR_UNIT_NS, 19.88, 0.15);
	ck_assert_int_eq(noisy.strict.median_ns, noisy.greedy.median_ns);
	way_end(&way);
}
END_TEST

START_TEST(a_seed_gives_its_figures_and_no_others)
{
	struct orr_pipeline *p = make_towers((const int[]){3, 3, 0}, 2, 1, 2);
	struct orr_noise noise = lognormal;
	struct orr_noisy noisy[3];
	struct orr_error err = {""};
	struct way way;

	way_init(&way, p, "1f1b", 8, 16);
	for (int i = 0; i < 3; i++) {
		noise.seed = i == 2 ? 2 : 1;
		ck_assert_int_eq(orr_noise_run(&noisy[i], way.tried.jobs, &noise, &err), 0);
	}
	ck_assert(!memcmp(&noisy[0].strict, &noisy[1].strict, sizeof(noisy[0].strict)));
	ck_assert(!memcmp(&noisy[0].greedy, &noisy[1].greedy, sizeof(noisy[0].greedy)));
	ck_assert_int_ne(noisy[0].strict.median_ns, noisy[2].strict.median_ns);
	ck_assert_int_ne(noisy[0].greedy.worst_ns, noisy[2].greedy.worst_ns);
	way_end(&way);
}
END_TEST

START_TEST(what_cannot_be_counted_is_refused)
{
	struct orr_pipeline *p = make_chain(2, 1, 1);
	const struct orr_noise noise = {ORR_NOISE_LOGNORMAL, 2, 1, 50};
	struct orr_error err = {""};
	struct orr_noisy noisy;
	struct way way;

	p->stages[0].forward_ns = INT64_MAX / 40;
	way_init(&way, p, "gpipe", 2, 4);
	ck_assert_int_eq(orr_noise_run(&noisy, way.tried.jobs, &noise, &err), ORR_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.msg, "take shorter durations or less noise"));
	way_end(&way);
}
END_TEST

/* ---- greedy in the memory of the strict order ---- */

/* Two towers whose stages differ in everything. */
static struct orr_pipeline *make_uneven(bool links)
{
	struct orr_pipeline *p =
		make_pipeline(8, "0>1 1>2 3>4 4>5 2>6 5>6 6>7", 3, 5, 4, 0, 64, 10);
	uint64_t state = 5;

	for (int s = 0; s < 8; s++) {
		struct orr_stage *stage = &p->stages[s];

		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		stage->forward_ns = (int64_t)(1 + (state >> 33) % 9) * ORR_UNIT_NS;
		stage->backward_ns = (int64_t)(1 + (state >> 43) % 9) * ORR_UNIT_NS;
		stage->weight_ns = (int64_t)(1 + (state >> 53) % 9) * ORR_UNIT_NS;
		stage->stash_bytes = (int64_t)(1 + (state >> 37) % 50);
		stage->input_bytes = (int64_t)(1 + (state >> 47) % 20);
		stage->update_ns = ORR_UNIT_NS;
	}
	if (links)
		p->machine.latency_ns = ORR_UNIT_NS;
	return p;
}

static void check_peaks(const struct orr_timeline *greedy, const struct orr_timeline *strict,
			const char *name)
{
	struct orr_figures *of_greedy = NULL, *of_strict = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_figures_create(&of_greedy, greedy, &err) &&
			      !orr_figures_create(&of_strict, strict, &err),
		      "%s: %s", name, err.msg);
	for (int w = 0; w < of_strict->n_workers; w++)
		ck_assert_msg(of_greedy->worker[w].peak_stash <= of_strict->worker[w].peak_stash &&
				      of_greedy->worker[w].peak_stash_bytes <=
					      of_strict->worker[w].peak_stash_bytes,
			      "%s, worker %d: %d stashes of %lld bytes, not %d of %lld", name, w,
			      of_greedy->worker[w].peak_stash,
			      (long long)of_greedy->worker[w].peak_stash_bytes,
			      of_strict->worker[w].peak_stash,
			      (long long)of_strict->worker[w].peak_stash_bytes);
	orr_figures_destroy(of_greedy);
	orr_figures_destroy(of_strict);
}

/* Samples of jobs, and where they are greedy their memory beside that of `strict`. */
static void check_samples(const struct orr_jobs *jobs, const struct orr_timeline *strict,
			  const char *name)
{
	const struct orr_noise noise = {ORR_NOISE_LOGNORMAL, 0.5, 3, 6};
	struct orr_sample sample;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_sample_init(&sample, jobs, &err), 0);
	for (int k = 0; k < noise.n_samples; k++) {
		struct orr_timeline *t = NULL;

		ck_assert_int_eq(orr_sample_draw(&sample, &noise, k, &err), 0);
		ck_assert_msg(!orr_simulate(&t, &sample.jobs, &err) && !orr_timeline_check(t, &err),
			      "%s, sample %d: %s", name, k, err.msg);
		for (int j = 0; j < jobs->n_jobs; j++)
			ck_assert_msg(!orr_jobs_has(jobs, j) || t->end_ns[j] >= 0,
				      "%s, sample %d: job %d never ran", name, k, j);
		if (jobs->room)
			check_peaks(t, strict, name);
		orr_timeline_destroy(t);
	}
	orr_sample_fini(&sample);
}

START_TEST(a_greedy_run_is_valid_and_holds_no_more_than_the_strict_one)
{
	struct orr_pipeline *p = make_uneven(_i);
	struct orr_error err = {""};
	int n_freed = 0, n_differ = 0;

	for (int i = 0; orr_schedules[i]; i++) {
		const char *name = quick_schedule(i);
		struct orr_timeline *greedy = NULL;
		struct orr_jobs *jobs;
		struct way way;
		int code;

		if (!way_try(&way, p, name, 4, 12) && !way_try(&way, p, name, 8, 12))
			continue;
		jobs = way.tried.jobs;
		check_samples(jobs, NULL, name);
		if (jobs->order == ORR_ORDER_STRICT && !jobs->async) {
			code = orr_jobs_free(jobs, &err);
			ck_assert_msg(!code, "%s: %s", name, err.msg);
			ck_assert_msg(!orr_jobs_sequence(jobs, NULL, &err), "%s: %s", name,
				      err.msg);
			ck_assert_int_eq(orr_simulate(&greedy, jobs, &err), 0);
			check_peaks(greedy, way.tried.timeline, name);
			check_samples(jobs, way.tried.timeline, name);
			n_freed++;
			for (int j = 0; j < jobs->n_jobs; j++)
				if (greedy->start_ns[j] != way.tried.timeline->start_ns[j]) {
					n_differ++;
					break;
				}
			/* what ran greedily is a strict order of its own, which runs as well */
			ck_assert_int_eq(orr_jobs_fix(jobs, greedy->start_ns, &err), 0);
			ck_assert_int_eq(jobs->order, ORR_ORDER_STRICT);
			ck_assert_msg(!orr_jobs_sequence(jobs, NULL, &err), "%s: %s", name,
				      err.msg);
			orr_timeline_destroy(greedy);
		}
		way_fini(&way);
	}
	ck_assert_int_ge(n_freed, 22);
	ck_assert_int_ge(n_differ, 10);
	orr_pipeline_destroy(p);
}
END_TEST

/* Without room, greedy 1f1b holds 10 microbatches where the strict one holds 4 (test_jobs.c). */
START_TEST(greedy_1f1b_holds_what_strict_1f1b_holds)
{
	struct orr_pipeline *p = make_chain(4, 1, 2);
	struct orr_choice choice;
	struct orr_error err = {""};
	struct orr_try x;

	ck_assert_int_eq(orr_choice_init(&choice, "1f1b", &err), 0);
	ck_assert_int_eq(orr_pipeline_set_step(p, 4, 32, &err), 0);
	ck_assert_msg(!orr_try_init_in(&x, p, &choice.schedule, NULL, ORR_RUN_GREEDY, &err) &&
			      !orr_try_run(&x, &err),
		      "%s", err.msg);
	ck_assert_int_eq(x.jobs->order, ORR_ORDER_GREEDY);
	for (int w = 0; w < 4; w++)
		ck_assert_int_eq(x.figures->worker[w].peak_stash, 4 - w);
	ck_assert_int_eq(units(x.figures->makespan_ns), 105);
	orr_try_fini(&x);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(a_greedy_schedule_runs_strictly_as_it_came_out)
{
	struct orr_pipeline *p = make_chain(8, 1, 2);
	struct orr_choice choice;
	struct orr_error err = {""};
	struct orr_try x[2];

	ck_assert_int_eq(orr_choice_init(&choice, "hanayo", &err), 0);
	ck_assert_int_eq(orr_pipeline_set_step(p, 4, 8, &err), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_msg(!orr_try_init_in(&x[i], p, &choice.schedule, NULL,
					       i ? ORR_RUN_STRICT : ORR_RUN_AS_SCHEDULED, &err) &&
				      !orr_try_run(&x[i], &err),
			      "%s", err.msg);
	ck_assert_int_eq(x[0].jobs->order, ORR_ORDER_GREEDY);
	ck_assert_int_eq(x[1].jobs->order, ORR_ORDER_STRICT);
	for (int j = 0; j < x[0].jobs->n_jobs; j++)
		ck_assert_int_eq(x[0].timeline->start_ns[j], x[1].timeline->start_ns[j]);
	orr_try_fini(&x[0]);
	orr_try_fini(&x[1]);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
}
END_TEST

static int elsewhere(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)data;
	return (s + (int)d) % p->n_workers;
}

static int64_t in_turn(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data)
{
	(void)data;
	return b * 100 + (d == ORR_PASS_F ? s : 2 * p->n_stages - s);
}

START_TEST(what_cannot_be_greedy_says_why)
{
	struct orr_schedule moves = {.name = "moves",
				     .order = ORR_ORDER_BOUNDED,
				     .compute = elsewhere,
				     .priority = in_turn};
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};
	struct way way;

	ck_assert_int_eq(orr_pipeline_set_step(p, 2, 4, &err), 0);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &moves, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg,
			 "schedule moves: the stash of stage 0, microbatch 0, moves from worker 0 "
			 "to 1, and in greedy order memory is bounded only where stashes stay: "
			 "leave [order] out");
	way_init(&way, p, "pipedream", 2, 4);
	ck_assert_int_eq(orr_jobs_free(way.tried.jobs, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "schedule pipedream never flushes, and its order says which "
				  "version of the parameters a job reads: leave [order] out, or "
				  "take one that flushes");
	way_end(&way);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(factors_have_the_mean_and_the_spread_that_they_are_asked_for, 4),
	ONCE(factors_are_these),
	ONCE(normal_deviates_are_normal),
	EACH(what_is_no_noise_is_refused, 6),
	ONCE(the_draws_of_a_job_are_the_same_under_every_schedule),
	EACH(noise_of_no_width_changes_nothing, 3),
	EACH(one_worker_takes_the_sum_of_what_was_drawn, 3),
	ONCE(a_chain_of_one_microbatch_takes_the_sum_too),
	ONCE(a_seed_gives_its_figures_and_no_others),
	ONCE(what_cannot_be_counted_is_refused),
	EACH(a_greedy_run_is_valid_and_holds_no_more_than_the_strict_one, 2),
	ONCE(greedy_1f1b_holds_what_strict_1f1b_holds),
	ONCE(a_greedy_schedule_runs_strictly_as_it_came_out),
	ONCE(what_cannot_be_greedy_says_why),
};
SUITE("noise")
