/* Bad schedules are refused before anything runs, in one line that names the jobs. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "own_schedules.h"
#include "pipelines.h"
#include "suite.h"

static int too_far(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)d, (void)data;
	return s == 1 && b == 2 ? p->n_workers : 0;
}

static int64_t by_job(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)data;
	return ((int64_t)d * p->n_microbatches + b) * p->n_stages +
	       (d == ORR_PASS_F ? s : p->n_stages - 1 - s);
}

static int64_t all_equal(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			 const void *data)
{
	(void)p, (void)s, (void)b, (void)d, (void)data;
	return 7;
}

/* Backward of microbatch 0 before its forward. */
static int64_t backward_first(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			      const void *data)
{
	return d == ORR_PASS_B ? by_job(p, s, b, ORR_PASS_F, data)
			       : by_job(p, s, b, ORR_PASS_B, data);
}

static int one_in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p, (void)s, (void)data;
	return 1;
}

static int negative(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p, (void)s, (void)data;
	return -3;
}

static int no_more_than_two(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_stages > 2) {
		strcpy(err->msg, "only two stages: cut the model into two");
		return ORR_E_INPUT;
	}
	return 0;
}

static const struct {
	struct orr_schedule schedule;
	const char *message;
} bad[] = {
	{{.name = "x", .compute = too_far, .priority = by_job},
	 "schedule x: job 1F2 is placed on worker 3, and the workers are 0 to 2: correct its "
	 "compute(), or set "
	 "[workers]"},
	{{.name = "x", .compute = orr_compute_in_turn, .weights = too_far, .priority = by_job},
	 "schedule x: job 1F2 is owned by worker 3, and the workers are 0 to 2: correct its "
	 "weights(), or set "
	 "[workers]"},
	{{.name = "x", .compute = orr_compute_in_turn, .priority = all_equal},
	 "schedule x: jobs 0F0 and 0B0 on worker 0 have the same priority 7: make priority() "
	 "distinct on each "
	 "worker"},
	{{.name = "x", .compute = orr_compute_in_turn, .priority = backward_first},
	 "schedule x deadlocks, each of these jobs waits for the one before it: 0F1 -> 0F2 -> 0F3 "
	 "-> 0B3 -> 0F0 -> "
	 "0F1; change their order (priority())"},
	{{.name = "x",
	  .compute = orr_compute_in_turn,
	  .priority = by_job,
	  .in_flight = one_in_flight},
	 "schedule x deadlocks, each of these jobs waits for the one before it: 0F1 -> 0B1 -> 0F2 "
	 "-> 0B2 -> 0F3 -> "
	 "1F3 -> 2F3 -> 2B0 -> 1B0 -> 0B0 -> 0F1; change their order (priority()) or raise "
	 "in_flight()"},
	{{.name = "x", .compute = orr_compute_in_turn, .priority = by_job, .in_flight = negative},
	 "schedule x: in_flight() of stage 0 is -3: return 1 or more, or 0 for no cap"},
	{{.name = "x",
	  .compute = orr_compute_in_turn,
	  .priority = by_job,
	  .check = no_more_than_two},
	 "only two stages: cut the model into two"},
};

START_TEST(bad_schedules_are_refused_with_the_cure)
{
	struct orr_pipeline *p = make_chain(3, 1, 1);
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_pipeline_set_step(p, 3, 4, &err), 0);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &bad[_i].schedule, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, bad[_i].message);
	ck_assert_ptr_null(jobs);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(greedy_order_needs_no_cap_to_be_free_of_deadlock)
{
	struct orr_schedule greedy = {.name = "x",
				      .order = ORR_ORDER_GREEDY,
				      .compute = orr_compute_in_turn,
				      .priority = backward_first,
				      .in_flight = one_in_flight};
	struct orr_pipeline *p = make_chain(3, 1, 1);
	struct way way;

	way_init_own(&way, p, &greedy, 3, 4);
	ck_assert_int_eq(
		way.tried.timeline->end_ns[orr_jobs_index(way.tried.jobs, 0, 3, ORR_PASS_B)],
		4 * 6 * ORR_UNIT_NS);
	way_end(&way);
}
END_TEST

/* no timing test notices that a greedy order without a cap holds twice as much. */
static int64_t order_1f1b(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			  const void *data)
{
	int n = p->n_stages;

	(void)data;
	return d == ORR_PASS_F ? 2 * b + s : 2 * b + 2 * n - 1 - s;
}

