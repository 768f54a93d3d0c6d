/* Recomputation in the model: B takes F again, and until it starts the stash is the input alone. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "pipeline/partition.h"
#include "pipelines.h"
#include "suite.h"

/* A chain whose first stage reads data of the size of an edge. */
static struct orr_pipeline *make_sized_chain(int n_stages, int64_t forward, int64_t backward,
					     int64_t stash_bytes, int64_t edge_bytes)
{
	struct orr_pipeline *p =
		make_whole_chain(n_stages, forward, backward, 0, stash_bytes, 0, edge_bytes);

	p->stages[0].input_bytes = edge_bytes;
	return p;
}

static void set_recompute(struct orr_pipeline *p, const char *text)
{
	struct orr_error err = {""};

	ck_assert_msg(!orr_pipeline_set_recompute(p, text, &err), "%s", err.msg);
}

static void assert_same_timeline(const struct way *x, const struct way *y)
{
	ck_assert_int_eq(x->tried.jobs->n_jobs, y->tried.jobs->n_jobs);
	for (int j = 0; j < x->tried.jobs->n_jobs; j++) {
		ck_assert_int_eq(x->tried.timeline->start_ns[j], y->tried.timeline->start_ns[j]);
		ck_assert_int_eq(x->tried.timeline->end_ns[j], y->tried.timeline->end_ns[j]);
	}
	for (int w = 0; w < x->tried.figures->n_workers; w++)
		ck_assert_int_eq(x->tried.figures->worker[w].peak_stash_bytes,
				 y->tried.figures->worker[w].peak_stash_bytes);
}

/* ---- closed forms ---- */

static const int64_t costs[][2] = {{1, 1}, {1, 2}, {3, 2}, {10, 20}, {0, 1}};

START_TEST(recomputing_1f1b_takes_two_forwards_and_a_backward_per_microbatch)
{
	int64_t f = costs[_i][0], b = costs[_i][1], input = 1000, stash = 32000;

	for (int n_stages = 1; n_stages <= 9; n_stages += 2)
		for (int m = 1; m <= 33; m = 2 * m + (m > 8)) {
			struct orr_pipeline *p = make_sized_chain(n_stages, f, b, stash, input);
			struct way way;

			way_init(&way, p, "1f1b-r", n_stages, m);
			ck_assert_int_eq(way.tried.figures->makespan_ns,
					 (m + n_stages - 1) * (2 * f + b) * ORR_UNIT_NS);
			for (int w = 0; w < n_stages; w++) {
				int in_flight = m < n_stages - w ? m : n_stages - w;

				ck_assert_int_eq(way.tried.figures->worker[w].peak_stash,
						 in_flight);
				ck_assert_int_eq(way.tried.figures->worker[w].peak_stash_bytes,
						 (in_flight - 1) * input + stash);
				ck_assert_int_eq(way.tried.figures->worker[w].busy_ns,
						 m * (2 * f + b) * ORR_UNIT_NS);
			}
			way_end(&way);
		}
}
END_TEST

/* The same F and B for the orders, the same depth for the peaks. */
START_TEST(recomputing_1f1b_on_towers_peaks_by_depth)
{
	struct orr_pipeline *p = make_towers((const int[]){3, 3, 0}, 2, 1, 1);
	struct way way;

	way_init(&way, p, "1f1b-r", 8, 16);
	ck_assert_int_eq(way.tried.figures->makespan_ns, (16 + 5 - 1) * 3 * ORR_UNIT_NS);
	for (int s = 0; s < 8; s++)
		ck_assert_int_eq(way.tried.figures->worker[s].peak_stash, p->stages[s].depth);
	way_end(&way);
}
END_TEST

START_TEST(gpipe_keeps_one_whole_stash_and_inputs)
{
	struct orr_pipeline *p = make_sized_chain(4, 1, 2, 32000, 1000);
	struct way way;

	set_recompute(p, "all");
	way_init(&way, p, "gpipe", 4, 16);
	ck_assert_int_eq(way.tried.figures->makespan_ns, (16 + 3) * 4 * ORR_UNIT_NS);
	for (int w = 0; w < 4; w++) {
		ck_assert_int_eq(way.tried.figures->worker[w].peak_stash, 16);
		ck_assert_int_eq(way.tried.figures->worker[w].peak_stash_bytes, 15 * 1000 + 32000);
	}
	way_end(&way);
}
END_TEST

