/* Microbatches that differ: closed forms by hand, lengths, and the CSV of their costs. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs.h"
#include "pipeline/cost.h"
#include "pipeline/microbatches.h"
#include "pipeline/partition.h"
#include "orrery/open.h"
#include "pipelines.h"
#include "suite.h"

/* ---- by hand ---- */

static const struct {
	const char *schedule;
	int n_stages, n_workers, n, times[5], makespan, peak[2];
} steps[] = {
	/* one worker has all to do, and at the end of the forwards it holds all */
	{"gpipe", 2, 1, 3, {1, 3, 2}, 24, {120}},
	{"1f1b", 2, 1, 3, {1, 3, 2}, 24, {60}},
	/* 0F0 0-1, 0F1 1-4, 0F2 4-6; 1F1 4-7, 1F2 7-9, 1B0 9-10, 1B1 10-13, 1B2 13-15, 0B2 15-17;
	 * 0B1 13-16 is in its way */
	{"gpipe", 2, 2, 3, {1, 3, 2}, 18, {60, 60}},
	/* 0F1 1-4, 1F1 4-7, 1B1 7-10, 1F2 10-12, 1B2 12-14, 0B2 14-16; at 5 the first holds
	 * microbatches 1 and 2 */
	{"1f1b", 2, 2, 3, {1, 3, 2}, 16, {50, 30}},
	/* alike: 2 (m + stages - 1) */
	{"1f1b", 2, 2, 4, {1, 1, 1, 1}, 10, {20, 10}},
	/* 0F1 1-5, 1F1 5-9, 1B1 9-13, 0B1 13-17, and 0B2 after it */
	{"1f1b", 2, 2, 3, {1, 4, 1}, 18, {50, 40}},
};

START_TEST(steps_are_as_by_hand)
{
	struct orr_pipeline *p =
		make_differ(make_chain(steps[_i].n_stages, 1, 1), steps[_i].times, steps[_i].n);
	struct way way;

	way_init(&way, p, steps[_i].schedule, steps[_i].n_workers, steps[_i].n);
	ck_assert_int_eq(units(way.tried.figures->makespan_ns), steps[_i].makespan);
	for (int w = 0; w < steps[_i].n_workers; w++)
		ck_assert_int_eq(way.tried.figures->worker[w].peak_stash_bytes, steps[_i].peak[w]);
	way_end(&way);
}
END_TEST

START_TEST(stages_have_the_means_and_the_largest_sizes)
{
	struct orr_pipeline *p = make_differ(make_chain(2, 1, 1), (const int[]){1, 6, 2}, 3);
	struct orr_error err = {""};

	ck_assert_int_eq(units(p->stages[0].forward_ns), 3);
	ck_assert_int_eq(p->stages[0].stash_bytes, 60);
	ck_assert_int_eq(p->edges[0].bytes, 6);
	ck_assert_int_ne(orr_pipeline_set_step(p, 2, 4, &err), 0);
	ck_assert_str_eq(err.msg, "4 microbatches, and 3 have lengths or costs of their own: leave "
				  "[microbatches] out, or give as many");
	orr_pipeline_destroy(p);
}
END_TEST

/* What is sent takes its own time: 1 byte/s, so that a microbatch of 3 is 3 units on its way. */
START_TEST(transfers_are_those_of_their_microbatch)
{
	struct orr_pipeline *p = make_differ(make_chain(2, 1, 1), (const int[]){1, 3}, 2);
	struct orr_machine machine = orr_machine_default(2);
	struct way way;

	machine.bandwidth_bytes_per_s = 1;
	/* 0F1 1-4; its 3 bytes go 4-7, and the gradient of 1B0 comes back 4-5; 1F1 7-10, 1B1 10-13,
	 * back 13-16, 0B1 16-19 */
	way_init_on(&way, p, "1f1b", &machine, 2);
	ck_assert_int_eq(units(way.tried.figures->makespan_ns), 19);
	ck_assert_int_eq(way.tried.figures->worker[1].recv_activation_bytes, 4);
	way_end(&way);
}
END_TEST

/* ---- every schedule ---- */

