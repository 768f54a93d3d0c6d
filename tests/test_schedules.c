/* Closed forms of the published schedules: makespan, peak and order, since no one of them tells a
 * wrong schedule alone. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "suite.h"

/* ---- gpipe and 1f1b on chains ---- */

/* What worker w of p may hold of m microbatches. */
static int all_of_them(int p, int w, int m)
{
	(void)p, (void)w;
	return m;
}

static int one_a_stage_left(int p, int w, int m)
{
	return p - w < m ? p - w : m;
}

static int two_a_stage_left(int p, int w, int m)
{
	return 2 * (p - w) - 1 < m ? 2 * (p - w) - 1 : m;
}

static const struct {
	const char *schedule;
	int p, m, f, b;
	int (*in_flight)(int p, int w, int m);
} chains[] = {
	{"gpipe", 4, 1, 1, 2, all_of_them},
	{"gpipe", 4, 4, 1, 2, all_of_them},
	{"gpipe", 4, 16, 1, 2, all_of_them},
	{"gpipe", 4, 32, 1, 2, all_of_them},
	{"gpipe", 4, 64, 1, 2, all_of_them},
	{"gpipe", 8, 48, 1, 2, all_of_them},
	{"gpipe", 8, 3, 2, 3, all_of_them},
	{"gpipe", 1, 5, 1, 1, all_of_them},
	{"1f1b", 4, 1, 1, 2, one_a_stage_left},
	{"1f1b", 4, 4, 1, 2, one_a_stage_left},
	{"1f1b", 4, 16, 1, 2, one_a_stage_left},
	{"1f1b", 4, 32, 1, 2, one_a_stage_left},
	{"1f1b", 4, 64, 1, 2, one_a_stage_left},
	{"1f1b", 8, 48, 1, 2, one_a_stage_left},
	{"1f1b", 8, 3, 2, 3, one_a_stage_left},
	{"1f1b", 1, 5, 1, 1, one_a_stage_left},
	{"1f1b", 16, 64, 1, 1, one_a_stage_left},
	{"eager-1f1b", 4, 16, 1, 2, two_a_stage_left},
	{"eager-1f1b", 8, 48, 1, 2, two_a_stage_left},
	{"1f1b", 4, 8, 3, 1, one_a_stage_left},
};

START_TEST(a_chain_takes_m_plus_p_less_1_forwards_and_backwards)
{
	int p = chains[_i].p, m = chains[_i].m, both = chains[_i].f + chains[_i].b;
	struct orr_pipeline *pipeline = make_chain(p, chains[_i].f, chains[_i].b);
	struct way way;

	way_init(&way, pipeline, chains[_i].schedule, p, m);
	ck_assert_msg(units(way.tried.figures->makespan_ns) == (m + p - 1) * both,
		      "%s p=%d m=%d: %lld", chains[_i].schedule, p, m,
		      (long long)units(way.tried.figures->makespan_ns));
	ck_assert_double_eq_tol(way.tried.figures->bubble, (p - 1) / (double)(m + p - 1), 1e-12);
	ck_assert_int_eq(way.tried.figures->lower_bound_ns, way.tried.figures->makespan_ns);
	for (int w = 0; w < p; w++)
		ck_assert_int_eq(way.tried.figures->worker[w].peak_stash,
				 chains[_i].in_flight(p, w, m));
	way_end(&way);
}
END_TEST

START_TEST(bubbles_of_gpipe_are_the_published_percentages)
{
	static const struct {
		int p, m;
		double percent;
	} rows[] = {{4, 1, 75}, {4, 4, 43}, {4, 16, 16}, {4, 32, 8.6}, {4, 64, 4.5}, {8, 48, 12.7}};

	for (int i = 0; i < N_OF(rows); i++)
		for (int k = 0; k < 2; k++) {
			struct orr_pipeline *p = make_chain(rows[i].p, 1, 1);
			struct way way;

			way_init(&way, p, k ? "1f1b" : "gpipe", rows[i].p, rows[i].m);
			ck_assert_double_eq_tol(100 * way.tried.figures->bubble, rows[i].percent,
						rows[i].percent < 16 ? 0.05 : 0.5);
			way_end(&way);
		}
}
END_TEST