/* ---- an option of every schedule ---- */

START_TEST(every_schedule_recomputes_on_request)
{
	const char *name = orr_schedules[_i]->name;
	struct orr_pipeline *p = make_sized_chain(8, 3, 5, 32000, 1000);
	bool asks = orr_schedules[_i]->recompute != NULL;
	struct way way;

	set_recompute(p, "0,3,5");
	/* some take two stages a worker, some one */
	ck_assert_msg(way_try(&way, p, name, 4, 8) || way_try(&way, p, name, 8, 8), "%s", name);
	for (int j = 0; j < way.tried.jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(way.tried.jobs, j);
		bool again = job.s == 0 || job.s == 3 || job.s == 5 || asks;
		int64_t expected = job.d == ORR_PASS_F ? 3000 : 5000;

		ck_assert_msg(way.tried.jobs->recompute[job.s] == again, "%s, stage %d", name,
			      job.s);
		if (way.tried.jobs->n_passes == 3 && job.d != ORR_PASS_F)
			expected = 2500;
		if (job.d == ORR_PASS_B && again)
			expected += 3000;
		ck_assert_msg(way.tried.jobs->duration_ns[j] == expected * (ORR_UNIT_NS / 1000),
			      "%s: %d%c%d lasts %lld", name, job.s, orr_pass_letter(job.d), job.b,
			      (long long)way.tried.jobs->duration_ns[j]);
	}
	way_end(&way);
}
END_TEST

START_TEST(a_schedule_that_asks_is_the_option_on_all_stages)
{
	struct orr_pipeline *plain = make_sized_chain(5, 2, 3, 700, 50),
			    *asked = make_sized_chain(5, 2, 3, 700, 50);
	struct way x, y;

	set_recompute(asked, "all");
	way_init(&x, plain, "1f1b-r", 3, 7);
	way_init(&y, asked, "1f1b", 3, 7);
	assert_same_timeline(&x, &y);
	way_fini(&y);
	way_init(&y, asked, "1f1b-r", 3, 7); /* asked twice is asked once */
	assert_same_timeline(&x, &y);
	way_fini(&y);
	set_recompute(asked, "none");
	way_init(&y, asked, "1f1b-r", 3, 7); /* it is the schedule's own */
	assert_same_timeline(&x, &y);
	way_fini(&y);
	set_recompute(asked, "4,0,1,2,3,0");
	way_init(&y, asked, "1f1b", 3, 7);
	assert_same_timeline(&x, &y);
	way_end(&x);
	way_end(&y);
}
END_TEST

/* ---- bytes over time, with a split backward ---- */

static int along(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const int *step = data; /* how far each next pass is placed from the one before */

	(void)b;
	return (s + *step * (int)d) % p->n_workers;
}

static int64_t one_by_one(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			  const void *data)
{
	(void)data;
	return ((int64_t)b * ORR_N_PASSES + (int64_t)d) * p->n_stages +
	       (d == ORR_PASS_F ? s : p->n_stages - 1 - s);
}

struct curve {
	int n;
	int64_t points[16][3]; /* time in units, stashes, bytes */
};

static void note(void *user, int64_t time_ns, int stashes, int64_t bytes)
{
	struct curve *curve = user;

	ck_assert_int_lt(curve->n, 16);
	curve->points[curve->n][0] = time_ns / ORR_UNIT_NS;
	curve->points[curve->n][1] = stashes;
	curve->points[curve->n++][2] = bytes;
}

static void assert_curve(const struct orr_timeline *t, int w, const int64_t expected[][3], int n)
{
	struct curve curve = {0};

	ck_assert_int_eq(orr_timeline_stash(t, w, note, &curve, NULL), 0);
	ck_assert_int_eq(curve.n, n);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < 3; k++)
			ck_assert_msg(curve.points[i][k] == expected[i][k],
				      "worker %d, point %d, field %d: %lld, "
				      "expected %lld",
				      w, i, k, (long long)curve.points[i][k],
				      (long long)expected[i][k]);
}

