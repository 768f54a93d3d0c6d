/* How much of the time between ranks a schedule hides: fully sharded, each job needs parameters
 * that come over links with a delay, with and without prefetch. Jobs sleep for most of their time,
 * so that the figures are the links', not the cores'. Usage, under mpirun: bench_hide JOB_US
 * LINK_US */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "orrery/pipeline.h"
#include "late.h"
#include "training.h"
#include "orrery/run.h"
#include "suite.h"

#define STEPS 6
#define SKIPPED 2

static const char model[] = "digraph deep {\n"
			    "  x [op=input columns=\"0:8\"]\n"
			    "  fc [op=linear features=16 repeat=12]\n"
			    "  scores [op=linear features=5]\n"
			    "  class [op=input columns=\"20\"]\n"
			    "  loss [op=softmax_cross_entropy]\n"
			    "  x -> fc -> scores -> loss\n"
			    "  class -> loss\n"
			    "}\n";

static int job_us, link_us;

static void add_seconds(void *sum, const struct orr_step *step)
{
	if (step->step >= SKIPPED)
		*(double *)sum += step->seconds / (STEPS - SKIPPED);
}

static double step_seconds(int n_ranks, int prefetch)
{
	struct training t = {0};
	double seconds = 0;

	ck_assert_msg(!orr_choice_init(&t.choice, "fsdp", &t.err), "%s", t.err.msg);
	training_prepare(&t, model, &t.choice.schedule, n_ranks, 2 * n_ranks);
	t.options.batch = 4 * n_ranks;
	t.options.prefetch = prefetch;
	t.hooks.delay_us = job_us;
	t.hooks.received = late_by(link_us);
	training_start(&t);
	ck_assert_msg(!orr_run_train(t.run, STEPS, add_seconds, &seconds, &t.err), "%s", t.err.msg);
	training_fini(&t);
	return seconds;
}

START_TEST(prefetch_hides_links)
{
	static const int prefetch[] = {0, 1, 2, 4};
	double without = 0;

	for (int i = 0; i < 4; i++) {
		double seconds = step_seconds(orr_ranks_count(), prefetch[i]);

		without = i ? without : seconds;
		if (!orr_ranks_rank())
			printf("prefetch %d: %.1f ms a step, %.2f of the time without\n",
			       prefetch[i], 1e3 * seconds, seconds / without);
		fflush(stdout);
	}
}
END_TEST

/* Check's own fork would take StarPU's threads away: CK_FORK=no in meson.build. */
int main(int argc, char **argv)
{
	const struct suite_test tests[] = {ONCE(prefetch_hides_links)};
	struct orr_error err = {""};
	int code = argc == 3 ? orr_ranks_start(NULL, &err) : 0;

	if (code || argc != 3 || orr_ranks_count() < 2) {
		fprintf(stderr, "%s\n",
			code ? err.msg : "usage: mpirun -n 4 bench_hide JOB_US LINK_US");
		return code == ORR_E_UNSUPPORTED ? 77 : 2;
	}
	job_us = atoi(argv[1]);
	link_us = atoi(argv[2]);
	if (!orr_ranks_rank())
		printf("fsdp on %d ranks, jobs of up to %d us, links of %d us:\n",
		       orr_ranks_count(), job_us, link_us);
	code = suite_run("hide", tests, N_OF(tests));
	if (code)
		orr_ranks_fail(1, "the benchmark has failed");
	orr_ranks_stop();
	return code;
}
