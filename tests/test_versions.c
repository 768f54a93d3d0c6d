/* PipeDream: the order of every worker in figures 4 and 8 of [Narayanan19], and the versions of the
 * parameters in the closed forms of its section 3.3. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "schedule/async.h"
#include "schedule/versions.h"
#include "suite.h"

/* A pipeline under pipedream, with its jobs. */
struct given {
	struct orr_pipeline *p;
	struct orr_choice choice;
	struct orr_jobs *jobs;
};

static void given_init(struct given *g, struct orr_pipeline *p, const char *schedule, int n_workers,
		       int m, enum orr_sync sync, int accumulate)
{
	struct orr_error err = {""};

	*g = (struct given){.p = p};
	p->sync = sync;
	p->accumulate = accumulate;
	ck_assert_msg(!orr_pipeline_set_step(p, n_workers, m, &err), "%s", err.msg);
	ck_assert_msg(!orr_choice_init(&g->choice, schedule, &err), "%s", err.msg);
	ck_assert_msg(!orr_jobs_create(&g->jobs, p, &g->choice.schedule, &err), "%s", err.msg);
}

static void given_fini(struct given *g)
{
	orr_jobs_destroy(g->jobs);
	orr_choice_fini(&g->choice);
	orr_pipeline_destroy(g->p);
}

static int64_t read_by(const struct given *g, int s, int64_t b, enum orr_pass d)
{
	return orr_versions_read(g->jobs->versions, s, b, d);
}

static int64_t at_least_0(int64_t x)
{
	return x > 0 ? x : 0;
}

/* ---- order ---- */

START_TEST(figure_4_is_the_order_of_every_worker)
{
	static const char *const orders[] = {
		"0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0B3 0B4 0B5",
		"1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1B4 1B5",
		"2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2B5",
		"3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5",
	};
	struct orr_pipeline *p = make_chain(4, 1, 2);
	struct way way;

	way_init(&way, p, "pipedream", 4, 6);
	for (int w = 0; w < 4; w++) {
		ck_assert_str_eq(way_order(&way, w), orders[w]);
		ck_assert_int_eq(way.tried.figures->worker[w].peak_stash, 4 - w);
	}
	way_end(&way);
}
END_TEST

START_TEST(figure_8_is_the_order_of_every_worker)
{
	static const char *const orders[] = {
		"0F0 0F2 0B0 0F4 0B2 0F6 0B4 0B6",
		"0F1 0F3 0B1 0F5 0B3 0F7 0B5 0B7",
		"1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4 1F5 1B5 1F6 1B6 1F7 1B7",
	};
	struct orr_pipeline *p = make_chain(2, 2, 2);
	struct way way;

	p->stages[1].forward_ns = p->stages[1].backward_ns = ORR_UNIT_NS;
	way_init(&way, p, "pipedream:replicas=2-1", 3, 8);
	for (int w = 0; w < 3; w++) {
		ck_assert_str_eq(way_order(&way, w), orders[w]);
		ck_assert_int_eq(way.tried.figures->worker[w].peak_stash, w < 2 ? 2 : 1);
	}
	way_end(&way);
}
END_TEST

/* Each replica admits NOAM = ceil(workers from here on / replicas), and then F and B take turns. */
START_TEST(after_the_start_up_every_worker_alternates)
{
	static const struct {
		const char *schedule;
		int n_stages, n_workers, admitted[9]; /* by worker */
	} cases[] = {
		{"pipedream", 5, 5, {5, 4, 3, 2, 1}},
		{"pipedream:replicas=3-2-1", 3, 6, {2, 2, 2, 2, 2, 1}},
		{"pipedream:replicas=2-1-1", 3, 4, {2, 2, 2, 1}},
		{"pipedream:replicas=1-3-2", 3, 6, {6, 2, 2, 2, 1, 1}},
		{"pipedream:replicas=4-3-2", 3, 9, {3, 3, 3, 3, 2, 2, 2, 1, 1}},
	};
	enum { M = 48 };

	for (int k = 0; k < N_OF(cases); k++) {
		struct given g;
		const struct orr_jobs *jobs;

		given_init(&g, make_chain(cases[k].n_stages, 1, 2), cases[k].schedule,
			   cases[k].n_workers, M, ORR_SYNC_STASHING, 1);
		jobs = g.jobs;
		for (int w = 0; w < cases[k].n_workers; w++) {
			int n = jobs->first[w + 1] - jobs->first[w],
			    admitted = cases[k].admitted[w];
			int *passes =
				calloc((size_t)n, sizeof(*passes)); /* by place on the worker */

			for (int j = 0; j < jobs->n_jobs; j++)
				if (jobs->compute[j] == w)
					passes[jobs->position[j]] = (int)orr_jobs_at(jobs, j).d;
			ck_assert_int_gt(n, 2 * admitted);
			for (int i = 0; i < n - admitted; i++)
				ck_assert_msg(passes[i] == (i < admitted         ? ORR_PASS_F
							    : (i - admitted) % 2 ? ORR_PASS_F
										 : ORR_PASS_B),
					      "%s, worker %d, place %d", cases[k].schedule, w, i);
			free(passes);
		}
		given_fini(&g);
	}
}
END_TEST

