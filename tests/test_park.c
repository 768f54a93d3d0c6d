/* Parked stashes: they leave beside the jobs after F, come back beside those before the backward,
 * and what a worker holds follows from its order. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/max.h"
#include "orrery/open.h"
#include "report/report.h"
#include "pipelines.h"
#include "suite.h"

#define STASH 1000

static void set_park(struct orr_pipeline *p, const char *text, int prefetch)
{
	struct orr_error err = {""};

	ck_assert_msg(!orr_pipeline_set_park(p, text, &err), "%s", err.msg);
	p->prefetch = prefetch;
}

static struct orr_pipeline *make_sized_chain(int n_stages, int64_t forward, int64_t backward)
{
	return make_whole_chain(n_stages, forward, backward, 0, STASH, 0, 0);
}

/* Whose links take no time, but for that with the host: a stash takes so many units. */
static struct orr_machine machine_of(int n_workers, int64_t units_a_stash)
{
	struct orr_machine m = orr_machine_default(n_workers);

	if (units_a_stash)
		m.host.bytes_per_s = (double)STASH / (double)units_a_stash;
	return m;
}

static void way_check(const struct way *way)
{
	struct orr_error err = {""};

	ck_assert_msg(!orr_timeline_check(way->tried.timeline, &err), "%s: %s",
		      way->tried.jobs->schedule, err.msg);
}

/* What a worker holds by its order alone, counted position by position. */
static int most_by_order(const struct orr_jobs *jobs, int w)
{
	int most = 0, ahead = (int)larger(1, jobs->pipeline->prefetch);

	for (int at = jobs->first[w]; at < jobs->first[w + 1]; at++) {
		int held = 0;

		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
			int j = jobs->by_worker[i], next = orr_jobs_next_pass(jobs, j), last = next,
			    reader;

			if (orr_jobs_at(jobs, j).d != ORR_PASS_F || next < 0)
				continue;
			while (orr_jobs_next_pass(jobs, last) >= 0)
				last = orr_jobs_next_pass(jobs, last);
			reader = jobs->first[w] + orr_jobs_position(jobs, next, 0);
			last = jobs->first[w] + orr_jobs_position(jobs, last, 0);
			held += at >= i && at <= last &&
				(!jobs->park || !jobs->park[j / jobs->n_passes] ||
				 at <= i + ahead || at >= reader - ahead);
		}
		most = (int)larger(most, held);
	}
	return most;
}

/* ---- closed forms ---- */

/* With a free link a stash leaves as F ends: those that come back, as many as prefetch, and the one
 * that is read, are all that there are. */
START_TEST(on_a_free_link_a_worker_holds_what_it_prefetches)
{
	static const char *const schedules[] = {"1f1b", "gpipe"};

	for (int n_stages = 1; n_stages <= 8; n_stages++)
		for (int m = 1; m <= 16; m++)
			for (int ahead = 1; ahead < 4; ahead++) {
				struct orr_pipeline *p = make_sized_chain(n_stages, 1, 2);
				struct way way;

				set_park(p, "all", ahead);
				way_init(&way, p, schedules[_i], n_stages, m);
				way_check(&way);
				ck_assert_int_eq(way.tried.figures->makespan_ns,
						 (m + n_stages - 1) * 3 * ORR_UNIT_NS);
				for (int w = 0; w < n_stages; w++) {
					int held = _i || m < n_stages - w ? m : n_stages - w;
					const struct orr_worker_figures *f =
						&way.tried.figures->worker[w];

					if (held >= 2 * ahead + 2)
						ck_assert_int_eq(f->peak_stash, ahead + 1);
					ck_assert_int_le(f->peak_stash, held);
					ck_assert_int_eq(f->peak_stash_bytes,
							 STASH * f->peak_stash);
					ck_assert_int_eq(f->parked_bytes, STASH * f->parked);
					if (_i)
						ck_assert_int_eq(f->parked,
								 m >= 2 * ahead + 2 ? m : 0);
				}
				way_end(&way);
			}
}
END_TEST

