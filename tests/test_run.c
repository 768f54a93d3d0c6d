/* Training on StarPU: the same parameters to the bit under every schedule, the textbook's to 1e-5,
 * and measured timelines that hold. One process, one run at a time. */
#include <check.h>
#include <math.h>
#include <signal.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "runtime/run/profile.h"
#include "own_schedules.h"
#include "reference.h"
#include "training.h"
#include "runtime/run/parts.h"
#include "suite.h"

static void assert_same(const struct training *t, const char *name, const float *parameters,
			const float *expected)
{
	int64_t n = orr_run_n_parameters(t->run);

	ck_assert_int_gt(n, 400);
	for (int64_t i = 0; i < n; i++)
		ck_assert_msg(!memcmp(&parameters[i], &expected[i], sizeof(*expected)),
			      "%s: parameter %lld is %.9g, expected %.9g", name, (long long)i,
			      (double)parameters[i], (double)expected[i]);
}

/* The parameters that every schedule with one owner a stage must find: those of one worker. */
static float *one_worker(int n_microbatches)
{
	struct training t;
	float *parameters;

	training_init(&t, "gpipe", 1, n_microbatches);
	parameters = training_run(&t, "gpipe on one worker", NULL);
	training_fini(&t);
	return parameters;
}

/* ---- equal results ---- */

static const char *const one_owner[] = {"gpipe", "1f1b", "eager-1f1b", "fsdp", "fslpp"};
static const int workers[] = {1, 2, 5, 16};

START_TEST(parameters_are_the_same_under_every_schedule_with_one_owner)
{
	float *expected = one_worker(6);

	for (int i = 0; i < N_OF(one_owner) * N_OF(workers); i++) {
		struct training t;
		char name[64];
		float *parameters;

		(void)snprintf(name, sizeof(name), "%s on %d workers", one_owner[i / N_OF(workers)],
			       workers[i % N_OF(workers)]);
		training_init(&t, one_owner[i / N_OF(workers)], workers[i % N_OF(workers)], 6);
		t.options.keep_bytes = i % 2 ? 0 : t.options.keep_bytes;
		parameters = training_run(&t, name, NULL);
		assert_same(&t, name, parameters, expected);
		free(parameters);
		training_fini(&t);
	}
	free(expected);
}
END_TEST

START_TEST(replicas_agree_wherever_owners_and_split_are_the_same)
{
	static const struct {
		const char *schedule;
		int n_workers, n_owners;
	} cases[] = {
		{"ddp", 2, 2},          {"lpp:R=1", 2, 2}, {"lpp:G=2,R=2", 4, 2},
		{"lpp:G=2,R=5", 10, 2}, {"ddp", 3, 3},     {"lpp:G=3,R=2", 6, 3},
		{"ddp", 6, 6},          {"ddp", 16, 6}, /* a microbatch each */
	};
	float *expected = NULL;

	for (int i = 0; i < N_OF(cases); i++) {
		struct training t;
		float *parameters;

		training_init(&t, cases[i].schedule, cases[i].n_workers, 6);
		ck_assert_int_eq(t.jobs->first_owner[1], cases[i].n_owners);
		parameters = training_run(&t, cases[i].schedule, NULL);
		if (i && cases[i].n_owners == cases[i - 1].n_owners) {
			assert_same(&t, cases[i].schedule, parameters, expected);
			free(parameters);
		} else {
			free(expected);
			expected = parameters;
		}
		training_fini(&t);
	}
	free(expected);
}
END_TEST

/* Against the textbook: parameters and losses within 1e-5 of what they are. */
static void assert_close(const char *schedule, int n_workers, int n_microbatches,
			 enum orr_optimizer optimizer)
{
	struct reference_rule rule = {0};
	struct training_record record;
	struct training t;
	double *expected, losses[N_STEPS], worst = 0, largest = 0;
	float *initial, *parameters;
	int64_t *rows, n;