START_TEST(every_schedule_runs_microbatches_that_differ)
{
	static const int towers[][3] = {{0}, {2, 2, 0}};
	const char *name = quick_schedule(_i);
	int served = 0;

	suite_random = 1;
	for (int k = 0; k < 12; k++) {
		struct orr_pipeline *p = make_towers(towers[k % 2], k % 2 ? 4 : 8, 1, 1);
		struct orr_machine machine = orr_machine_default(k % 3 ? 4 : 8);
		int times[8], work = 0;
		struct way way;

		for (int b = 0; b < 8; b++) {
			times[b] = 1 + suite_draw(9);
			work += times[b];
		}
		make_differ(p, times, 8);
		if (way_try_on(&way, p, name, &machine, 8)) {
			int64_t busy = 0;

			served++;
			for (int w = 0; w < machine.n_workers; w++)
				busy += way.tried.figures->worker[w].busy_ns;
			/* a backward that is run again takes F again */
			ck_assert_int_ge(units(busy), 16 * work);
			way_fini(&way);
		}
		orr_pipeline_destroy(p);
	}
	ck_assert_int_gt(served, 0);
}
END_TEST

/* ---- lengths ---- */

START_TEST(costs_grow_with_the_length)
{
	struct orr_graph *g = parse_graph(
		"digraph { overhead=1; a [forward=4, backward=8, activation=10, stash=20, "
		"stage=0];\n"
		"b [forward=4, backward=8, stage=0, length_exponent=2, stash=20, activation=10];\n"
		"c [forward=4, backward=8, stage=1, length_exponent=0, stash=20];\n"
		"subgraph s { length_exponent=2; d [forward=1, backward=1, stage=2];\n"
		"subgraph t { length_exponent=3; e [forward=1, backward=1, stage=2] } }\n"
		"a -> b -> c -> d -> e }");
	const double lengths[] = {1, 3}; /* half and one and a half times the mean */
	/* a 2 and 6, b 1 and 9; c as it is; d 1/4 and 9/4, e 1/8 and 27/8; and the overhead */
	const double forward[3][2] = {{1 + 3, 1 + 15}, {5, 5}, {1.375, 6.625}};
	struct orr_machine machine = orr_machine_default(3);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_graph_set_lengths(g, lengths, 2, &err) &&
			      !orr_partition(&p, g, &machine, 0, 1, &err) &&
			      !orr_pipeline_set_step(p, 3, 2, &err),
		      "%s", err.msg);
	for (int s = 0; s < 3; s++)
		for (int b = 0; b < 2; b++)
			ck_assert_int_eq(orr_pipeline_job_ns(p, s, b, ORR_PASS_F, 0, false),
					 (int64_t)(forward[s][b] * ORR_UNIT_NS));
	ck_assert_int_eq(orr_pipeline_job_ns(p, 0, 1, ORR_PASS_B, 0, false), 31 * ORR_UNIT_NS);
	ck_assert_int_eq(units(p->stages[0].forward_ns), 10);
	ck_assert_int_eq(orr_pipeline_stash_bytes(p, 0, 0), 20);
	ck_assert_int_eq(orr_pipeline_stash_bytes(p, 0, 1), 60);
	ck_assert_int_eq(orr_pipeline_stash_bytes(p, 1, 1), 20);
	ck_assert_int_eq(orr_pipeline_edge_bytes(p, 0, 1, false), 15);
	ck_assert_int_eq(orr_pipeline_edge_bytes(p, 0, 1, true), 15);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(equal_lengths_change_nothing)
{
	const double lengths[] = {7, 7, 7};
	struct orr_graph *g = read_graph(ORR_SOURCE "/graphs/digits.dot");
	struct orr_machine machine = orr_machine_default(4);
	struct orr_pipeline *p = NULL, *q = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_partition(&p, g, &machine, 0, 32, &err) &&
			      !orr_graph_set_lengths(g, lengths, 3, &err) &&
			      !orr_partition(&q, g, &machine, 0, 32, &err),
		      "%s", err.msg);
	ck_assert_ptr_null(p->microbatches);
	for (int s = 0; s < p->n_stages; s++) {
		ck_assert_int_eq(p->stages[s].forward_ns, q->stages[s].forward_ns);
		ck_assert_int_eq(p->stages[s].backward_ns, q->stages[s].backward_ns);
		ck_assert_int_eq(p->stages[s].weight_ns, q->stages[s].weight_ns);
		ck_assert_int_eq(p->stages[s].stash_bytes, q->stages[s].stash_bytes);
		ck_assert_int_eq(p->stages[s].input_bytes, q->stages[s].input_bytes);
	}
	orr_pipeline_destroy(p);
	orr_pipeline_destroy(q);
	orr_graph_destroy(g);
}
END_TEST

/* ---- the CSV ---- */