/* A transfer as long as the job beside it hides behind it. As the last F runs, the stash before its
 * own leaves, and the first one comes back. */
START_TEST(a_transfer_as_long_as_a_job_hides_beside_it)
{
	for (int m = 4; m <= 12; m++) {
		struct orr_pipeline *p = make_sized_chain(3, 1, 1);
		struct orr_machine machine = machine_of(3, 1);
		struct way way;

		set_park(p, "all", 1);
		way_init_on(&way, p, "gpipe", &machine, m);
		way_check(&way);
		ck_assert_int_eq(way.tried.figures->makespan_ns, (m + 2) * 2 * ORR_UNIT_NS);
		for (int w = 0; w < 3; w++)
			ck_assert_int_eq(way.tried.figures->worker[w].peak_stash, 3);
		way_end(&way);
	}
}
END_TEST

/* Twice as long, it sets the pace: an F, and a B, starts every two units. */
START_TEST(a_link_that_is_slower_than_jobs_sets_their_pace)
{
	for (int m = 4; m <= 12; m++) {
		struct orr_pipeline *p = make_sized_chain(1, 1, 1);
		struct orr_machine machine = machine_of(1, 2);
		struct way way;

		set_park(p, "all", 1);
		way_init_on(&way, p, "gpipe", &machine, m);
		way_check(&way);
		ck_assert_int_eq(way.tried.figures->makespan_ns, (4 * m - 2) * ORR_UNIT_NS);
		ck_assert_int_eq(way.tried.figures->worker[0].peak_stash, 3);
		ck_assert_int_eq(way.tried.figures->peak_host_bytes, (m - 1) * STASH);
		way_end(&way);
	}
}
END_TEST

/* What worker 0 parks with worker 3 is there, at both ends while it moves. */
START_TEST(a_worker_keeps_the_stashes_of_another)
{
	struct orr_pipeline *p = make_sized_chain(4, 1, 1);
	struct way way;

	set_park(p, "0=3", 1);
	way_init(&way, p, "1f1b", 4, 8);
	way_check(&way);
	ck_assert_int_eq(way.tried.figures->makespan_ns, 11 * 2 * ORR_UNIT_NS);
	ck_assert_int_eq(way.tried.figures->peak_host_bytes, 0);
	ck_assert_int_eq(way.tried.figures->worker[0].parked, 8);
	ck_assert_int_eq(way.tried.figures->worker[0].peak_stash, 2);
	ck_assert_int_eq(way.tried.figures->worker[3].parked, 0);
	/* one of its own, and those of worker 0 that are away at once */
	ck_assert_int_eq(way.tried.figures->worker[3].peak_stash, 4);
	way_end(&way);
}
END_TEST

/* ---- any order ---- */

/* A pipeline of drawn stages under the schedule, with drawn stages parked: false if refused. */
static bool draw_way(struct way *way, struct orr_pipeline *p, const char *name,
		     const struct orr_machine *machine, int m, bool park)
{
	struct orr_error err = {""};
	int code = orr_choice_init(&way->choice, name, &err);

	ck_assert_msg(!code, "%s", err.msg);
	way->pipeline = p;
	memset(&way->tried, 0, sizeof(way->tried));
	p->machine = *machine;
	ck_assert(!orr_pipeline_set_step(p, machine->n_workers, m, &err));
	for (int s = 0; s < p->n_stages; s++)
		if (!park)
			p->stages[s].park = 0;
	if ((code = orr_try_init(&way->tried, p, &way->choice.schedule, NULL, &err)) ||
	    (code = orr_try_run(&way->tried, &err))) {
		ck_assert_msg(code == ORR_E_INPUT, "%s: %s", name, err.msg);
		way_fini(way);
	}
	return !code;
}

static struct orr_pipeline *draw_pipeline(int n_stages)
{
	struct orr_pipeline *p = make_sized_chain(n_stages, 1, 1);

