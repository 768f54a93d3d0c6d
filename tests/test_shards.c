/* Replicas that divide the optimizer's state, simulated: the sums of the parts, updates of a part
 * and parameters on their way take what a closed form says, and who reads a version waits for all
 * of it. */
#include <check.h>
#include <stdlib.h>

#include "orrery/orrery.h"
#include "orrery/open.h"
#include "schedule/versions.h"
#include "pipelines.h"
#include "suite.h"

/* A ring among 4 takes 12 units for 4000 bytes: 6 times 1000 bytes. */
#define RATE (500.0 * 1e9 / (double)ORR_UNIT_NS)

static struct orr_pipeline *make(int n_stages, const char *edges, int update, bool shard)
{
	struct orr_pipeline *p = make_pipeline(n_stages, edges, 1, 2, 0, 10, 4000, 0);

	for (int s = 0; s < n_stages; s++)
		p->stages[s].update_ns = update * ORR_UNIT_NS;
	p->numerics.shard_optimizer = shard;
	return p;
}

static int64_t makespan(int update, bool shard, int latency, int64_t *updated)
{
	struct orr_machine machine = {
		.n_workers = 4, .latency_ns = latency * ORR_UNIT_NS, .bandwidth_bytes_per_s = RATE};
	struct orr_pipeline *p = make(1, "", update, shard);
	struct orr_error err = {""};
	struct way way;
	int64_t ns;

	way_init_on(&way, p, "ddp", &machine, 8);
	ck_assert_msg(!orr_timeline_check(way.tried.timeline, &err), "%s", err.msg);
	ns = orr_timeline_makespan(way.tried.timeline);
	ck_assert_int_eq(ns, way.tried.figures->makespan_ns);
	ck_assert_int_eq(orr_timeline_span(way.tried.timeline), way.tried.figures->span_ns);
	ck_assert_int_eq(way.tried.timeline->n_updates, 4);
	ck_assert_int_eq(way.tried.timeline->n_transfers, shard ? 2 : 1);
	*updated = units(way.tried.timeline->updates[0].end_ns);
	for (int w = 0; w < 4; w++) /* either way */
		ck_assert_int_eq(way.tried.figures->worker[w].all_reduce_bytes, 6000);
	way_end(&way);
	return units(ns);
}

/* Two microbatches each; a latency passes 3 times on each way round. */
START_TEST(a_step_takes_two_halves_of_a_ring_and_a_part_of_the_update)
{
	int64_t updated;

	for (int update = 0; update < 9; update += 4)
		for (int latency = 0; latency < 3; latency++) {
			ck_assert_int_eq(makespan(update, false, latency, &updated),
					 6 + 12 + 6 * latency + update);
			ck_assert_int_eq(updated, 6 + 12 + 6 * latency + update);
			ck_assert_int_eq(makespan(update, true, latency, &updated),
					 6 + 12 + 6 * latency + update / 4);
			ck_assert_int_eq(updated, 6 + 6 + 3 * latency + update / 4);
		}
}
END_TEST

/* A ring leaves when the last backward pass of its stage has ended, and earlier stages go back
 * meanwhile: 8 microbatches on 4 workers, two each, whose last backward goes from stage 3 to 0. */
START_TEST(rings_are_on_their_way_while_earlier_stages_go_back)
{
	struct orr_machine machine = {.n_workers = 4, .bandwidth_bytes_per_s = 6 * RATE};
	struct orr_pipeline *p = make(4, "0>1 1>2 2>3", 0, _i);
	const struct orr_timeline *t;
	struct way way;
	int n = 0;

	way_init_on(&way, p, "ddp", &machine, 8);
	t = way.tried.timeline;
	for (int i = 0; i < t->n_transfers; i++) {
		const struct orr_transfer *ring = &t->transfers[i];
		int64_t end = 0, last = 0;

		if (ring->ring == ORR_RING_ALL_GATHER)
			continue;
		for (int b = 0; b < 8; b++) {
			int j = orr_jobs_index(t->jobs, ring->set, b, ORR_PASS_B),
			    k = orr_jobs_index(t->jobs, 0, b, ORR_PASS_B);

			end = t->end_ns[j] > end ? t->end_ns[j] : end;
			last = t->end_ns[k] > last ? t->end_ns[k] : last;
		}
		/* those before it are through by then */
		ck_assert_int_eq(ring->start_ns, end);
		ck_assert_int_eq(units(last - end), 2 * ring->set);
		n++;
	}
	ck_assert_int_eq(n, 4);
	/* an update of a part waits for the pass that runs, so that one way round is left over */
	ck_assert_int_eq(units(orr_timeline_makespan(t)), 2 * 4 * 3 + 2 + _i);
	way_end(&way);
}
END_TEST

