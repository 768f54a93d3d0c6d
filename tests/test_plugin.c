/* A schedule's file compiled as a shared module is the schedule; a parameter is read by its kind; a
 * bad module is refused. The folder of the modules is the first argument. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "suite.h"

static const char *folder;

/* mine.c writes down the numbers of 1f1b, 1f1b.c is 1f1b. */
START_TEST(a_plugin_makes_the_timeline_of_the_built_in_schedule)
{
	static const char *const names[] = {"mine", "1f1b"};
	struct orr_pipeline *p = make_towers((const int[]){3, 2, 0}, 2, 1, 2);
	struct way built_in, loaded;
	char path[512];

	snprintf(path, sizeof(path), "%s/plugin_%s.so", folder, names[_i]);
	for (int n_workers = 1; n_workers <= 9; n_workers += 2) {
		way_init(&built_in, p, "1f1b", n_workers, 6);
		way_init(&loaded, p, path, n_workers, 6);
		ck_assert_str_eq(loaded.tried.jobs->schedule, names[_i]);
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

static const struct {
	int module; /* of bad_plugins.c */
	const char *message;
} refusals[] = {
	{1, "schedule bad: job 0F0 is placed on worker 2, and the workers are 0 to 1: correct its "
	    "compute(), or set [workers]"},
	{2, "schedule bad: jobs 0F0 and 0B0 on worker 0 have the same priority 1: make priority() "
	    "distinct on each worker"},
	{3, "schedule bad deadlocks, each of these jobs waits for the one before it: "},
	{4,
	 "/plugin_bad4.so: made for version 9 of schedule.h, this is version 8: compile it again"},
	{5, "/plugin_bad5.so: no symbol orr_plugin: end the file with ORR_PLUGIN(your_schedule);"},
	{6, "schedule bad does not serve this pipeline and does not say why"},
	{10,
	 "schedule bad: job 0F0 is placed on worker -1, and the workers are 0 to 1: correct its "
	 "place(), or set [workers]"},
	{11,
	 "schedule bad: jobs 0F0 and 0B0 on worker 0 have the same priority 0: make n of place() "
	 "distinct on each worker"},
	{12, "/plugin_bad12.so: the default of its parameter 0 is out of its range: correct it"},
	{13, "/plugin_bad13.so: the kind of its parameter 0 is not one of enum orr_parameter_kind: "
	     "correct it"},
	{14, "/plugin_bad14.so: its parameter 0 has no words: words belong to ORR_PARAMETER_WORD: "
	     "correct it"},
	{15, "/plugin_bad15.so: the default of its parameter 0 is out of its range: correct it"},
	{16, "/plugin_bad16.so: more than 8 parameters: take fewer"},
	{17, "/plugin_bad17.so: a schedule needs name, compute and priority (or place): set them"},
	{18,
	 "/plugin_bad18.so: made for version 7 of schedule.h, this is version 8: compile it again"},
	{19, "/plugin_bad19.so: struct orr_stage has "},
};

/* The message with which a module is refused, or the jobs under it; up to the next call. */
static const char *refuse(const char *module, int n_stages, int n_workers, int m)
{
	static struct orr_error err;
	struct orr_pipeline *p = make_chain(n_stages, 1, 1);
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	char path[600];
	int code;

	snprintf(path, sizeof(path), "%s/%s", folder, module);
	ck_assert_int_eq(orr_pipeline_set_step(p, n_workers, m, &err), 0);
	if (!(code = orr_choice_init(&choice, path, &err))) {
		code = orr_jobs_create(&jobs, p, &choice.schedule, &err);
		orr_choice_fini(&choice);
	}
	ck_assert_int_eq(code, ORR_E_INPUT);
	ck_assert_ptr_null(strchr(err.msg, '\n'));
	ck_assert_ptr_null(jobs);
	orr_pipeline_destroy(p);
	return err.msg;
}

START_TEST(a_bad_module_is_refused_in_one_line)
{
	char name[40];

	snprintf(name, sizeof(name), "plugin_bad%d.so", refusals[_i].module);
	ASSERT_HAS(refuse(name, 3, 2, 4), refusals[_i].message);
}
END_TEST

/* kinds_plugin.c prints its values in check(); the others are refused before that. */
static const struct {
	const char *parameters, *message;
} kinds[] = {
	{"", "2, 0 or 0 B, 0.25, 1, 4096 B, 0: 0, 1500 ns"},
	{":integer=-3,memory=100,real=-0.5,word=up,size=1GB,list=9,duration=5",
	 "-3, 100 or 0 B, -0.5, 2, 1000000000 B, 1: 9, 5000000000 ns, in units"},
	{":memory=2GB,list=3-1-2,duration=1.2ms,real=1e-3,word=left,size=7",
	 "2, 0 or 2000000000 B, 0.001, 0, 7 B, 3: 2, 1200000 ns"},
	{":integer=10", "schedule kinds: integer: 10 is out of range"},
	{":integer=0.5", "schedule kinds: integer: 0.5"},
	{":memory=101", "schedule kinds: memory: 101 is out of range"},
	{":memory=2 furlongs", "schedule kinds: memory: 2 furlongs is no size"},
	{":real=1.6", "schedule kinds: real: 1.6 is out of range"},
	{":word=lift",
	 "schedule kinds: word=lift (did you mean left?): write one of left|right|up"},
	{":size=2GB", "schedule kinds: size: 2GB is not in its range, 0 to 1000000000 bytes"},
	{":size=-1", "schedule kinds: size: -1 is negative"},
	{":list=1-10", "schedule kinds: list: 10 is out of range"},
	{":list=1--2", "schedule kinds: list: "},
	{":duration=6", "schedule kinds: duration: 6 is not in its range, 0 to 5000000000 ns"},
	{":duration=2GB", "schedule kinds: duration: 2GB is no duration"},
	{":duration=1,duration=1", "schedule kinds: duration is there twice: leave one"},
	{":reel=1", "schedule kinds: no parameter 'reel' (did you mean real?): it takes integer, "},
};

START_TEST(a_parameter_is_read_by_its_kind)
{
	const char *message, *expected = kinds[_i].message;
	char name[200];

	snprintf(name, sizeof(name), "plugin_kinds.so%s", kinds[_i].parameters);
	message = refuse(name, 2, 1, 1);
	if (expected[0] == 's')
		ck_assert_msg(!strncmp(message, expected, strlen(expected)), "%s", message);
	else
		ck_assert_str_eq(message, expected);
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
	    !(code = orr_simulate(&timeline, jobs, &err)))
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
		EACH(a_plugin_makes_the_timeline_of_the_built_in_schedule, 2),
		EACH(a_bad_module_is_refused_in_one_line, N_OF(refusals)),
		EACH(a_parameter_is_read_by_its_kind, N_OF(kinds)),
		EACH(a_bound_that_cannot_be_is_refused_in_one_line, 2),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: test_plugin FOLDER\n");
		return EXIT_FAILURE;
	}
	folder = argv[1];
	return suite_run("plugin", tests, N_OF(tests));
}