	training_init(&t, schedule, n_workers, n_microbatches);
	t.options.optimizer = optimizer;
	t.options.weight_decay = 1e-2;
	t.options.learning_rate = optimizer == ORR_OPTIMIZER_MOMENTUM ? 1e-2 : 1e-3;
	training_start(&t);
	n = orr_run_n_parameters(t.run);
	ck_assert_int_eq(n, reference_n_parameters(t.graph));
	initial = calloc((size_t)n, sizeof(*initial));
	expected = calloc((size_t)n, sizeof(*expected));
	rows = calloc((size_t)(N_STEPS * t.options.batch), sizeof(*rows));
	ck_assert(initial && expected && rows);
	ck_assert_int_eq(orr_run_parameters(t.run, initial, NULL), 0);
	orr_run_destroy(t.run);
	for (int64_t i = 0; i < n; i++)
		expected[i] = (double)initial[i];
	ck_assert_int_eq(
		orr_dataset_rows(&t.data, t.options.seed, 0, N_STEPS * t.options.batch, rows, NULL),
		0);
	rule.kind = (enum reference_kind)optimizer; /* in the same order */
	rule.learning_rate = t.options.learning_rate;
	rule.momentum = t.options.momentum;
	rule.beta1 = t.options.beta1;
	rule.beta2 = t.options.beta2;
	rule.epsilon = t.options.epsilon;
	rule.weight_decay = t.options.weight_decay;
	ck_assert_int_eq(reference_train(t.graph, t.data.values, N_COLUMNS, rows, t.options.batch,
					 N_STEPS, &rule, expected, losses),
			 0);
	parameters = training_run(&t, schedule, &record);
	for (int64_t i = 0; i < n; i++) {
		worst = fmax(worst, fabs((double)parameters[i] - expected[i]));
		largest = fmax(largest, fabs(expected[i]));
	}
	ck_assert_msg(worst <= 1e-5 * largest, "%s: %g off, the largest is %g", schedule, worst,
		      largest);
	for (int i = 0; i < N_STEPS; i++)
		ck_assert_msg(fabs(record.losses[i] - losses[i]) <= 1e-5 * losses[i],
			      "%s: loss of step %d: "
			      "%.9g, expected %.9g",
			      schedule, i, record.losses[i], losses[i]);
	free(initial);
	free(expected);
	free(rows);
	free(parameters);
	training_fini(&t);
}

START_TEST(training_agrees_with_the_textbook)
{
	assert_close("1f1b", 5, 6, ORR_OPTIMIZER_MOMENTUM);
	assert_close("gpipe", 2, 1, ORR_OPTIMIZER_ADAM);
	assert_close("ddp", 3, 7, ORR_OPTIMIZER_ADAMW);
	assert_close("fsdp", 4, 19, ORR_OPTIMIZER_MOMENTUM);
	assert_close("ddp", 3, 7, ORR_OPTIMIZER_SGD);
	assert_close("1f1b", 5, 6, ORR_OPTIMIZER_NONE);
}
END_TEST

/* ---- schedules of one's own ---- */

static int after_stage(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data)
{
	(void)b, (void)d, (void)data;
	return (s + 1) % p->n_workers;
}

/* Later microbatches first, so that gradients come in the wrong order. */
static int64_t backwards(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			 const void *data)
{
	int depth = p->stages[s].depth;

	(void)data;
	return ((int64_t)d * 100 + (d == ORR_PASS_F ? p->depth - depth : depth)) * 10000 +
	       (50 - b) * 100 + s;
}

static int64_t forwards(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	(void)p, (void)data;
	return b * 1000 + (d == ORR_PASS_F ? s : 100 * (int)d - s);
}

static const struct orr_schedule own_schedules[] = {
	{.name = "greedy",
	 .order = ORR_ORDER_GREEDY,
	 .compute = anywhere,
	 .weights = after_stage,
	 .priority = backwards},
	{.name = "greedy with a cap",
	 .order = ORR_ORDER_GREEDY,
	 .compute = after_stage,
	 .priority = forwards,
	 .in_flight = two},
	{.name = "strict, all over the place",
	 .order = ORR_ORDER_STRICT,
	 .compute = anywhere,
	 .weights = after_stage,
	 .priority = backwards},
	{.name = "strict and split",
	 .order = ORR_ORDER_STRICT,
	 .split_backward = true,
	 .compute = after_stage,
	 .priority = backwards},
	{.name = "greedy and split",
	 .order = ORR_ORDER_GREEDY,
	 .split_backward = true,
	 .compute = anywhere,
	 .weights = after_stage,
	 .priority = forwards,
	 .in_flight = two},
};

START_TEST(a_schedule_of_ones_own_changes_no_bit)
{
	const struct orr_schedule *schedule = &own_schedules[_i];
	float *expected = one_worker(6);

	for (int i = 0; i < N_OF(workers); i++) {
		struct training t = {0};
		float *parameters;

		training_prepare(&t, training_model, schedule, workers[i], 6);
		t.options.keep_bytes = i % 2 ? 0 : t.options.keep_bytes;
		t.hooks.delay_us = i == 1 ? 300 : 0;
		parameters = training_run(&t, schedule->name, NULL);
		assert_same(&t, schedule->name, parameters, expected);
		free(parameters);
		training_fini(&t);
	}
	free(expected);
}
END_TEST