START_TEST(gpipe_holds_512_MB_where_1f1b_holds_128)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 1, 0, 32000000, 0, 0);
	struct way way;

	way_init(&way, p, "gpipe", 4, 16);
	ck_assert_int_eq(way.tried.figures->worker[0].peak_stash_bytes, 512000000);
	way_fini(&way);
	way_init(&way, p, "1f1b", 4, 16);
	ck_assert_int_eq(way.tried.figures->worker[0].peak_stash_bytes, 128000000);
	way_end(&way);
}
END_TEST

START_TEST(one_f_one_b_of_64_microbatches_trains_30_a_second)
{
	struct orr_pipeline *p = make_chain(8, 10, 20);
	struct way way;
	double seconds;

	for (int s = 0; s < 8; s++) { /* milliseconds */
		p->stages[s].forward_ns /= 1000;
		p->stages[s].backward_ns /= 1000;
	}
	way_init(&way, p, "1f1b", 8, 64);
	seconds = (double)way.tried.figures->makespan_ns / 1e9;
	ck_assert_double_eq_tol(seconds, 2.13, 1e-9);
	ck_assert_double_eq_tol(100 * (1 - way.tried.figures->bubble), 90.1, 0.05);
	ck_assert_double_eq_tol(64 / seconds, 30.0, 0.05);
	way_end(&way);
}
END_TEST

START_TEST(a_step_of_1f1b_receives_57_3_GB)
{
	struct orr_pipeline *p = make_whole_chain(8, 1, 1, 0, 0, 0, 128000000);
	struct way way;
	int64_t bytes = 0;

	way_init(&way, p, "1f1b", 8, 32);
	for (int w = 0; w < 8; w++)
		bytes += way.tried.figures->worker[w].recv_activation_bytes +
			 way.tried.figures->worker[w].recv_gradient_bytes;
	ck_assert_int_eq(bytes, INT64_C(2) * 7 * 32 * 128000000);
	way_end(&way);
}
END_TEST

START_TEST(ddp_all_reduces_245_GB_by_a_ring)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 1, 0, 0, INT64_C(35000000000), 0);
	struct way way;

	way_init(&way, p, "ddp", 8, 8);
	for (int w = 0; w < 8; w++)
		ck_assert_int_eq(way.tried.figures->worker[w].all_reduce_bytes,
				 INT64_C(245000000000));
	way_end(&way);
}
END_TEST

START_TEST(strict_order_of_1f1b_is_the_published_one)
{
	struct orr_pipeline *p = make_chain(4, 1, 2);
	struct way way;

	way_init(&way, p, "1f1b", 4, 5);
	ck_assert_str_eq(way_order(&way, 0), "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0B2 0B3 0B4");
	ck_assert_str_eq(way_order(&way, 2), "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2B4");
	ck_assert_str_eq(way_order(&way, 3), "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4");
	way_fini(&way);
	way_init(&way, p, "gpipe", 4, 3);
	ck_assert_str_eq(way_order(&way, 1), "1F0 1F1 1F2 1B0 1B1 1B2");
	way_end(&way);
}
END_TEST

/* ---- 1f1b on stage DAGs ---- */

