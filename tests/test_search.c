#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "orrery/search.h"
#include "suite.h"

/* ---- against the named schedules ---- */

static const struct {
	const char *name;
	int stages_per_worker;
	const char *placement;
} named[] = {{"v-half", 2, "fold"},
	     {"v-zb", 2, "fold"},
	     {"1f1b", 1, "straight"},
	     {"zb-h1", 1, "straight"}};

static const struct {
	const char *what;
	int64_t f, b, w; /* hundredths */
} costs[] = {{"1, 1, 1", 100, 100, 100}, {"12.96, 13.22, 9.76", 1296, 1322, 976}};

static const int workers[] = {4, 8};

static struct orr_pipeline *make_costed(int n_stages, int64_t f, int64_t b, int64_t w)
{
	struct orr_pipeline *p = make_chain(n_stages, 1, 1);

	p->has_weight = true;
	for (int s = 0; s < n_stages; s++) {
		p->stages[s].forward_ns = f;
		p->stages[s].backward_ns = b;
		p->stages[s].weight_ns = w;
	}
	return p;
}

struct tally {
	int n_room, n_shorter,
		n_best; /* the bound is below the named one; auto is; and auto reaches it */
};

/* One row of the table that the test writes. */
static void compare_named(int which, int cost, int P, int m, struct tally *tally)
{
	struct orr_pipeline *p = make_costed(named[which].stages_per_worker * P, costs[cost].f,
					     costs[cost].b, costs[cost].w);
	struct way theirs, ours;
	char schedule[96];
	int64_t their_ns, our_ns, bound_ns;

	way_init(&theirs, p, named[which].name, P, m);
	snprintf(schedule, sizeof(schedule), "auto:memory=%d,placement=%s,effort=20",
		 peak_of(theirs.tried.figures), named[which].placement);
	way_init(&ours, p, schedule, P, m);
	their_ns = theirs.tried.figures->makespan_ns;
	our_ns = ours.tried.figures->makespan_ns;
	bound_ns = ours.tried.figures->lower_bound_ns;
	printf("%-7s %d workers, %2d microbatches, %-18s: %6.2f, memory %2d: auto %6.2f, no order "
	       "below %6.2f%s\n",
	       named[which].name, P, m, costs[cost].what, (double)their_ns / 100,
	       peak_of(theirs.tried.figures), (double)our_ns / 100, (double)bound_ns / 100,
	       our_ns == bound_ns  ? " (the best)"
	       : our_ns < their_ns ? " (shorter)"
				   : "");
	ck_assert_msg(our_ns <= their_ns, "%s: longer than %s", schedule, named[which].name);
	ck_assert_msg(peak_of(ours.tried.figures) <= peak_of(theirs.tried.figures), "%s: holds %d",
		      schedule, peak_of(ours.tried.figures));
	way_fini(&theirs);
	way_end(&ours);
	tally->n_room += bound_ns < their_ns;
	tally->n_shorter += our_ns < their_ns;
	tally->n_best += our_ns == bound_ns;
}

START_TEST(
	auto_is_never_longer_than_the_schedules_whose_memory_it_has_and_shorter_where_that_can_be)
{
	struct tally tally = {0, 0, 0};

	for (int cost = 0; cost < 2; cost++)
		for (int x = 0; x < 2; x++)
			for (int which = 0; which < 4; which++)
				for (int times = 2; times <= 4; times += 2)
					compare_named(which, cost, workers[x], times * workers[x],
						      &tally);
	printf("of 32, the bound leaves room in %d, auto is shorter in %d, and is the best in %d\n",
	       tally.n_room, tally.n_shorter, tally.n_best);
	ck_assert_msg(2 * tally.n_shorter >= tally.n_room, "room in %d cases, shorter in %d",
		      tally.n_room, tally.n_shorter);
	ck_assert_int_eq(tally.n_best, 32);
}
END_TEST

/* Published makespans in units; a search may only be better. */
static const struct {
	int P, m, memory, makespan;
} published[] = {
	{4, 8, 4, 27}, {4, 12, 4, 39}, {8, 32, 8, 103}, {8, 64, 8, 199}, {4, 8, 8, 27},
};

START_TEST(auto_reaches_the_published_zero_bubble_makespans)
{
	struct orr_pipeline *p =
		make_costed(published[_i].P, ORR_UNIT_NS, ORR_UNIT_NS, ORR_UNIT_NS);
	struct way way;
	char schedule[64];

	snprintf(schedule, sizeof(schedule), "auto:memory=%d,effort=1", published[_i].memory);
	way_init(&way, p, schedule, published[_i].P, published[_i].m);
	ck_assert_int_le(way.tried.figures->makespan_ns, published[_i].makespan * ORR_UNIT_NS);
	ck_assert_int_eq(way.tried.figures->lower_bound_ns, published[_i].makespan * ORR_UNIT_NS);
	way_end(&way);
}
END_TEST

/* ---- its bounds ---- */

