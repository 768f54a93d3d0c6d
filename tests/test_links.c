/* What shares a link, in closed form: rings of stages, and rings with transfers. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "pipelines.h"
#include "suite.h"

/* A chain, F = B = 1 unit, links of 5 bytes a unit. Under ddp the gradient of the last stage is
 * there when its backward ends, that of the one before 1 unit later; each ring over k owners takes
 * 2 (k - 1) (latency + bytes / k / 5). */
static const struct {
	const char *name, *schedule;
	int n_stages, n_workers, n_microbatches;
	int64_t parameter_bytes, edge_bytes, latency;
	int64_t makespan;
} cases[] = {
	{"one ring of two", "ddp", 1, 2, 2, 10, 0, 0, 2 + 2},
	{"a second one waits", "ddp", 2, 2, 2, 10, 0, 0, 3 + 2 + 2},
	{"eight of them", "ddp", 8, 2, 2, 10, 0, 0, 9 + 8 * 2},
	{"the last step's latency leaves the link free", "ddp", 2, 2, 2, 10, 0, 1, 3 + 4 + 4 - 1},
	{"three owners", "ddp", 2, 3, 3, 15, 0, 0, 3 + 4 + 4},
	{"rings that are shorter than a backward do not wait", "ddp", 2, 2, 2, 5, 0, 0, 4 + 1},
	{"without parameters there is no ring", "ddp", 2, 2, 2, 0, 0, 1, 4},
	/* activations cross at 1 (to 2 and 3), gradients at 4 and 5 (to 6); stage 1's ring is asked
	 * for at 5 and waits for the second gradient, stage 0's is asked for at 7 and waits for the
	 * first ring until 8 */
	{"rings wait for transfers", "chimera", 2, 2, 2, 10, 5, 0, 10},
};

START_TEST(rings_follow_one_another_and_transfers)
{
	struct orr_machine machine = orr_machine_default(cases[_i].n_workers);
	struct orr_pipeline *p;
	struct way way;
	char edges[64] = "";

	for (int s = 0, at = 0; s + 1 < cases[_i].n_stages; s++)
		at += snprintf(edges + at, sizeof(edges) - (size_t)at, " %d>%d", s, s + 1);
	p = make_pipeline(cases[_i].n_stages, edges, 1, 1, 0, 1, cases[_i].parameter_bytes,
			  cases[_i].edge_bytes);
	machine.bandwidth_bytes_per_s = 5;
	machine.latency_ns = cases[_i].latency * ORR_UNIT_NS;
	way_init_on(&way, p, cases[_i].schedule, &machine, cases[_i].n_microbatches);
	ck_assert_msg(way.tried.figures->makespan_ns == cases[_i].makespan * ORR_UNIT_NS,
		      "%s: %g instead of %g", cases[_i].name,
		      (double)way.tried.figures->makespan_ns / (double)ORR_UNIT_NS,
		      (double)cases[_i].makespan);
	way_fini(&way);
	orr_pipeline_destroy(p);
}
END_TEST

/* Links by level: a ring that leaves a group is as slow as the link between groups. */
START_TEST(a_ring_is_as_slow_as_its_slowest_link)
{
	static const int inside[] = {0, 1}, across[] = {0, 1, 2};
	struct orr_machine machine = orr_machine_default(4);

	machine.latency_ns = 7;
	machine.levels = (struct orr_levels){.n = 2, .workers = {2, 2}, .bytes_per_s = {1e9, 1e8}};
	ck_assert_int_eq(orr_machine_ring_ns(&machine, inside, 1, 600), 0);
	ck_assert_int_eq(orr_machine_ring_ns(&machine, inside, 2, 600), 2 * 7 + 600);
	ck_assert_int_eq(orr_machine_ring_ns(&machine, across, 3, 600), 4 * 7 + 4 * 200 * 10);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(rings_follow_one_another_and_transfers, N_OF(cases)),
		ONCE(a_ring_is_as_slow_as_its_slowest_link),
	};

	return suite_run("links", tests, N_OF(tests));
}