static const struct {
	int towers[4], trunk, f, b, m, makespan, peaks[9];
} dags[] = {
	{{3, 3}, 2, 1, 1, 16, 40, {5, 4, 3, 5, 4, 3, 2, 1}},
	{{0}, 8, 1, 1, 16, 46, {8, 7, 6, 5, 4, 3, 2, 1}},
	{{3, 3}, 2, 1, 2, 16, 60, {5, 4, 3, 5, 4, 3, 2, 1}},
	{{0}, 8, 1, 2, 16, 69, {8, 7, 6, 5, 4, 3, 2, 1}},
	{{4, 2}, 2, 1, 2, 16, 63, {6, 5, 4, 3, 4, 3, 2, 1}},
	{{3, 1}, 2, 1, 2, 8, 36, {5, 4, 3, 3, 2, 1}},
	{{3, 1}, 2, 1, 2, 16, 60, {5, 4, 3, 3, 2, 1}},
	{{3, 1}, 2, 1, 2, 32, 108, {5, 4, 3, 3, 2, 1}},
	{{0}, 6, 1, 2, 8, 39, {6, 5, 4, 3, 2, 1}},
	{{0}, 6, 1, 2, 16, 63, {6, 5, 4, 3, 2, 1}},
	{{0}, 6, 1, 2, 32, 111, {6, 5, 4, 3, 2, 1}},
};

START_TEST(depth_not_length_sets_warm_up_and_memory)
{
	struct orr_pipeline *p =
		make_towers(dags[_i].towers, dags[_i].trunk, dags[_i].f, dags[_i].b);
	struct way way;

	way_init(&way, p, "1f1b", p->n_stages, dags[_i].m);
	ck_assert_int_eq(units(way.tried.figures->makespan_ns), dags[_i].makespan);
	for (int w = 0; w < p->n_stages; w++)
		ck_assert_int_eq(way.tried.figures->worker[w].peak_stash, dags[_i].peaks[w]);
	way_end(&way);
}
END_TEST

START_TEST(a_skip_connection_costs_nothing)
{
	struct orr_pipeline *p = make_pipeline(4, "0>1 1>2 2>3 0>3", 1, 2, 0, 1, 0, 0);
	struct way way;

	way_init(&way, p, "1f1b", 4, 8);
	ck_assert_int_eq(units(way.tried.figures->makespan_ns), 33);
	for (int w = 0; w < 4; w++)
		ck_assert_int_eq(way.tried.figures->worker[w].peak_stash, 4 - w);
	way_end(&way);
}
END_TEST

/* ---- [Rahimi25] table 1: a unit is one F plus one B ---- */

static const struct {
	const char *name, *schedule;
	int s, b, w, g, r;
} table1[] = {
	{"ddp", "ddp", 4, 8, 8, 8, 1},
	{"ddp", "ddp", 8, 32, 32, 32, 1},
	{"fsdp", "fsdp", 4, 8, 8, 8, 1},
	{"fsdp", "fsdp", 8, 32, 32, 32, 1},
	{"gpipe", "gpipe", 4, 8, 4, 1, 4},
	{"gpipe", "gpipe", 8, 32, 8, 1, 8},
	{"lpp", "lpp:G=1,R=4", 4, 8, 4, 1, 4},
	{"lpp", "lpp:G=1,R=8", 8, 32, 8, 1, 8},
	{"lpp", "lpp:G=2,R=4", 4, 8, 8, 2, 4},
	{"lpp", "lpp:G=4,R=8", 8, 32, 32, 4, 8},
	{"lpp", "lpp:G=4,R=4", 4, 8, 16, 4, 4},
	{"lpp", "lpp:G=8,R=1", 4, 8, 8, 8, 1},
	{"lpp", "lpp:G=8,R=2", 4, 8, 16, 8, 2},
	{"lpp", "lpp:G=32,R=4", 8, 32, 128, 32, 4},
	{"lpp", "lpp:G=2,R=2", 4, 8, 4, 2, 2},
	{"lpp", "lpp:G=4,R=2", 8, 32, 8, 4, 2},
	{"fslpp", "fslpp:G=2,R=4", 4, 8, 8, 2, 4},
	{"fslpp", "fslpp:G=4,R=8", 8, 32, 32, 4, 8},
	{"fslpp", "fslpp:G=8,R=8", 8, 32, 64, 8, 8},
	{"fslpp", "fslpp:G=2,R=2", 4, 8, 4, 2, 2},
};

