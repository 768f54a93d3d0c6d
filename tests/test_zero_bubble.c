/* Split backward outside the V family: zb-h1 and zb-h2 in closed form, zb-1p and zb-2p by search,
 * against the published figures. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "pipelines.h"
#include "suite.h"

static int smaller(int x, int y)
{
	return x < y ? x : y;
}

/* A chain whose passes are told apart. */
static struct orr_pipeline *make_split_chain(int n, int64_t f_ns, int64_t b_ns, int64_t w_ns)
{
	struct orr_pipeline *p = make_chain(n, 1, 1);

	for (int s = 0; s < n; s++) {
		p->stages[s].forward_ns = f_ns;
		p->stages[s].backward_ns = b_ns;
		p->stages[s].weight_ns = w_ns;
	}
	p->has_weight = true;
	return p;
}

/* ---- measured durations: Zero Bubble Pipeline Parallelism, tables 5 and 6 ---- */

enum { ONE_F_ONE_B, INTERLEAVED, H1, H2, P1, P2, N_COLUMNS };
static const char *const columns[] = {"1f1b", "interleaved", "zb-h1", "zb-h2", "zb-1p", "zb-2p"};

static const struct {
	int m;
	int64_t f_us, b_us, w_us, latency_us;
	int v;
	double bubble[N_COLUMNS];
} measured[] = {
	{24, 18522, 18086, 9337, 601, 3, {0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433}},
	{32, 18513, 18086, 9331, 626, 3, {0.1985, 0.0818, 0.1242, 0.0837, 0.1242, 0.0039}},
	{64, 18546, 18097, 9321, 762, 3, {0.1240, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026}},
	{24, 29718, 29444, 19927, 527, 4, {0.2347, 0.0808, 0.1323, 0.0698, 0.1323, 0.0029}},
	{32, 29802, 29428, 19530, 577, 4, {0.1898, 0.0628, 0.1045, 0.0559, 0.1045, 0.0022}},
	{64, 29935, 29621, 19388, 535, 4, {0.1091, 0.0320, 0.0554, 0.0294, 0.0554, 0.0010}},
};

