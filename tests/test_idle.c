/* Why workers are idle: causes in closed form, sums that hold for every schedule, and a critical
 * path without gaps. */
#include <check.h>
#include <stdlib.h>

#include "orrery/open.h"
#include "pipelines.h"
#include "simulate/idle.h"
#include "suite.h"

static struct orr_idle *find(const struct way *way)
{
	struct orr_error err = {""};
	struct orr_idle *idle = NULL;

	ck_assert_msg(!orr_idle_create(&idle, way->tried.timeline, &err), "%s", err.msg);
	return idle;
}

static int64_t cause(const struct orr_idle *idle, int w, enum orr_cause cause)
{
	return units(idle->causes[w][cause]);
}

/* Causes and gaps add up to what the figures have. */
static void check_sums(const struct orr_idle *idle, const struct way *way)
{
	for (int w = 0; w < idle->n_workers; w++) {
		int64_t causes = 0, gaps = 0;

		for (int c = 0; c < ORR_CAUSES; c++) {
			ck_assert_int_ge(idle->causes[w][c], 0);
			causes += idle->causes[w][c];
		}
		for (int i = 0; i < idle->n_gaps; i++)
			gaps += idle->gaps[i].w == w ? idle->gaps[i].end_ns - idle->gaps[i].start_ns
						     : 0;
		ck_assert_int_eq(causes, way->tried.figures->worker[w].idle_ns);
		ck_assert_int_eq(gaps, way->tried.figures->worker[w].idle_ns);
	}
}

/* Each part starts when the one before it ends, from the first start to the last end. */
static void check_path(const struct orr_idle *idle, const struct way *way)
{
	struct orr_path_part *parts = NULL;
	struct orr_error err = {""};
	int64_t end = idle->start_ns;
	int n = 0;

	ck_assert_msg(!orr_idle_path(&parts, &n, idle, &err), "%s", err.msg);
	for (int i = 0; i < n; i++) {
		ck_assert_msg(parts[i].start_ns == end,
			      "%s: part %d of %d starts at %lld, not %lld",
			      way->tried.jobs->schedule, i, n, (long long)parts[i].start_ns,
			      (long long)end);
		end = parts[i].end_ns;
	}
	ck_assert_int_eq(end, idle->end_ns);
	free(parts);
}

START_TEST(equal_stages_wait_for_warm_up_and_drain_alone)
{
	static const struct {
		const char *schedule;
		int p, m;
		int64_t forward, backward, warm_up, drain; /* of every worker */
	} rows[] = {{"gpipe", 4, 8, 1, 1, 3, 3},  {"gpipe", 4, 8, 2, 3, 6, 9},
		    {"gpipe", 8, 3, 1, 2, 7, 14}, {"1f1b", 4, 8, 1, 1, 3, 3},
		    {"1f1b", 8, 16, 1, 1, 7, 7},  {"1f1b", 2, 3, 1, 1, 1, 1}};
	struct orr_pipeline *p = make_chain(rows[_i].p, rows[_i].forward, rows[_i].backward);
	struct orr_idle *idle;
	struct way way;

	way_init(&way, p, rows[_i].schedule, rows[_i].p, rows[_i].m);
	idle = find(&way);
	for (int w = 0; w < idle->n_workers; w++) {
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_WARM_UP), rows[_i].warm_up);
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_DRAIN), rows[_i].drain);
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_TRANSFER), 0);
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_IMBALANCE), 0);
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_ORDER), 0);
	}
	check_sums(idle, &way);
	orr_idle_destroy(idle);
	way_end(&way);
}
END_TEST

/* A stage that takes k times as long leaves the others (k-1)(F+B) idle for every microbatch,
 * whichever it is, and the pipeline's own bubble as it was. */