/* A backward that is not split starts one job less: 1f1b takes (m + P - 1) (6 + 7) here. */
START_TEST(no_bound_is_above_a_whole_backward_where_starting_a_job_takes_time)
{
	struct orr_pipeline *p = make_costed(4, 1, 1, 1);
	struct orr_search_options options = {
		.schedules = orr_schedules, .stashes = 4, .effort = 1, .seed = 1};
	struct orr_search_result result;
	struct way whole;
	int worker[4];
	int64_t n[4 * 8 * 3];

	orr_pipeline_set_overhead(p, 5);
	way_init(&whole, p, "1f1b", 4, 8);
	ck_assert(!orr_search(worker, n, &result, p, &options, NULL));
	ck_assert_int_eq(whole.tried.figures->makespan_ns, 11 * 13);
	ck_assert_int_gt(result.makespan_ns, 11 * 13);
	ck_assert_int_le(result.bound_ns, 11 * 13);
	way_end(&whole);
}
END_TEST

/* ---- its promises ---- */

static const char *const shapes[] = {"0>1 1>2 2>3 3>4 4>5", "0>2 1>2 2>3 3>4 4>5",
				     "0>1 0>2 1>3 2>3 3>4 3>5"};

START_TEST(the_simulator_needs_the_time_that_the_search_promises)
{
	suite_random = 11;
	for (int round = 0; round < suite_drawn(40); round++) {
		struct orr_pipeline *p = make_pipeline(6, shapes[round % 3], 1, 1, 1, 8, 4, 4);
		struct orr_machine machine = orr_machine_default(1 + suite_draw(6));
		struct orr_search_options options = {.stashes = 6 + suite_draw(6),
						     .effort = 1,
						     .related = 1,
						     .reorder = true,
						     .schedules = orr_schedules,
						     .seed = 1 + suite_draw(9)};
		struct orr_search_result result;
		struct way way;
		char schedule[96];
		int worker[6], m = 1 + suite_draw(6);
		int64_t n[6 * 6 * 3];

		p->has_weight = true;
		machine.latency_ns = suite_draw(2) ? suite_draw(4) : 0;
		machine.bandwidth_bytes_per_s = suite_draw(2) ? 1e9 * (1 + suite_draw(4)) : 0;
		for (int s = 0; s < 6; s++) {
			p->stages[s].forward_ns = 1 + suite_draw(6);
			p->stages[s].backward_ns = 1 + suite_draw(6);
			p->stages[s].weight_ns = suite_draw(6);
			p->stages[s].update_ns = suite_draw(2) ? suite_draw(5) : 0;
			p->stages[s].recompute = !suite_draw(4);
		}
		snprintf(schedule, sizeof(schedule), "auto:memory=%d,effort=1,seed=%d",
			 (int)options.stashes, (int)options.seed);
		way_init_on(&way, p, schedule, &machine, m);
		ck_assert(!orr_search(worker, n, &result, p, &options, NULL));
		ck_assert_msg(way.tried.figures->makespan_ns == result.makespan_ns,
			      "round %d: promised %lld, needs %lld", round,
			      (long long)result.makespan_ns,
			      (long long)way.tried.figures->makespan_ns);
		ck_assert_int_ge(way.tried.figures->lower_bound_ns, result.bound_ns);
		ck_assert_int_le(peak_of(way.tried.figures), (int)options.stashes);
		for (int j = 0; j < way.tried.jobs->n_jobs; j++) /* and it finds the same again */
			ck_assert(way.tried.jobs->priority[j] == n[j] &&
				  way.tried.jobs->compute[j] ==
					  worker[orr_jobs_at(way.tried.jobs, j).s]);
		way_end(&way);
	}
}
END_TEST

static void note(void *user, int64_t best_ns, int64_t bound_ns)
{
	int64_t *last = user;

	ck_assert_msg(!last[0] || best_ns < last[0], "%lld after %lld", (long long)best_ns,
		      (long long)last[0]);
	ck_assert_int_le(bound_ns, best_ns);
	last[0] = best_ns;
	last[1]++;
}