START_TEST(a_wave_has_every_job_once_and_extends_every_dependency)
{
	struct given g;
	int at[4 * 8 * 2];

	given_init(&g, make_chain(4, 1, 2), "pipedream", 4, 8, ORR_SYNC_STASHING, 1);
	ck_assert_int_eq(g.jobs->async->n_waves, 2);
	memset(at, -1, sizeof(at));
	for (int i = 0; i < g.jobs->n_jobs; i++) {
		ck_assert_int_eq(at[g.jobs->async->order[i]], -1);
		at[g.jobs->async->order[i]] = i;
	}
	for (int j = 0; j < g.jobs->n_jobs; j++) {
		int around[6], n = orr_jobs_predecessors(g.jobs, j, around);
		const int *lag = g.jobs->async->lag;

		for (int i = 0; i < n; i++)
			ck_assert(lag[around[i]] < lag[j] ||
				  (lag[around[i]] == lag[j] && at[around[i]] < at[j]));
	}
	given_fini(&g);
}
END_TEST

/* ---- versions: closed forms ---- */

/* The version that the gradient of b goes into, the last of its microbatches, and the updates
 * between the version that F of b read and that one. */
static int64_t made_of(const struct orr_versions *v, int s, int64_t b)
{
	return b / v->every[s] + 1;
}

static bool closes(const struct orr_versions *v, int s, int64_t b)
{
	return (b + 1) % v->every[s] == 0;
}

static int64_t staleness_of(const struct orr_versions *v, int s, int64_t b)
{
	return made_of(v, s, b) - 1 - orr_versions_read(v, s, b, ORR_PASS_F);
}

START_TEST(stashing_reads_t_less_n_plus_1_plus_s)
{
	int n = _i;
	struct given g;

	given_init(&g, make_chain(n, 1, 2), "pipedream", n, n + 1, ORR_SYNC_STASHING, 1);
	for (int s = 0; s < n; s++) {
		for (int64_t t = 0; t < 5 * n; t++) {
			ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_F), at_least_0(t - n + 1 + s));
			ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_B), at_least_0(t - n + 1 + s));
			ck_assert_int_eq(made_of(g.jobs->versions, s, t), t + 1);
			ck_assert_int_eq(staleness_of(g.jobs->versions, s, t),
					 t < n - 1 - s ? t : n - 1 - s);
		}
		ck_assert_int_eq(g.jobs->versions->least[s], n - 1 - s);
		ck_assert_int_eq(g.jobs->versions->most[s], n - 1 - s);
		ck_assert_int_eq(orr_versions_full(g.jobs->versions, s), n - 1 - s);
		ck_assert_int_eq(g.jobs->versions->peak[s], n - s); /* one for each in flight */
	}
	given_fini(&g);
}
END_TEST

START_TEST(vertical_sync_reads_t_less_n_plus_1_everywhere)
{
	int n = _i;
	struct given g;

	given_init(&g, make_chain(n, 1, 2), "pipedream", n, 2 * n, ORR_SYNC_VERTICAL, 1);
	for (int s = 0; s < n; s++) {
		for (int64_t t = 0; t < 5 * n; t++) {
			ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_F), at_least_0(t - n + 1));
			ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_B), at_least_0(t - n + 1));
		}
		ck_assert_int_eq(g.jobs->versions->peak[s], n);
	}
	given_fini(&g);
}
END_TEST

