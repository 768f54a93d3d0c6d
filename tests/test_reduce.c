/* All-reduce among replicas on devices of one process: which stages take part, and the way that a
 * gradient then takes, with groups of one, to the bit of the other way. On CPU cores; and once more
 * on CUDA devices, where NCCL copies. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/pipeline.h"
#include "training.h"
#include "runtime/peers/device_groups.h"
#include "runtime/run/parts.h"
#include "suite.h"

/* ---- which stages ---- */

START_TEST(replicas_on_devices_of_their_own_take_part)
{
	static const struct {
		int device_of[4], rank_of[4];
		int n; /* devices of ddp's four owners; 0: they do not */
		int devices[4], member_of[4];
	} cases[] = {
		{{0, 1, 2, 3}, {0}, 4, {0, 1, 2, 3}, {0, 1, 2, 3}},
		{{3, 1, 0, 2}, {0}, 4, {3, 1, 0, 2}, {0, 1, 2, 3}},
		{{0, 1, 0, 1}, {0}, 2, {0, 1}, {0, 1, 0, 1}}, /* two streams a device */
		{{2, 2, 0, 0}, {0, 0, 1, 1}, 2, {2, 0}, {0, 0, 1, 1}},
		{{0, 1, 0, 1}, {0, 0, 1, 1}, 0, {0}, {0}}, /* ranks that share a device */
		{{1, 1, 1, 1}, {0}, 0, {0}, {0}},          /* on one: the update adds up */
		{{0, 1, 2, -1}, {0}, 0, {0}, {0}},         /* one on a core */
		{{-1, -1, -1, -1}, {0}, 0, {0}, {0}},
	};
	struct training t;
	int devices[4], member_of[4];

	training_init(&t, "ddp", 4, 8);
	for (int i = 0; i < N_OF(cases); i++)
		for (int s = 0; s < t.pipeline->n_stages; s++) {
			int n = orr_device_groups_choose(t.jobs, s, cases[i].device_of,
							 cases[i].rank_of, false, devices,
							 member_of);

			ck_assert_int_eq(n, cases[i].n);
			for (int k = 0; k < n; k++)
				ck_assert_int_eq(devices[k], cases[i].devices[k]);
			for (int k = 0; k < 4 && n; k++)
				ck_assert_int_eq(member_of[k], cases[i].member_of[k]);
		}
	training_fini(&t);
}
END_TEST

START_TEST(an_owner_alone_has_nobody_to_add_up_with)
{
	static const int device_of[2] = {0, 1}, rank_of[2] = {0, 0};
	struct training t;
	int devices[1], member_of[1];

	training_init(&t, "gpipe", 2, 4);
	for (int s = 0; s < t.pipeline->n_stages; s++) {
		ck_assert_int_eq(orr_device_groups_choose(t.jobs, s, device_of, rank_of, false,
							  devices, member_of),
				 0);
		ck_assert_int_eq(orr_device_groups_choose(t.jobs, s, device_of, rank_of, true,
							  devices, member_of),
				 1);
		ck_assert_int_eq(devices[0], device_of[s % 2]);
	}
	training_fini(&t);
}
END_TEST

/* ---- the way of a gradient ---- */

static float *parameters_of(const char *schedule, bool alone, int delay_us, int64_t *n)
{
	struct training t;
	float *parameters;
	int n_summed = 0, n_learning = 0;

	training_init(&t, schedule, 3, 6);
	t.hooks.reduce_alone = alone;
	t.hooks.delay_us = delay_us;
	training_start(&t);
	for (int i = 0; i < t.run->data.n_owned; i++) {
		n_learning += t.run->data.owned[i].update >= 0;
		n_summed += t.run->sum.reduce.members[i].joins;
	}
	ck_assert_int_gt(n_learning, 2);
	ck_assert_int_eq(n_summed, alone ? n_learning : 0);
	ck_assert_int_eq(orr_run_train(t.run, 20, NULL, NULL, &t.err), 0);
	*n = orr_run_n_parameters(t.run);
	parameters = training_parameters(&t);
	training_fini(&t);
	return parameters;
}

START_TEST(the_way_through_a_group_of_one_changes_no_bit)
{
	static const char *const schedules[] = {"1f1b", "fsdp", "gpipe"};
	int64_t n, m;
	float *expected = parameters_of("1f1b", false, 0, &n);

	for (int i = 0; i < 3; i++) {
		float *parameters = parameters_of(schedules[i], true, 100 * i, &m);

		ck_assert_int_eq(m, n);
		ck_assert_msg(!memcmp(parameters, expected, (size_t)n * sizeof(float)), "%s",
			      schedules[i]);
		free(parameters);
	}
	free(expected);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		ONCE(replicas_on_devices_of_their_own_take_part),
		ONCE(an_owner_alone_has_nobody_to_add_up_with),
		ONCE(the_way_through_a_group_of_one_changes_no_bit),
	};
#ifdef ON_DEVICES
	char why[160];

	if (orr_run_devices(why, sizeof(why)) <= 0) {
		printf("SKIP: found no CUDA device: %s\n", why);
		return 77;
	}
#endif

	return suite_run("reduce", tests, N_OF(tests));
}
