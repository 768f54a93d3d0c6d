/* What an asynchronous schedule must be, and what PipeDream's cannot serve. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "orrery/machine.h"
#include "pipelines.h"
#include "simulate/simulate.h"
#include "simulate/steady.h"
#include "schedule/async.h"
#include "orrery/timeline.h"
#include "schedule/versions.h"
#include "suite.h"

/* ---- schedules of one's own ---- */

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
static int64_t one_by_one(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			  const void *data)
{
	(void)p, (void)data;
	return 4 * (int64_t)b + (d == ORR_PASS_F ? s : 3 - s);
}

static int64_t squared(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data)
{
	return one_by_one(p, s, b * b, d, data);
}

static int64_t backwards(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			 const void *data)
{
	return one_by_one(p, s, b, d, data) - 8 * (int64_t)b;
}

/* Fine on each worker, but F of stage 0 stands after what waits for it. */
static int64_t own_order(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			 const void *data)
{
	return one_by_one(p, s, b, d, data) + (s || d != ORR_PASS_F ? 0 : 2);
}

/* Microbatches 1 and 0 change places. */
static int64_t swapped(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data)
{
	return one_by_one(p, s, b ^ 1, d, data);
}

static int64_t ages_later(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			  const void *data)
{
	return one_by_one(p, s, b, d, data) + (d == ORR_PASS_F ? 0 : INT64_C(1) << 40);
}

static const struct {
	struct orr_schedule schedule;
	int m;
	const char *message;
} wrong[] = {
	{{.compute = alone, .priority = squared},
	 4,
	 "schedule mine: job 0F1 comes later in the next round by another number than 0F0: "
	 "without a flush, priority() is periodic in [microbatches]"},
	{{.compute = alone, .priority = backwards},
	 1,
	 "schedule mine: job 0F0 does not come later in the next round: without a flush, "
	 "priority() grows with b, also beyond [microbatches]"},
	{{.compute = alone, .priority = own_order},
	 4,
	 "schedule mine: job 1F0 has no larger n than what it waits for: without a flush, n "
	 "orders the jobs of all workers"},
	{{.compute = alone, .priority = swapped},
	 4,
	 "schedule mine: job 0F1 overtakes the microbatch before it: without a flush, "
	 "priority() grows with b"},
	{{.compute = in_turns, .priority = one_by_one},
	 3,
	 "schedule mine: job 0F0 is on another worker in the next round: [microbatches] must be a "
	 "multiple of "
	 "every "
	 "stage's replicas"},
	{{.compute = alone, .priority = ages_later},
	 4,
	 "schedule mine: job 0B0 comes too many rounds after the first job of its microbatch: "
	 "bring "
	 "priority() of the passes closer together"},
	{{.compute = alone, .priority = one_by_one, .weights = alone},
	 4,
	 "schedule mine: without a flush it needs compute(), priority() and strict order, and no "
	 "weights() or place()"},
	{{.compute = alone, .priority = one_by_one, .order = ORR_ORDER_GREEDY},
	 4,
	 "schedule mine: without a flush it needs compute(), priority() and strict order, and no "
	 "weights() or place()"},
};

START_TEST(a_schedule_that_cannot_be_asynchronous_is_refused)
{
	struct orr_schedule mine = wrong[_i].schedule;
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	mine.name = "mine";
	mine.asynchronous = true;
	ck_assert(!orr_pipeline_set_step(p, 3, wrong[_i].m, &err));
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &mine, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, wrong[_i].message);
	orr_pipeline_destroy(p);
}
END_TEST

/* One microbatch at a time: nothing is stale, and one version is enough. */
START_TEST(an_asynchronous_schedule_of_ones_own_is_served)
{
	struct orr_schedule mine = {
		.name = "mine", .compute = alone, .priority = one_by_one, .asynchronous = true};
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	ck_assert(!orr_pipeline_set_step(p, 2, 4, &err));
	ck_assert_msg(!orr_jobs_create(&jobs, p, &mine, &err), "%s", err.msg);
	ck_assert_int_eq(jobs->async->n_waves, 1);
	for (int s = 0; s < 2; s++) {
		ck_assert_int_eq(jobs->versions->peak[s], 1);
		for (int b = 0; b < 12; b++)
			ck_assert_int_eq(orr_versions_read(jobs->versions, s, b, ORR_PASS_F), b);
	}
	orr_jobs_destroy(jobs);
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- backwards that come late ---- */

struct late {
	int microbatches, replicas; /* later by so many; of stage 0 */
};

static int late_compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	const struct late *late = data;

	(void)p, (void)d;
	return s ? late->replicas : b % late->replicas;
}