static struct way split_way(struct orr_pipeline *p, const int *step, int n_workers,
			    const struct orr_machine *machine)
{
	struct orr_schedule schedule = {.name = "split",
					.order = ORR_ORDER_STRICT,
					.split_backward = true,
					.compute = along,
					.priority = one_by_one,
					.data = step};
	struct way way;

	p->machine = *machine;
	way_init_own(&way, p, &schedule, n_workers, 1);
	return way;
}

static struct orr_pipeline *make_split(int n_stages)
{
	struct orr_pipeline *p =
		make_pipeline(n_stages, n_stages == 2 ? "0>1" : "", 1, 2, 4, 100, 0, 7);

	p->stages[0].input_bytes = 9;
	return p;
}

START_TEST(bytes_grow_when_b_starts_and_stay_until_w_ends)
{
	struct orr_pipeline *p = make_split(1);
	struct orr_machine machine = orr_machine_default(1);
	int step = 0;
	struct way way;

	set_recompute(p, "0");
	way = split_way(p, &step, 1, &machine);
	/* F 0-1, B 1-4 (F again and 2), W 4-8 */
	assert_curve(way.tried.timeline, 0, (const int64_t[][3]){{0, 1, 9}, {1, 1, 100}, {8, 0, 0}},
		     3);
	ck_assert_int_eq(way.tried.figures->makespan_ns, 8 * ORR_UNIT_NS);
	ck_assert_int_eq(way.tried.figures->worker[0].peak_stash, 1);
	way_end(&way);
}
END_TEST

START_TEST(an_input_larger_than_the_stash_stays_while_f_runs_again)
{
	struct orr_pipeline *p = make_split(1);
	struct orr_machine machine = orr_machine_default(1);
	int step = 0;
	struct way way;

	p->stages[0].input_bytes = 300;
	set_recompute(p, "all");
	way = split_way(p, &step, 1, &machine);
	assert_curve(way.tried.timeline, 0, (const int64_t[][3]){{0, 1, 300}, {8, 0, 0}}, 2);
	way_end(&way);
}
END_TEST

/* F, B and W each on another worker: the input moves to B, the whole stash from there to W. */
START_TEST(an_input_moves_to_b_and_a_whole_stash_to_w)
{
	struct orr_pipeline *p = make_split(1);
	struct orr_machine machine = orr_machine_default(3);
	int step = 1, n = 0;
	struct way way;

	machine.latency_ns = ORR_UNIT_NS;
	set_recompute(p, "all");
	way = split_way(p, &step, 3, &machine);
	assert_curve(way.tried.timeline, 0, (const int64_t[][3]){{0, 1, 9}, {2, 0, 0}}, 2);
	assert_curve(way.tried.timeline, 1, (const int64_t[][3]){{2, 1, 100}, {6, 0, 0}}, 2);
	assert_curve(way.tried.timeline, 2, (const int64_t[][3]){{6, 1, 100}, {10, 0, 0}}, 2);
	ck_assert_int_eq(way.tried.figures->worker[1].recv_stash_bytes, 9);
	ck_assert_int_eq(way.tried.figures->worker[2].recv_stash_bytes, 100);
	for (int i = 0; i < way.tried.timeline->n_transfers; i++)
		if (way.tried.timeline->transfers[i].kind == ORR_TRANSFER_STASH) {
			ck_assert_int_eq(way.tried.timeline->transfers[i].bytes, n == 0 ? 9 : 100);
			n++;
		}
	ck_assert_int_eq(n, 2);
	way_end(&way);
}
END_TEST

START_TEST(one_stage_recomputes_and_its_neighbour_does_not)
{
	struct orr_pipeline *p = make_split(2);
	struct orr_machine machine = orr_machine_default(2);
	int step = 0;
	struct way way;

	set_recompute(p, "1");
	way = split_way(p, &step, 2, &machine);
	/* 0F 0-1, 1F 1-2, 1B 2-5, 1W 5-9, 0B 5-7, 0W 7-11 */
	assert_curve(way.tried.timeline, 0, (const int64_t[][3]){{0, 1, 100}, {11, 0, 0}}, 2);
	assert_curve(way.tried.timeline, 1, (const int64_t[][3]){{1, 1, 7}, {2, 1, 100}, {9, 0, 0}},
		     3);
	way_end(&way);
}
END_TEST