START_TEST(starpus_own_order_and_policies_change_no_bit)
{
	static const char *const policies[] = {"pinned", "eager", "lws"};
	float *expected = one_worker(6);

	for (int i = 0; i < N_OF(policies); i++) {
		struct training t;
		float *parameters;

		training_init(&t, "1f1b", 2, 6);
		t.hooks.policy = policies[i];
		training_start(&t);
		ck_assert_msg(!orr_run_train(t.run, N_STEPS, NULL, NULL, &t.err), "%s", t.err.msg);
		parameters = training_parameters(&t);
		assert_same(&t, policies[i], parameters, expected);
		free(parameters);
		training_fini(&t);
	}
	free(expected);
}
END_TEST

/* Weights that a worker keeps rounded are those of the version that a task reads: without our
 * policy each product rounds them again. */
START_TEST(weights_kept_in_bf16_change_no_bit)
{
	static const struct {
		const char *schedule;
		int n_workers;
	} cases[] = {{"1f1b", 2}, {"fsdp", 2}, {"zb-h1", 8}, {"ddp", 3}, {"pipedream", 8}};
	const char *schedule = cases[_i].schedule;
	float *parameters[2];

	for (int i = 0; i < 2; i++) {
		struct training t;

		training_init(&t, schedule, cases[_i].n_workers, 6);
		t.options.precision = ORR_PRECISION_BF16;
		t.options.batch = 24;
		t.hooks.policy = i ? NULL : "pinned";
		parameters[i] = training_run(&t, schedule, NULL);
		if (i)
			assert_same(&t, schedule, parameters[1], parameters[0]);
		training_fini(&t);
	}
	free(parameters[0]);
	free(parameters[1]);
}
END_TEST

/* ---- signals ---- */

static void look_at_signals(void *arg)
{
	static const int asked[] = {SIGALRM, SIGCONT, SIGINT, SIGPROF, SIGTERM},
			 own[] = {SIGBUS, SIGSEGV};
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	for (int i = 0; i < N_OF(asked); i++)
		ck_assert(sigismember(&blocked, asked[i]));
	for (int i = 0; i < N_OF(own); i++)
		ck_assert(!sigismember(&blocked, own[i]));
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* A process that was stopped and goes on gives a signal to any thread that takes it. */
START_TEST(workers_get_no_signals_but_of_their_own_faults)
{
	struct training t;
	sigset_t before, after;
	atomic_int n_workers = 0;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	training_init(&t, "1f1b", 2, 6);
	training_start(&t);
	starpu_execute_on_each_worker(look_at_signals, &n_workers, STARPU_CPU);
	ck_assert_int_ge(n_workers, 2);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int k = 1; k < 32; k++)
		ck_assert_int_eq(sigismember(&before, k), sigismember(&after, k));
	training_fini(&t);
}
END_TEST

/* ---- early parameters ---- */

/* Only where there are several memory nodes is there anything to ask for: run-numa. */
START_TEST(parameters_from_elsewhere_are_asked_for_ahead)
{
	float *expected = one_worker(6);

	for (int prefetch = 0; prefetch < 3; prefetch++) {
		struct training t;
		float *parameters;

		training_init(&t, "fsdp", 2, 6);
		t.options.prefetch = prefetch;
		parameters = training_run(&t, "fsdp", NULL);
		assert_same(&t, "fsdp", parameters, expected);
		if (prefetch && starpu_memory_nodes_get_count() > 1)
			ck_assert_int_gt(t.run->prefetch.n_fetched, N_STEPS);
		else
			ck_assert_int_eq(t.run->prefetch.n_fetched, 0);
		free(parameters);
		training_fini(&t);
	}
	free(expected);
}
END_TEST

/* ---- evaluation ---- */

/* What is told of something is 0 of all first, then more and more, and all of it at the end. */
static struct {
	const char *what;
	int64_t done, all;
	int n_begun, n_ended;
} told;

static void note_told(const char *what, int64_t done, int64_t all)
{
	if (!done) {
		told.what = what;
		told.all = all;
		told.n_begun++;
	} else {
		ck_assert_str_eq(what, told.what);
		ck_assert_int_eq(all, told.all);
		ck_assert_int_eq(done, told.done + 1);
	}
	told.done = done;
	told.n_ended += done == all;
}

