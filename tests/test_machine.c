/* Workers and links that differ: what jobs, updates and transfers take in closed form, machine
 * files that are read and that are refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/machine.h"
#include "pipelines.h"
#include "suite.h"

/* F = B = 1 unit, 5 bytes on every edge; half units. */
static const struct {
	const char *name, *machine, *schedule, *edges;
	int n_stages, n_microbatches, halves;
} steps[] = {
	{"one worker, twice as fast", "a [speed=2]", "gpipe", "", 1, 8, 8 * 2},
	{"a half as fast", "a [speed=0.5]", "gpipe", "", 1, 8, 8 * 8},
	/* the slow one never waits: the other's F and B take as long as one job of its own */
	{"slow, fast", "a; b [speed=2]", "1f1b", " 0>1", 2, 2, 2 * 4},
	{"slow, fast, many", "a; b [speed=2]", "1f1b", " 0>1", 2, 16, 2 * 32},
	/* and here it waits for the first F, and is waited for by the last B */
	{"fast, slow", "a [speed=2]; b", "1f1b", " 0>1", 2, 1, 2 * 3},
	{"fast, slow, many", "a [speed=2]; b", "1f1b", " 0>1", 2, 16, 2 * 33},
	{"links by pair, there and back", "a; b; c; a -- b [latency=1]; b -- c [latency=3]",
	 "gpipe", " 0>1 1>2", 3, 1, 2 * (6 + 2 * (1 + 3))},
	{"the link of a group", "latency=3; subgraph x { latency=1; a; b } c", "gpipe", " 0>1 1>2",
	 3, 1, 2 * (6 + 2 * (1 + 3))},
	/* one sends to two: at once, or one after the other */
	{"links", "bandwidth=\"5B/s\"; a [repeat=3]", "gpipe", " 0>1 0>2", 3, 1, 2 * 6},
	{"ports", "bandwidth=\"5B/s\"; ports=true; a [repeat=3]", "gpipe", " 0>1 0>2", 3, 1, 2 * 7},
	/* two send to one, which sends to both */
	{"links to one", "bandwidth=\"5B/s\"; a [repeat=3]", "gpipe", " 0>2 1>2", 3, 1, 2 * 6},
	/* A transfer takes 10 and a microbatch 24, there and back: 1F1B has two under way, which go
	 * together where directions do not wait for each other (the second one ends 10 later), and
	 * else transfers follow each other, 40 a pair, with an F before and a B after */
	{"both directions at once", "bandwidth=\"0.5B/s\"; duplex=full; a; b", "1f1b", " 0>1", 2, 8,
	 2 * (4 * 24 + 10)},
	{"half duplex", "bandwidth=\"0.5B/s\"; duplex=half; a; b", "1f1b", " 0>1", 2, 8,
	 2 * (4 * 40 + 2)},
	{"ports to one", "bandwidth=\"5B/s\"; ports=true; a [repeat=3]", "gpipe", " 0>2 1>2", 3, 1,
	 2 * 8},
	{"ports to one, shared", "bandwidth=\"5B/s\"; ports=true; model=shared; a [repeat=3]",
	 "gpipe", " 0>2 1>2", 3, 1, 2 * 8},
	/* 2 receives from 0, which 1 waits for, and meanwhile sends to 3: F of 3 from 2 on, of 2
	 * from 3 on; gradients of 2 are with 0 at 6 and with 1 at 7. Where what waits is not
	 * overtaken, 1 sends to 3 from 3 on, and what 3 sends back is there at 8 */
	{"who waits for a busy port", "bandwidth=\"5B/s\"; ports=true; a [repeat=4]", "gpipe",
	 " 0>2 1>2 1>3", 4, 1, 2 * 8},
	{"and who waits behind", "bandwidth=\"5B/s\"; ports=true; waiting=in_order; a [repeat=4]",
	 "gpipe", " 0>2 1>2 1>3", 4, 1, 2 * 9},
	/* ports inside, and none for what leaves: 1 sends to 0 and to 2 at once */
	{"ports of a group", "bandwidth=\"5B/s\"; subgraph x { ports=true; a [repeat=2] } b",
	 "gpipe", " 0>1 0>2", 3, 1, 2 * 6},
};