	for (int s = 0; s < n_stages; s++) {
		p->stages[s].forward_ns = (1 + suite_draw(4)) * ORR_UNIT_NS;
		p->stages[s].backward_ns = (1 + suite_draw(4)) * ORR_UNIT_NS;
		p->stages[s].stash_bytes = suite_draw(5) * STASH;
		p->stages[s].park = suite_draw(3) ? -1 : 0;
		p->stages[s].recompute = !suite_draw(4);
	}
	p->prefetch = suite_draw(4);
	return p;
}

START_TEST(what_a_worker_holds_follows_from_its_order)
{
	int n_parked = 0;

	suite_random = (uint64_t)_i + 1;
	for (int i = 0; i < suite_drawn(40); i++) {
		int n_workers = 1 + suite_draw(4), m = 1 + suite_draw(9);
		const char *name = quick_schedule(suite_draw(count_schedules()));
		struct orr_pipeline *p = draw_pipeline(n_workers * (1 + suite_draw(2)));
		struct orr_machine machine = machine_of(n_workers, suite_draw(4));
		struct way parked, plain;

		if (!draw_way(&parked, p, name, &machine, m, true)) {
			orr_pipeline_destroy(p);
			continue;
		}
		way_check(&parked);
		for (int w = 0; w < n_workers; w++) {
			ck_assert_int_le(parked.tried.figures->worker[w].peak_stash,
					 most_by_order(parked.tried.jobs, w));
			n_parked += (int)parked.tried.figures->worker[w].parked;
		}
		/* a free link delays nothing, and none makes it faster */
		if (draw_way(&plain, p, name, &machine, m, false)) {
			int64_t with = parked.tried.figures->makespan_ns,
				without = plain.tried.figures->makespan_ns;

			ck_assert_int_ge(with, without);
			if (!(machine.host.bytes_per_s > 0))
				ck_assert_int_eq(with, without);
			way_fini(&plain);
		}
		way_end(&parked);
	}
	ck_assert_int_gt(n_parked, 0);
}
END_TEST

/* ---- as a plan ---- */

static void open_all(struct orr_opened *x, const struct orr_open_options *o)
{
	struct orr_error err = {""};

	ck_assert_msg(!orr_open_schedule(x, o, &err) && !orr_open_graph(x, &err) &&
			      !orr_open_pipeline(x, &err) && !orr_open_jobs(x, &err) &&
			      !orr_try_run(&x->tried, &err),
		      "%s", err.msg);
}

START_TEST(a_plan_parks_as_it_was_written)
{
	char path[] = "/tmp/parkXXXXXX";
	struct orr_open_options options = orr_open_options_default();
	struct orr_opened written, read;
	struct orr_error err = {""};
	int n, file = mkstemp(path);
	json_t *plan;

	options.source = "chain:4";
	options.park = "0=3,1";
	options.prefetch = 1;
	options.buckets = 3;
	options.costs.stash_bytes = STASH;
	options.machine.host.bytes_per_s = STASH / 3.0;
	options.machine.bandwidth_bytes_per_s = STASH;
	options.given.bandwidth = options.given.costs = true;
	open_all(&written, &options);
	plan = orr_replay_json(written.tried.timeline, written.tried.figures, 96, 12, true, &err);
	ck_assert(file >= 0 && plan && !json_dump_file(plan, path, 0));
	json_decref(plan);
	options = orr_open_options_default();
	options.source = path;
	open_all(&read, &options);
	n = written.tried.jobs->n_jobs;
	ck_assert_int_eq(read.tried.jobs->n_jobs, n);
	ck_assert_int_eq(read.pipeline->buckets, 3);
	for (int j = 0; j < n; j++)
		ck_assert_int_eq(read.tried.timeline->start_ns[j],
				 written.tried.timeline->start_ns[j]);
	for (int w = 0; w < 4; w++)
		ck_assert_int_eq(read.tried.figures->worker[w].parked_bytes,
				 written.tried.figures->worker[w].parked_bytes);
	ck_assert_int_gt(read.tried.figures->worker[0].parked_bytes, 0);
	ck_assert_int_gt(read.tried.figures->peak_host_bytes, 0);
	orr_opened_fini(&read);
	options.park = "none"; /* in place of what it parks */
	open_all(&read, &options);
	ck_assert_ptr_null(read.tried.jobs->park);
	orr_opened_fini(&written);
	orr_opened_fini(&read);
	close(file);
	unlink(path);
}
END_TEST

