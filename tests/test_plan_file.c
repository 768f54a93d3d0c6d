/* Plans as files: read back as written, and refused where somebody edited them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/orrery.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"
#include "plan/plan_file.h"
#include "orrery/open.h"
#include "simulate/simulate.h"
#include "schedule/table.h"
#include "orrery/timeline.h"
#include "graphs.h"
#include "suite.h"

static char path[] = "/tmp/orrery-plan-XXXXXX.json";

static json_t *plan_json(void)
{
	struct orr_graph *g = read_graph("towers:2,2/1");
	struct orr_plan *plan = make_plan(
		g, "5", NULL, (struct orr_plan_options){.straight = true, .n_microbatches = 4});
	json_t *json = orr_plan_json(plan, true, NULL);

	ck_assert_ptr_nonnull(json);
	plan_end(plan, g);
	return json;
}

START_TEST(a_plan_is_read_back_as_written)
{
	struct orr_graph *g = read_graph("towers:2,2/1");
	struct orr_plan *plan = make_plan(
		g, "5", NULL, (struct orr_plan_options){.straight = true, .n_microbatches = 4});
	json_t *json = plan_json();
	struct orr_choice choice;
	struct orr_error err = {""};
	int stage_of[5];

	ck_assert_int_eq(json_dump_file(json, path, 0), 0);
	ck_assert_msg(!orr_choice_init(&choice, path, &err), "%s", err.msg);
	ck_assert_msg(!orr_plan_file_stages(choice.plan, g, stage_of, &err), "%s", err.msg);
	ck_assert_mem_eq(stage_of, plan->pipeline->stage_of, sizeof(stage_of));
	for (int j = 0; j < plan->tried.jobs->n_jobs; j++)
		ck_assert(choice.table->compute[j] == plan->tried.jobs->compute[j] &&
			  choice.table->priority[j] == plan->tried.jobs->priority[j]);
	orr_choice_fini(&choice);
	json_decref(json);
	plan_end(plan, g);
}
END_TEST

static const struct {
	const char *of, *key, *value, *message; /* of: the first of that, or "": the plan itself */
} edited[] = {
	{"worker", "order", "[\"0F0\"]", "no worker has job"},
	/* of the first worker, all but the last */
	{"worker", "order", "[\"0F0\",\"0F1\",\"0F2\",\"0F3\",\"0B0\",\"0B1\",\"0B2\"]",
	 "no worker has job 0B3"},
	{"worker", "order", "[\"0F0\",\"0F0\"]", "0F0 is there twice"},
	{"worker", "order", "[\"9F0\"]", "'9F0' is no job"},
	{"worker", "order", "[\"0X0\"]", "'0X0' is no job"},
	{"worker", "order", "[1]", "'' is no job"},
	{"worker", "order", "1", "a worker without an order"},
	{"worker", "order", "[\"0F0@5\"]", "'0F0@5' is no job"},
	{"worker", "order", "[\"0F0@\"]", "'0F0@' is no job"},
	{"worker", "order", "[\"0F-1\"]", "'0F-1' is no job"},
	{"worker", "n", "1", "n: no list"},
	{"worker", "n", "[]", "n: no list as long as its worker's order"},
	{"worker", "n", "[0, 1, 2, 3, 4, 5, 6, 6]", "worker 0, n 7: give ascending numbers"},
	{"worker", "n", "[0.5]", "worker 0, n 0: give ascending numbers"},
	{"stages", "in_flight", "0", "in_flight: a number from 1 on"},
	{"stages", "recompute", "1", "recompute: true or false"},
	{"stages", "park", "true", "park: host, or the number of a worker"},
	{"", "order", "\"fast\"", "order: strict, greedy or bounded"},
	{"", "order", "1", "order: strict, greedy or bounded"},
	{"", "stream", "{}", "stream, period: a number from 1 on"},
	{"", "stream", "{\"period\": 8, \"accumulate\": 0}", "stream, accumulate"},
	{"", "stream", "{\"period\": 8, \"accumulate\": 1, \"sync\": \"x\"}", "stream, sync"},
	{"", "bound", "{\"ns\": 0, \"of\": \"0123456789abcdef\"}", "bound: ns, a number"},
	{"", "bound", "{\"ns\": 1, \"of\": \"?\"}", "bound: ns, a number"},
	{"", "latency", "-1", "latency: no seconds"},
	{"", "flops", "0", "flops: no FLOP per second"},
	{"", "batch", "5", "batch: not that of its samples and microbatches"},
	{"stages", "workers", "[]", "a stage without workers"},
	{"stages", "workers", "[0.5]",
	 "stage 0, workers: give every one once, as a number below 5"},
	{"stages", "workers", "[5]", "stage 0, workers"},
	{"stages", "workers", "[0, 0]", "stage 0, workers"},
	{"stages", "workers", "[1]", "worker 0 has job 0F0, and is not of the workers of stage 0"},
	{"stages", "operators", "\"a\"", "a stage without operators"},
	{"", "stages", "[]", "no stages in it"},
	{"", "worker", "[]", "no workers in it"},
	{"", "fingerprint", "\"no\"", "which graph it is for"},
	{"", "microbatches", "0", "microbatches out of range"},
	{"", "microbatches", "4611686018427387904", "microbatches out of range"},
	{"", "samples", "0", "samples: no number of samples"},
	{"", "samples", "\"1\"", "samples: no number of samples"},
	{"", "bandwidth", "-1", "bandwidth: no bytes per second"},
	{"", "bandwidth", "null", "bandwidth: no bytes per second"},
	{"", "text", "[]", "text: no graph"},
	{"", "levels", "{}", "levels: no list"},
	{"", "levels", "[{\"workers\": 5}]", "levels: each has workers and a bandwidth"},
	{"", "levels", "[{\"workers\": 4, \"bandwidth\": 1}]",
	 "levels: of another number of workers"},
};