START_TEST(span_bubbles_are_the_published_ones_to_four_decimals)
{
	struct orr_machine machine = orr_machine_default(8);
	struct orr_pipeline *p = make_split_chain(
		8, measured[_i].f_us * 1000, measured[_i].b_us * 1000, measured[_i].w_us * 1000);

	machine.latency_ns = measured[_i].latency_us * 1000;
	for (int k = 0; k < N_COLUMNS; k++) {
		struct way way;

		if (k == INTERLEAVED)
			continue;
		way_init_on(&way, p, columns[k], &machine, measured[_i].m);
		ck_assert_msg(way.tried.figures->span_bubble < measured[_i].bubble[k] + 0.00005 &&
				      way.tried.figures->span_bubble >
					      measured[_i].bubble[k] - 0.00005,
			      "%s: %.6f, published %.4f", columns[k],
			      way.tried.figures->span_bubble, measured[_i].bubble[k]);
		way_fini(&way);
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* The published 1F1B-I counts 2vp-2-p latencies; exact times have 2vp-2. */
START_TEST(interleaved_waits_for_2vp_less_2_latencies)
{
	struct orr_machine machine = orr_machine_default(8);
	int v = measured[_i].v, m = measured[_i].m;
	int64_t f = measured[_i].f_us * 1000 / v,
		b = (measured[_i].b_us + measured[_i].w_us) * 1000 / v;
	int64_t latency = measured[_i].latency_us * 1000, work = m * v * (f + b),
		span = work + 7 * (f + b);
	struct orr_pipeline *p = make_split_chain(8 * v, f, b, 0);
	struct way way;

	p->has_weight = false;
	machine.latency_ns = latency;
	way_init_on(&way, p, "interleaved", &machine, m);
	ck_assert_int_eq(way.tried.figures->makespan_ns, span + (16 * v - 2) * latency);
	ck_assert_double_eq_tol(1 - (double)work / (double)(span + (16 * v - 2 - 8) * latency),
				measured[_i].bubble[INTERLEAVED], 0.00005);
	way_end(&way);
}
END_TEST

/* ---- unit times ---- */

static const struct {
	const char *schedule;
	int p, m, makespan, span, peak;
} unit_rows[] = {
	{"1f1b", 4, 8, 33, 33, 4},     {"1f1b", 8, 32, 117, 117, 8},
	{"zb-1p", 4, 8, 27, 27, 4},    {"zb-1p", 4, 12, 39, 39, 4},
	{"zb-1p", 8, 32, 103, 103, 8}, {"zb-1p", 8, 64, 199, 199, 8},
	{"zb-2p", 4, 8, 27, 24, 8},    {"zb-2p:kept=100", 4, 8, 27, 24, 8},
};

START_TEST(unit_times_give_the_published_makespan_span_and_peak)
{
	struct orr_pipeline *p =
		make_split_chain(unit_rows[_i].p, ORR_UNIT_NS, ORR_UNIT_NS, ORR_UNIT_NS);
	struct way way;

	way_init(&way, p, unit_rows[_i].schedule, unit_rows[_i].p, unit_rows[_i].m);
	ck_assert_int_eq(units(way.tried.figures->makespan_ns), unit_rows[_i].makespan);
	ck_assert_int_eq(units(way.tried.figures->span_ns), unit_rows[_i].span);
	ck_assert_int_le(peak_of(way.tried.figures), unit_rows[_i].peak);
	way_end(&way);
}
END_TEST

/* What a worker idles between its first job and its last. */
static int64_t worst_gap(const struct way *way)
{
	int64_t worst = 0;

	for (int w = 0; w < way->tried.figures->n_workers; w++) {
		const struct orr_worker_figures *worker = &way->tried.figures->worker[w];
		int64_t gap = worker->last_end_ns - worker->first_start_ns - worker->busy_ns;

		worst = gap > worst ? gap : worst;
	}
	return units(worst);
}

START_TEST(worker_bubbles_of_zb_h1_and_zb_h2_are_the_papers)
{
	static const int costs[][3] = {{1, 1, 1}, {2, 2, 1}, {1, 2, 1}, {2, 3, 2}, {3, 2, 2}};
	int f = costs[_i][0], b = costs[_i][1], w = costs[_i][2];

	for (int n = 2; n <= 16; n += n < 6 ? 1 : 5)
		for (int m = 2 * n; m <= 6 * n; m += n + 1)
			for (int twice = 0; twice < 2; twice++) {
				struct orr_pipeline *p = make_split_chain(
					n, f * ORR_UNIT_NS, b * ORR_UNIT_NS, w * ORR_UNIT_NS);
				struct way way;

				way_init(&way, p, twice ? "zb-h2" : "zb-h1", n, m);
				ck_assert_int_eq(worst_gap(&way),
						 (n - 1) * (f + b - (twice ? 2 : 1) * w));
				for (int x = 0; x < n; x++) /* W lags where forwards do not lead */
					ck_assert_int_eq(way.tried.figures->worker[x].peak_stash,
							 twice ? 2 * n - 1 : n);
				if (f == 1 && b == 1)
					ck_assert_int_eq(units(way.tried.figures->makespan_ns),
							 3 * m + n - 1);
				way_end(&way);
			}
}
END_TEST

START_TEST(orders_of_zb_h1_and_zb_h2_are_the_papers)
{
	struct orr_pipeline *p = make_split_chain(3, ORR_UNIT_NS, ORR_UNIT_NS, ORR_UNIT_NS);
	struct way way;

	way_init(&way, p, "zb-h1", 3, 5);
	ck_assert_str_eq(way_order(&way, 0),
			 "0F0 0F1 0F2 0B0 0W0 0F3 0B1 0W1 0F4 0B2 0W2 0B3 0W3 0B4 0W4");
	ck_assert_str_eq(way_order(&way, 2),
			 "2F0 2B0 2F1 2B1 2F2 2B2 2W0 2F3 2B3 2W1 2F4 2B4 2W2 2W3 2W4");
	way_fini(&way);
	way_init(&way, p, "zb-h2", 3, 6);
	ck_assert_str_eq(way_order(&way, 0),
			 "0F0 0F1 0F2 0F3 0F4 0B0 0W0 0F5 0B1 0W1 0B2 0W2 0B3 0W3 0B4 0W4 0B5 0W5");
	ck_assert_str_eq(way_order(&way, 2),
			 "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4 2W0 2F5 2B5 2W1 2W2 2W3 2W4 2W5");
	way_end(&way);
}
END_TEST

/* ---- any DAG ---- */

START_TEST(depth_sets_the_memory_and_the_bubble_of_towers)
{
	static const struct {
		const char *schedule;
		int most, makespan, span;
	} rows[] = {{"zb-h1", 5, 52, 52},
		    {"zb-1p", 5, 52, 52},
		    {"zb-h2", 9, 52, 48},
		    {"zb-2p", 9, 52, 48}};
	struct orr_pipeline *p =
		make_towers((const int[]){3, 3, 0}, 2, 1, 2); /* B and W half of 2 each */
	struct way way;

	/* 3m + D - 1, as a chain of the 5 stages of the longest path; all 8 in a row take 55 */
	for (int i = 0; i < N_OF(rows); i++) {
		way_init(&way, p, rows[i].schedule, 8, 16);
		ck_assert_int_eq(units(way.tried.figures->makespan_ns), rows[i].makespan);
		ck_assert_int_eq(units(way.tried.figures->span_ns), rows[i].span);
		for (int w = 0; w < 8; w++)
			ck_assert_int_eq(way.tried.figures->worker[w].peak_stash, rows[i].most);
		way_fini(&way);
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* The memory of the search: what W still reads counts `kept` percent of a stash after B. */
static int64_t most_held(const struct way *way, int w, int kept)
{
	int64_t held = 0, most = 0;

	for (int i = way->tried.jobs->first[w]; i < way->tried.jobs->first[w + 1]; i++) {
		enum orr_pass d = orr_jobs_at(way->tried.jobs, way->tried.jobs->by_worker[i]).d;

		held += d == ORR_PASS_F ? 100 : d == ORR_PASS_B ? kept - 100 : -kept;
		most = held > most ? held : most;
	}
	ck_assert_int_eq(held, 0);
	return most;
}

static unsigned random_state;

static int random_below(int n)
{
	random_state = random_state * 1103515245u + 12345u;
	return (int)(random_state >> 16) % n;
}

/* A DAG with any edges, and durations of any ratio. */
static struct orr_pipeline *make_random(int n)
{
	char edges[4096] = "";
	size_t used = 0;
	struct orr_pipeline *p;

	for (int to = 1; to < n; to++)
		for (int from = 0; from < to; from++)
			if (random_below(n) < 2)
				used += (size_t)snprintf(edges + used, sizeof(edges) - used,
							 " %d>%d", from, to);
	p = make_pipeline(n, edges, 1, 1, 1, 1, 1, 0);
	for (int s = 0; s < n; s++) {
		p->stages[s].forward_ns = ORR_UNIT_NS / (1 + random_below(4));
		p->stages[s].backward_ns = ORR_UNIT_NS / (1 + random_below(4));
		p->stages[s].weight_ns = ORR_UNIT_NS / (1 + random_below(8));
	}
	return p;
}

START_TEST(searched_orders_keep_their_limit_and_beat_the_closed_forms)
{
	random_state = (unsigned)_i + 1;
	for (int round = 0; round < 40; round++) {
		int n = 1 + random_below(9), m = 1 + random_below(24), kept = 1 + random_below(100);
		struct orr_pipeline *p = make_random(n);
		struct orr_machine machine = orr_machine_default(n);
		int64_t span[4], makespan[4];
		char text[4][32] = {"zb-h1", "", "zb-h2", ""};
		struct way way;

		machine.latency_ns = random_below(3) * ORR_UNIT_NS / 7;
		snprintf(text[1], sizeof(text[1]), "zb-1p:kept=%d", kept);
		snprintf(text[3], sizeof(text[3]), "zb-2p:kept=%d", kept);
		for (int k = 0; k < 4; k++) {
			way_init_on(&way, p, text[k], &machine, m);
			span[k] = way.tried.figures->span_ns;
			makespan[k] = way.tried.figures->makespan_ns;
			for (int w = 0; w < n; w++)
				if (k % 2)
					ck_assert_int_le(most_held(&way, w, kept),
							 (k == 3 ? 200 : 100) * p->depth);
				else
					ck_assert_int_le(
						way.tried.figures->worker[w].peak_stash,
						smaller(m, k ? 2 * p->depth - 1 : p->depth));
			way_fini(&way);
		}
		ck_assert(span[1] < span[0] || (span[1] == span[0] && makespan[1] <= makespan[0]));
		ck_assert(span[3] < span[2] || (span[3] == span[2] && makespan[3] <= makespan[2]));
		ck_assert_int_le(span[3], span[1]);
		orr_pipeline_destroy(p);
	}
}
END_TEST

/* Each row is longer without one of the rules of the search, or with it everywhere. */
START_TEST(every_rule_of_the_search_shortens_some_step)
{
	static const struct {
		const char *schedule;
		int n, m, f, b, w, span, makespan;
	} rows[] = {
		{"zb-2p", 4, 16, 4, 3, 3, 160, 172},            /* late */
		{"zb-2p", 8, 13, 4, 2, 4, 132, 158},            /* not late */
		{"zb-2p", 5, 19, 4, 9, 2, 301, 301},            /* skip */
		{"zb-2p", 8, 29, 9, 8, 4, 616, 672},            /* do not */
		{"zb-2p:kept=100", 6, 27, 5, 14, 13, 904, 904}, /* fill */
		{"zb-2p", 8, 27, 7, 6, 4, 460, 508},            /* not where there is time */
	};

	for (int i = 0; i < N_OF(rows); i++) {
		struct orr_pipeline *p =
			make_split_chain(rows[i].n, rows[i].f * ORR_UNIT_NS,
					 rows[i].b * ORR_UNIT_NS, rows[i].w * ORR_UNIT_NS);
		struct way way;

		way_init(&way, p, rows[i].schedule, rows[i].n, rows[i].m);
		ck_assert_int_eq(units(way.tried.figures->span_ns), rows[i].span);
		ck_assert_int_eq(units(way.tried.figures->makespan_ns), rows[i].makespan);
		way_end(&way);
	}
}
END_TEST

START_TEST(split_schedules_run_every_dag_with_fewer_and_more_workers)
{
	static const char *const schedules[] = {"zb-h1", "zb-h2", "zb-1p", "zb-2p",
						"zb-2p:kept=100"};

	random_state = 7;
	for (int round = 0; round < 60; round++) {
		int n = 1 + random_below(8);
		struct orr_pipeline *p = make_random(n);
		struct orr_machine machine = orr_machine_default(1 + random_below(n + 2));
		struct way way;

		machine.latency_ns = random_below(2) * ORR_UNIT_NS / 3;
		way_init_on(&way, p, schedules[_i], &machine, 1 + random_below(13));
		way_end(&way);
	}
}
END_TEST

/* Whole stashes until W: the last worker starts (P-1)(F+c) after the first, its last B must end
 * (P-1)(B+c) + W before the first worker does, and only the W of what it then holds can come later.
 * zb-2p reaches that. */
START_TEST(twice_the_whole_stashes_reach_what_the_last_worker_allows)
{
	struct orr_machine machine = orr_machine_default(8);
	int64_t f = measured[_i].f_us * 1000, b = measured[_i].b_us * 1000,
		w = measured[_i].w_us * 1000;
	int64_t c = measured[_i].latency_us * 1000, work = measured[_i].m * (f + b + w);
	struct orr_pipeline *p = make_split_chain(8, f, b, w);
	struct way way;

	machine.latency_ns = c;
	way_init_on(&way, p, "zb-2p:kept=100", &machine, measured[_i].m);
	for (int x = 0; x < 8; x++)
		ck_assert_int_le(way.tried.figures->worker[x].peak_stash, 16);
	ck_assert_int_ge(way.tried.figures->worker[0].last_end_ns,
			 work + 7 * (f + b + 2 * c) + w - 16 * w);
	ck_assert_double_eq_tol((double)way.tried.figures->span_ns,
				(double)(work + 7 * (f + b + 2 * c) + w - 16 * w),
				0.01 * (double)work);
	way_end(&way);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(span_bubbles_are_the_published_ones_to_four_decimals, N_OF(measured)),
	EACH(interleaved_waits_for_2vp_less_2_latencies, N_OF(measured)),
	EACH(unit_times_give_the_published_makespan_span_and_peak, N_OF(unit_rows)),
	EACH(worker_bubbles_of_zb_h1_and_zb_h2_are_the_papers, 5),
	ONCE(orders_of_zb_h1_and_zb_h2_are_the_papers),
	ONCE(depth_sets_the_memory_and_the_bubble_of_towers),
	EACH(searched_orders_keep_their_limit_and_beat_the_closed_forms, 5),
	ONCE(every_rule_of_the_search_shortens_some_step),
	EACH(split_schedules_run_every_dag_with_fewer_and_more_workers, 5),
	EACH(twice_the_whole_stashes_reach_what_the_last_worker_allows, N_OF(measured)),
};
SUITE("zero_bubble")