static int64_t late_priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			     const void *data)
{
	const struct late *late = data;

	(void)p;
	return d == ORR_PASS_F ? 8 * (int64_t)b + s : 8 * ((int64_t)b + late->microbatches) + 7 - s;
}

#define N_WALKED 240

/* Microbatch after microbatch as versions.h says it: which version each F of stage s reads, and how
 * many a replica holds at most. Returns that. */
static int walk(const struct late *late, int every, int s, int64_t *read)
{
	int latest = 0, most = 1;

	/* in the order of n, F of b is followed by B of b - late */
	for (int b = 0; b < N_WALKED; b++) {
		int ended = b - late->microbatches;

		read[b] = latest;
		if (ended < 0 || (ended + 1) % every)
			continue;
		latest++;
		for (int replica = 0; replica < (s ? 1 : late->replicas); replica++) {
			int64_t before = latest;
			int held = 1;

			for (int next = b; next > ended; next--)
				if ((s || next % late->replicas == replica) &&
				    read[next] < before) {
					before = read[next];
					held++;
				}
			most = held > most ? held : most;
		}
	}
	return most;
}

/* Less than a round late, a round, and several. */
START_TEST(versions_of_late_backwards_are_those_of_the_definition)
{
	static const int n_late[] = {0, 1, 2, 5, 6, 7, 12, 30, 31}, m = 6;
	struct orr_error err = {""};
	int64_t read[N_WALKED];
	int n_read = 0;

	for (int i = 0; i < N_OF(n_late) * 4; i++) {
		struct late late = {n_late[i / 4], 1 + i / 2 % 2};
		struct orr_schedule mine = {.name = "mine",
					    .compute = late_compute,
					    .priority = late_priority,
					    .asynchronous = true,
					    .data = &late};
		struct orr_pipeline *p = make_chain(2, 1, 1);
		struct orr_jobs *jobs = NULL;

		p->accumulate = i % 2 ? 3 : 1;
		ck_assert(!orr_pipeline_set_step(p, 3, m, &err));
		ck_assert_msg(!orr_jobs_create(&jobs, p, &mine, &err), "%s", err.msg);
		for (int s = 0; s < 2; s++) {
			int most = walk(&late, jobs->versions->every[s], s, read);

			ck_assert_msg(jobs->versions->peak[s] == most,
				      "%d late, %d replicas, stage %d: %d versions instead of %d",
				      late.microbatches, late.replicas, s, jobs->versions->peak[s],
				      most);
			for (int b = 0; b < N_WALKED; b++, n_read++)
				ck_assert_int_eq(
					orr_versions_read(jobs->versions, s, b, ORR_PASS_F),
					read[b]);
		}
		orr_jobs_destroy(jobs);
		orr_pipeline_destroy(p);
	}
	ck_assert_int_gt(n_read, 0);
}
END_TEST

/* A round late, however long the round is: the steady state is taken from the schedule's own
 * rounds, and takes no longer for a stage that is far behind. */
START_TEST(an_asynchronous_schedule_that_is_a_round_late_is_steady)
{
	for (int m = 1; m < 100000; m *= 7) {
		struct late late = {m, 1};
		struct orr_schedule mine = {.name = "mine",
					    .compute = late_compute,
					    .priority = late_priority,
					    .asynchronous = true,
					    .data = &late};
		struct orr_pipeline *p = make_chain(2, 1, 2);
		struct orr_steady steady;
		struct orr_error err = {""};
		struct way way;

		way_init_own(&way, p, &mine, 2, m);
		ck_assert_int_eq(way.tried.jobs->versions->peak[0], m + 1);
		ck_assert_msg(!orr_steady_find(&steady, way.tried.timeline, &err), "%s", err.msg);
		ck_assert_int_gt(steady.microbatches, 0);
		/* 0F after 0B of an older one, 1F after 0F, 1B after 1F, 0B after 1B: no two side
		 * by side */
		ck_assert_int_eq(steady.period_ns, 6 * ORR_UNIT_NS * steady.microbatches);
		way_end(&way);
	}
}
END_TEST

