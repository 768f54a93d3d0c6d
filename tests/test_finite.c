/* Training that meets what is not finite: it stops and says where, or leaves the step out; and
 * training that is asked to stop. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "training.h"
#include "runtime/run/parts.h"
#include "orrery/run.h"
#include "suite.h"

#define BATCH 18
/* More than any schedule has begun when it is asked to stop. */
#define MOST_STEPS 30

static const struct {
	const char *schedule;
	int n_workers, n_microbatches;
	bool reduce_alone; /* gradients take the way of those that NCCL adds up */
} ways[] = {{"1f1b", 2, 6, false},       {"gpipe", 1, 1, false},      {"ddp", 3, 6, false},
	    {"fsdp", 4, 6, false},       {"zb-h1", 6, 3, false},      {"chimera", 6, 6, false},
	    {"lpp:G=2,R=2", 4, 6, true}, {"lpp:G=3,R=2", 6, 6, false}};

/* This number at the input that `left` reads, in the fifth sample of a step of the first pass over
 * the data, step 0 to 3. */
static void spoil(struct training *t, int64_t step, float value)
{
	int64_t row;

	ck_assert(!orr_dataset_rows(&t->data, t->options.seed, step * BATCH + 4, 1, &row, &t->err));
	t->data.values[row * N_COLUMNS + 3] = value;
}

static void prepare(struct training *t, int i)
{
	training_init(t, ways[i].schedule, ways[i].n_workers, ways[i].n_microbatches);
	t->options.batch = BATCH;
	t->hooks.reduce_alone = ways[i].reduce_alone;
}

static bool are_same(const struct training *t, const float *a, const float *b)
{
	return !memcmp(a, b, (size_t)orr_run_n_parameters(t->run) * sizeof(*a));
}

struct seen {
	struct training *t;
	int64_t n, stop_at;
	bool wild[MOST_STEPS], skipped[MOST_STEPS];
};

static void see(void *user, const struct orr_step *step)
{
	struct seen *seen = user;

	ck_assert_int_lt(seen->n, MOST_STEPS);
	seen->wild[seen->n] = !isfinite(step->scores.loss);
	seen->skipped[seen->n++] = step->skipped;
	if (seen->n == seen->stop_at)
		orr_run_stop(seen->t->run);
}

/* ---- it stops ---- */

/* NaN is in all that comes after it, up to the losses, of which the first in the graph is told.
 * 1e30 is a number, but its square is not. */
static const struct {
	float value;
	const char *what;
} spoilt[] = {
	{NAN, "the loss of loss, and the norm of the gradient of l1 are not finite"},
	{-INFINITY, "the loss of loss, and the norm of the gradient of l1 are not finite"},
	{1e30f, ""},
};

START_TEST(it_stops_at_the_first_step_that_is_not_finite)
{
	for (int k = 0; k < N_OF(spoilt) * 3; k++) {
		int64_t step = k / N_OF(spoilt);
		struct training t;
		struct seen seen = {.t = &t};
		char expected[200];

		prepare(&t, _i);
		spoil(&t, step, spoilt[k % N_OF(spoilt)].value);
		training_start(&t);
		ck_assert_int_eq(orr_run_train(t.run, 5, see, &seen, &t.err), ORR_E_DIVERGED);
		(void)snprintf(expected, sizeof(expected), "training diverged in step %lld: %s",
			       (long long)step + 1, spoilt[k % N_OF(spoilt)].what);
		ck_assert_msg(!strncmp(t.err.msg, expected, strlen(expected)), "%s: %s",
			      ways[_i].schedule, t.err.msg);
		ck_assert_int_eq(seen.n, step + 1); /* its loss is seen */
		/* its parameters are no longer good for anything */
		ck_assert_int_eq(orr_run_train(t.run, 1, NULL, NULL, &t.err), ORR_E_DIVERGED);
		ck_assert_int_eq(orr_run_save(t.run, "unused", 1, &t.err), ORR_E_DIVERGED);
		training_fini(&t);
	}
}
END_TEST

START_TEST(an_asynchronous_schedule_stops_at_the_step_too)
{
	struct training t;
	struct seen seen = {.t = &t};

	training_init(&t, "pipedream", 6, 6);
	t.options.batch =
		BATCH; /* a step has 3 samples: those of the second minibatch of steps[1] */
	spoil(&t, 1, NAN);
	training_start(&t);
	ck_assert_int_eq(orr_run_train(t.run, 20, see, &seen, &t.err), ORR_E_DIVERGED);
	ck_assert_str_eq(t.err.msg,
			 "training diverged in step 8: the loss of loss, and the norm of the "
			 "gradient of l1 are not finite");
	ck_assert(seen.wild[7] && !seen.wild[6]);
	training_fini(&t);

	training_init(&t, "pipedream", 6, 6);
	t.options.batch = BATCH;
	t.options.on_nan = ORR_ON_NAN_SKIP;
	ck_assert_int_eq(orr_run_create(&t.run, t.jobs, &t.data, &t.options, &t.err), ORR_E_INPUT);
	ck_assert_str_eq(t.err.msg,
			 "run: schedule pipedream never flushes, so no step can be left out");
	training_fini(&t);
}
END_TEST

