/* What the CSV of a schedule cannot say is known, and named. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/stages.h"
#include "own_schedules.h"
#include "pipelines.h"
#include "suite.h"

static const struct {
	const char *schedule, *edges, *losses; /* with / between them */
	int n_workers;
} lossy[] = {
	{"1f1b", "0>1 1>2 2>3", "", 4},
	{"zb-h1", "0>1 1>2 2>3", "", 4},
	{"1f1b", "0>1 1>2 2>3 0>2", "the graph of the stages, which PyTorch takes for a chain", 4},
	{"1f1b", "0>2 1>2 2>3", "the graph of the stages, which PyTorch takes for a chain", 4},
	{"1f1b-r", "0>1 1>2 2>3", "recomputation of 4 stages", 4},
	{"pipedream", "0>1 1>2 2>3", "that it never flushes, and its updates", 4},
	{"ddp", "0>1 1>2 2>3", "that 4 stages have several workers, where PyTorch wants one", 2},
	{"fsdp", "0>1 1>2 2>3",
	 "that 4 stages have several workers, where PyTorch wants one/who owns the parameters of 4 "
	 "stages",
	 2},
	{"chimera", "0>1 1>2 2>3", "that 4 stages have several workers, where PyTorch wants one",
	 4},
	{"hanayo", "0>1 1>2 2>3", "that its order is greedy: it is fixed as it came out", 2},
};

START_TEST(what_a_csv_cannot_say_is_known)
{
	struct orr_pipeline *p = make_pipeline(4, lossy[_i].edges, 1, 1, 1, 1, 0, 0);
	struct orr_omissions losses;
	char text[1024] = "";
	struct way way;

	way_init(&way, p, lossy[_i].schedule, lossy[_i].n_workers, 8);
	orr_omissions_find(&losses, way.tried.jobs);
	for (int i = 0; i < losses.n; i++)
		(void)sprintf(text + strlen(text), "%s%s", i ? "/" : "", losses.text[i]);
	ck_assert_str_eq(text, lossy[_i].losses);
	way_end(&way);
}
END_TEST

/* On one worker the row keeps F behind the backward that it waits for; on two none does. */
START_TEST(a_cap_is_lost_where_it_joins_two_workers)
{
	static const char *const names[] = {"ddp", "1f1b"};
	static const int expected[] = {4, 0};
	struct orr_pipeline *p = make_chain(4, 1, 1);
	struct orr_schedule capped;
	struct orr_choice choice;
	struct orr_omissions losses;
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};
	int n = 0;

	ck_assert_int_eq(orr_pipeline_set_step(p, 3, 6, &err), 0);
	ck_assert_msg(!orr_choice_init(&choice, names[_i], &err), "%s", err.msg);
	capped = choice.schedule;
	capped.in_flight = two;
	capped.order = ORR_ORDER_GREEDY;
	ck_assert_msg(!orr_jobs_create(&jobs, p, &capped, &err), "%s", err.msg);
	orr_omissions_find(&losses, jobs);
	for (int i = 0; i < losses.n; i++)
		if (sscanf(losses.text[i], "the cap of %d stages", &n) == 1)
			break;
	ck_assert_int_eq(n, expected[_i]);
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(what_a_csv_cannot_say_is_known, N_OF(lossy)),
	EACH(a_cap_is_lost_where_it_joins_two_workers, 2),
};
SUITE("losses")
