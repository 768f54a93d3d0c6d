/* Evaluation as tasks: where its blocks run, and that neither that nor their number shows in the
 * bits. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <starpu.h>

#include "codelets/device.h"
#include "orrery/run.h"
#include "runtime/run/parts.h"
#include "suite.h"
#include "training.h"

/* Rows of six blocks, the last of which is smaller. */
#define N_TEST (5 * 256 + 77)

/* The model's few rows again and again, each time from another one on. */
static void start(struct training *t, const char *schedule, int n_workers,
		  enum orr_precision precision, const char *policy)
{
	int64_t *rows = calloc(N_TEST, sizeof(*rows));

	training_init(t, schedule, n_workers, 4);
	for (int i = 0; i < N_TEST; i++)
		rows[i] = (i + i / N_ROWS * 31) % N_ROWS;
	free(t->data.test);
	t->data.test = rows;
	t->data.n_test = N_TEST;
	t->options.batch = 20;
	t->options.precision = precision;
	t->hooks.policy = policy;
	training_start(t);
}

/* Bits of the losses and what is right of them. */
struct seen {
	double loss, accuracy, losses[4];
};

static struct seen evaluate(struct training *t)
{
	struct seen seen = {0};
	struct orr_scores scores;

	ck_assert_msg(!orr_run_evaluate(t->run, true, &scores, &t->err), "%s", t->err.msg);
	seen.loss = scores.loss;
	seen.accuracy = scores.accuracy;
	ck_assert_int_le(scores.n_losses, 4);
	for (int l = 0; l < scores.n_losses; l++)
		seen.losses[l] = scores.losses[l].loss;
	return seen;
}

static void check_same(const struct seen *a, const struct seen *b, const char *what)
{
	ck_assert_msg(!memcmp(a, b, sizeof(*a)),
		      "%s: loss %.17g, accuracy %.17g, and not %.17g, %.17g", what, a->loss,
		      a->accuracy, b->loss, b->accuracy);
}

static const struct {
	const char *schedule;
	int n_workers;
} cases[] = {{"gpipe", 2}, {"1f1b", 3}, {"1f1b", 4}, {"ddp", 1},       {"ddp", 2},    {"ddp", 3},
	     {"fsdp", 1},  {"fsdp", 3}, {"lpp", 2},  {"pipedream", 3}, {"gpipe", 16}, {"zb-h1", 2}};

START_TEST(every_placement_gives_the_same_bits)
{
	struct training alone = {0}, t = {0};
	struct seen expected, first;

	start(&alone, "gpipe", 1, ORR_PRECISION_FP32, NULL);
	expected = evaluate(&alone);
	ck_assert(expected.loss > 0);
	training_fini(&alone);
	start(&t, cases[_i].schedule, cases[_i].n_workers, ORR_PRECISION_FP32, NULL);
	first = evaluate(&t);
	check_same(&first, &expected, cases[_i].schedule);
	first = evaluate(&t);
	check_same(&first, &expected, "again");
	training_fini(&t);
}
END_TEST

/* Under a policy of StarPU's any worker runs any task, and none keeps rounded weights. */
START_TEST(weights_are_rounded_anew_after_an_update)
{
	struct seen seen[2][2];

	for (int i = 0; i < 2; i++) {
		struct training t = {0};

		start(&t, "1f1b", 2, ORR_PRECISION_BF16, i ? "eager" : NULL);
		for (int k = 0; k < 2; k++) {
			ck_assert_int_eq(orr_run_train(t.run, 1, NULL, NULL, &t.err), 0);
			seen[i][k] = evaluate(&t);
		}
		training_fini(&t);
	}
	check_same(&seen[0][0], &seen[1][0], "after one step");
	check_same(&seen[0][1], &seen[1][1], "after two");
	ck_assert(seen[0][0].loss < seen[0][1].loss || seen[0][0].loss > seen[0][1].loss);
}
END_TEST