/* The last way round of version v of stage s. */
static int64_t gathered(const struct orr_timeline *t, int s, int64_t version)
{
	int64_t n = 0;

	for (int i = 0; i < t->n_transfers; i++)
		if (t->transfers[i].ring == ORR_RING_ALL_GATHER && t->transfers[i].set == s &&
		    ++n == version)
			return t->transfers[i].end_ns;
	ck_abort_msg("no parameters of version %lld of stage %d", (long long)version, s);
	return 0;
}

/* Without a flush a pass starts when all of its version is there; with free links, when all owners
 * have made their parts. */
START_TEST(a_pass_waits_for_all_parts_of_its_version)
{
	struct orr_machine machine = {.n_workers = 4, .bandwidth_bytes_per_s = _i ? RATE : 0};
	struct orr_pipeline *p = make(2, "0>1", 4, true);
	const struct orr_timeline *t;
	struct way way;
	int n = 0;

	way_init_on(&way, p, "pipedream:replicas=2-2", &machine, 8);
	t = way.tried.timeline;
	for (int j = 0; j < t->jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(t->jobs, j);
		int64_t version;

		if (!orr_jobs_has(t->jobs, j))
			continue;
		version = orr_versions_read(t->jobs->versions, job.s, job.b, job.d);
		for (int u = 0; u < t->n_updates && version > 0; u++)
			if (t->updates[u].s == job.s && t->updates[u].version == version) {
				ck_assert_int_ge(t->start_ns[j], t->updates[u].end_ns);
				n++;
			}
		if (version > 0 && _i)
			ck_assert_int_ge(t->start_ns[j], gathered(t, job.s, version));
	}
	ck_assert_int_gt(n, 8);
	way_end(&way);
}
END_TEST

/* Every timeline is one that its checker accepts, never below the lower bound, and stages with one
 * owner take as long as ever. */
START_TEST(under_every_schedule)
{
	struct orr_machine machine = {.n_workers = 4, .bandwidth_bytes_per_s = RATE};
	const char *name = quick_schedule(_i);
	int64_t makespans[2];
	bool replicas = false;

	for (int shard = 0; shard < 2; shard++) {
		struct orr_pipeline *p = make(8, "0>1 1>2 2>3 3>4 4>5 5>6 6>7", 4, shard);
		struct orr_error err = {""};
		struct way way;

		if (!way_try_on(&way, p, name, &machine, 8)) {
			orr_pipeline_destroy(p);
			return;
		}
		ck_assert_msg(!orr_timeline_check(way.tried.timeline, &err), "%s: %s", name,
			      err.msg);
		makespans[shard] = way.tried.figures->makespan_ns;
		ck_assert_int_ge(makespans[shard], way.tried.figures->lower_bound_ns);
		replicas = way.tried.jobs->first_owner[8] > 8;
		way_end(&way);
	}
	if (!replicas)
		ck_assert_int_eq(makespans[0], makespans[1]);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		ONCE(a_step_takes_two_halves_of_a_ring_and_a_part_of_the_update),
		EACH(rings_are_on_their_way_while_earlier_stages_go_back, 2),
		EACH(a_pass_waits_for_all_parts_of_its_version, 2),
		EACH(under_every_schedule, count_schedules()),
	};

	return suite_run("shards", tests, N_OF(tests));
}
