/* What shares a link, in closed form: rings of stages, rings with transfers, and rings between
 * nodes. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "orrery/jobs.h"
#include "orrery/timeline.h"
#include "pipelines.h"
#include "simulate/gaps.h"
#include "suite.h"

#define MOST_GAPS 100 /* jobs and updates of a case, and more */

/* A chain, F = B = 1 unit, links of 5 bytes a unit. Under ddp the gradient of the last stage is
 * there when its backward ends, that of the one before 1 unit later; each ring over k owners takes
 * 2 (k - 1) (latency + bytes / k / 5). */
static const struct {
	const char *name, *schedule;
	int n_stages, n_workers, n_microbatches;
	int64_t parameter_bytes, edge_bytes, latency;
	int64_t makespan, half_duplex;
} cases[] = {
	{"one ring of two", "ddp", 1, 2, 2, 10, 0, 0, 2 + 2, 2 + 4},
	{"a second one waits", "ddp", 2, 2, 2, 10, 0, 0, 3 + 2 + 2, 3 + 4 + 4},
	{"eight of them", "ddp", 8, 2, 2, 10, 0, 0, 9 + 8 * 2, 9 + 8 * 4},
	{"the last step's latency leaves the link free", "ddp", 2, 2, 2, 10, 0, 1, 3 + 4 + 4 - 1,
	 3 + 6 + 6 - 1},
	{"three owners", "ddp", 2, 3, 3, 15, 0, 0, 3 + 4 + 4, 3 + 4 + 4},
	{"rings that are shorter than a backward do not wait", "ddp", 2, 2, 2, 5, 0, 0, 4 + 1,
	 3 + 2 + 2},
	{"without parameters there is no ring", "ddp", 2, 2, 2, 0, 0, 1, 4, 4},
	/* activations cross at 1 and gradients at 4, each way at once; stage 1's ring is asked for
	 * at 4 and waits for the gradients until 5, stage 0's is asked for at 6 and waits for the
	 * first ring until 7. Of half duplex activations take until 2 and 3, gradients from 4 and 5
	 * until 6; the rings are asked for at 5 and 7, and go at 6 and 10 */
	{"rings wait for transfers", "chimera", 2, 2, 2, 10, 5, 0, 9, 14},
	/* Fetched from worker 0, 10 units each: two passes' parameters are there at 10 and 20.
	 * Three gradients go to worker 0 from 21 on, which has places for two at a time */
	{"a third gradient waits for a place", "fsdp", 1, 4, 4, 50, 0, 0, 41, 41},
	/* Worker 0 fetches for F1 and F3, B3 and B1, worker 1 for F0 and F2, B2 and B0, three at
	 * once and the last at 11, by 10, 20, 30 and 40; then gradients that were made at 31, of
	 * stages 3 and 2, and at 41, of 1 and 0, go back. No direction is ever idle before 60 */
	{"three passes' parameters are asked for", "fsdp", 4, 2, 2, 50, 0, 0, 60, 120},
};

/* Waiting for parameters, transfers and rings is no gap between jobs: here there is none. */
static void check_no_gaps(const struct orr_timeline *t)
{
	int64_t gaps[MOST_GAPS];
	struct orr_error err = {""};
	int n;

	ck_assert_int_lt(t->jobs->n_jobs + t->n_updates, MOST_GAPS);
	ck_assert_msg(!orr_timeline_gaps(gaps, &n, t, &err), "%s", err.msg);
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(gaps[i], 0);
}