static int64_t largest(const struct way *way, int64_t (*figure)(const struct way *way, int w))
{
	int64_t most = 0;

	for (int w = 0; w < way->tried.figures->n_workers; w++)
		most = figure(way, w) > most ? figure(way, w) : most;
	return most;
}

static int64_t activations(const struct way *way, int w)
{
	return way->tried.figures->worker[w].recv_activations;
}

static int64_t storage(const struct way *way, int w)
{
	return way->tried.figures->worker[w].peak_stash;
}

/* Stages whose parameters worker w owns. */
static int64_t weight_storage(const struct way *way, int w)
{
	return way->tried.figures->worker[w].parameter_bytes;
}

/* Fetches of the forward jobs, as the table's sum over (s,b) counts. */
static int64_t weights_received(const struct way *way, int w)
{
	int64_t n = 0;

	for (int j = 0; j < way->tried.jobs->n_jobs; j++)
		n += way->tried.jobs->compute[j] == w &&
		     orr_jobs_at(way->tried.jobs, j).d == ORR_PASS_F &&
		     way->tried.jobs->weights[j] != w;
	return n;
}

static int lcm(int x, int y)
{
	int multiple = x;

	while (multiple % y)
		multiple += x;
	return multiple;
}

START_TEST(table_1_of_rahimi_holds_row_by_row)
{
	int s = table1[_i].s, b = table1[_i].b, w = table1[_i].w, g = table1[_i].g,
	    r = table1[_i].r;
	bool sharded;
	struct orr_pipeline *p = make_pipeline(
		s, s == 4 ? "0>1 1>2 2>3" : "0>1 1>2 2>3 3>4 4>5 5>6 6>7", 1, 1, 0, 1, 1, 1);
	struct way way;
	int64_t latency, rounds = s / r, per_group = b / g;

	way_init(&way, p, table1[_i].schedule, w, b);
	sharded = way.choice.schedule.weights != NULL;
	latency = way.tried.figures->makespan_ns / (2 * ORR_UNIT_NS);
	/* The table's latency S + B/G - 1 lets a group take a microbatch a unit, which R = S or B =
	 * G allow; with fewer workers than stages a worker has S/R * B/G units of work to do. */
	if (r == s || per_group == 1)
		ck_assert_int_eq(way.tried.figures->makespan_ns,
				 (s + per_group - 1) * 2 * ORR_UNIT_NS);
	ck_assert_int_ge(latency, rounds * per_group);
	ck_assert_int_ge(way.tried.figures->makespan_ns, (s + per_group - 1) * 2 * ORR_UNIT_NS);
	/* A worker receives one activation for each of its S B / W forward jobs whose predecessor
	 * is elsewhere; the table's B is this for W = S. */
	ck_assert_int_eq(largest(&way, activations), r == 1 ? 0 : (int64_t)s * b / w);
	/* stash: S/R * min(S, B/G); gpipe has no cap and keeps all B of its stage */
	if (!strcmp(table1[_i].schedule, "gpipe"))
		ck_assert_int_eq(largest(&way, storage), b);
	else if (r == s || per_group == 1)
		ck_assert_int_eq(largest(&way, storage), rounds * (s < per_group ? s : per_group));
	else
		ck_assert_int_le(largest(&way, storage), rounds * (s < per_group ? s : per_group));
	/* A sharded worker that owns a stage fetches for all its forward jobs but those of its own
	 * stage */
	for (int x = 0; x < w; x++) {
		int64_t own = 0;

		for (int j = 0; j < way.tried.jobs->n_jobs; j++)
			own += way.tried.jobs->compute[j] == x && way.tried.jobs->weights[j] == x &&
			       orr_jobs_at(way.tried.jobs, j).d == ORR_PASS_F;
		ck_assert_int_eq(weights_received(&way, x), sharded ? (int64_t)s * b / w - own : 0);
		if (sharded && r == 1 && x < s)
			ck_assert_int_eq(weights_received(&way, x), s - 1);
	}
	/* h(s,s) names lcm(G,R) different workers: the table's 1 holds for that many stages */
	ck_assert_int_eq(largest(&way, weight_storage),
			 sharded ? (s + lcm(g, r) - 1) / lcm(g, r) : rounds);
	way_end(&way);
}
END_TEST