/* ---- sizes of inputs, and the option's text ---- */

START_TEST(a_stages_input_is_its_edges_and_its_data)
{
	static const char text[] = "digraph model {\n"
				   "  x [op=input columns=\"0:8\" stage=0]\n"
				   "  l1 [op=linear features=12 stage=0]\n"
				   "  l2 [op=linear features=6 stage=1]\n"
				   "  l3 [op=linear features=5 stage=2]\n"
				   "  join [op=concat stage=2]\n"
				   "  y [op=input columns=\"8\" stage=2]\n"
				   "  scores [op=linear features=4 stage=2]\n"
				   "  loss [op=softmax_cross_entropy stage=2]\n"
				   "  x -> l1 -> l2 -> l3 -> join -> scores -> loss\n"
				   "  l1 -> join\n"
				   "  y -> loss\n"
				   "}\n";
	struct orr_machine machine = orr_machine_default(1);
	struct orr_graph *g = NULL;
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_graph_parse(&g, "model.dot", text, &err), "%s", err.msg);
	ck_assert_msg(!orr_partition(&p, g, &machine, 0, 10, &err), "%s", err.msg);
	ck_assert_int_eq(p->stages[0].input_bytes, 4 * 10 * 8);
	ck_assert_int_eq(p->stages[1].input_bytes, 4 * 10 * 12);
	ck_assert_int_eq(p->stages[2].input_bytes, 4 * 10 * (6 + 12 + 1));
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

static const char *const bad_texts[] = {"",
					"some",
					"All",
					"5",
					"0,5",
					"-1",
					"0,,1",
					",",
					"1,",
					"0;1",
					"1.5",
					"0-2",
					"99999999999999999999999999",
					"0,0x1"};

START_TEST(a_text_that_names_no_stages_is_refused)
{
	struct orr_pipeline *p = make_chain(5, 1, 1);
	struct orr_error err = {""};
	char expected[256];

	snprintf(expected, sizeof(expected),
		 "[recompute]: '%s': give all, none, or stages from 0 to 4 with commas "
		 "between them",
		 bad_texts[_i]);
	ck_assert_int_eq(orr_pipeline_set_recompute(p, bad_texts[_i], &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, expected);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(a_text_names_the_stages_that_recompute)
{
	static const struct {
		const char *text, *stages;
	} cases[] = {{"all", "11111"},
		     {"none", "00000"},
		     {"0", "10000"},
		     {"0,3", "10010"},
		     {"4,1,4", "01001"}};
	struct orr_pipeline *p = make_chain(5, 1, 1);

	for (int i = 0; i < N_OF(cases); i++) {
		set_recompute(p, cases[i].text);
		for (int s = 0; s < 5; s++)
			ck_assert_msg(p->stages[s].recompute == (cases[i].stages[s] == '1'),
				      "%s, stage %d", cases[i].text, s);
	}
	orr_pipeline_destroy(p);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(recomputing_1f1b_takes_two_forwards_and_a_backward_per_microbatch,
		     N_OF(costs)),
		ONCE(recomputing_1f1b_on_towers_peaks_by_depth),
		ONCE(gpipe_keeps_one_whole_stash_and_inputs),
		EACH(every_schedule_recomputes_on_request, count_schedules()),
		ONCE(a_schedule_that_asks_is_the_option_on_all_stages),
		ONCE(bytes_grow_when_b_starts_and_stay_until_w_ends),
		ONCE(an_input_larger_than_the_stash_stays_while_f_runs_again),
		ONCE(an_input_moves_to_b_and_a_whole_stash_to_w),
		ONCE(one_stage_recomputes_and_its_neighbour_does_not),
		ONCE(a_stages_input_is_its_edges_and_its_data),
		EACH(a_text_that_names_no_stages_is_refused, N_OF(bad_texts)),
		ONCE(a_text_names_the_stages_that_recompute),
	};

	return suite_run("recompute", tests, N_OF(tests));
}
