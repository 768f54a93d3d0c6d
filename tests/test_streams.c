/* What a stream must be, and what PipeDream's cannot serve. */
#include <check.h>
#include <stdlib.h>

#include "pipelines.h"
#include "stream.h"
#include "versions.h"

#define N(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- refusals ---- */

static const struct {
	const char *schedule;
	int n_workers, m, accumulate;
	const char *message;
} refused[] = {
	{"pipedream:replicas=2-1-1", 4, 4, 1,
	 "schedule pipedream: replicas lists 3 stages and there are 2: give one number a stage, or none"},
	{"pipedream:replicas=4-1", 3, 4, 1,
	 "schedule pipedream: stage 0 has 4 replicas and there are 3 workers: take fewer, or more "
	 "--workers"},
	{"pipedream:replicas=2-1", 3, 5, 1,
	 "schedule pipedream: the 2 replicas of stage 0 take turns, and 5 microbatches are no multiple: "
	 "change -m"},
	{"pipedream:replicas=2-1", 3, 6, 2,
	 "stage 0 updates every 4 microbatches (--accumulate 2 on 2 replicas) and a round has 6: take a "
	 "multiple (-m)"},
};

START_TEST(what_it_cannot_serve_is_refused)
{
	struct orr_pipeline *p = make_chain(2, 1, 2);
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	p->accumulate = refused[_i].accumulate;
	ck_assert(!orr_pipeline_set_step(p, refused[_i].n_workers, refused[_i].m, &err));
	ck_assert_msg(!orr_choice_init(&choice, refused[_i].schedule, &err), "%s", err.msg);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &choice.schedule, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, refused[_i].message);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- streams of one's own ---- */

static int alone(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)b, (void)d, (void)data;
	return s;
}

static int in_turns(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)d, (void)data;
	return s ? 2 : b % 2;
}

/* One microbatch after the other: F of both stages, B of both. */
static int64_t one_by_one(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)data;
	return 4 * (int64_t)b + (d == ORR_PASS_F ? s : 3 - s);
}

static int64_t squared(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	return one_by_one(p, s, b * b, d, data);
}

static int64_t backwards(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	return one_by_one(p, s, b, d, data) - 8 * (int64_t)b;
}

/* Fine on each worker, but F of stage 0 stands after what waits for it. */
static int64_t own_order(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	return one_by_one(p, s, b, d, data) + (s || d != ORR_PASS_F ? 0 : 2);
}

/* Microbatches 1 and 0 change places. */
static int64_t swapped(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	return one_by_one(p, s, b ^ 1, d, data);
}

static const struct {
	struct orr_schedule schedule;
	int m;
	const char *message;
} wrong[] = {
	{{.compute = alone, .priority = squared}, 4,
	 "schedule mine: job 0F1 comes later in the next round by another number than 0F0: priority() of "
	 "a stream is periodic in -m"},
	{{.compute = alone, .priority = backwards}, 1,
	 "schedule mine: job 0F0 does not come later in the next round: priority() of a stream grows with "
	 "b, also beyond -m"},
	{{.compute = alone, .priority = own_order}, 4,
	 "schedule mine: job 1F0 has no larger n than what it waits for: in a stream n orders the jobs "
	 "of all workers"},
	{{.compute = alone, .priority = swapped}, 4,
	 "schedule mine: job 0F1 overtakes the microbatch before it: priority() of a stream grows with b"},
	{{.compute = in_turns, .priority = one_by_one}, 3,
	 "schedule mine: job 0F0 is on another worker in the next round: -m must be a multiple of every "
	 "stage's replicas"},
	{{.compute = alone, .priority = one_by_one, .weights = alone}, 4,
	 "schedule mine: a stream has compute() and priority(), no weights(), and strict order"},
	{{.compute = alone, .priority = one_by_one, .order = ORR_ORDER_GREEDY}, 4,
	 "schedule mine: a stream has compute() and priority(), no weights(), and strict order"},
};

START_TEST(a_stream_that_is_none_is_refused)
{
	struct orr_schedule mine = wrong[_i].schedule;
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	mine.name = "mine";
	mine.stream = true;
	ck_assert(!orr_pipeline_set_step(p, 3, wrong[_i].m, &err));
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &mine, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, wrong[_i].message);
	orr_pipeline_destroy(p);
}
END_TEST

/* One microbatch at a time: nothing is stale, and one version is enough. */
START_TEST(a_stream_of_ones_own_is_served)
{
	struct orr_schedule mine = {
		.name = "mine", .compute = alone, .priority = one_by_one, .stream = true};
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	ck_assert(!orr_pipeline_set_step(p, 2, 4, &err));
	ck_assert_msg(!orr_jobs_create(&jobs, p, &mine, &err), "%s", err.msg);
	ck_assert_int_eq(jobs->stream->n_waves, 1);
	for (int s = 0; s < 2; s++) {
		ck_assert_int_eq(jobs->versions->peak[s], 1);
		for (int b = 0; b < 12; b++)
			ck_assert_int_eq(orr_versions_staleness(jobs->versions, s, b), 0);
	}
	orr_jobs_destroy(jobs);
	orr_pipeline_destroy(p);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("streams");
	TCase *tcase = tcase_create("streams");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, what_it_cannot_serve_is_refused, 0, N(refused));
	tcase_add_loop_test(tcase, a_stream_that_is_none_is_refused, 0, N(wrong));
	tcase_add_test(tcase, a_stream_of_ones_own_is_served);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
