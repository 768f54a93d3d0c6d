/* All-reduce by a collective that blocks, among owners on several ranks: shared_collective.c takes
 * NCCL's place and cores that of devices. Writes every run's parameters to a file; alone the update
 * adds up, and under mpirun with a worker a rank the collective must give the same bytes, whenever
 * each of them comes, and whether each updates all parameters or a part. Usage: test_mpi_reduce OUT
 * RANKS, those of mpirun */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "orrery/pipeline.h"
#include "orrery/figures.h"
#include "own_schedules.h"
#include "training.h"
#include "runtime/run/parts.h"
#include "orrery/run.h"
#include "codelets/codelets.h"
#include "shared_collective.h"
#include "suite.h"

#define STEPS 12

static const char four_stages[] = "digraph four {\n"
				  "  x [op=input columns=\"0:16\" stage=0]\n"
				  "  a [op=linear features=40 stage=0]\n"
				  "  b [op=gelu stage=0]\n"
				  "  c [op=linear features=30 stage=1]\n"
				  "  d [op=layernorm stage=1]\n"
				  "  e [op=linear features=21 stage=2]\n"
				  "  f [op=relu stage=2]\n"
				  "  g [op=linear features=5 stage=3]\n"
				  "  class [op=input columns=\"20\" stage=3]\n"
				  "  loss [op=softmax_cross_entropy stage=3]\n"
				  "  x -> a -> b -> c -> d -> e -> f -> g -> loss\n"
				  "  class -> loss\n"
				  "}\n";

/* Worker 0 makes the last gradient of worker 1 after its own are there, and what is last of the two
 * stages is another one on each of them. */
static int unevenly(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)d, (void)data;
	return s % 2 ? b == 0 : b == p->n_microbatches - 1;
}

static const struct orr_schedule uneven = {
	.name = "uneven", .compute = orr_compute_in_turn, .weights = unevenly, .priority = in_turn};

/* In the order of n_ranks. */
static const struct {
	int n_ranks;
	const char *schedule, *model;
	bool shards; /* under mpirun */
	double clip;
} cases[] = {
	{2, "ddp", training_model, false, 0},
	{2, "ddp", training_model, true, 0},
	{2, "pipedream:replicas=2-2-2-2", four_stages, false, 0},
	{2, "pipedream:replicas=2-2-2-2", four_stages, true, 0},
	{2, "uneven", four_stages, false, 0},
	{2, "uneven", four_stages, true, 0},
	{4, "ddp", training_model, false, 0},
	{4, "ddp", training_model, true, 0},
	{4, "ddp", training_model, true, 0.25},
	{4, "lpp:G=2,R=2", training_model, false, 0},
	{4, "lpp:G=2,R=2", training_model, true, 0},
	{4, "uneven", four_stages, false, 0},
	{4, "chimera", four_stages, false, 0},
	{4, "chimera", four_stages, true, 0},
	{4, "pipedream:replicas=2-1-1-2", four_stages, false, 0},
	{4, "pipedream:replicas=2-1-1-2", four_stages, true, 0},
};

static int n_workers;

/* Every stage that learns and has replicas takes part. */
static void check_joined(const struct orr_run *run, bool joins)
{
	int n = 0;

	for (int s = 0; s < run->work.pipeline->n_stages; s++) {
		if (orr_work_replicas(&run->work, s) < 2 || !orr_work_n_parameters(&run->work, s))
			continue;
		ck_assert_int_eq(run->sum.reduce.members[run->work.jobs->first_owner[s]].joins,
				 joins);
		n++;
	}
	ck_assert_int_ge(n, 2);
}