START_TEST(lpp_with_memory_m_takes_s_plus_1)
{
	struct orr_pipeline *p = make_chain(8, 1, 1);
	struct way way;

	/* M = 2: G = B/2 = 4, R = 2S/M = 8 */
	way_init(&way, p, "lpp:memory=2", 32, 8);
	ck_assert_int_eq(way.tried.figures->makespan_ns, (8 + 1) * 2 * ORR_UNIT_NS);
	ck_assert_int_eq(largest(&way, storage), 2);
	way_end(&way);
}
END_TEST

/* ---- any DAG, any number of workers ---- */

/* Without a check() it serves everything. */
START_TEST(every_schedule_runs_every_dag_that_it_does_not_refuse)
{
	static const char *const graphs[] = {"",
					     "0>1 1>2 2>3 3>4 4>5",
					     "0>1 1>2 3>4 2>5 4>5",
					     "0>1 1>2 2>3 3>4 4>5 0>5 1>4",
					     "0>5 1>5 2>5 3>5 4>5",
					     "0>1 0>2 0>3 0>4 0>5"};
	static const int workers[] = {1, 2, 3, 6, 7, 16}, microbatches[] = {1, 2, 5, 12};
	const char *name = quick_schedule(_i);
	int n_served = 0, n_cases = 64 * _i;

	for (size_t g = 0; g < N_OF(graphs); g++)
		for (size_t i = 0; i < N_OF(workers) * N_OF(microbatches); i++) {
			int w = workers[i / N_OF(microbatches)],
			    m = microbatches[i % N_OF(microbatches)];
			struct orr_machine machine = orr_machine_default(w);
			struct orr_pipeline *p;
			struct way way;
			bool plain =
				g == 1 && w == 6 && m == 12; /* a step for those that want chains */

			if (!suite_takes(n_cases++) && !plain)
				continue;
			p = make_pipeline(6, graphs[g], 1, 2, 0, 1, 3, 2);
			if (way_try(&way, p, name, w, m)) {
				if (way.tried.jobs->cap) /* the cap holds */
					for (int x = 0; x < w && w >= 6; x++)
						ck_assert_int_le(
							way.tried.figures->worker[x].peak_stash,
							x < 6 ? way.tried.jobs->cap[x] : 0);
				way_fini(&way);
				n_served++;
			}
			machine.latency_ns = ORR_UNIT_NS / 3;
			machine.bandwidth_bytes_per_s = 7;
			if (way_try_on(&way, p, name, &machine, m))
				way_fini(&way);
			orr_pipeline_destroy(p);
		}
	ck_assert_msg(n_served > 0, "%s serves %d of these", name, n_served);
}
END_TEST

/* An error is optional, in what the schedules refuse, too. */
START_TEST(a_refusal_needs_no_error_to_write_into)
{
	struct orr_pipeline *p = make_whole_chain(7, 1, 2, 0, 1, 3, 2);
	int n_refused = 0;

	for (int i = 0; i < count_schedules(); i++) {
		struct orr_choice choice;
		struct orr_error err;

		ck_assert_int_eq(orr_choice_init(&choice, quick_schedule(i), &err), 0);
		p->n_workers = 3;
		p->n_microbatches = 5;
		if (choice.schedule.check &&
		    choice.schedule.check(p, choice.schedule.data, NULL) != 0) {
			ck_assert_int_eq(choice.schedule.check(p, choice.schedule.data, &err),
					 ORR_E_INPUT);
			n_refused++;
		}
		orr_choice_fini(&choice);
	}
	ck_assert_int_ge(n_refused, 5);
	orr_pipeline_destroy(p);
}
END_TEST

