/* The steady state of a stream, simulated: its period, what hides latency, what is paid once, its
 * memory.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "simulate/steady.h"
#include "schedule/async.h"
#include "schedule/versions.h"
#include "suite.h"

/* Endless: what is not the slowest stage waits for it. */
static const struct {
	const char *schedule;
	int n_stages, n_workers;
	int64_t both[6]; /* F + B of a stage; F is 1 */
	int64_t microbatches, period;
} steady[] = {
	{"pipedream", 4, 4, {3, 3, 3, 3}, 1, 3},
	{"pipedream", 4, 4, {3, 5, 3, 3}, 1, 5},
	{"pipedream", 6, 6, {2, 3, 4, 5, 6, 7}, 1, 7},
	{"pipedream", 1, 1, {4}, 1, 4},
	{"pipedream:replicas=2-1", 2, 3, {4, 2}, 2, 4},
	{"pipedream:replicas=3-1", 2, 4, {6, 2}, 3, 6},
	{"pipedream:replicas=2-1-1,slack=1", 3, 4, {6, 3, 3}, 2, 6},
	/* a backward of replica 1 comes 3 later than that of replica 0, which waits: NOAM does not
	   see it */
	{"pipedream:replicas=2-1-1", 3, 4, {6, 3, 3}, 2, 9},
	{"pipedream:replicas=1-2", 2, 3, {4, 6}, 2, 8},
};

START_TEST(it_goes_on_as_fast_as_the_slowest_stage)
{
	for (int m = 6; m <= 24; m += 6) {
		struct orr_pipeline *p = make_chain(steady[_i].n_stages, 1, 1);
		struct orr_steady found;
		struct orr_error err = {""};
		struct way way;

		for (int s = 0; s < p->n_stages; s++)
			p->stages[s].backward_ns = (steady[_i].both[s] - 1) * ORR_UNIT_NS;
		way_init(&way, p, steady[_i].schedule, steady[_i].n_workers, m);
		ck_assert_msg(!orr_steady_find(&found, way.tried.timeline, &err), "%s", err.msg);
		ck_assert_msg(found.microbatches == steady[_i].microbatches &&
				      found.period_ns == steady[_i].period * ORR_UNIT_NS,
			      "%s, m=%d: %lld take %g", steady[_i].schedule, m,
			      (long long)found.microbatches, 1e-9 * (double)found.period_ns);
		way_end(&way);
	}
}
END_TEST

/* With links of latency L a microbatch is out for 3n + 2(n-1)L at stage 0, which has in_flight of
 * them. */
START_TEST(slack_hides_latency)
{
	for (int slack = 0; slack <= 2; slack++)
		for (int latency = 0; latency <= 3; latency++) {
			int in_flight = 4 + 3 * slack, out = 3 * 4 + 2 * 3 * latency;
			struct orr_pipeline *p = make_chain(4, 1, 2);
			struct orr_machine machine = orr_machine_default(4);
			struct orr_steady found;
			struct orr_error err = {""};
			struct way way;
			char schedule[32];
			int64_t least = in_flight * 3 > out ? in_flight * 3 : out;

			machine.latency_ns = latency * ORR_UNIT_NS;
			snprintf(schedule, sizeof(schedule), "pipedream:slack=%d", slack);
			way_init_on(&way, p, schedule, &machine, 32);
			ck_assert_int_eq(way.tried.figures->worker[0].peak_stash, in_flight);
			ck_assert_int_eq(way.tried.jobs->versions->peak[0], in_flight);
			ck_assert(!orr_steady_find(&found, way.tried.timeline, &err));
			ck_assert_int_gt(found.microbatches, 0);
			ck_assert_int_eq(found.period_ns * in_flight,
					 least * found.microbatches * ORR_UNIT_NS);
			way_end(&way);
		}
}
END_TEST

/* On a chain F goes down and B comes back up to the input: (n - 1)(F + B) + F. */
START_TEST(start_up_and_drain_are_paid_once)
{
	for (int n = 1; n <= 6; n++) {
		struct orr_pipeline *p = make_chain(n, 1, 2);
		struct orr_steady found;
		struct orr_error err = {""};
		struct way way;

		way_init(&way, p, "pipedream", n, 12);
		ck_assert(!orr_steady_find(&found, way.tried.timeline, &err));
		ck_assert_int_eq(found.startup_ns, (n + 2 * (n - 1)) * ORR_UNIT_NS);
		/* what is in flight then: all but the last of the worker's backwards, 3 apart */
		ck_assert_int_eq(found.drain_ns, (3 * n - 1) * ORR_UNIT_NS);
		way_end(&way);
	}
}
END_TEST

/* Beside 1F1B with a flush, which takes (m + P - 1)(F + B) for m microbatches. */
START_TEST(without_a_flush_no_bubble_is_left)
{
	for (int p = 2; p <= 8; p *= 2)
		for (int m = p; m <= 4 * p; m *= 2) {
			struct orr_pipeline *chain = make_chain(p, 1, 2);
			struct orr_steady found;
			struct orr_error err = {""};
			struct way flush, stream;

			way_init(&flush, chain, "1f1b", p, m);
			way_init(&stream, chain, "pipedream", p, m);
			ck_assert(!orr_steady_find(&found, stream.tried.timeline, &err));
			ck_assert_int_eq(flush.tried.figures->makespan_ns,
					 (m + p - 1) * 3 * ORR_UNIT_NS);
			ck_assert_int_eq(found.period_ns * m,
					 found.microbatches * m * 3 * ORR_UNIT_NS);
			ck_assert_int_eq(orr_steady_find(&found, flush.tried.timeline, &err), 0);
			ck_assert_int_eq(found.microbatches, 0); /* it flushes */
			way_fini(&flush);
			way_end(&stream);
		}
}
END_TEST