static int read_text(struct orr_pipeline *p, const char *text, struct orr_error *err)
{
	char path[] = "/tmp/microbatches.XXXXXX";
	int fd = mkstemp(path), code;
	char *at;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	ck_assert_int_eq(close(fd), 0);
	code = orr_microbatches_read(p, path, err);
	ck_assert_int_eq(unlink(path), 0);
	/* messages name the file by its path */
	while (code && (at = strstr(err->msg, path))) {
		memcpy(at, "c.csv", 5);
		memmove(at + 5, at + strlen(path), strlen(at + strlen(path)) + 1);
	}
	return code;
}

static struct orr_pipeline *two_stages(int64_t weight)
{
	struct orr_pipeline *p = make_pipeline(2, "0>1", 1, 1, weight, 10, 0, 100);

	ck_assert_int_eq(orr_pipeline_set_step(p, 2, 2, NULL), 0);
	return p;
}

START_TEST(a_row_sets_a_job)
{
	struct orr_pipeline *p = two_stages(0);
	struct orr_error err = {""};

	ck_assert_msg(!read_text(p,
				 "microbatch, stage,pass,duration,bytes,stash\n1,1,B,5,70,\n\n"
				 "1,0,F,3,2kB,40\n0,0,F,2.5,,\n",
				 &err),
		      "%s", err.msg);
	ck_assert_int_eq(orr_pipeline_job_ns(p, 0, 0, ORR_PASS_F, 0, false), 2500000000);
	ck_assert_int_eq(orr_pipeline_job_ns(p, 0, 1, ORR_PASS_F, 0, false), 3 * ORR_UNIT_NS);
	ck_assert_int_eq(orr_pipeline_job_ns(p, 1, 1, ORR_PASS_F, 0, false), ORR_UNIT_NS);
	ck_assert_int_eq(orr_pipeline_job_ns(p, 1, 1, ORR_PASS_B, 0, false), 5 * ORR_UNIT_NS);
	ck_assert_int_eq(orr_pipeline_edge_bytes(p, 0, 0, false), 100);
	ck_assert_int_eq(orr_pipeline_edge_bytes(p, 0, 1, false), 2000);
	ck_assert_int_eq(orr_pipeline_edge_bytes(p, 0, 1, true), 70);
	ck_assert_int_eq(orr_pipeline_input_bytes(p, 1, 1), 2000);
	ck_assert_int_eq(orr_pipeline_stash_bytes(p, 0, 1), 40);
	ck_assert_int_eq(orr_pipeline_stash_bytes(p, 0, 0), 10);
	orr_pipeline_destroy(p);
}
END_TEST

/* A stage with half a backward: the job takes what its row says. */
START_TEST(a_row_of_half_a_backward_is_what_the_job_takes)
{
	struct orr_stage stages[3] = {{.forward_ns = 10, .backward_ns = 20, .frozen = _i == 0},
				      {.forward_ns = 10, .backward_ns = 20, .frozen = _i == 1},
				      {.forward_ns = 10, .backward_ns = 20}};
	struct orr_edge edges[2] = {{.from = 0, .to = 1}, {.from = 1, .to = 2}};
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_pipeline_create(&p, stages, 3, edges, 2, &err), 0);
	orr_pipeline_set_overhead(p, 3);
	ck_assert_int_eq(orr_pipeline_set_step(p, 3, 2, &err), 0);
	ck_assert_msg(!read_text(p, "stage,microbatch,pass,duration\n1,1,B,7ns\n", &err), "%s",
		      err.msg);
	ck_assert_int_eq(orr_pipeline_job_ns(p, 1, 1, ORR_PASS_B, 0, false), 7 + 3);
	ck_assert_int_ne(read_text(p, "stage,microbatch,pass,duration\n0,1,B,7ns\n", &err),
			 _i == 1 ? 1 : 0);
	orr_pipeline_destroy(p);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(steps_are_as_by_hand, N_OF(steps)),
		ONCE(stages_have_the_means_and_the_largest_sizes),
		ONCE(transfers_are_those_of_their_microbatch),
		EACH(every_schedule_runs_microbatches_that_differ, count_schedules()),
		ONCE(costs_grow_with_the_length),
		ONCE(equal_lengths_change_nothing),
		ONCE(a_row_sets_a_job),
		EACH(a_row_of_half_a_backward_is_what_the_job_takes, 2),
	};

	return suite_run("microbatches", tests, N_OF(tests));
}
