/* Collectives that block, among owners of one process: shared_collective.c takes NCCL's place and
 * cores that of devices. Owners that share a device, a member that never comes, and a group that
 * fails. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/codelets.h"
#include "orrery/jobs.h"
#include "runtime/run/parts.h"
#include "shared_collective.h"
#include "suite.h"
#include "training.h"

#define STEPS 12

/* Four replicas on two devices, if there are two cores. */
static void start(struct training *t, bool joins)
{
	training_init(t, "ddp", 4, 8);
	t->options.batch = 24;
	t->hooks.reduce_alone = joins;
	t->hooks.delay_us = 300;
	training_start(t);
}

static float *train(bool joins, uint64_t delay_seed, int64_t *n)
{
	struct training t;
	float *parameters;

	start(&t, joins);
	t.run->session.common.delay_seed = delay_seed;
	for (int i = 0; i < t.run->data.n_owned; i++) {
		const struct orr_member *m = &t.run->sum.reduce.members[i];

		ck_assert_int_eq(m->joins, joins && t.run->data.owned[i].update >= 0);
		if (m->joins) /* of owners 0 to 3 of a stage */
			ck_assert_int_eq(i - m->speaker, i % 4 < 2 ? 0 : 2);
	}
	ck_assert_msg(!orr_run_train(t.run, STEPS, NULL, NULL, &t.err), "%s", t.err.msg);
	*n = orr_run_n_parameters(t.run);
	parameters = calloc((size_t)*n, sizeof(*parameters));
	ck_assert(parameters && !orr_run_parameters(t.run, parameters, &t.err));
	training_fini(&t);
	return parameters;
}

START_TEST(owners_that_share_a_device_join_as_one)
{
	int64_t n, m;
	float *apart = train(false, 0, &n), *first = train(true, 1, &m), *again;
	int n_sums = atomic_load(&shared_collective_n_sums);

	ck_assert_int_eq(n, m);
	/* 5 stages learn, each on 2 devices */
	ck_assert_int_eq(n_sums, STEPS * 5 * 2);
	for (int64_t i = 0; i < n; i++)
		ck_assert_msg(fabsf(apart[i] - first[i]) < 1e-5f, "parameter %lld: %g, not %g",
			      (long long)i, (double)first[i], (double)apart[i]);
	again = train(true, 2, &m);
	ck_assert(!memcmp(first, again, (size_t)n * sizeof(float)));
	free(apart);
	free(first);
	free(again);
}
END_TEST

/* The first steps' sums have the devices to themselves (peers/reduce.c). */
static atomic_int n_running, n_overlaps, n_first;
static starpu_cpu_func_t passes[2];

static void count_forward(void *buffers[], void *cl_arg)
{
	atomic_fetch_add(&n_running, 1);
	passes[0](buffers, cl_arg);
	atomic_fetch_sub(&n_running, 1);
}

static void count_backward(void *buffers[], void *cl_arg)
{
	atomic_fetch_add(&n_running, 1);
	passes[1](buffers, cl_arg);
	atomic_fetch_sub(&n_running, 1);
}

static void note_begin(void)
{
	if (atomic_fetch_add(&n_first, 1) < 2 * 5 * 2)
		atomic_fetch_add(&n_overlaps, atomic_load(&n_running));
}

START_TEST(sums_of_the_first_steps_run_alone)
{
	struct training t;

	start(&t, true);
	ck_assert_int_eq(t.run->work.window, 2);
	for (int k = 0; k < 2; k++)
		passes[k] = orr_codelets[ORR_CODELET_FORWARD + k].cpu_funcs[0];
	orr_codelets[ORR_CODELET_FORWARD].cpu_funcs[0] = count_forward;
	orr_codelets[ORR_CODELET_BACKWARD].cpu_funcs[0] = count_backward;
	shared_collective_begins = note_begin;
	ck_assert_msg(!orr_run_train(t.run, STEPS, NULL, NULL, &t.err), "%s", t.err.msg);
	shared_collective_begins = NULL;
	for (int k = 0; k < 2; k++)
		orr_codelets[ORR_CODELET_FORWARD + k].cpu_funcs[0] = passes[k];
	ck_assert_int_eq(atomic_load(&n_first), STEPS * 5 * 2);
	ck_assert_int_eq(atomic_load(&n_overlaps), 0);
	training_fini(&t);
}
END_TEST

/* told: NCCL notices; else nobody does until the timeout. In both cases the member that waits for
 * the lost one ends, so that the process can have another run. */
START_TEST(a_lost_member_ends_the_run_and_not_the_process)
{
	static const char *const says[] = {"no job has ended for 2 s",
					   "run: gradients of stage 4, rank 0: NCCL, after its "
					   "start: a member is lost"};
	struct training t;
	float *parameters;
	int64_t n;

	start(&t, true);
	t.run->slots.timeout_s = t.run->options.timeout_s = _i ? 600 : 2;
	atomic_store(&shared_collective_n_sums, 0);
	atomic_store(&shared_collective_n_aborted, 0);
	shared_collective_lost = 3 * 5 * 2 + 3; /* the second stage of the fourth step */
	shared_collective_tells = _i;
	ck_assert_int_eq(orr_run_train(t.run, STEPS, NULL, NULL, &t.err), ORR_E_RUNTIME);
	shared_collective_lost = 0;
	shared_collective_tells = false;
	ck_assert_msg(strstr(t.err.msg, says[_i]), "%s", t.err.msg);
	ck_assert_int_eq(atomic_load(&shared_collective_n_aborted), 1); /* of one group */
	ck_assert(t.run->trained.drained);
	training_fini(&t);
	atomic_store(&shared_collective_n_sums, 0);
	parameters = train(true, 3, &n);
	ck_assert_int_eq(atomic_load(&shared_collective_n_sums), STEPS * 5 * 2);
	free(parameters);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(owners_that_share_a_device_join_as_one),
	ONCE(sums_of_the_first_steps_run_alone),
	EACH(a_lost_member_ends_the_run_and_not_the_process, 2),
};
SUITE("reduce-shared")