START_TEST(a_slow_stage_is_imbalance)
{
	const int slow = _i, m = 8, n = 4;
	struct orr_pipeline *p = make_chain(n, 1, 1);
	struct orr_idle *idle;
	struct way way;

	p->stages[slow].forward_ns *= 3;
	p->stages[slow].backward_ns *= 3;
	way_init(&way, p, "gpipe", n, m);
	idle = find(&way);
	for (int w = 0; w < n; w++) {
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_IMBALANCE), w == slow ? 0 : 2 * 2 * m);
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_WARM_UP) +
					 cause(idle, w, ORR_CAUSE_DRAIN),
				 2 * (n - 1));
	}
	check_sums(idle, &way);
	check_path(idle, &way);
	orr_idle_destroy(idle);
	way_end(&way);
}
END_TEST

/* w0: 0F0 [0,1], and its gradient arrives at 5 of which the last unit is a transfer; w1 waits one
 * unit for 0F0 and one for its activation. */
START_TEST(what_is_on_its_way_is_a_transfer)
{
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_machine machine = orr_machine_default(2);
	struct orr_idle *idle;
	struct way way;

	machine.latency_ns = ORR_UNIT_NS;
	way_init_on(&way, p, "gpipe", &machine, 1);
	idle = find(&way);
	for (int w = 0; w < 2; w++)
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_TRANSFER), 1);
	ck_assert_int_eq(cause(idle, 0, ORR_CAUSE_WARM_UP), 2);
	ck_assert_int_eq(cause(idle, 0, ORR_CAUSE_DRAIN), 1);
	ck_assert_int_eq(cause(idle, 1, ORR_CAUSE_WARM_UP), 1);
	ck_assert_int_eq(cause(idle, 1, ORR_CAUSE_DRAIN), 2);
	ck_assert_int_eq(idle->items[idle->first[1]].from, orr_jobs_index(way.tried.jobs, 0, 0, 0));
	ck_assert_int_ge(idle->items[idle->first[1]].transfer, 0);
	check_sums(idle, &way);
	check_path(idle, &way);
	orr_idle_destroy(idle);
	way_end(&way);
}
END_TEST

START_TEST(a_worker_without_a_job_is_imbalance)
{
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_idle *idle;
	struct way way;

	way_init(&way, p, "1f1b", 3, 4);
	idle = find(&way);
	ck_assert_int_eq(cause(idle, 2, ORR_CAUSE_IMBALANCE), 10);
	ck_assert_int_eq(cause(idle, 0, ORR_CAUSE_IMBALANCE), 0);
	check_sums(idle, &way);
	orr_idle_destroy(idle);
	way_end(&way);
}
END_TEST

/* A run: one unit from 0F0 to 1F0, and one from the first backward to the next; 1F1 was made long
 * before, while its worker was busy. */
START_TEST(a_hand_over_in_a_run_is_a_transfer)
{
	static const int64_t start[2][4] = {{0, 1, 8, 9}, {2, 5, 6, 7}};
	static const int64_t end[2][4] = {{1, 2, 9, 10}, {5, 6, 7, 8}};
	struct orr_pipeline *p = make_chain(2, 1, 1);
	struct orr_path_part *parts = NULL;
	struct orr_idle *idle;
	struct way way;
	int n = 0;

	way_init(&way, p, "gpipe", 2, 2);
	way.tried.timeline->measured = true;
	for (int w = 0; w < 2; w++)
		for (int i = 0; i < 4; i++) {
			int j = way.tried.jobs->by_worker[way.tried.jobs->first[w] + i];

			way.tried.timeline->start_ns[j] = start[w][i] * ORR_UNIT_NS;
			way.tried.timeline->end_ns[j] = end[w][i] * ORR_UNIT_NS;
		}
	ck_assert(!orr_timeline_check(way.tried.timeline, NULL));
	idle = find(&way);
	for (int w = 0; w < 2; w++)
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_TRANSFER), 1);
	check_path(idle, &way);
	ck_assert(!orr_idle_path(&parts, &n, idle, NULL));
	ck_assert_int_eq(n, 8);
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(parts[i].item < 0, i == 1 || i == 5);
	free(parts);
	orr_idle_destroy(idle);
	way_end(&way);
}
END_TEST