/* ---- it leaves the step out ---- */

START_TEST(a_step_that_is_not_finite_is_left_out_by_all)
{
	for (int k = 0; k < N_OF(spoilt); k++) {
		struct training t;
		struct seen seen = {.t = &t};
		float *before, *after, *later, *at_once;

		prepare(&t, _i);
		t.options.on_nan = ORR_ON_NAN_SKIP;
		spoil(&t, 2, spoilt[k].value);
		training_start(&t);
		ck_assert(!orr_run_train(t.run, 2, see, &seen, &t.err));
		before = training_parameters(&t);
		ck_assert(!orr_run_train(t.run, 1, see, &seen, &t.err));
		after = training_parameters(&t);
		ck_assert_int_eq(orr_run_skipped(t.run), 1);
		ck_assert_msg(are_same(&t, before, after), "%s", ways[_i].schedule);
		ck_assert(!orr_run_train(t.run, 1, see, &seen, &t.err));
		later = training_parameters(&t);
		ck_assert(!are_same(&t, before, later));
		ck_assert_int_eq(orr_run_skipped(t.run), 1);
		ck_assert_int_eq(orr_run_step(t.run), 4);
		for (int i = 0; i < 4; i++)
			ck_assert_msg(seen.skipped[i] == (i == 2), "step %d", i);
		orr_run_destroy(t.run);
		t.run = NULL;
		/* the same with the next step on its way */
		training_start(&t);
		ck_assert(!orr_run_train(t.run, 4, NULL, NULL, &t.err));
		at_once = training_parameters(&t);
		ck_assert(are_same(&t, later, at_once));
		free(before);
		free(after);
		free(later);
		free(at_once);
		training_fini(&t);
	}
}
END_TEST

START_TEST(where_all_is_finite_nothing_is_left_out)
{
	float *parameters[2];

	for (int k = 0; k < 2; k++) {
		struct training t;

		prepare(&t, _i);
		t.options.on_nan = k ? ORR_ON_NAN_SKIP : ORR_ON_NAN_STOP;
		parameters[k] = training_run(&t, ways[_i].schedule, NULL);
		ck_assert_int_eq(orr_run_skipped(t.run), 0);
		ck_assert(!k || are_same(&t, parameters[0], parameters[1]));
		training_fini(&t);
	}
	free(parameters[0]);
	free(parameters[1]);
}
END_TEST

/* ---- it is asked to stop ---- */

static void check_stop(const char *schedule, int n_workers, int n_microbatches, bool skips)
{
	struct training t;
	struct seen seen = {.t = &t, .stop_at = 3};
	float *stopped, *expected;
	int64_t n;

	training_init(&t, schedule, n_workers, n_microbatches);
	t.options.batch = BATCH;
	t.options.on_nan = skips ? ORR_ON_NAN_SKIP : ORR_ON_NAN_STOP;
	training_start(&t);
	ck_assert(!orr_run_stopped(t.run));
	ck_assert_msg(!orr_run_train(t.run, MOST_STEPS, see, &seen, &t.err), "%s", t.err.msg);
	ck_assert(orr_run_stopped(t.run));
	n = orr_run_step(t.run);
	ck_assert_msg(n >= 3 && n < MOST_STEPS, "%s: %lld", schedule, (long long)n);
	ck_assert_int_eq(seen.n, n);
	stopped = training_parameters(&t);
	orr_run_destroy(t.run);
	t.run = NULL;
	/* what so many steps come to */
	training_start(&t);
	ck_assert_msg(!orr_run_train(t.run, n, NULL, NULL, &t.err), "%s", t.err.msg);
	expected = training_parameters(&t);
	ck_assert_msg(are_same(&t, stopped, expected), "%s", schedule);
	free(stopped);
	free(expected);
	training_fini(&t);
}

START_TEST(a_run_that_is_asked_to_stop_finishes_what_it_has_begun)
{
	check_stop("1f1b", 2, 6, false);
	check_stop("ddp", 3, 6, false);
	check_stop("fsdp", 3, 3, true);
	check_stop("pipedream", 6, 6, false);
	check_stop("pipedream", 3, 6, false);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(it_stops_at_the_first_step_that_is_not_finite, N_OF(ways)),
	ONCE(an_asynchronous_schedule_stops_at_the_step_too),
	EACH(a_step_that_is_not_finite_is_left_out_by_all, N_OF(ways)),
	EACH(where_all_is_finite_nothing_is_left_out, N_OF(ways)),
	ONCE(a_run_that_is_asked_to_stop_finishes_what_it_has_begun),
};
SUITE("finite")
