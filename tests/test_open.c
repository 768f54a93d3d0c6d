/* What was said is read, what was not is settled, and the caller's options stay as they are. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "orrery/open.h"
#include "orrery/orrery.h"
#include "orrery/plan.h"
#include "suite.h"

/* Each in a folder of its own, where it may leave files. */
static void enter_folder(void)
{
	char folder[] = "/tmp/orr_open_XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
}

static void leave_folder(void)
{
	char command[256], here[200];

	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	(void)snprintf(command, sizeof(command), "rm -r %s", here);
	ck_assert_int_eq(system(command), 0);
}

/* A plan of the study at path: its stages on so many workers. */
static void write_plan(const char *path, const char *study, int n_workers)
{
	const struct orr_plan_options options = {.levels = {1, {n_workers}, {0}, {0}},
						 .activations = true,
						 .straight = true,
						 .numerics = {.optimizer = ORR_OPTIMIZER_SGD},
						 .n_microbatches = 6,
						 .samples = 7,
						 .flops_per_s = 1};
	struct orr_graph *g = NULL;
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};
	json_t *json;

	ck_assert_msg(!orr_graph_read(&g, study, &err) &&
			      !orr_plan_create(&plan, g, &options, &err),
		      "%s", err.msg);
	json = orr_plan_json(plan, false, &err);
	ck_assert_msg(json && !json_dump_file(json, path, 0), "%s", err.msg);
	json_decref(json);
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
}

static int open_all(struct orr_opened *x, const struct orr_open_options *options,
		    struct orr_error *err)
{
	int code;

	if ((code = orr_open_schedule(x, options, err)) || (code = orr_open_graph(x, err)) ||
	    (code = orr_open_pipeline(x, err)))
		return code;
	return orr_open_jobs(x, err);
}

/* 1F1B on a uniform chain: (m + P - 1) (tF + tB). */
START_TEST(a_study_takes_the_closed_form)
{
	struct orr_open_options options = orr_open_options_default(), before;
	struct orr_opened x = {0};
	struct orr_error err = {""};

	options.source = "chain:4";
	before = options;
	ck_assert_msg(!open_all(&x, &options, &err) && !orr_try_run(&x.tried, &err), "%s", err.msg);
	ck_assert_int_eq(x.tried.figures->makespan_ns, (8 + 4 - 1) * 2 * ORR_UNIT_NS);
	ck_assert_int_eq(memcmp(&options, &before, sizeof(options)), 0);
	ck_assert_int_eq(options.n_microbatches, 0);
	ck_assert_int_eq(x.settled.n_microbatches, 8);
	ck_assert_int_eq(x.settled.machine.n_workers, 4);
	ck_assert_int_eq(orr_open_samples(&x.settled), 12);
	orr_opened_fini(&x);
}
END_TEST

START_TEST(a_plan_settles_what_is_not_said)
{
	struct orr_open_options options = orr_open_options_default(), before;
	struct orr_opened x = {0};
	struct orr_error err = {""};

	write_plan("mine", "chain:4", 2);
	options.source = "mine";
	before = options;
	ck_assert_msg(!open_all(&x, &options, &err), "%s", err.msg);
	ck_assert_int_eq(memcmp(&options, &before, sizeof(options)), 0);
	ck_assert_int_eq(x.settled.machine.n_workers, 2);
	ck_assert_int_eq(x.settled.n_microbatches, 6);
	ck_assert_int_eq(x.settled.batch, 42);
	ck_assert_int_eq(x.settled.numerics.optimizer, ORR_OPTIMIZER_SGD);
	ck_assert_ptr_nonnull(orr_opened_plan(&x));
	ck_assert_ptr_eq(x.plan, NULL); /* its own order */
	orr_opened_fini(&x);

	options.schedule = "gpipe"; /* its stages alone; what is said is not settled otherwise */
	options.given.schedule = options.given.batch = true;
	options.batch = 60;
	ck_assert_msg(!open_all(&x, &options, &err), "%s", err.msg);
	ck_assert_ptr_nonnull(x.plan);
	ck_assert_str_eq(x.tried.jobs->schedule, "gpipe");
	ck_assert_int_eq(x.pipeline->n_stages, 2);
	ck_assert_int_eq(x.settled.batch, 60);
	orr_opened_fini(&x);
}
END_TEST

/* A study is one whatever files there are. */
START_TEST(a_file_does_not_hide_a_study)
{
	struct orr_open_options options = orr_open_options_default();
	struct orr_opened x = {0};
	struct orr_error err = {""};

	write_plan("chain:3", "chain:4", 2);
	options.source = "chain:3";
	ck_assert_msg(!open_all(&x, &options, &err), "%s", err.msg);
	ck_assert_ptr_eq(orr_opened_plan(&x), NULL);
	ck_assert_int_eq(x.graph->n_operators, 3);
	orr_opened_fini(&x);
	options.source = "./chain:3"; /* by a path it is the plan */
	ck_assert_msg(!open_all(&x, &options, &err), "%s", err.msg);
	ck_assert_ptr_nonnull(orr_opened_plan(&x));
	ck_assert_int_eq(x.graph->n_operators, 4);
	orr_opened_fini(&x);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(a_study_takes_the_closed_form),
	ONCE(a_plan_settles_what_is_not_said),
	ONCE(a_file_does_not_hide_a_study),
};
SUITE_WITH("open", enter_folder, leave_folder)