START_TEST(without_stashing_the_backward_reads_another_version)
{
	int n = _i;
	struct given g;

	given_init(&g, make_chain(n, 1, 2), "pipedream", n, n, ORR_SYNC_NONE, 1);
	for (int s = 0; s < n; s++) {
		for (int64_t t = 0; t < 5 * n; t++) {
			ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_F), at_least_0(t - n + 1 + s));
			ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_B), t);
		}
		ck_assert_int_eq(g.jobs->versions->peak[s], 1);
	}
	given_fini(&g);
}
END_TEST

START_TEST(replicas_share_a_version)
{
	struct given g;

	given_init(&g, make_chain(2, 2, 2), "pipedream:replicas=2-1", 3, 8, ORR_SYNC_STASHING, 1);
	for (int64_t b = 0; b < 20; b++) {
		/* an update of stage 0 takes a microbatch of each replica, of stage 1 one */
		ck_assert_int_eq(read_by(&g, 0, b, ORR_PASS_F), at_least_0(b / 2 - 1));
		ck_assert_int_eq(made_of(g.jobs->versions, 0, b), b / 2 + 1);
		ck_assert_int_eq(closes(g.jobs->versions, 0, b), b % 2);
		ck_assert_int_eq(read_by(&g, 1, b, ORR_PASS_F), b);
	}
	ck_assert_int_eq(g.jobs->versions->peak[0], 2);
	ck_assert_int_eq(g.jobs->versions->peak[1], 1);
	given_fini(&g);
	given_init(&g, make_chain(2, 2, 2), "pipedream:replicas=2-1", 3, 8, ORR_SYNC_VERTICAL, 1);
	for (int64_t b = 0; b < 20; b++) {
		ck_assert_int_eq(read_by(&g, 0, b, ORR_PASS_F), at_least_0(b / 2 - 1));
		ck_assert_int_eq(read_by(&g, 1, b, ORR_PASS_B), at_least_0(b / 2 * 2 - 2));
	}
	/* odd versions of stage 1 are read by nobody: the even ones in use, and the latest */
	ck_assert_int_eq(g.jobs->versions->peak[1], 3);
	given_fini(&g);
}
END_TEST

/* 2BW: with as many microbatches in an update as are in flight, two versions are enough. */
START_TEST(two_versions_are_enough_when_updates_are_rare)
{
	int n = _i;

	for (int k = 1; k <= 2 * n; k++) {
		struct given g;

		given_init(&g, make_chain(n, 1, 2), "pipedream", n, 2 * k, ORR_SYNC_STASHING, k);
		for (int s = 0; s < n; s++) {
			/* n - s in flight, with n - s - 1 steps of b between oldest and newest */
			int peak = 1 + (n - s - 1 + k - 1) / k;

			ck_assert_msg(g.jobs->versions->peak[s] == peak, "n=%d k=%d s=%d: %d", n, k,
				      s, g.jobs->versions->peak[s]);
			for (int64_t t = 0; t < 6 * k; t++)
				ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_B),
						 at_least_0(t - n + 1 + s) / k);
			if (k >= n)
				ck_assert_int_le(g.jobs->versions->peak[s], 2);
		}
		given_fini(&g);
	}
}
END_TEST

START_TEST(on_a_dag_depth_takes_the_place_of_stages_to_come)
{
	static const int towers[] = {3, 1, 0};
	struct orr_pipeline *p = make_towers(towers, 2, 1, 2);
	struct given g;

	given_init(&g, p, "pipedream", 6, 12, ORR_SYNC_STASHING, 1);
	for (int s = 0; s < p->n_stages; s++) {
		int depth = p->stages[s].depth;

		for (int64_t t = 0; t < 30; t++)
			ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_F), at_least_0(t - depth + 1));
		ck_assert_int_eq(g.jobs->versions->peak[s], depth);
	}
	p->sync = ORR_SYNC_VERTICAL;
	orr_jobs_destroy(g.jobs);
	g.jobs = NULL;
	ck_assert(!orr_jobs_create(&g.jobs, p, &g.choice.schedule, NULL));
	/* the deepest input stage has seen fewest */
	for (int s = 0; s < p->n_stages; s++)
		for (int64_t t = 0; t < 30; t++)
			ck_assert_int_eq(read_by(&g, s, t, ORR_PASS_F), at_least_0(t - 4));
	given_fini(&g);
}
END_TEST

/* What the closed forms rest on, for any replicas: run all rounds in the order of n, one job at a
 * time, and keep what is held as a plain implementation would. */
