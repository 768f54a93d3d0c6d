/* Stages on several workers, on named ones, on those of another stage, and stages that gather a
 * minibatch: by hand, under every schedule, and refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "open/exchange.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/plan.h"
#include "orrery/open.h"
#include "pipelines.h"
#include "suite.h"

static struct orr_pipeline *read_pipeline(struct orr_graph **g, const char *text)
{
	struct orr_machine machine = orr_machine_default(0);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	*g = parse_graph(text);
	ck_assert_msg(!orr_partition(&p, *g, &machine, 0, 1, &err), "%s", err.msg);
	return p;
}

#define NODES "node [forward=1, backward=2, stash=8, activation=16, parameters=12]; "
#define WORKERS 3

/* Makespan, and of every worker: busy, most stashes, their bytes, activations and gradients
 * received in bytes, bytes of parameters. */
static const struct {
	const char *name, *graph, *schedule;
	int m;
	int64_t makespan, worker[WORKERS][6];
} cases[] = {
	{"alone on all",
	 NODES "a [gang=3]",
	 "gpipe",
	 2,
	 6,
	 {{6, 2, 6, 0, 0, 4}, {6, 2, 6, 0, 0, 4}, {6, 2, 6, 0, 0, 4}}},
	{"two of three, then one of them",
	 NODES "a [gang=\"0:2\"]; b [gang=\"1:2\"]; a -> b",
	 "gpipe",
	 2,
	 12,
	 {{6, 2, 8, 0, 32, 6}, {12, 4, 24, 0, 0, 18}, {0, 0, 0, 0, 0, 0}}},
	{"one, then the two others",
	 NODES "a [gang=\"0:1\"]; b [gang=\"1,2\"]; a -> b",
	 "gpipe",
	 2,
	 9,
	 {{6, 2, 16, 0, 32, 12}, {6, 2, 8, 32, 0, 6}, {6, 2, 8, 32, 0, 6}}},
	{"cyclically from the last worker",
	 NODES "a; b; c [gang=2]; a -> b -> c",
	 "gpipe",
	 1,
	 9,
	 {{6, 2, 12, 16, 16, 18}, {3, 1, 8, 16, 16, 12}, {3, 1, 4, 16, 0, 6}}},
	{"with another",
	 NODES "a; b; c [with=a]; a -> b -> c",
	 "gpipe",
	 1,
	 9,
	 {{6, 2, 16, 16, 16, 24}, {3, 1, 8, 16, 16, 12}, {0, 0, 0, 0, 0, 0}}},
	{"a pin",
	 NODES "a [gang=\"2:3\"]; b [gang=\"2:3\"]; a -> b",
	 "1f1b",
	 1,
	 6,
	 {{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {6, 2, 16, 0, 0, 24}}},
	/* F of b waits for both of a, B of a for both of b: 2 + 2 + 4 + 4; each crosses once */
	{"gathered",
	 NODES "a; b [gather=minibatch]; a -> b",
	 "gpipe",
	 2,
	 12,
	 {{6, 2, 16, 0, 32, 12}, {6, 2, 16, 32, 0, 12}, {0, 0, 0, 0, 0, 0}}},
	/* the jobs of b are on three workers, which all read both, and send back a sum each */
	{"gathered by replicas",
	 NODES "a [gang=\"0:1\"]; b [gather=minibatch]; a -> b",
	 "ddp",
	 3,
	 12,
	 {{12, 4, 32, 0, 96, 24}, {3, 1, 8, 48, 0, 12}, {3, 1, 8, 48, 0, 12}}},
};

START_TEST(figures_are_those_by_hand)
{
	char text[512];
	struct orr_graph *g;
	struct orr_pipeline *p;
	struct way way;

	(void)snprintf(text, sizeof(text), "digraph { %s }", cases[_i].graph);
	p = read_pipeline(&g, text);
	way_init(&way, p, cases[_i].schedule, WORKERS, cases[_i].m);
	ck_assert_msg(units(way.tried.figures->makespan_ns) == cases[_i].makespan,
		      "%s: makespan %lld", cases[_i].name,
		      (long long)units(way.tried.figures->makespan_ns));
	for (int w = 0; w < WORKERS; w++) {
		const struct orr_worker_figures *f = &way.tried.figures->worker[w];
		const int64_t is[] = {units(f->busy_ns),      f->peak_stash,
				      f->peak_stash_bytes,    f->recv_activation_bytes,
				      f->recv_gradient_bytes, f->parameter_bytes};

		for (int i = 0; i < N_OF(is); i++)
			ck_assert_msg(is[i] == cases[_i].worker[w][i],
				      "%s: worker %d, figure %d: %lld", cases[_i].name, w, i,
				      (long long)is[i]);
	}
	way_end(&way);
	orr_graph_destroy(g);
}
END_TEST

/* ---- every schedule ---- */

/* Towers and chains of 4, 6 or 8 stages, some frozen, some of them gangs or with others. */
static struct orr_pipeline *draw_pipeline(int n_workers)
{
	struct orr_stage stages[8] = {{0}};
	struct orr_edge edges[16];
	int sets[8][4], n_stages = 4 + 2 * suite_draw(3), n_edges = 0;
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	for (int s = 0; s < n_stages; s++) {
		int kind = suite_draw(4), n = 1 + suite_draw(n_workers);

		stages[s] = (struct orr_stage){.forward_ns = (1 + suite_draw(3)) * ORR_UNIT_NS,
					       .backward_ns = (1 + suite_draw(4)) * ORR_UNIT_NS,
					       .stash_bytes = suite_draw(100),
					       .parameter_bytes = suite_draw(100),
					       .frozen = s < n_stages - 1 && suite_draw(5) == 0};
		if (kind == 1)
			stages[s].gang.n = n;
		if (kind == 2) {
			int first = suite_draw(n_workers);

			for (int i = 0; i < n; i++)
				sets[s][i] = (first + i) % n_workers;
			stages[s].gang = (struct orr_gang){n, sets[s], 0};
		}
		if (kind == 3 && s && suite_draw(2))
			stages[s].gang.with = 1 + suite_draw(s);
		if (s)
			edges[n_edges++] = (struct orr_edge){.from = s - 1, .to = s, .bytes = 7};
		if (s > 1 && suite_draw(4) == 0)
			edges[n_edges++] = (struct orr_edge){.from = s - 2, .to = s, .bytes = 5};
	}
	ck_assert_msg(!orr_pipeline_create(&p, stages, n_stages, edges, n_edges, &err), "%s",
		      err.msg);
	return p;
}

START_TEST(every_schedule_serves_gangs)
{
	int n_served = 0;

	for (int i = 0; orr_schedules[i]; i++)
		for (int round = 0; round < suite_drawn(10); round++) {
			struct orr_machine machine = orr_machine_default(4);
			struct orr_error err = {""};
			const char *name = quick_schedule(i);
			struct orr_pipeline *p;
			struct way way;

			suite_random = (uint64_t)round;
			p = draw_pipeline(4);
			machine.latency_ns = suite_draw(2) ? ORR_UNIT_NS / 2 : 0;
			machine.bandwidth_bytes_per_s = suite_draw(2) ? 10 : 0;
			if (way_try_on(&way, p, name, &machine, 8)) {
				n_served++;
				ck_assert_msg(!orr_timeline_check(way.tried.timeline, &err),
					      "%s, round %d: %s", name, round, err.msg);
				way_fini(&way);
			}
			orr_pipeline_destroy(p);
		}
	ck_assert_int_gt(n_served, 10 * suite_drawn(10));
}
END_TEST

/* What gathers may share a worker with what it waits for. */
START_TEST(gpipe_and_auto_serve_what_gathers)
{
	static const char *const schedules[] = {"gpipe", "auto:effort=0"};
	static const char *const graph =
		"digraph { " NODES "a -> b -> c -> d -> e; c [gather=minibatch, gang=2]; "
		"e [gather=minibatch] }";
	struct orr_error err = {""};

	for (int i = 0; i < 2 * N_OF(schedules); i++) {
		struct orr_machine machine = orr_machine_default(2 + i / N_OF(schedules));
		struct orr_graph *g;
		struct orr_pipeline *p = read_pipeline(&g, graph);
		struct way way;

		machine.latency_ns = ORR_UNIT_NS;
		way_init_on(&way, p, schedules[i % N_OF(schedules)], &machine, 6);
		ck_assert_msg(!orr_timeline_check(way.tried.timeline, &err), "%s", err.msg);
		way_end(&way);
		orr_graph_destroy(g);
	}
}
END_TEST

/* ---- files ---- */

/* What a file says of the order is all of it, although a gang is in the row of its first worker. */
START_TEST(orders_survive_a_csv)
{
	static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "ddp", "auto:effort=0"};
	struct orr_error err = {""};

	for (int i = 0; i < N_OF(schedules) * 5; i++) {
		char path[] = "/tmp/gangs.XXXXXX.csv", *text = NULL;
		struct orr_pipeline *p;
		struct way way, again;
		size_t size = 0;
		FILE *file;
		int fd = mkstemps(path, 4);

		suite_random = (uint64_t)(i / N_OF(schedules));
		p = draw_pipeline(4);
		way_init(&way, p, schedules[i % N_OF(schedules)], 4, 6);
		file = open_memstream(&text, &size);
		ck_assert(file && !orr_exchange_write(file, way.tried.timeline, &err));
		(void)fclose(file);
		file = fdopen(fd, "w");
		ck_assert(file && fwrite(text, 1, size, file) == size);
		(void)fclose(file);
		way_init(&again, p, path, 4, 6);
		for (int j = 0; j < way.tried.jobs->n_jobs; j++)
			ck_assert_msg(way.tried.timeline->start_ns[j] ==
					      again.tried.timeline->start_ns[j],
				      "%s: job %d", schedules[i % N_OF(schedules)], j);
		(void)remove(path);
		free(text);
		way_fini(&again);
		way_end(&way);
	}
}
END_TEST

static const struct suite_test tests[] = {
	EACH(figures_are_those_by_hand, N_OF(cases)),
	ONCE(every_schedule_serves_gangs),
	ONCE(gpipe_and_auto_serve_what_gathers),
	ONCE(orders_survive_a_csv),
};
SUITE("gangs")