START_TEST(evaluation_agrees_with_the_textbook)
{
	struct reference_pass *pass = NULL;
	struct orr_scores scores;
	double *expected;
	float *parameters;
	struct training t;
	int64_t n;

	training_init(&t, "lpp:G=2,R=2", 4, 4);
	memset(&told, 0, sizeof(told));
	t.options.tell = note_told;
	parameters = training_run(&t, "lpp", NULL);
	ck_assert_int_eq(told.n_begun, 0); /* of steps nothing */
	n = orr_run_n_parameters(t.run);
	expected = calloc((size_t)n, sizeof(*expected));
	ck_assert_ptr_nonnull(expected);
	for (int64_t i = 0; i < n; i++)
		expected[i] = (double)parameters[i];
	for (int test = 0; test < 2; test++) {
		ck_assert_int_eq(orr_run_evaluate(t.run, test, &scores, &t.err), 0);
		ck_assert_int_eq(reference_pass_create(&pass, t.graph, t.data.values, N_COLUMNS,
						       test ? t.data.test : t.data.train,
						       test ? t.data.n_test : t.data.n_train,
						       expected),
				 0);
		ck_assert_msg(fabs(scores.loss - pass->loss) < 1e-5 * pass->loss, "%g, expected %g",
			      scores.loss, pass->loss);
		ck_assert(fabs(scores.accuracy - (double)pass->correct / (double)pass->classified) <
			  1e-12);
		reference_pass_destroy(pass);
	}
	ck_assert_str_eq(told.what, "evaluating");
	ck_assert_int_eq(told.n_begun, 2);
	ck_assert_int_eq(told.n_ended, 2);
	/* and training goes on after it */
	ck_assert_int_eq(orr_run_train(t.run, 3, NULL, NULL, &t.err), 0);
	free(parameters);
	free(expected);
	training_fini(&t);
}
END_TEST

START_TEST(measuring_gives_every_stage_its_durations)
{
	struct training t;

	training_init(&t, "1f1b", 2, 4);
	memset(&told, 0, sizeof(told));
	t.options.tell = note_told;
	ck_assert_msg(!orr_run_measure(t.pipeline, &t.options, &t.err), "%s", t.err.msg);
	ck_assert_str_eq(told.what, "measuring");
	ck_assert_int_eq(told.all, t.pipeline->n_stages);
	ck_assert_int_eq(told.n_begun, 1);
	ck_assert_int_eq(told.n_ended, 1);
	ck_assert(t.pipeline->has_weight && !t.pipeline->units);
	for (int s = 0; s < t.pipeline->n_stages; s++) {
		const struct orr_stage *stage = &t.pipeline->stages[s];

		ck_assert_int_gt(stage->forward_ns, 0);
		ck_assert_int_gt(stage->backward_ns + stage->weight_ns, 0);
		ck_assert_int_ge(stage->backward_ns, 0);
		ck_assert_msg((stage->update_ns > 0) == (s != 3), "stage 3 has no parameters");
	}
	training_fini(&t);
}
END_TEST

/* As on a device: operators keep what they take alone, whatever that is here, and what a job takes
 * above it lies between two jobs. */
START_TEST(profiling_apart_keeps_what_operators_take_alone)
{
	int64_t alone_ns = _i ? 1000000000 : 0;
	struct orr_profile profile;
	struct training t;

	training_init(&t, "gpipe", 2, 4);
	for (int s = 0; s < t.pipeline->n_stages; s++) {
		t.pipeline->stages[s].forward_ns = t.pipeline->stages[s].backward_ns = alone_ns;
		t.pipeline->stages[s].update_ns = alone_ns;
	}
	ck_assert_msg(!orr_profile_run(&profile, t.pipeline, t.pipeline, &t.options, true, &t.err),
		      "%s", t.err.msg);
	for (int s = 0; s < t.pipeline->n_stages; s++) {
		ck_assert_int_eq(t.pipeline->stages[s].forward_ns, alone_ns);
		ck_assert_int_eq(t.pipeline->stages[s].backward_ns, alone_ns);
		ck_assert_int_eq(t.pipeline->stages[s].update_ns, alone_ns);
	}
	ck_assert_int_eq(profile.overhead_ns > 0, !alone_ns);
	ck_assert_int_gt(profile.n_steps, 0);
	orr_profile_fini(&profile);
	training_fini(&t);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(training_agrees_with_the_textbook),
	ONCE(parameters_are_the_same_under_every_schedule_with_one_owner),
	ONCE(replicas_agree_wherever_owners_and_split_are_the_same),
	EACH(a_schedule_of_ones_own_changes_no_bit, N_OF(own_schedules)),
	ONCE(starpus_own_order_and_policies_change_no_bit),
	EACH(weights_kept_in_bf16_change_no_bit, 5),
	ONCE(workers_get_no_signals_but_of_their_own_faults),
	ONCE(parameters_from_elsewhere_are_asked_for_ahead),
	ONCE(evaluation_agrees_with_the_textbook),
	ONCE(measuring_gives_every_stage_its_durations),
	EACH(profiling_apart_keeps_what_operators_take_alone, 2),
};
SUITE("run")