/* The way of the last microbatch of GPipe through an even chain: m + p - 1 forwards, as many
 * backwards. */
START_TEST(the_path_through_an_even_chain_has_one_job_a_unit)
{
	struct orr_pipeline *p = make_chain(4, 1, 1);
	struct orr_path_part *parts = NULL;
	struct orr_idle *idle;
	struct way way;
	int n = 0;

	way_init(&way, p, "gpipe", 4, 6);
	idle = find(&way);
	ck_assert(!orr_idle_path(&parts, &n, idle, NULL));
	ck_assert_int_eq(n, 2 * (6 + 4 - 1));
	for (int i = 0; i < n; i++) {
		ck_assert_int_ge(parts[i].item, 0);
		ck_assert_int_eq(orr_jobs_at(way.tried.jobs, idle->items[parts[i].item].job).d,
				 i < n / 2 ? ORR_PASS_F : ORR_PASS_B);
	}
	free(parts);
	orr_idle_destroy(idle);
	way_end(&way);
}
END_TEST

/* Every schedule, on free links and on slow ones, with updates that take time. */
START_TEST(sums_and_paths_hold_for_every_schedule)
{
	struct orr_pipeline *p = make_pipeline(8, "0>1 1>2 2>3 3>4 4>5 5>6 6>7 2>6", 2, 3, 1, 7, 50,
					       _i % 2 ? 11 : 0);
	struct orr_machine machine = orr_machine_default(4);
	struct way way;

	for (int s = 0; s < 8; s++)
		p->stages[s].update_ns = ORR_UNIT_NS;
	p->stages[3].forward_ns = 5 * ORR_UNIT_NS;
	machine.latency_ns = _i % 2 ? ORR_UNIT_NS / 3 : 0;
	machine.bandwidth_bytes_per_s = _i % 2 ? 20 : 0;
	if (way_try_on(&way, p, quick_schedule(_i / 2), &machine, 8)) {
		struct orr_idle *idle = find(&way);

		check_sums(idle, &way);
		check_path(idle, &way);
		orr_idle_destroy(idle);
		way_fini(&way);
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* 6 units of jobs on each of 4 workers, 6 for the sums of the parts, 1 for an update, 6 for the
 * parameters. */
START_TEST(parameters_on_their_way_count_as_a_transfer)
{
	struct orr_machine machine = {.n_workers = 4,
				      .bandwidth_bytes_per_s = 500.0 * 1e9 / (double)ORR_UNIT_NS};
	struct orr_pipeline *p = make_pipeline(1, "", 1, 2, 0, 0, 4000, 0);
	struct orr_idle *idle;
	struct way way;

	p->stages[0].update_ns = 4 * ORR_UNIT_NS;
	p->numerics.shard_optimizer = true;
	way_init_on(&way, p, "ddp", &machine, 8);
	idle = find(&way);
	check_sums(idle, &way);
	check_path(idle, &way);
	ck_assert_int_eq(units(idle->end_ns), 6 + 6 + 1 + 6);
	for (int w = 0; w < 4; w++)
		ck_assert_int_eq(cause(idle, w, ORR_CAUSE_TRANSFER), 12);
	orr_idle_destroy(idle);
	way_end(&way);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(equal_stages_wait_for_warm_up_and_drain_alone, 6),
		EACH(a_slow_stage_is_imbalance, 4),
		ONCE(parameters_on_their_way_count_as_a_transfer),
		ONCE(what_is_on_its_way_is_a_transfer),
		ONCE(a_worker_without_a_job_is_imbalance),
		ONCE(a_hand_over_in_a_run_is_a_transfer),
		ONCE(the_path_through_an_even_chain_has_one_job_a_unit),
		EACH(sums_and_paths_hold_for_every_schedule, 2 * count_schedules()),
	};

	return suite_run("idle", tests, N_OF(tests));
}
