/* A schedule's file compiled as a shared module is the schedule; a bad module is refused. The
 * folder of the modules is the first argument. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "suite.h"

static const char *folder;

START_TEST(a_built_in_file_as_a_module_makes_the_same_timeline)
{
	struct orr_pipeline *p = make_towers((const int[]){3, 2, 0}, 2, 1, 2);
	struct way built_in, loaded;
	char path[512];

	snprintf(path, sizeof(path), "%s/plugin_1f1b.so", folder);
	for (int n_workers = 1; n_workers <= 9; n_workers += 2) {
		way_init(&built_in, p, "1f1b", n_workers, 6);
		way_init(&loaded, p, path, n_workers, 6);
		ck_assert_str_eq(loaded.tried.jobs->schedule, "1f1b");
		ck_assert_int_gt(built_in.tried.jobs->n_jobs, 0);
		for (int j = 0; j < built_in.tried.jobs->n_jobs; j++) {
			ck_assert_int_eq(built_in.tried.timeline->start_ns[j],
					 loaded.tried.timeline->start_ns[j]);
			ck_assert_int_eq(built_in.tried.jobs->compute[j],
					 loaded.tried.jobs->compute[j]);
		}
		way_fini(&loaded);
		way_fini(&built_in);
	}
	orr_pipeline_destroy(p);
}
END_TEST

static const char *const refusals[] = {
	("schedule bad: job 0F0 is placed on worker 2, and the workers are 0 to 1: correct its "
	 "compute(), or set "
	 "--workers"),
	"schedule bad: jobs 0F0 and 0B0 on worker 0 have the same priority 1: make priority() "
	"distinct on each worker",
	"schedule bad deadlocks, each of these jobs waits for the one before it: ",
	"/plugin_bad4.so: made for version 8 of schedule.h, this is version 7: compile it again",
	"/plugin_bad5.so: no symbol orr_plugin: end the file with ORR_PLUGIN(your_schedule);",
	"schedule bad does not serve this pipeline and does not say why",
};

START_TEST(a_bad_module_is_refused_in_one_line)
{
	struct orr_pipeline *p = make_chain(3, 1, 1);
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};
	char path[512];
	int code;

	snprintf(path, sizeof(path), "%s/plugin_bad%d.so", folder, _i + 1);
	ck_assert_int_eq(orr_pipeline_set_step(p, 2, 4, &err), 0);
	if (!(code = orr_choice_init(&choice, path, &err))) {
		code = orr_jobs_create(&jobs, p, &choice.schedule, &err);
		orr_choice_fini(&choice);
	}
	ck_assert_int_eq(code, ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, refusals[_i]) != NULL, "%s", err.msg);
	ck_assert_ptr_null(strchr(err.msg, '\n'));
	ck_assert_ptr_null(jobs);
	orr_pipeline_destroy(p);
}
END_TEST

/* Another schedule's bound is believed as far as its own order does not prove it wrong. */
START_TEST(a_bound_that_cannot_be_is_refused_in_one_line)
{
	static const char *const why[] = {
		"schedule bad: its own order takes 24 units, less than the lower bound of "
		"9223372037 units that it gives: correct bound_ns in its place()",
		"schedule bad: the lower bound that it gives is negative: correct bound_ns in its "
		"place(), or "
		"leave it 0"};
	struct orr_pipeline *p = make_chain(3, 1, 1);
	struct orr_machine machine = orr_machine_default(2);
	struct orr_figures *figures = NULL;
	struct orr_timeline *timeline = NULL;
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};
	char path[512];
	int code;

	snprintf(path, sizeof(path), "%s/plugin_bad%d.so", folder, _i + 8);
	ck_assert_int_eq(orr_pipeline_set_step(p, 2, 4, &err), 0);
	ck_assert_int_eq(orr_choice_init(&choice, path, &err), 0);
	if (!(code = orr_jobs_create(&jobs, p, &choice.schedule, &err)) &&
	    !(code = orr_simulate(&timeline, jobs, &machine, &err)))
		code = orr_figures_create(&figures, timeline, &err);
	ck_assert_int_eq(code, ORR_E_INPUT);
	ck_assert_str_eq(err.msg, why[_i]);
	ck_assert_ptr_null(figures);
	orr_timeline_destroy(timeline);
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
}
END_TEST

int main(int argc, char **argv)
{
	const struct suite_test tests[] = {
		ONCE(a_built_in_file_as_a_module_makes_the_same_timeline),
		EACH(a_bad_module_is_refused_in_one_line, 6),
		EACH(a_bound_that_cannot_be_is_refused_in_one_line, 2),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: test_plugin FOLDER\n");
		return EXIT_FAILURE;
	}
	folder = argv[1];
	return suite_run("plugin", tests, N_OF(tests));
}