/* ---- updates in the steady state ---- */

static struct orr_steady steady_of(struct orr_pipeline *p, const char *schedule,
				   const struct orr_machine *machine, int m)
{
	struct orr_steady steady;
	struct orr_error err = {""};
	struct way way;

	way_init_on(&way, p, schedule, machine, m);
	ck_assert_msg(!orr_steady_find(&steady, way.tried.timeline, &err), "%s", err.msg);
	way_fini(&way);
	return steady;
}

/* Every stage is as busy, and waits for nobody while it updates: K (F + B) + U for K microbatches.
 * An update that takes no time is as if there were none: F + B for one. */
START_TEST(updates_are_part_of_the_steady_state)
{
	struct orr_machine machine = orr_machine_default(2);

	for (int k = 1; k <= 12; k++)
		for (int update = 0; update <= 3; update += 3)
			for (int rounds = 1; rounds <= 4; rounds *= 2) {
				struct orr_pipeline *p = make_chain(2, 1, 2);
				struct orr_steady steady;
				int microbatches = update ? k : 1;

				p->accumulate = k;
				p->stages[0].update_ns = p->stages[1].update_ns =
					update * ORR_UNIT_NS;
				steady = steady_of(p, "pipedream", &machine, rounds * k);
				ck_assert_int_eq(steady.microbatches, microbatches);
				ck_assert_int_eq(steady.period_ns,
						 (3 * microbatches + update) * ORR_UNIT_NS);
				orr_pipeline_destroy(p);
			}
}
END_TEST

/* r replicas with K microbatches each, then 2 (r - 1) steps of a ring of 12 bytes, one a unit:
 * K (F + B) + 24 (r - 1) / r for r K microbatches. */
START_TEST(rings_are_part_of_the_steady_state)
{
	for (int r = 2; r <= 4; r++)
		for (int k = 1; k <= 24; k++) {
			struct orr_machine machine = orr_machine_default(r);
			struct orr_pipeline *p = make_pipeline(1, "", 1, 2, 0, 0, 12, 0);
			struct orr_steady steady;
			char schedule[32];

			machine.bandwidth_bytes_per_s = 1;
			p->accumulate = k;
			snprintf(schedule, sizeof(schedule), "pipedream:replicas=%d", r);
			steady = steady_of(p, schedule, &machine, r * k);
			ck_assert_int_eq(steady.microbatches, r * k);
			ck_assert_int_eq(steady.period_ns,
					 (3 * k + 24 * (r - 1) / r) * ORR_UNIT_NS);
			orr_pipeline_destroy(p);
		}
}
END_TEST

/* Updates that cover 4 and 12 microbatches: what repeats itself has whole ones of both. */
START_TEST(stages_that_update_at_different_times_are_steady_together)
{
	struct orr_machine machine = orr_machine_default(4);
	struct orr_pipeline *p = make_chain(2, 1, 2);
	struct orr_steady steady;

	p->stages[0].forward_ns = 4 * ORR_UNIT_NS; /* the replicas are the slower ones: 12 for 3 */
	p->stages[0].backward_ns = 8 * ORR_UNIT_NS;
	p->stages[1].update_ns = ORR_UNIT_NS;
	p->accumulate = 4;
	steady = steady_of(p, "pipedream:replicas=3-1,slack=1", &machine, 12);
	ck_assert_int_eq(steady.microbatches, 12);
	ck_assert_int_eq(steady.period_ns, 12 * 4 * ORR_UNIT_NS);
	orr_pipeline_destroy(p);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_schedule_that_cannot_be_asynchronous_is_refused, N_OF(wrong)),
	ONCE(an_asynchronous_schedule_of_ones_own_is_served),
	ONCE(versions_of_late_backwards_are_those_of_the_definition),
	ONCE(an_asynchronous_schedule_that_is_a_round_late_is_steady),
	ONCE(updates_are_part_of_the_steady_state),
	ONCE(rings_are_part_of_the_steady_state),
	ONCE(stages_that_update_at_different_times_are_steady_together),
};
SUITE("async_schedules")