START_TEST(steps_take_what_their_workers_and_links_take)
{
	struct orr_pipeline *p =
		make_pipeline(steps[_i].n_stages, steps[_i].edges, 1, 1, 0, 0, 0, 5);
	struct orr_cluster *cluster;
	struct orr_machine machine;
	struct way way;
	char text[300];

	(void)snprintf(text, sizeof(text), "graph { %s }", steps[_i].machine);
	cluster = parse_cluster("%s", text);
	machine = orr_machine_of(cluster, 0);
	way_init_on(&way, p, steps[_i].schedule, &machine, steps[_i].n_microbatches);
	ck_assert_msg(way.tried.figures->makespan_ns == steps[_i].halves * ORR_UNIT_NS / 2,
		      "%s: %g instead of %g", steps[_i].name,
		      (double)way.tried.figures->makespan_ns / (double)ORR_UNIT_NS,
		      steps[_i].halves / 2.0);
	ck_assert_int_le(way.tried.figures->lower_bound_ns, way.tried.figures->makespan_ns);
	way_end(&way);
	orr_cluster_destroy(cluster);
}
END_TEST

/* What starting a job takes is the same on every worker; of a B that runs F again there are two. */
START_TEST(only_work_goes_by_speed)
{
	struct orr_cluster *cluster = parse_cluster("graph { a [speed=4]; b; c [speed=3] }");
	struct orr_pipeline *p = make_chain(1, 8, 16);
	struct orr_error err = {""};

	p->stages[0].update_ns = 4 * ORR_UNIT_NS;
	orr_pipeline_set_overhead(p, ORR_UNIT_NS);
	p->machine = orr_machine_of(cluster, 0);
	ck_assert_msg(!orr_pipeline_set_step(p, 3, 1, &err), "%s", err.msg);
	ck_assert_int_eq(units(orr_pipeline_job_ns(p, 0, 0, ORR_PASS_F, 0, false)), 1 + 2);
	ck_assert_int_eq(units(orr_pipeline_job_ns(p, 0, 0, ORR_PASS_F, 1, false)), 1 + 8);
	ck_assert_int_eq(units(orr_pipeline_job_ns(p, 0, 0, ORR_PASS_B, 0, false)), 1 + 4);
	ck_assert_int_eq(units(orr_pipeline_update_ns(p, 0, 0)), 1 + 1);
	ck_assert_int_eq(orr_pipeline_job_ns(p, 0, 0, ORR_PASS_F, 2, false),
			 ORR_UNIT_NS + 2666666667);
	p->stages[0].recompute = true;
	ck_assert_int_eq(units(orr_pipeline_job_ns(p, 0, 0, ORR_PASS_B, 0, false)), 1 + 2 + 1 + 4);
	ck_assert_int_eq(orr_pipeline_set_step(p, 4, 1, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "4 workers, and the machine m.dot has 3: take fewer ([workers])");
	orr_pipeline_destroy(p);
	orr_cluster_destroy(cluster);
}
END_TEST

START_TEST(microbatches_are_shared_by_speed)
{
	struct orr_cluster *cluster =
		parse_cluster("graph { a [speed=2]; b; c [repeat=2, speed=1.5] }");
	struct orr_machine machine = orr_machine_of(cluster, 0), alike = orr_machine_default(4);
	static const int workers[] = {1, 0, 2, 3};
	int turns[12 + 4];

	orr_machine_turns(&machine, workers, 2, turns, 9); /* speeds 1 and 2 */
	ck_assert_int_eq(turns[9], 3);
	ck_assert_int_eq(turns[10], 6);
	for (int b = 0; b < 9; b++)
		ck_assert_int_eq(turns[b], b % 3 != 1);
	orr_machine_turns(&machine, workers, 4, turns, 12); /* 1, 2, 1.5, 1.5 */
	ck_assert_int_eq(turns[12], 2);
	ck_assert_int_eq(turns[13], 4);
	ck_assert_int_eq(turns[14], 3);
	ck_assert_int_eq(turns[15], 3);
	orr_machine_turns(&alike, workers, 4, turns, 12);
	for (int b = 0; b < 12; b++)
		ck_assert_int_eq(turns[b], b % 4);
	orr_cluster_destroy(cluster);
}
END_TEST

START_TEST(a_file_is_read)
{
	struct orr_cluster *c = parse_cluster(
		"graph {\n"
		"  bandwidth=\"1GB/s\"; latency=\"3us\"; node [memory=\"8GB\", shape=box]\n"
		"  host\n"
		"  subgraph cluster_n { repeat=2; bandwidth=\"4GB/s\"\n"
		"    gpu [repeat=2, speed=2]; cpu [memory=\"1GB\"] }\n"
		"  spare; host -- spare [latency=\"1us\"]\n"
		"}\n");
	static const char *const names[] = {"host",    "gpu.0.0", "gpu.0.1", "cpu.0",
					    "gpu.1.0", "gpu.1.1", "cpu.1",   "spare"};
	struct orr_machine m = orr_machine_of(c, 0);
	struct orr_link_cost own = orr_machine_link(&m, 7, 0), inner = orr_machine_link(&m, 4, 6),
			     outer = orr_machine_link(&m, 1, 4);

	ck_assert_int_eq(c->n_workers, 8);
	for (int w = 0; w < 8; w++)
		ck_assert_str_eq(c->workers[w].name, names[w]);
	ck_assert_str_eq(c->groups[c->workers[5].group].name, "n.1");
	ck_assert_double_eq(orr_machine_speed(&m, 4), 2);
	ck_assert_int_eq(orr_machine_memory(&m, 6), 1000000000);
	ck_assert_int_eq(orr_machine_memory(&m, 7), 8000000000);
	ck_assert(own.latency_ns == 1000 && own.bytes_per_s == 1e9);
	ck_assert(inner.latency_ns == 3000 && inner.bytes_per_s == 4e9);
	ck_assert(outer.latency_ns == 3000 && outer.bytes_per_s == 1e9);
	/* the slowest, and of the first workers alone */
	ck_assert(m.latency_ns == 3000 && m.bandwidth_bytes_per_s == 1e9);
	m = orr_machine_of(c, 1);
	ck_assert(m.n_workers == 1 && !m.latency_ns && m.memory_bytes == 8000000000);
	orr_cluster_destroy(c);
}
END_TEST

/* Of groups that nest: the speed of the slowest part of the way, and rings that pass it twice. */
START_TEST(uplinks_slow_down_what_passes_them)
{
	struct orr_cluster *c = parse_cluster(
		"graph { bandwidth=\"9B/s\"; latency=\"3ns\"; ports=true;"
		" subgraph leaf { repeat=2; uplink=\"4B/s\"; ports=false; bandwidth=\"8B/s\";"
		"  subgraph n { repeat=2; uplink=\"2B/s\"; lanes=2; bandwidth=\"7B/s\"; a "
		"[repeat=2] } }"
		" b; b -- a2 [bandwidth=\"6B/s\"]; a2 }");
	static const struct {
		int from, to;
		double rate;
	} links[] = {{0, 1, 7}, {0, 2, 2}, {0, 4, 2}, {0, 8, 2}, {8, 9, 6}, {7, 6, 7}};
	static const int in_order[] = {0, 1, 2, 3}, mixed[] = {0, 2, 1, 3}, three[] = {0, 2, 4},
			 other[] = {0, 4, 2, 6};
	struct orr_machine m = orr_machine_of(c, 0);

	for (int i = 0; i < N_OF(links); i++)
		ck_assert(orr_machine_link(&m, links[i].from, links[i].to).bytes_per_s ==
			  links[i].rate);
	ck_assert(m.bandwidth_bytes_per_s == 2);
	ck_assert_int_eq(c->groups[c->workers[8].group].ports, 1);
	ck_assert_int_eq(c->groups[c->workers[0].group].ports, 0);
	/* 2 (k - 1) steps of latency and of a kth of 12 bytes; two leave a node at once, by two
	 * lanes; two enter and leave a leaf, by one */
	ck_assert_int_eq(orr_machine_ring_ns(&m, in_order, 4, 12), 6 * (3 + 3 * 500000000LL));
	ck_assert_int_eq(orr_machine_ring_ns(&m, mixed, 4, 12), 6 * (3 + 3 * 500000000LL));
	ck_assert_int_eq(orr_machine_ring_ns(&m, three, 3, 12), 4 * (3 + 4 * 500000000LL));
	c->groups[1].uplink_bytes_per_s = 2;
	ck_assert_int_eq(orr_machine_ring_ns(&m, other, 4, 12), 6 * (3 + 2 * 3 * 500000000LL));
	c->groups[1].lanes = 2;
	ck_assert_int_eq(orr_machine_ring_ns(&m, other, 4, 12), 6 * (3 + 2 * 3 * 250000000LL));
	orr_cluster_destroy(c);
}
END_TEST

/* Levels as --workers has them; NULL: it has none. */
static const struct {
	const char *machine, *workers, *links, *latencies;
	int n; /* 0: all */
} nested[] = {
	{"bandwidth=\"5B/s\"; a [repeat=6]", "6", "5B/s", NULL, 0},
	{"bandwidth=\"1B/s\"; latency=\"5us\"; subgraph x { repeat=3; bandwidth=\"9B/s\"; "
	 "latency=\"1us\"; "
	 "a [repeat=2] }",
	 "2x3", "9B/s,1B/s", "1us,5us", 0},
	{"bandwidth=\"1B/s\"; subgraph y { repeat=2; bandwidth=\"4B/s\"; subgraph x { repeat=3; "
	 "bandwidth=\"9B/s\"; a [repeat=2 speed=2 memory=\"8B\"] } }",
	 "2x3x2", "9B/s,4B/s,1B/s", NULL, 0},
	/* between groups as fast as their uplinks, if these are slower */
	{"bandwidth=\"9B/s\"; subgraph x { repeat=3; uplink=\"2B/s\"; lanes=2; a [repeat=2] }",
	 "2x3", "9B/s,2B/s", NULL, 0},
	{"subgraph x { uplink=\"2B/s\"; a [repeat=2] } subgraph y { uplink=\"3B/s\"; b [repeat=2] "
	 "}",
	 NULL, NULL, NULL, 0},
	/* the first of them */
	{"bandwidth=\"1B/s\"; subgraph x { repeat=3; bandwidth=\"9B/s\"; a [repeat=2] }", "2x2",
	 "9B/s,1B/s", NULL, 4},
	{"bandwidth=\"1B/s\"; subgraph x { repeat=3; bandwidth=\"9B/s\"; a [repeat=2] }", NULL,
	 NULL, NULL, 5},
	/* a worker alone in a group joins nobody there */
	{"bandwidth=\"1B/s\"; subgraph x { repeat=3; bandwidth=\"9B/s\"; a }", "3", "1B/s", NULL,
	 0},
	/* groups of other sizes, links, workers, depths; links of pairs */
	{"subgraph x { a [repeat=2] } subgraph y { b [repeat=3] }", NULL, NULL, NULL, 0},
	{"subgraph x { bandwidth=\"9B/s\"; a [repeat=2] } subgraph y { bandwidth=\"8B/s\"; b "
	 "[repeat=2] }",
	 NULL, NULL, NULL, 0},
	{"subgraph x { latency=1; a [repeat=2] } subgraph y { b [repeat=2] }", NULL, NULL, NULL, 0},
	{"subgraph x { a [repeat=2] } subgraph y { b [repeat=2 speed=2] }", NULL, NULL, NULL, 0},
	{"a [memory=\"8B\"]; b [memory=\"9B\"]", NULL, NULL, NULL, 0},
	{"subgraph x { a [repeat=2] } b [repeat=2]", NULL, NULL, NULL, 0},
	{"a; b; c; a -- b [latency=1]", NULL, NULL, NULL, 0},
};

START_TEST(equal_groups_are_levels)
{
	struct orr_levels want = {0}, found = {0};
	struct orr_cluster *cluster;
	struct orr_machine m;
	char text[512];
	bool units;

	(void)snprintf(text, sizeof(text), "graph m { %s }", nested[_i].machine);
	cluster = parse_cluster("%s", text);
	m = orr_machine_of(cluster, nested[_i].n);
	ck_assert_int_eq(orr_machine_nested(&found, &m), nested[_i].workers != NULL);
	if (nested[_i].workers)
		ck_assert_int_eq(orr_levels_parse(&want, nested[_i].workers, nested[_i].links,
						  nested[_i].latencies, &units, NULL),
				 0);
	ck_assert_int_eq(found.n, want.n);
	for (int l = 0; l < want.n; l++) {
		ck_assert_int_eq(found.workers[l], want.workers[l]);
		ck_assert(found.bytes_per_s[l] == want.bytes_per_s[l]);
		ck_assert_int_eq(found.latency_ns[l], want.latency_ns[l]);
	}
	m = orr_machine_default(4); /* no file: no groups */
	ck_assert(!orr_machine_nested(&found, &m));
	orr_cluster_destroy(cluster);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(steps_take_what_their_workers_and_links_take, N_OF(steps)),
	ONCE(only_work_goes_by_speed),
	ONCE(microbatches_are_shared_by_speed),
	ONCE(a_file_is_read),
	ONCE(uplinks_slow_down_what_passes_them),
	EACH(equal_groups_are_levels, N_OF(nested)),
};
SUITE("machine")