/* [Rahimi25]: rho <= M/S, here with the memory-time of the passes as they are (see figures.h). */
static bool is_within_the_throughput_bound(struct orr_pipeline *p, const char *name, int workers,
					   int m)
{
	struct way way;

	if (!way_try(&way, p, name, workers, m))
		return false;
	ck_assert_msg(way.tried.figures->throughput <= way.tried.figures->throughput_bound + 1e-9,
		      "%s, %d stages on %d workers, m=%d: %g above %g", name, p->n_stages, workers,
		      m, way.tried.figures->throughput, way.tried.figures->throughput_bound);
	way_fini(&way);
	return true;
}

START_TEST(the_throughput_bound_holds_on_unequal_towers)
{
	static const int towers[][4] = {{4, 1}, {5, 2, 1}, {1, 1}, {2}};
	const char *name = quick_schedule(_i);
	int n_served = 0;

	for (size_t k = 0; k < N_OF(towers); k++)
		for (int m = 1; m <= 20; m = 2 * m + 1)
			for (int half = 0; half < 2; half++) {
				struct orr_pipeline *p = make_towers(towers[k], 2, 1, 2);
				int workers = half ? p->n_stages / 2 : p->n_stages;

				n_served += is_within_the_throughput_bound(p, name, workers, m);
				orr_pipeline_destroy(p);
			}
	ck_assert_msg(n_served > 0, "%s serves none of these", name);
}
END_TEST

START_TEST(the_throughput_bound_is_never_beaten)
{
	const char *name = quick_schedule(_i);
	int n_served = 0, n_cases = 64 * _i;

	for (int workers = 1; workers <= 8; workers++)
		for (int stages = workers; stages <= 2 * workers; stages += workers)
			for (int m = 1; m <= 24; m = 2 * m + 1) {
				struct orr_pipeline *p;

				if (!suite_takes(n_cases++))
					continue;
				p = make_chain(stages, 2, 2);
				for (int s = 0; s < stages; s++)
					p->stages[s].weight_ns = ORR_UNIT_NS;
				p->has_weight = true;
				n_served += is_within_the_throughput_bound(p, name, workers, m);
				orr_pipeline_destroy(p);
			}
	ck_assert_msg(n_served >= suite_drawn(16) - 3, "%s serves only %d of these", name,
		      n_served);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(a_chain_takes_m_plus_p_less_1_forwards_and_backwards, N_OF(chains)),
		ONCE(bubbles_of_gpipe_are_the_published_percentages),
		ONCE(gpipe_holds_512_MB_where_1f1b_holds_128),
		ONCE(one_f_one_b_of_64_microbatches_trains_30_a_second),
		ONCE(a_step_of_1f1b_receives_57_3_GB),
		ONCE(ddp_all_reduces_245_GB_by_a_ring),
		ONCE(strict_order_of_1f1b_is_the_published_one),
		EACH(depth_not_length_sets_warm_up_and_memory, N_OF(dags)),
		ONCE(a_skip_connection_costs_nothing),
		EACH(table_1_of_rahimi_holds_row_by_row, N_OF(table1)),
		ONCE(lpp_with_memory_m_takes_s_plus_1),

		ONCE(a_refusal_needs_no_error_to_write_into),
		EACH(every_schedule_runs_every_dag_that_it_does_not_refuse, count_schedules()),
		EACH(the_throughput_bound_holds_on_unequal_towers, count_schedules()),
		EACH(the_throughput_bound_is_never_beaten, count_schedules()),
	};

	return suite_run("schedules", tests, N_OF(tests));
}