/* ---- refusals ---- */

static const char *const bad_texts[] = {"",     "4",    "0,",    ",0",     "0=",  "all=gpu",
					"0=-1", "all,", "0=1=2", "none,0", "0 1", "0=99999999999"};

START_TEST(other_texts_are_refused)
{
	struct orr_pipeline *p = make_sized_chain(4, 1, 1);
	struct orr_error err = {""};
	char expected[400];

	snprintf(
		expected, sizeof(expected),
		"[park]: '%s': give all, none, or stages from 0 to 3 with commas between them, and "
		"after = the worker that keeps their stashes, or host, such as 0,1=7",
		bad_texts[_i]);
	ck_assert_int_eq(orr_pipeline_set_park(p, bad_texts[_i], &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, expected);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(a_text_names_stages_and_places)
{
	static const struct {
		const char *text;
		int park[4];
	} cases[] = {
		{"none", {0, 0, 0, 0}},       {"all", {-1, -1, -1, -1}},
		{"all=2", {3, 3, 3, 3}},      {"0,2", {-1, 0, -1, 0}},
		{"0,1=3,2", {4, 4, -1, 0}},   {"0=3,1=2,3=host", {4, 3, 0, -1}},
		{"1,0=host", {-1, -1, 0, 0}},
	};
	struct orr_pipeline *p = make_sized_chain(4, 1, 1);

	for (int i = 0; i < N_OF(cases); i++) {
		set_park(p, cases[i].text, 2);
		for (int s = 0; s < 4; s++)
			ck_assert_msg(p->stages[s].park == cases[i].park[s], "%s: stage %d",
				      cases[i].text, s);
	}
	orr_pipeline_destroy(p);
}
END_TEST

static const struct {
	const char *schedule, *park, *why;
} refused[] = {
	{"1f1b", "0,1=1",
	 "the stash of stage 1 cannot be parked with worker 1: schedule 1f1b computes it there: "
	 "change [park]"},
	{"1f1b", "all=8",
	 "the stash of stage 0 cannot be parked with worker 8: schedule 1f1b has no such worker: "
	 "change [park]"},
	{"pipedream", "2",
	 "the stash of stage 2 cannot be parked with the host: schedule pipedream never flushes: "
	 "change [park]"},
	{"hanayo", "2",
	 "the stash of stage 2 cannot be parked with the host: schedule hanayo takes what is "
	 "ready, and "
	 "stashes leave by a strict order: change [park]"},
};

START_TEST(what_cannot_be_parked_is_refused)
{
	struct orr_pipeline *p = make_sized_chain(8, 1, 1);
	struct orr_error err = {""};
	struct orr_choice choice;
	struct orr_jobs *jobs;

	ck_assert(!orr_choice_init(&choice, refused[_i].schedule, &err));
	ck_assert(!orr_pipeline_set_step(p, !strcmp(refused[_i].schedule, "hanayo") ? 4 : 8, 8,
					 &err));
	set_park(p, refused[_i].park, 2);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &choice.schedule, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, refused[_i].why);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(on_a_free_link_a_worker_holds_what_it_prefetches, 2),
	ONCE(a_transfer_as_long_as_a_job_hides_beside_it),
	ONCE(a_link_that_is_slower_than_jobs_sets_their_pace),
	ONCE(a_worker_keeps_the_stashes_of_another),
	EACH(what_a_worker_holds_follows_from_its_order, 4),
	ONCE(a_plan_parks_as_it_was_written),
	EACH(other_texts_are_refused, N_OF(bad_texts)),
	ONCE(a_text_names_stages_and_places),
	EACH(what_cannot_be_parked_is_refused, N_OF(refused)),
};
SUITE("park")