/* A stream as long as can be counted has no longer one to look into. */
START_TEST(a_steady_state_that_cannot_be_reached_is_not_found)
{
	struct orr_pipeline *p = make_chain(4, 1, 2);
	struct orr_steady found;
	struct orr_error err = {""};
	struct way way;

	for (int s = 0; s < 4; s++)
		p->stages[s].forward_ns = p->stages[s].backward_ns =
			INT64_MAX / 4 /
			(4 * 4 * 3 + 1); /* the limit counts F twice, as of stages that recompute */
	way_init(&way, p, "pipedream", 4, 4);
	ck_assert_msg(!orr_steady_find(&found, way.tried.timeline, &err), "%s", err.msg);
	ck_assert_int_eq(found.microbatches, 0);
	ck_assert_int_gt(found.startup_ns, 0);
	way_end(&way);
}
END_TEST

/* The forward that reads a version waits for its update, also where that is reduced on a link. */
START_TEST(replicas_wait_for_each_other)
{
	static const double latencies[] = {0, 0.25, 1};

	for (int k = 0; k < N_OF(latencies); k++)
		for (int accumulate = 1; accumulate <= 2; accumulate++) {
			struct orr_pipeline *p = make_whole_chain(2, 2, 2, 0, 10, 100, 10);
			struct orr_machine machine = orr_machine_default(3);
			struct way way;

			machine.latency_ns = (int64_t)(latencies[k] * 1e9);
			p->accumulate = accumulate;
			p->stages[0].update_ns = ORR_UNIT_NS / 2;
			way_init_on(&way, p, "pipedream:replicas=2-1", &machine, 16); /* checked */
			ck_assert_int_eq(way.tried.timeline->n_updates, (8 * 2 + 16) / accumulate);
			for (int u = 0; u < way.tried.timeline->n_updates; u++)
				ck_assert_int_ge(way.tried.timeline->updates[u].start_ns, 0);
			/* w0 holds one older version of 100 bytes, w2 none; 7 or 3 rings of 100 */
			ck_assert_int_eq(way.tried.figures->worker[0].version_bytes, 100);
			ck_assert_int_eq(way.tried.figures->worker[2].version_bytes, 0);
			ck_assert_int_eq(way.tried.figures->worker[0].all_reduce_bytes,
					 8 / accumulate * 100);
			way_end(&way);
		}
}
END_TEST

/* 4 versions of 100 bytes, a gradient, two moments, and 4 stashes of 10. */
START_TEST(older_versions_count_as_memory)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 2, 0, 10, 100, 0);
	struct orr_machine machine = orr_machine_default(4);
	struct orr_error err = {""};
	struct way way;

	way_init_on(&way, p, "pipedream", &machine, 8);
	machine.memory_bytes = 740;
	ck_assert_msg(!orr_figures_check_memory(way.tried.figures, &machine, &err), "%s", err.msg);
	machine.memory_bytes--;
	ck_assert_int_eq(orr_figures_check_memory(way.tried.figures, &machine, &err), ORR_E_INPUT);
	ck_assert_str_eq(
		err.msg,
		"worker 0 needs 740 B, 400 B for parameters (16 B a parameter: 4 weights, 4 "
		"gradient, 8 adamw), 300 B for older versions and 40 B for 4 stashes, and has 739 "
		"B: take more workers, a larger [accumulate], a schedule that holds fewer "
		"microbatches, or a larger [memory]");
	way_end(&way);
}
END_TEST

/* The checker of timelines sees a forward that did not wait. */
START_TEST(a_forward_before_its_update_is_found)
{
	struct orr_pipeline *p = make_chain(2, 2, 2);
	struct orr_error err = {""};
	struct way way;
	int u = 0;

	p->stages[0].update_ns = ORR_UNIT_NS;
	way_init(&way, p, "pipedream:replicas=2-1", 3, 8);
	while (way.tried.timeline->updates[u].version != 1 || way.tried.timeline->updates[u].w != 0)
		u++;
	way.tried.timeline->updates[u].end_ns += 20 * ORR_UNIT_NS;
	ck_assert_int_eq(orr_timeline_check(way.tried.timeline, &err), ORR_E_RUNTIME);
	ck_assert_str_eq(err.msg,
			 "timeline: the update of stage 0 on worker 0 ends after the start of "
			 "job 0F4, which reads what it makes");
	way.tried.timeline->updates[u].start_ns = 0;
	ck_assert_int_eq(orr_timeline_check(way.tried.timeline, &err), ORR_E_RUNTIME);
	ck_assert_str_eq(err.msg,
			 "timeline: the update of stage 0 on worker 0 starts before job 0B0 ends");
	way_end(&way);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(it_goes_on_as_fast_as_the_slowest_stage, N_OF(steady)),
	ONCE(slack_hides_latency),
	ONCE(start_up_and_drain_are_paid_once),
	ONCE(without_a_flush_no_bubble_is_left),
	ONCE(a_steady_state_that_cannot_be_reached_is_not_found),
	ONCE(replicas_wait_for_each_other),
	ONCE(older_versions_count_as_memory),
	ONCE(a_forward_before_its_update_is_found),
};
SUITE("steady")