START_TEST(greedy_without_a_cap_holds_8_where_strict_holds_4)
{
	static const struct {
		enum orr_order order;
		bool cap;
		int m, peak;
	} rows[] = {{ORR_ORDER_STRICT, false, 8, 4},   {ORR_ORDER_GREEDY, false, 8, 8},
		    {ORR_ORDER_GREEDY, true, 8, 4},    {ORR_ORDER_STRICT, false, 32, 4},
		    {ORR_ORDER_GREEDY, false, 32, 10}, {ORR_ORDER_GREEDY, true, 32, 4}};
	struct orr_pipeline *p = make_chain(4, 1, 2);

	for (int i = 0; i < N_OF(rows); i++) {
		struct orr_schedule schedule = {.name = "x",
						.order = rows[i].order,
						.compute = orr_compute_in_turn,
						.priority = order_1f1b,
						.in_flight = rows[i].cap ? as_deep : NULL};
		struct way way;

		way_init_own(&way, p, &schedule, 4, rows[i].m);
		ck_assert_int_eq(way.tried.figures->makespan_ns,
				 (rows[i].m == 8 ? 33 : 105) * ORR_UNIT_NS);
		ck_assert_int_eq(way.tried.figures->worker[0].peak_stash, rows[i].peak);
		way_fini(&way);
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- links ---- */

START_TEST(a_transfer_takes_latency_and_bytes_over_bandwidth)
{
	struct orr_pipeline *p = make_pipeline(2, "0>1", 1, 1, 0, 1, 0, 10);
	struct orr_machine machine = orr_machine_default(2);
	struct way way;

	machine.latency_ns = ORR_UNIT_NS;
	machine.bandwidth_bytes_per_s = 5; /* 2 s, then 1 s on its way */
	way_init_on(&way, p, "gpipe", &machine, 2);
	ck_assert_int_eq(way.tried.timeline->n_transfers, 4);
	ck_assert_int_eq(
		way.tried.timeline->start_ns[orr_jobs_index(way.tried.jobs, 1, 0, ORR_PASS_F)],
		4 * ORR_UNIT_NS);
	/* the second activation waits from 2 to 3 for the link, arrives at 6 */
	ck_assert_int_eq(
		way.tried.timeline->start_ns[orr_jobs_index(way.tried.jobs, 1, 1, ORR_PASS_F)],
		6 * ORR_UNIT_NS);
	way_end(&way);
}
END_TEST

START_TEST(a_waiting_transfer_does_not_block_ready_work)
{
	/* 0>2 is dear, 1>3 is not; 2 and 3 share a worker, and greedy takes 3 first */
	struct orr_pipeline *p = make_pipeline(4, "0>2 1>3", 1, 1, 0, 1, 0, 0);
	struct orr_schedule greedy = {.name = "x",
				      .order = ORR_ORDER_GREEDY,
				      .compute = orr_compute_in_turn,
				      .priority = by_job};
	struct way way;
	const int64_t *start_ns;

	p->edges[0].bytes = 100;
	p->edges[1].bytes = 10;
	p->machine.bandwidth_bytes_per_s = 10;
	way_init_own(&way, p, &greedy, 3, 1);
	start_ns = way.tried.timeline->start_ns;
	/* stage 3 is on worker 0 and starts as soon as 10 bytes have come from worker 1 */
	ck_assert_int_eq(start_ns[orr_jobs_index(way.tried.jobs, 3, 0, ORR_PASS_F)],
			 2 * ORR_UNIT_NS);
	ck_assert_int_eq(start_ns[orr_jobs_index(way.tried.jobs, 2, 0, ORR_PASS_F)],
			 11 * ORR_UNIT_NS);
	way_end(&way);
}
END_TEST

START_TEST(updates_follow_the_last_gradient_and_count)
{
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct way way;

	p->stages[0].update_ns = 3 * ORR_UNIT_NS;
	p->stages[1].update_ns = ORR_UNIT_NS;
	way_init(&way, p, "1f1b", 2, 2);
	ck_assert_int_eq(way.tried.timeline->n_updates, 2);
	ck_assert_int_eq(way.tried.figures->makespan_ns, (6 + 3) * ORR_UNIT_NS);
	ck_assert_int_eq(way.tried.figures->worker[0].busy_ns, 7 * ORR_UNIT_NS);
	way_end(&way);
}
END_TEST

/* ---- the checker catches what the simulator never does ---- */

START_TEST(the_checker_refuses_a_tampered_timeline)
{
	static const char *const messages[] = {
		"timeline: job 1F0 starts before job 0F0, which it waits for, ends",
		"timeline: job 0B1 never ran",
		"timeline: worker 0 starts job 0F1 before the one before it in the order of n ends",
	};
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_error err = {""};
	struct way way;

	way_init(&way, p, "1f1b", 2, 2);
	if (_i == 0)
		way.tried.timeline->start_ns[orr_jobs_index(way.tried.jobs, 1, 0, ORR_PASS_F)]--;
	else if (_i == 1)
		way.tried.timeline->start_ns[orr_jobs_index(way.tried.jobs, 0, 1, ORR_PASS_B)] = -1;
	else
		way.tried.timeline->start_ns[orr_jobs_index(way.tried.jobs, 0, 1, ORR_PASS_F)]--;
	ck_assert_int_eq(orr_timeline_check(way.tried.timeline, &err), ORR_E_RUNTIME);
	ck_assert_str_eq(err.msg, messages[_i]);
	way_end(&way);
}
END_TEST

/* ---- sizes ---- */

START_TEST(sizes_of_a_step_are_refused_out_of_range)
{
	struct orr_pipeline *p = make_chain(3, 1, 1);
	struct orr_error err = {""};

	ck_assert_int_eq(orr_pipeline_set_step(p, 0, 1, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "0 workers: give at least 1 ([workers])");
	ck_assert_int_eq(orr_pipeline_set_step(p, 1, 0, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "0 microbatches: give at least 1 ([microbatches])");
	ck_assert_int_eq(orr_pipeline_set_step(p, 1, 2000000000, &err), ORR_E_INPUT);
	orr_pipeline_destroy(p);
}
END_TEST

static int refuse_to_place(const struct orr_pipeline *p, const void *data,
			   struct orr_placed *placed, struct orr_error *err)
{
	(void)p;
	(void)data;
	(void)placed;
	(void)err;
	ck_abort_msg("latencies that overflow came to place()");
}

START_TEST(durations_that_overflow_are_refused)
{
	struct orr_schedule placing = *orr_schedules[0];
	struct orr_pipeline *p = make_chain(3, 1, 1);
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	p->stages[1].forward_ns = INT64_MAX / 8;
	ck_assert_int_eq(orr_pipeline_set_step(p, 1, 1000, &err), 0);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, orr_schedules[0], &err), ORR_E_INPUT);
	ck_assert_ptr_null(jobs);
	ck_assert_msg(strstr(err.msg, "stage 1 the longest"), "%s", err.msg);
	p->stages[1].forward_ns = 1;
	p->machine.latency_ns = INT64_MAX / 16;
	placing.place = refuse_to_place;
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &placing, &err), ORR_E_INPUT);
	p->machine.latency_ns = 0;
	p->stages[2].stash_bytes = INT64_MAX / 8;
	ck_assert_int_eq(orr_jobs_create(&jobs, p, orr_schedules[0], &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "stage 2 the largest"), "%s", err.msg);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(every_job_has_one_number_and_edges_run_both_ways)
{
	struct orr_pipeline *p = make_pipeline(4, "0>1 0>2 1>3 2>3", 1, 1, 0, 0, 0, 0);
	int before[8], after[8], found = 0;
	struct way way;

	way_init(&way, p, "1f1b", 4, 3);
	for (int j = 0; j < way.tried.jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(way.tried.jobs, j);
		int n = orr_jobs_successors(way.tried.jobs, j, after);

		ck_assert_int_eq(orr_jobs_index(way.tried.jobs, job.s, job.b, job.d), j);
		for (int i = 0; i < n; i++) {
			int n_before = orr_jobs_predecessors(way.tried.jobs, after[i], before),
			    back = 0;

			for (int k = 0; k < n_before; k++)
				back += before[k] == j;
			ck_assert_int_eq(back, 1);
			found++;
		}
		found -= orr_jobs_predecessors(way.tried.jobs, j, before);
	}
	ck_assert_int_eq(found, 0);
	way_end(&way);
}
END_TEST

START_TEST(schedules_that_do_not_exist_are_refused)
{
	static const char *const rows[][2] = {
		{"1f2b", "no schedule '1f2b' (did you mean 1f1b?): there are ddp, fsdp, "},
		{"1f1b:G=2", "schedule 1f1b: no parameter 'G': it takes none"},
		{"lpp:X=2", "schedule lpp: no parameter 'X': it takes G, R, memory"},
		{"lpp:G", "schedule lpp: 'G': write key=value"},
		{"lpp:G=-1", "schedule lpp: G: "},
		{"lpp:G=two", "schedule lpp: G: "},
		{"./no-such-file.so", "./no-such-file.so: cannot open it: "},
	};

	for (int i = 0; i < N_OF(rows); i++) {
		struct orr_choice choice;
		struct orr_error err = {""};

		ck_assert_int_eq(orr_choice_init(&choice, rows[i][0], &err), ORR_E_INPUT);
		ck_assert_msg(!strncmp(err.msg, rows[i][1], strlen(rows[i][1])), "%s", err.msg);
	}
}
END_TEST

static const struct suite_test tests[] = {
	EACH(bad_schedules_are_refused_with_the_cure, N_OF(bad)),
	ONCE(greedy_order_needs_no_cap_to_be_free_of_deadlock),
	ONCE(greedy_without_a_cap_holds_8_where_strict_holds_4),
	ONCE(a_transfer_takes_latency_and_bytes_over_bandwidth),
	ONCE(a_waiting_transfer_does_not_block_ready_work),
	ONCE(updates_follow_the_last_gradient_and_count),
	EACH(the_checker_refuses_a_tampered_timeline, 3),
	ONCE(sizes_of_a_step_are_refused_out_of_range),
	ONCE(durations_that_overflow_are_refused),
	ONCE(every_job_has_one_number_and_edges_run_both_ways),
	ONCE(schedules_that_do_not_exist_are_refused),
};
SUITE("jobs")
