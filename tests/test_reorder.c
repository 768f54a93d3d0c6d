/* auto chooses the order of microbatches too, unless reorder=0 is given. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "pipelines.h"
#include "suite.h"

#define MOST 12

/* A chain of four stages, or two towers of two and a trunk of one. */
static struct orr_pipeline *make(int towers)
{
	return towers ? make_towers((const int[]){2, 2, 0}, 1, 1, 1) : make_chain(4, 1, 1);
}

/* The makespan, of the microbatches in their order or in any; *bound follows. */
static int64_t try(int towers, const int *times, int m, const char *schedule, int64_t *bound)
{
	struct orr_pipeline *p = make_differ(make(towers), times, m);
	struct way way;
	int64_t makespan;

	way_init(&way, p, schedule, p->n_stages, m);
	makespan = way.tried.figures->makespan_ns;
	if (bound)
		*bound = way.tried.figures->lower_bound_ns;
	ck_assert_int_eq(orr_timeline_check(way.tried.timeline, NULL), 0);
	way_end(&way);
	return makespan;
}

/* Of four or five microbatches, every order is tried as it is. */
static int64_t try_all(int towers, int *times, int m, int done, const char *schedule, int64_t best)
{
	if (done == m) {
		int64_t makespan = try(towers, times, m, schedule, NULL);

		return makespan < best ? makespan : best;
	}
	for (int i = done; i < m; i++) {
		int kept = times[done];

		times[done] = times[i];
		times[i] = kept;
		best = try_all(towers, times, m, done + 1, schedule, best);
		times[i] = times[done];
		times[done] = kept;
	}
	return best;
}

START_TEST(no_order_of_a_few_microbatches_is_better)
{
	int times[5], m = 4 + _i % 2, towers = _i / 2 % 2;
	int64_t found;

	suite_random = (uint64_t)_i;
	for (int b = 0; b < m; b++)
		times[b] = 1 + suite_draw(9);
	found = try(towers, times, m, "auto:effort=1,placement=straight", NULL);
	ck_assert_int_le(
		found, try_all(towers, times, m, 0, "auto:effort=0,placement=straight", INT64_MAX));
	ck_assert_int_le(found, try_all(towers, times, m, 0, "1f1b", INT64_MAX));
}
END_TEST

START_TEST(another_order_is_never_worse)
{
	int64_t plain = 0, found = 0;

	suite_random = 7;
	for (int k = 0; k < suite_drawn(12); k++) {
		int times[MOST], m = 4 + suite_draw(MOST - 3);
		int64_t bound, x, y;

		for (int b = 0; b < m; b++)
			times[b] = 1 + suite_draw(20);
		x = try(k % 2, times, m, "auto:effort=1,placement=straight,reorder=0", NULL);
		y = try(k % 2, times, m, "auto:effort=1,placement=straight", &bound);
		ck_assert_int_le(bound, y);
		ck_assert_int_le(y, x);
		ck_assert_int_eq(y, try(k % 2, times, m, "auto:effort=1,placement=straight", NULL));
		plain += x;
		found += y;
	}
	/* 5% or more on the whole */
	ck_assert_msg(found * 100 <= plain * 95, "%lld and %lld", (long long)found,
		      (long long)plain);
}
END_TEST

/* Where they are alike, there is nothing to choose. */
START_TEST(microbatches_that_are_alike_stay_where_they_are)
{
	static const char *const schedules[] = {"auto:effort=1,reorder=0", "auto:effort=1"};
	int64_t makespan[2];

	for (int i = 0; i < 2; i++) {
		struct orr_pipeline *p = make(0);
		struct way way;

		way_init(&way, p, schedules[i], 4, 6);
		makespan[i] = way.tried.figures->makespan_ns;
		way_end(&way);
	}
	ck_assert_int_eq(makespan[0], makespan[1]);
}
END_TEST

/* Stashes of different sizes: the memory is that of each. */
START_TEST(bytes_are_kept_within)
{
	const int times[] = {9, 1, 5, 2, 8, 3};
	struct orr_pipeline *p = make_differ(make(0), times, 6);
	struct way way;

	way_init(&way, p, "auto:effort=1,memory=170B", 4, 6);
	for (int w = 0; w < 4; w++)
		ck_assert_int_le(way.tried.figures->worker[w].peak_stash_bytes, 170);
	way_end(&way);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(no_order_of_a_few_microbatches_is_better, suite_takes_all() ? 8 : 4),
		ONCE(another_order_is_never_worse),
		ONCE(microbatches_that_are_alike_stay_where_they_are),
		ONCE(bytes_are_kept_within),
	};

	return suite_run("reorder", tests, N_OF(tests));
}