START_TEST(members_on_ranks_of_their_own_change_no_bit)
{
	struct training t = {0};
	const char *schedule = cases[_i].schedule;
	bool alone = orr_ranks_count() == 1;
	struct orr_traffic traffic;
	float *parameters;

	if (strcmp(schedule, uneven.name))
		ck_assert_msg(!orr_choice_init(&t.choice, schedule, &t.err), "%s", t.err.msg);
	training_prepare(&t, cases[_i].model, t.choice.schedule.name ? &t.choice.schedule : &uneven,
			 n_workers, 8);
	t.options.batch = 24;
	t.options.clip = cases[_i].clip;
	t.pipeline->numerics.shard_optimizer = !alone && cases[_i].shards;
	t.options.timeout_s = 60;
	t.hooks.reduce_alone = !alone;
	t.hooks.delay_us = alone ? 0 : 400; /* who comes last is another one each time */
	t.hooks.delay_seed = (uint64_t)orr_ranks_rank() + 1;
	training_start(&t);
	check_joined(t.run, !alone);
	ck_assert_msg(!orr_run_train(t.run, STEPS, NULL, NULL, &t.err), "%s: %s", schedule,
		      t.err.msg);
	orr_run_traffic(t.run, &traffic);
	ck_assert_int_eq(traffic.sent[ORR_TRANSFER_ALL_REDUCE], 0);
	parameters = training_parameters(&t);
	training_write(&t, parameters);
	free(parameters);
	training_fini(&t);
}
END_TEST

/* ---- while jobs run ---- */

static starpu_cpu_func_t backward;
static atomic_int n_backward, n_begun, n_stuck;
static int n_sums, n_jobs; /* of a step, here */

static void count_backward(void *buffers[], void *cl_arg)
{
	backward(buffers, cl_arg);
	atomic_fetch_add(&n_backward, 1);
}

/* The first sum of a step, of the last stage, ends when all backward passes of this rank have: in
 * the way of those it would wait forever. */
static void wait_for_backward(void)
{
	int step = atomic_fetch_add(&n_begun, 1) / n_sums;
	const struct timespec pause = {0, 1000000};

	for (int k = 0; atomic_load(&n_backward) < (step + 1) * n_jobs; k++) {
		if (k == 200000 || atomic_load(&n_stuck)) {
			atomic_fetch_add(&n_stuck, 1);
			return;
		}
		nanosleep(&pause, NULL);
	}
}

START_TEST(sums_do_not_keep_jobs_from_running)
{
	struct training t = {0};

	if (orr_ranks_count() == 1)
		return;
	ck_assert_msg(!orr_choice_init(&t.choice, "ddp", &t.err), "%s", t.err.msg);
	training_prepare(&t, four_stages, &t.choice.schedule, n_workers, 8);
	t.options.batch = 24;
	t.options.timeout_s = 300;
	t.hooks.reduce_alone = true;
	t.hooks.delay_us = 400;
	t.hooks.delay_seed = (uint64_t)orr_ranks_rank() + 1;
	training_start(&t);
	n_sums = 4;
	n_jobs = 4 * 8 / n_workers;
	backward = orr_codelets[ORR_CODELET_BACKWARD].cpu_funcs[0];
	orr_codelets[ORR_CODELET_BACKWARD].cpu_funcs[0] = count_backward;
	shared_collective_begins = wait_for_backward;
	ck_assert_msg(!orr_run_train(t.run, STEPS, NULL, NULL, &t.err), "%s", t.err.msg);
	shared_collective_begins = NULL;
	orr_codelets[ORR_CODELET_BACKWARD].cpu_funcs[0] = backward;
	ck_assert_int_eq(atomic_load(&n_begun), STEPS * n_sums);
	ck_assert_int_eq(atomic_load(&n_backward), STEPS * n_jobs);
	ck_assert_int_eq(atomic_load(&n_stuck), 0);
	training_fini(&t);
}
END_TEST

/* Check's own fork would take StarPU's threads away: CK_FORK=no in meson.build. */
int main(int argc, char **argv)
{
	struct suite_test tests[] = {ONCE(members_on_ranks_of_their_own_change_no_bit),
				     ONCE(sums_do_not_keep_jobs_from_running)};
	int first = 0, end;

	if (argc != 3 || (n_workers = atoi(argv[2])) < 1)
		return 2;
	while (first < N_OF(cases) && cases[first].n_ranks < n_workers)
		first++;
	for (end = first; end < N_OF(cases) && cases[end].n_ranks == n_workers;)
		end++;
	tests[0].first = first;
	tests[0].end = end;
	return training_on_ranks("reduce", tests, N_OF(tests), argv[1]);
}