START_TEST(progress_tells_every_better_order)
{
	int64_t last[2] = {0, 0};
	struct orr_search_options options = {.stashes = 6,
					     .effort = 1,
					     .schedules = orr_schedules,
					     .seed = 1,
					     .placement = ORR_PLACEMENT_FOLD,
					     .observer = {note, last}};
	struct orr_pipeline *p = make_costed(8, 1296, 1322, 976);
	struct orr_search_result result;
	int worker[8];
	int64_t n[8 * 8 * 3];

	ck_assert(!orr_pipeline_set_step(p, 4, 8, NULL));
	ck_assert(!orr_search(worker, n, &result, p, &options, NULL));
	ck_assert_int_ge(last[1], 2);
	ck_assert_int_eq(last[0], result.makespan_ns);
	ck_assert_int_le(result.makespan_ns, result.start_ns);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(memory_in_which_nothing_fits_is_refused)
{
	struct orr_search_options options = {.stashes = 1, .schedules = orr_schedules, .seed = 1};
	struct orr_pipeline *p = make_costed(4, 1, 1, 1);
	struct orr_error err = {""};
	int worker[4];
	int64_t n[4 * 4 * 3];

	ck_assert(!orr_pipeline_set_step(p, 2, 4, NULL));
	ck_assert_int_eq(orr_search(worker, n, NULL, p, &options, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "auto: nothing fits 1 stage stashes on a worker, one microbatch "
				  "alone takes 2 on the placements that it tries: give "
				  "memory=2 or more");
	options = (struct orr_search_options){
		.stash_bytes = 1, .schedules = orr_schedules, .seed = 1};
	ck_assert_int_eq(orr_search(worker, n, NULL, p, &options, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "auto: not even one microbatch fits 1 bytes of stash on a "
				  "worker on the placements that it tries: give more memory, "
				  "take more workers or more microbatches ([microbatches])");
	options.stash_bytes = 2;
	ck_assert_int_eq(orr_search(worker, n, NULL, p, &options, &err), 0);
	orr_pipeline_destroy(p);
}
END_TEST

/* Stages of unequal stash: what is limited is their sum. */
START_TEST(memory_in_bytes_is_kept)
{
	static const char *const limits[] = {"auto:memory=70B,effort=1,placement=straight",
					     "auto:memory=0.1kB,effort=1,placement=straight"};

	for (int i = 0; i < 2; i++) {
		struct orr_pipeline *p = make_costed(8, 3, 4, 2);
		struct way way;

		for (int s = 0; s < 8; s++)
			p->stages[s].stash_bytes = 5 + 4 * s;
		way_init(&way, p, limits[i], 4, 8);
		for (int w = 0; w < 4; w++)
			ck_assert_int_le(way.tried.figures->worker[w].peak_stash_bytes,
					 i ? 100 : 70);
		ck_assert_int_gt(way.tried.figures->worker[3].peak_stash_bytes, 33 + 17);
		way_end(&way);
	}
}
END_TEST

/* Of --memory, what parameters leave is for stashes: more where there are fewer. */
START_TEST(memory_of_the_machine_is_kept)
{
	struct orr_search_options options = {.schedules = orr_schedules,
					     .effort = 1,
					     .seed = 1,
					     .placement = ORR_PLACEMENT_STRAIGHT};
	struct orr_machine machine = orr_machine_default(4);
	struct orr_pipeline *p = make_costed(8, 3, 4, 2);
	struct orr_error err = {""};
	struct way way;

	for (int s = 0; s < 8; s++) {
		p->stages[s].stash_bytes = 10;
		p->stages[s].parameter_bytes = s % 4 ? 5 : 20;
	}
	machine.memory_bytes = 190; /* worker 0 has 160 of parameters, the others 40 */
	way_init_on(&way, p, "auto:effort=1,placement=straight", &machine, 8);
	ck_assert_int_eq(way.tried.figures->worker[0].peak_stash_bytes, 30);
	for (int w = 0; w < 4; w++)
		ck_assert_int_le(way.tried.figures->worker[w].memory_bytes, 190);
	way_fini(&way);
	options.memory_bytes = 179; /* a microbatch takes two stashes on worker 0 */
	{
		int worker[8];
		int64_t n[8 * 8 * 3];

		ck_assert_int_eq(orr_search(worker, n, NULL, p, &options, &err), ORR_E_INPUT);
		ck_assert_msg(strstr(err.msg, "not even one microbatch fits [memory] 179B"), "%s",
			      err.msg);
		options.memory_bytes = 180;
		ck_assert_int_eq(orr_search(worker, n, NULL, p, &options, &err), 0);
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* Five stages on a worker, and no named schedule within the memory: what comes of microbatch after
 * microbatch is twice as long. */
START_TEST(many_stages_on_a_worker_overlap)
{
	struct orr_pipeline *p = make_costed(20, 3, 2, 2);
	struct way way;

	way_init(&way, p, "auto:effort=0", 4, 16);
	ck_assert_int_le(100 * way.tried.figures->makespan_ns,
			 102 * way.tried.figures->lower_bound_ns);
	for (int w = 0; w < 4; w++)
		ck_assert_int_le(way.tried.figures->worker[w].peak_stash, 20);
	way_end(&way);
}
END_TEST

START_TEST(memory_that_is_no_number_is_refused)
{
	struct orr_choice choice;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_choice_init(&choice, "auto:memory=7xB", &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "schedule auto: memory"), "%s", err.msg);
	ck_assert_int_eq(orr_choice_init(&choice, "auto:memory=-3", &err), ORR_E_INPUT);
	ck_assert_int_eq(orr_choice_init(&choice, "auto:memory=-3MB", &err), ORR_E_INPUT);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(auto_is_never_longer_than_the_schedules_whose_memory_it_has_and_shorter_where_that_can_be),
	EACH(auto_reaches_the_published_zero_bubble_makespans, N_OF(published)),
	ONCE(no_bound_is_above_a_whole_backward_where_starting_a_job_takes_time),
	ONCE(the_simulator_needs_the_time_that_the_search_promises),
	ONCE(progress_tells_every_better_order),
	ONCE(memory_in_which_nothing_fits_is_refused),
	ONCE(memory_in_bytes_is_kept),
	ONCE(memory_of_the_machine_is_kept),
	ONCE(many_stages_on_a_worker_overlap),
	ONCE(memory_that_is_no_number_is_refused),
};
SUITE("search")