START_TEST(an_edited_plan_is_refused)
{
	json_t *json = plan_json(), *value = json_loads(edited[_i].value, JSON_DECODE_ANY, NULL);
	json_t *of =
		*edited[_i].of ? json_array_get(json_object_get(json, edited[_i].of), 0) : json;
	struct orr_choice choice;
	struct orr_error err = {""};

	ck_assert_int_eq(json_object_set_new(of, edited[_i].key, value), 0);
	ck_assert_int_eq(json_dump_file(json, path, 0), 0);
	ck_assert_int_eq(orr_choice_init(&choice, path, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, edited[_i].message), "%s", err.msg);
	json_decref(json);
}
END_TEST

START_TEST(an_order_that_deadlocks_is_refused)
{
	json_t *json = plan_json();
	json_t *order =
		json_object_get(json_array_get(json_object_get(json, "worker"), 4), "order");
	struct orr_graph *g = read_graph("towers:2,2/1");
	struct orr_machine machine = orr_machine_default(5);
	struct orr_pipeline *p = NULL;
	struct orr_jobs *jobs = NULL;
	struct orr_choice choice;
	struct orr_error err = {""};
	int stage_of[5];

	/* the backward before its forward */
	ck_assert_int_eq(json_array_insert_new(order, 0, json_deep_copy(json_array_get(order, 1))),
			 0);
	ck_assert_int_eq(json_array_remove(order, 2), 0);
	ck_assert_int_eq(json_dump_file(json, path, 0), 0);
	ck_assert_msg(!orr_choice_init(&choice, path, &err), "%s", err.msg);
	ck_assert_msg(!orr_plan_file_stages(choice.plan, g, stage_of, &err) &&
			      !orr_partition_as(&p, g, &machine, stage_of, 5, 1, &err) &&
			      !orr_pipeline_set_step(p, 5, 4, &err),
		      "%s", err.msg);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &choice.schedule, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "4B0") && strstr(err.msg, "4F0"), "%s", err.msg);
	orr_pipeline_destroy(p);
	/* and a graph that changed */
	set_costs(g, 1, 5, 0, 0);
	ck_assert_int_eq(orr_plan_file_stages(choice.plan, g, stage_of, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "changed since"), "%s", err.msg);
	orr_choice_fini(&choice);
	orr_graph_destroy(g);
	json_decref(json);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		ONCE(a_plan_is_read_back_as_written),
		EACH(an_edited_plan_is_refused, N_OF(edited)),
		ONCE(an_order_that_deadlocks_is_refused),
	};
	int failed, file = mkstemps(path, 5);

	if (file < 0 || close(file))
		return EXIT_FAILURE;
	failed = suite_run("plan_file", tests, N_OF(tests));
	(void)unlink(path);
	return failed;
}