START_TEST(training_goes_on_as_if_nothing_had_been_evaluated)
{
	float *parameters[2];
	int64_t n = 0;

	for (int i = 0; i < 2; i++) {
		struct training t = {0};

		start(&t, "1f1b", 3, ORR_PRECISION_BF16, NULL);
		for (int k = 0; k < 3; k++) {
			ck_assert_int_eq(orr_run_train(t.run, 1, NULL, NULL, &t.err), 0);
			if (i)
				(void)evaluate(&t);
		}
		n = orr_run_n_parameters(t.run);
		parameters[i] = training_parameters(&t);
		training_fini(&t);
	}
	ck_assert(!memcmp(parameters[0], parameters[1], (size_t)n * sizeof(float)));
	free(parameters[0]);
	free(parameters[1]);
}
END_TEST

/* Tasks that StarPU's worker i has run since the last call. */
static int executed(unsigned i)
{
	struct starpu_profiling_worker_info info;

	ck_assert_int_eq(starpu_profiling_worker_get_info((int)i, &info), 0);
	return info.executed_tasks;
}

/* Of stages and of replicas. */
START_TEST(every_worker_has_its_share)
{
	struct training t = {0};
	int n_tasks = 0, n_stages;
	unsigned n;

	start(&t, _i ? "ddp" : "1f1b", 2, ORR_PRECISION_FP32, NULL);
	n = starpu_worker_get_count();
	n_stages = t.pipeline->n_stages;
	for (unsigned i = 0; i < n; i++)
		(void)executed(i);
	(void)evaluate(&t);
	for (unsigned i = 0; i < n; i++) {
		int own = executed(i);

		ck_assert_int_gt(own, 0);
		ck_assert(!_i || n != 2 || own == 3 * n_stages);
		n_tasks += own;
	}
	ck_assert_int_eq(n_tasks, 6 * n_stages);
	training_fini(&t);
}
END_TEST

/* Where the last product of a stage's forward was written to. */
static struct orr_kernels watching;
static struct orr_linear_kernels watching_linear;
static const float *written_to;

static void watch(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		  const float *w, const void *rounded, const float *bias, float *y)
{
	written_to = y;
	orr_kernels_cpu.linear->forward(d, n, in, out, x, w, rounded, bias, y);
}

/* One row needs less than what a microbatch's backward works in. */
START_TEST(a_small_block_lies_in_the_memory_of_training)
{
	struct training t = {0};
	struct orr_workspace *own;

	start(&t, "gpipe", 1, ORR_PRECISION_FP32, NULL);
	t.data.n_test = 1;
	watching = orr_kernels_cpu;
	watching_linear = *watching.linear;
	watching_linear.forward = watch;
	watching.linear = &watching_linear;
	own = &t.run->session.common.workspaces[orr_policy_worker(t.run->session.policy, 0)];
	own->device.kernels = &watching;
	(void)evaluate(&t);
	ck_assert_ptr_nonnull(written_to);
	ck_assert(written_to >= (const float *)own->memory &&
		  written_to < (const float *)own->memory + own->bytes / sizeof(float));
	training_fini(&t);
}
END_TEST

static struct orr_kernels broken;
static struct orr_linear_kernels broken_linear;

static void refuse(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		   const float *w, const void *rounded, const float *bias, float *y)
{
	(void)n, (void)in, (void)out, (void)x, (void)w, (void)rounded, (void)bias, (void)y;
	d->failure = "it does not start";
}

START_TEST(a_kernel_that_cannot_be_started_is_told)
{
	struct training t = {0};
	struct orr_scores scores;

	start(&t, "1f1b", 2, ORR_PRECISION_FP32, NULL);
	broken = orr_kernels_cpu;
	broken_linear = *broken.linear;
	broken_linear.forward = refuse;
	broken.linear = &broken_linear;
	for (unsigned i = 0; i < starpu_worker_get_count(); i++)
		t.run->session.common.workspaces[i].device.kernels = &broken;
	ck_assert_int_eq(orr_run_evaluate(t.run, true, &scores, &t.err), ORR_E_RUNTIME);
	ck_assert_str_eq(t.err.msg, "run: it does not start");
	training_fini(&t);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(every_placement_gives_the_same_bits, N_OF(cases)),
	ONCE(weights_are_rounded_anew_after_an_update),
	ONCE(training_goes_on_as_if_nothing_had_been_evaluated),
	EACH(every_worker_has_its_share, 2),
	ONCE(a_small_block_lies_in_the_memory_of_training),
	ONCE(a_kernel_that_cannot_be_started_is_told),
};
SUITE("evaluate")