START_TEST(rings_follow_one_another_and_transfers)
{
	struct orr_pipeline *p = make_whole_chain(cases[_i].n_stages, 1, 1, 0, 1,
						  cases[_i].parameter_bytes, cases[_i].edge_bytes);

	for (int half = 0; half < 2; half++) {
		int64_t makespan = half ? cases[_i].half_duplex : cases[_i].makespan;
		struct orr_cluster *cluster = parse_cluster(
			"graph { bandwidth=\"5B/s\"; latency=%d; duplex=%s; a [repeat=%d] }",
			(int)cases[_i].latency, half ? "half" : "full", cases[_i].n_workers);
		struct orr_machine machine = orr_machine_of(cluster, 0);
		struct way way;

		way_init_on(&way, p, cases[_i].schedule, &machine, cases[_i].n_microbatches);
		ck_assert_msg(way.tried.figures->makespan_ns == makespan * ORR_UNIT_NS,
			      "%s, half duplex %d: %g instead of %g", cases[_i].name, half,
			      (double)way.tried.figures->makespan_ns / (double)ORR_UNIT_NS,
			      (double)makespan);
		check_no_gaps(way.tried.timeline);
		way_fini(&way);
		orr_cluster_destroy(cluster);
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* Links by level: a ring that leaves a group is as slow as the link between groups. */
START_TEST(a_ring_is_as_slow_as_its_slowest_link)
{
	static const int inside[] = {0, 1}, across[] = {0, 1, 2};
	struct orr_machine machine = orr_machine_default(4);

	orr_machine_set_levels(&machine, &(struct orr_levels){.n = 2,
							      .workers = {2, 2},
							      .bytes_per_s = {1e9, 1e8},
							      .latency_ns = {7, 70}});
	ck_assert_int_eq(machine.n_workers, 4);
	ck_assert(machine.latency_ns == 70 && machine.bandwidth_bytes_per_s == 1e8);
	ck_assert_int_eq(orr_machine_transfer_ns(&machine, 2, 3, 600), 7 + 600);
	ck_assert_int_eq(orr_machine_transfer_ns(&machine, 1, 2, 600), 70 + 6000);
	ck_assert_int_eq(orr_machine_ring_ns(&machine, inside, 1, 600), 0);
	ck_assert_int_eq(orr_machine_ring_ns(&machine, inside, 2, 600), 2 * 7 + 600);
	ck_assert_int_eq(orr_machine_ring_ns(&machine, across, 3, 600), 4 * 70 + 4 * 200 * 10);
}
END_TEST

/* Eight stages that have nothing to do with each other, F = B = 1 unit, on each of two nodes of
 * eight: at 2 eight rings begin between the nodes, of 10 bytes each way. Alone at 5 bytes a unit
 * each takes 2 (latency + 1). */
static const struct {
	const char *name, *machine;
	double exclusive, shared;
} nodes[] = {
	{"a link each", "bandwidth=\"5B/s\"; subgraph x { repeat=2; a [repeat=8] }", 2 + 2, 2 + 2},
	{"one uplink", "subgraph x { repeat=2; uplink=\"5B/s\"; a [repeat=8] }", 2 + 8 * 2,
	 2 + 8 * 2},
	{"as many lanes as rings",
	 "subgraph x { repeat=2; uplink=\"5B/s\"; lanes=8; a [repeat=8] }", 2 + 2, 2 + 2},
	/* 16 bytes a unit for all; of those that carry one thing two are idle in the last turn */
	{"five lanes", "subgraph x { repeat=2; uplink=\"5B/s\"; lanes=5; a [repeat=8] }", 2 + 2 * 2,
	 2 + 80 / 25.0},
	/* the rings of workers 0 and 4 share one, 1 and 5, 2 and 6, 3 and 7 */
	{"four rails",
	 "subgraph x { repeat=2; uplink=\"5B/s\"; lanes=4; rails=true; a [repeat=8] }", 2 + 2 * 2,
	 2 + 2 * 2},
	/* 0, 5; 1, 6; 2, 7; 3; 4: those alone on a rail are at full speed */
	{"five rails",
	 "subgraph x { repeat=2; uplink=\"5B/s\"; lanes=5; rails=true; a [repeat=8] }", 2 + 2 * 2,
	 2 + 2 * 2},
	/* each takes one lane on the way up, and one of two further up */
	{"leaves above the nodes",
	 "subgraph y { repeat=2; uplink=\"5B/s\"; lanes=2; subgraph x { uplink=\"5B/s\"; lanes=8; "
	 "a "
	 "[repeat=8] } }",
	 2 + 4 * 2, 2 + 4 * 2},
	/* both ways by one lane, and by one link */
	{"half duplex", "duplex=half; subgraph x { repeat=2; uplink=\"8B/s\"; a [repeat=8] }",
	 2 + 8 * 2.5, 2 + 8 * 2.5},
	/* the last step's latency leaves the lane free; what shares it waits for latencies at the
	   end */
	{"latency", "latency=1; subgraph x { repeat=2; uplink=\"5B/s\"; a [repeat=8] }",
	 2 + 8 * 4 - 7, 2 + 8 * 2 + 2},
	{"ports that are no part of it",
	 "subgraph x { repeat=2; bandwidth=\"9B/s\"; ports=true; uplink=\"5B/s\"; a [repeat=8] }",
	 2 + 8 * 2, 2 + 8 * 2},
};

/* Of two owners, trees and levels are one ring. */
START_TEST(rings_share_what_joins_their_nodes)
{
	struct orr_pipeline *p = make_pipeline(8, "", 1, 1, 0, 1, 10, 0);

	for (int i = 0; i < 2 * (ORR_ALL_REDUCES + 1); i++) {
		int shared = i % 2;
		const char *how = orr_all_reduce_name((enum orr_all_reduce)(i / 2));
		double makespan = shared ? nodes[_i].shared : nodes[_i].exclusive;
		struct orr_cluster *cluster =
			parse_cluster("graph { model=%s; all_reduce=%s; %s }",
				      shared ? "shared" : "exclusive", how, nodes[_i].machine);
		struct orr_machine machine = orr_machine_of(cluster, 0);
		struct way way;

		way_init_on(&way, p, "lpp:R=8", &machine, 2);
		ck_assert_msg(
			way.tried.figures->makespan_ns == (int64_t)(makespan * (double)ORR_UNIT_NS),
			"%s, shared %d, %s: %g instead of %g", nodes[_i].name, shared, how,
			(double)way.tried.figures->makespan_ns / (double)ORR_UNIT_NS, makespan);
		check_no_gaps(way.tried.timeline);
		way_fini(&way);
		orr_cluster_destroy(cluster);
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- rings, trees and levels ---- */

/* One stage on all workers, whose gradient of B bytes is all that moves. */
#define NODES(n, lanes) \
	"latency=2; subgraph x { repeat=2; latency=1; bandwidth=\"64B/s\"; ports=true; " \
	"uplink=\"8B/s\"; " lanes " a [repeat=" n "] }"
static const struct {
	const char *name, *machine;
	int k;
	int64_t bytes;
	double ring, tree, hierarchical;
} sums[] = {
	/* 2 (k - 1) (1 + B/k/8); 2 log2(k) + 2 B/8 */
	{"eight with ports", "latency=1; bandwidth=\"8B/s\"; ports=true; a [repeat=8]", 8, 80,
	 14 + 17.5, 6 + 20, 14 + 17.5},
	{"more bytes", "latency=1; bandwidth=\"8B/s\"; ports=true; a [repeat=8]", 8, 800, 14 + 175,
	 6 + 200, 14 + 175},
	{"both halves pass one link at most", "latency=1; bandwidth=\"8B/s\"; a [repeat=8]", 8, 80,
	 14 + 17.5, 6 + 10, 14 + 17.5},
	{"half duplex, all four", "duplex=half; latency=1; bandwidth=\"8B/s\"; a [repeat=8]", 8, 80,
	 14 + 17.5, 6 + 20, 14 + 17.5},
	/* 0 - 2 - 1 and 1 - 0 - 2: three of owner 2's edges */
	{"an odd number", "latency=1; bandwidth=\"8B/s\"; ports=true; a [repeat=3]", 3, 96, 4 + 16,
	 4 + 18, 4 + 16},
	/* 2 x 15/16 B over the card; trees' two edges of four halves; 2 x 1/2 B, after 2 x 7/8 B
	   inside; on the way to a root two edges inside and two over the cards */
	{"two nodes of 8 with one card", NODES("8", ""), 16, 160, 60 + 37.5, 12 + 40,
	 14 + 4.375 + 4 + 20},
	{"few bytes", NODES("8", ""), 16, 16, 60 + 3.75, 12 + 4, 14 + 0.4375 + 4 + 2},
	/* an eighth of it for each; of the trees' two halves to worker 8 */
	{"two nodes of 8 with eight cards", NODES("8", "lanes=8; rails=true;"), 16, 160, 60 + 37.5,
	 12 + 20, 14 + 4.375 + 4 + 2.5},
	/* 4 in a node, 2 nodes in a leaf, 2 leaves: quarters, eighths, sixteenths */
	{"three levels",
	 "latency=3; subgraph y { repeat=2; latency=2; uplink=\"8B/s\"; subgraph x { repeat=2; "
	 "latency=1; bandwidth=\"64B/s\"; ports=true; uplink=\"16B/s\"; lanes=4; a [repeat=4] } }",
	 16, 160, 90 + 37.5, 2 * (1 + 2 + 3 + 3) + 40, 6 * 1.625 + 2 * 3.25 + 2 * (3 + 10)},
	/* nodes of three and one */
	{"no level divides them",
	 "bandwidth=\"8B/s\"; latency=1; subgraph x { a [repeat=3] } subgraph y { b }", 4, 64,
	 6 + 12, 4 + 8, 6 + 12},
};

/* Rates that are shared are rounded down to whole billionths. */
static void check_sum(struct orr_pipeline *p, int i, enum orr_all_reduce how, bool shared,
		      double expected)
{
	struct orr_cluster *cluster = parse_cluster("graph { model=%s; all_reduce=%s; %s }",
						    shared ? "shared" : "exclusive",
						    orr_all_reduce_name(how), sums[i].machine);
	struct orr_machine machine = orr_machine_of(cluster, 0);
	struct way way;

	way_init_on(&way, p, "ddp", &machine, sums[i].k);
	ck_assert_msg(fabs((double)way.tried.figures->makespan_ns -
			   (2 + expected) * (double)ORR_UNIT_NS) <= (shared ? 9 : 0),
		      "%s, shared %d, %s, in parts %d: %.9g instead of %.9g", sums[i].name, shared,
		      orr_all_reduce_name(how), p->numerics.shard_optimizer,
		      (double)way.tried.figures->makespan_ns / (double)ORR_UNIT_NS, 2 + expected);
	check_no_gaps(way.tried.timeline);
	way_fini(&way);
	orr_cluster_destroy(cluster);
}

START_TEST(sums_take_as_long_as_their_closed_forms)
{
	struct orr_pipeline *p = make_pipeline(1, "", 1, 1, 0, 1, sums[_i].bytes, 0);
	double ring = sums[_i].ring, tree = sums[_i].tree, levels = sums[_i].hierarchical;

	for (int i = 0; i < 4; i++) { /* an optimizer in parts has no use for trees */
		bool shared = i % 2;

		p->numerics.shard_optimizer = i / 2;
		if (i / 2)
			tree = ring;
		check_sum(p, _i, ORR_ALL_REDUCE_RING, shared, ring);
		check_sum(p, _i, ORR_ALL_REDUCE_TREE, shared, tree);
		check_sum(p, _i, ORR_ALL_REDUCE_HIERARCHICAL, shared, levels);
		check_sum(p, _i, ORR_ALL_REDUCE_AUTO, shared, fmin(ring, fmin(tree, levels)));
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* 10 and 30 bytes at once by one uplink of 10 a unit: one after the other, or half of it each until
 * the first is there. */
START_TEST(the_shorter_of_two_ends_later_where_they_share)
{
	static const char *const models[] = {"exclusive", "shared"};
	static const int64_t ends[2][2] = {{1 + 1, 1 + 1 + 3}, {1 + 2, 1 + 2 + 2}};

	for (int i = 0; i < 2; i++) {
		struct orr_pipeline *p = make_pipeline(4, " 0>2 1>3", 1, 1, 0, 0, 0, 10);
		struct orr_cluster *cluster =
			parse_cluster("graph { model=%s; subgraph x { repeat=2; uplink=\"10B/s\"; "
				      "a [repeat=2] } }",
				      models[i]);
		struct orr_machine machine = orr_machine_of(cluster, 0);
		struct way way;

		p->edges[1].bytes = 30;
		way_init_on(&way, p, "gpipe", &machine, 1);
		ck_assert_int_ge(way.tried.timeline->n_transfers, 2);
		for (int k = 0; k < 2; k++)
			ck_assert_int_eq(way.tried.timeline->transfers[k].end_ns,
					 ends[i][k] * ORR_UNIT_NS);
		way_fini(&way);
		orr_cluster_destroy(cluster);
		orr_pipeline_destroy(p);
	}
}
END_TEST

/* 30 bytes after 1 unit and after 2, to the same worker: the second waits, as on one connection. */
START_TEST(what_two_workers_send_each_other_goes_one_by_one)
{
	static const char *const models[] = {"exclusive", "shared"};

	for (int i = 0; i < 2; i++) {
		struct orr_pipeline *p = make_pipeline(2, " 0>1", 1, 1, 0, 0, 0, 30);
		struct orr_cluster *cluster = parse_cluster(
			"graph { model=%s; bandwidth=\"10B/s\"; a [repeat=2] }", models[i]);
		struct orr_machine machine = orr_machine_of(cluster, 0);
		struct way way;

		way_init_on(&way, p, "gpipe", &machine, 2);
		ck_assert_int_eq(way.tried.timeline->transfers[0].end_ns, 4 * ORR_UNIT_NS);
		ck_assert_int_eq(way.tried.timeline->transfers[1].end_ns, 7 * ORR_UNIT_NS);
		way_fini(&way);
		orr_cluster_destroy(cluster);
		orr_pipeline_destroy(p);
	}
}
END_TEST

/* Updates wait for gradients of tied parameters, which is not what an engine adds to a job. */
START_TEST(an_update_that_waits_for_tied_gradients_is_no_gap)
{
	struct orr_pipeline *p = make_pipeline(2, " 0>1", 1, 1, 0, 0, 10, 10);
	struct orr_cluster *cluster = parse_cluster("graph { bandwidth=\"5B/s\"; a [repeat=2] }");
	struct orr_machine machine = orr_machine_of(cluster, 0);
	struct orr_tied tied = {10, false, 2, (int[]){0, 1}};
	struct orr_error err;
	struct way way;

	for (int s = 0; s < 2; s++)
		p->stages[s].update_ns = ORR_UNIT_NS;
	ck_assert_msg(!orr_pipeline_tie(p, &tied, 1, &err), "%s", err.msg);
	way_init_on(&way, p, "gpipe", &machine, 1);
	ck_assert_int_gt(way.tried.timeline->n_updates, 0);
	check_no_gaps(way.tried.timeline);
	way_fini(&way);
	orr_cluster_destroy(cluster);
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- buckets beside a backward, and what that costs it ---- */

/* F takes 1 unit and B 8, of two replicas; links carry 5 bytes a unit, so that a ring over a bucket
 * of `bytes` takes bytes / 5. The gradient is there evenly over B. */
static const struct {
	const char *name, *streams;
	int n, recompute;
	int64_t bytes;
	double makespan;
} buckets[] = {
	{"one follows the backward", "", 1, 0, 20, 9 + 4},
	{"the last of four does", "", 4, 0, 20, 9 + 1},
	{"a stream has room for a ring", "streams=1;", 4, 0, 20, 9 + 1},
	{"rings that are longer follow the first bucket", "", 4, 0, 80, 1 + 2 + 16},
	{"F runs again before", "", 4, 1, 80, 1 + 1 + 2 + 16},
	/* beside a ring of 1 unit a bucket computes for half a unit, and then for 1.5 */
	{"a backward is slower beside a ring", "streams=1; slowdown=0.5;", 4, 0, 20,
	 1 + 2 + 3 * 2.5 + 1},
	/* beside a ring of 4 a bucket of 2 takes 4 */
	{"not slower than rings that follow one another", "streams=1; slowdown=0.5;", 4, 0, 80,
	 1 + 2 + 16},
	{"shared links, too", "model=shared; streams=1; slowdown=0.5;", 4, 0, 20,
	 1 + 2 + 3 * 2.5 + 1},
};

START_TEST(buckets_are_summed_while_the_backward_runs)
{
	struct orr_pipeline *p = make_pipeline(1, "", 1, 8, 0, 1, buckets[_i].bytes, 0);
	struct orr_cluster *cluster =
		parse_cluster("graph { bandwidth=\"5B/s\"; %s a [repeat=2] }", buckets[_i].streams);
	struct orr_machine machine = orr_machine_of(cluster, 0);
	struct way way;
	int64_t sum = 0;

	p->buckets = buckets[_i].n;
	p->stages[0].recompute = buckets[_i].recompute;
	way_init_on(&way, p, "ddp", &machine, 2);
	ck_assert_int_eq(way.tried.timeline->n_transfers, buckets[_i].n);
	for (int i = 0; i < buckets[_i].n; i++)
		sum += way.tried.timeline->transfers[i].bytes;
	ck_assert_int_eq(sum, buckets[_i].bytes);
	ck_assert_msg((double)way.tried.figures->makespan_ns ==
			      buckets[_i].makespan * (double)ORR_UNIT_NS,
		      "%s: %g", buckets[_i].name,
		      (double)way.tried.figures->makespan_ns / (double)ORR_UNIT_NS);
	way_end(&way);
	orr_cluster_destroy(cluster);
}
END_TEST

/* fsdp fetches what it needs next beside what it computes, which is a tenth slower meanwhile: it
 * computes 0.9 in the 1 unit of each fetch. */
START_TEST(gathers_of_parameters_slow_what_is_beside_them)
{
	static const char *const machines[] = {
		"graph { bandwidth=\"5B/s\"; a [repeat=2] }",
		"graph { bandwidth=\"5B/s\"; streams=1; slowdown=0.1; a [repeat=2] }"};
	struct orr_timeline *t;

	for (int i = 0; i < 2; i++) {
		struct orr_pipeline *p = make_pipeline(2, "0>1", 4, 4, 0, 1, 5, 0);
		struct orr_cluster *cluster = parse_cluster("%s", machines[i]);
		struct orr_machine machine = orr_machine_of(cluster, 0);
		struct way way;

		way_init_on(&way, p, "fsdp", &machine, 2);
		t = way.tried.timeline;
		/* worker 0 has stage 0, worker 1 fetches it within the first unit; both send stage
		 * 1 and stage 0 to each other at once */
		ck_assert_int_eq(t->start_ns[0], 0);
		ck_assert_int_eq(t->end_ns[0] * 10, (i ? 42 : 40) * ORR_UNIT_NS);
		way_end(&way);
		orr_cluster_destroy(cluster);
	}
}
END_TEST

static const struct suite_test tests[] = {
	EACH(rings_follow_one_another_and_transfers, N_OF(cases)),
	ONCE(a_ring_is_as_slow_as_its_slowest_link),
	EACH(rings_share_what_joins_their_nodes, N_OF(nodes)),
	EACH(sums_take_as_long_as_their_closed_forms, N_OF(sums)),
	ONCE(the_shorter_of_two_ends_later_where_they_share),
	ONCE(what_two_workers_send_each_other_goes_one_by_one),
	ONCE(an_update_that_waits_for_tied_gradients_is_no_gap),
	EACH(buckets_are_summed_while_the_backward_runs, N_OF(buckets)),
	ONCE(gathers_of_parameters_slow_what_is_beside_them),
};
SUITE("links")