START_TEST(the_order_of_n_run_one_by_one_holds_what_is_said)
{
	static const struct {
		const char *replicas;
		int n_workers, m;
	} cases[] = {{"2-1", 3, 4},    {"1-2", 3, 4},    {"2-2", 4, 8},   {"3-2-1", 6, 6},
		     {"4-3-1", 8, 12}, {"1-3-2", 6, 12}, {"2-1-1", 4, 4}, {"4-3-2", 9, 12}};

	for (int k = 0; k < N_OF(cases); k++)
		for (int sync = 0; sync < 2; sync++)
			for (int accumulate = 1; accumulate <= 2; accumulate++) {
				enum { ROUNDS = 8, MOST = 400 };
				const struct orr_async *async;
				const struct orr_versions *v;
				char schedule[64];
				struct given g;
				int n_stages = (int)(strlen(cases[k].replicas) + 1) / 2;
				int64_t latest[8] = {0};

				snprintf(schedule, sizeof(schedule), "pipedream:replicas=%s",
					 cases[k].replicas);
				given_init(&g, make_chain(n_stages, 1, 2), schedule,
					   cases[k].n_workers, 2 * cases[k].m, (enum orr_sync)sync,
					   accumulate);
				async = g.jobs->async;
				v = g.jobs->versions;
				for (int wave = 0; wave < ROUNDS; wave++)
					for (int i = 0; i < g.jobs->n_jobs; i++) {
						int j = async->order[i];
						struct orr_job job = orr_jobs_at(g.jobs, j);
						int64_t b = (int64_t)(wave - async->lag[j]) * 2 *
								    cases[k].m +
							    job.b;
						int64_t version;

						if (wave < async->lag[j])
							continue;
						version = read_by(&g, job.s, b, job.d);
						ck_assert_int_le(version, latest[job.s]);
						if (sync == ORR_SYNC_STASHING &&
						    job.d == ORR_PASS_F)
							ck_assert_int_eq(version, latest[job.s]);
						if (job.d == ORR_PASS_B && closes(v, job.s, b))
							ck_assert_int_eq(made_of(v, job.s, b),
									 ++latest[job.s]);
					}
				ck_assert_int_gt(latest[0], 4);
				given_fini(&g);
			}
}
END_TEST

/* The last pass that reads a version frees it: [Narayanan19, figure 9]. */
START_TEST(a_version_is_freed_after_its_last_reader)
{
	int n = 4;
	struct given g;

	given_init(&g, make_chain(n, 1, 2), "pipedream", n, n, ORR_SYNC_STASHING, 1);
	for (int s = 0; s < n; s++)
		for (int64_t version = 0; version < 12; version++)
			ck_assert_int_eq(
				orr_versions_last_reader(g.jobs->versions, g.jobs, s, s, version),
				version + n - 1 - s);
	given_fini(&g);
	given_init(&g, make_chain(2, 2, 2), "pipedream:replicas=2-1", 3, 8, ORR_SYNC_VERTICAL, 1);
	for (int64_t version = 0; version < 12; version++) {
		ck_assert_int_eq(orr_versions_last_reader(g.jobs->versions, g.jobs, 0, 0, version),
				 2 * version + 2);
		ck_assert_int_eq(orr_versions_last_reader(g.jobs->versions, g.jobs, 0, 1, version),
				 2 * version + 3);
		ck_assert_int_eq(orr_versions_last_reader(g.jobs->versions, g.jobs, 1, 2, version),
				 version % 2 ? -1 : version + 3);
	}
	given_fini(&g);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(figure_4_is_the_order_of_every_worker),
	ONCE(figure_8_is_the_order_of_every_worker),
	ONCE(after_the_start_up_every_worker_alternates),
	ONCE(a_wave_has_every_job_once_and_extends_every_dependency),
	{&stashing_reads_t_less_n_plus_1_plus_s, 1, 7},
	{&vertical_sync_reads_t_less_n_plus_1_everywhere, 1, 7},
	{&without_stashing_the_backward_reads_another_version, 1, 7},
	ONCE(replicas_share_a_version),
	{&two_versions_are_enough_when_updates_are_rare, 1, 7},
	ONCE(on_a_dag_depth_takes_the_place_of_stages_to_come),
	ONCE(the_order_of_n_run_one_by_one_holds_what_is_said),
	ONCE(a_version_is_freed_after_its_last_reader),
};
SUITE("versions")
