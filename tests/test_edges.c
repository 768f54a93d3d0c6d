/* Edges that say what goes over them and what comes back, and data that several stages read: by
 * hand. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/orrery.h"
#include "pipeline/partition.h"
#include "orrery/plan.h"
#include "orrery/open.h"
#include "pipelines.h"
#include "suite.h"

#define M 8 /* microbatches */
#define MB INT64_C(1000000)

static struct orr_pipeline *cut(const struct orr_graph *g, int n_stages, int64_t samples)
{
	const struct orr_machine machine = orr_machine_default(0);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_partition(&p, g, &machine, n_stages, samples, &err), "%s", err.msg);
	return p;
}

/* What goes over an edge between two stages. */
static const struct {
	const char *edges; /* between a, b and c; a and b are stage 0 and c, d and e stage 1 */
	int64_t bytes, gradient_bytes;
	bool detached;
} sizes[] = {
	{"b -> c", 10, 10, false},
	{"b -> c [bytes=4]", 4, 4, false},
	{"b -> c [gradient_bytes=3]", 10, 3, false},
	{"b -> c [bytes=4, gradient_bytes=30]", 4, 30, false},
	{"b -> c [bytes=0]", 0, 0, false},
	{"b -> c [gradient_bytes=0]", 10, 0, false},
	{"b -> c; a -> c", 20, 20, false},
	{"b -> c; a -> c [gradient=false]", 20, 10, false},
	/* a tensor goes once, the most of it that is read */
	{"b -> c; b -> d", 10, 10, false},
	{"b -> c [bytes=4]; b -> d [bytes=7, gradient_bytes=1]", 7, 4, false},
	{"b -> c [gradient=false]; b -> d [bytes=4]", 10, 4, false},
	{"b -> c [gradient=false]; b -> e", 10, 10, false},
	{"b -> { c d e } [bytes=6]", 6, 6, false},
	{"edge [bytes=6]; b -> c; edge [gradient_bytes=5]; a -> c", 12, 11, false},
	{"subgraph s { edge [bytes=6]; } b -> c", 10, 10, false},
	/* of the loss of b alone */
	{"b -> c [gradient=false]; a -> c [bytes=2, gradient=false]", 12, 0, true},
};

START_TEST(an_edge_carries_what_its_operators_read)
{
	struct orr_graph *g;
	struct orr_pipeline *p;
	char text[600];

	snprintf(text, sizeof(text),
		 "digraph { node [forward=1, backward=2, parameters=4, activation=10, stage=0]; a; "
		 "b; l; a -> b -> l; node [stage=1]; c; d; e; c -> d -> e; %s }",
		 sizes[_i].edges);
	g = parse_graph(text);
	p = cut(g, 0, 1);
	ck_assert_int_eq(p->n_edges, 1);
	ck_assert_msg(p->edges[0].bytes == sizes[_i].bytes &&
			      p->edges[0].gradient_bytes == sizes[_i].gradient_bytes &&
			      p->edges[0].detached == sizes[_i].detached,
		      "%s: %lld, %lld, %d", sizes[_i].edges, (long long)p->edges[0].bytes,
		      (long long)p->edges[0].gradient_bytes, p->edges[0].detached);
	ck_assert_int_eq(p->stages[1].input_bytes, sizes[_i].bytes);
	/* c computes no input gradient where none goes back */
	ck_assert_int_eq(p->stages[1].has_input_gradient, !sizes[_i].detached);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(copies_have_what_the_edge_into_them_and_out_of_them_says)
{
	struct orr_graph *g = parse_graph(
		"digraph { node [forward=1]; subgraph cluster_s { repeat=3; a -> b [bytes=5]; } "
		"x -> a [bytes=2]; b -> y [gradient_bytes=3] }");

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];
		bool first = !strcmp(o->name, "a.0"), inner = o->name[0] == 'b',
		     last = o->name[0] == 'y';

		ck_assert_int_eq(!!o->reads, first || inner || last);
		ck_assert_int_eq(o->reads ? o->reads->bytes : 0, first   ? 2
								 : inner ? 5
								 : last  ? -1
									 : 0);
		ck_assert_int_eq(o->reads ? o->reads->gradient_bytes : 0, last             ? 3
									  : first || inner ? -1
											   : 0);
	}
	orr_graph_destroy(g);
}
END_TEST

static struct orr_graph *local_losses(const char *edge)
{
	char text[400];

	snprintf(text, sizeof(text),
		 "digraph { node [forward=1, backward=2, activation=\"4MB\"]; a [stage=0]; "
		 "b [stage=1]; l [stage=0, forward=0, backward=0]; a -> l; a -> b %s }",
		 edge);
	return parse_graph(text);
}

/* Both stages have a loss of their own. Where a gradient comes back, stage 0 ends with the last B
 * of its own, 3 (M + 1). Without it, stage 0 computes F, F, B, F, B, ... without a gap, and stage
 * 1, whose backward is the weight gradient alone, ends before it: 3 M. */
START_TEST(without_a_gradient_the_stage_before_does_not_wait)
{
	static const struct {
		const char *edge;
		int64_t makespan, activations, gradients;
	} cases[] = {
		{"", 3 * (M + 1), M * 4 * MB, M * 4 * MB},
		{"[gradient_bytes=\"1MB\"]", 3 * (M + 1), M * 4 * MB, M * MB},
		{"[bytes=\"3MB\"]", 3 * (M + 1), M * 3 * MB, M * 3 * MB},
		{"[gradient=false]", 3 * M, M * 4 * MB, 0},
	};
	struct orr_graph *g = local_losses(cases[_i].edge);
	struct orr_pipeline *p = cut(g, 0, 1);
	struct way way;

	way_init(&way, p, "1f1b", 2, M);
	ck_assert_int_eq(units(way.tried.figures->makespan_ns), cases[_i].makespan);
	ck_assert_int_eq(way.tried.figures->worker[1].recv_activation_bytes, cases[_i].activations);
	ck_assert_int_eq(way.tried.figures->worker[0].recv_gradient_bytes, cases[_i].gradients);
	ck_assert_int_eq(way.tried.figures->worker[0].peak_stash, 2);
	if (_i == 3)
		ASSERT_HAS(way_order(&way, 0), "0F0 0F1 0B0 0F2 0B1 ");
	way_end(&way);
	orr_graph_destroy(g);
}
END_TEST

/* What is trained after an edge without a gradient has the gradients inside of its stage, and none
 * for before. */
START_TEST(a_stage_keeps_the_gradients_inside_it)
{
	struct orr_graph *g = parse_graph("digraph { node [forward=1, backward=2, weight=3, "
					  "stash=10]; f [frozen=true, stage=0]; "
					  "node [stage=1]; a; b; c; f -> a -> b -> c }");
	struct orr_pipeline *p = cut(g, 0, 1);

	ck_assert(!orr_pipeline_has_pass(p, 0, ORR_PASS_B, false));
	ck_assert(!orr_pipeline_has_pass(p, 1, ORR_PASS_B, true));
	ck_assert_int_eq(orr_pipeline_duration_ns(p, 1, ORR_PASS_B, false), 13 * ORR_UNIT_NS);
	ck_assert_int_eq(orr_pipeline_duration_ns(p, 1, ORR_PASS_W, true), 13 * ORR_UNIT_NS);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

/* One stage a worker; a link carries the tensor and beside it the gradient, each 1 MB a second. */
START_TEST(a_plan_counts_what_moves)
{
	static const struct {
		const char *edge;
		double slowest_s;
	} cases[] = {
		{"", 4},
		{"[bytes=\"3.5MB\", gradient_bytes=\"2MB\"]", 3.5},
		{"[bytes=\"2MB\", gradient_bytes=\"5MB\"]", 5},
		{"[bytes=\"7MB\", gradient_bytes=\"2MB\"]", 7},
		{"[gradient=false]", 4},
		{"[bytes=\"1MB\"]", 3}, /* and the workers take 3 */
	};
	struct orr_plan_options o = {.straight = true,
				     .activations = true,
				     .n_microbatches = M,
				     .samples = 1,
				     .flops_per_s = 1};
	struct orr_graph *g = local_losses(cases[_i].edge);
	struct orr_plan *plan;

	for (int i = 0; i < g->n_operators; i++)
		g->operators[i].stage = -1;
	plan = make_plan(g, "2", "1MB/s", o);
	/* one worker alone takes 6 a microbatch */
	ck_assert_double_eq_tol(plan->slowest_s, cases[_i].slowest_s > 6 ? 6 : cases[_i].slowest_s,
				1e-6);
	plan_end(plan, g);
}
END_TEST

/* x is read by stages 0, 1 and 2, z in the middle, y at the end: each has its data itself. */
static const char data[] =
	"digraph { x [op=input, columns=\"0:4\"]; y [op=input, columns=4]; "
	"z [op=input, columns=\"5:8\"]; join [op=concat, stage=3]; more [op=concat, stage=2]; "
	"loss [op=mse, stage=3]; node [op=linear, features=2]; a [stage=0]; b [stage=1]; "
	"c [stage=2]; d [stage=2]; e [stage=3]; f [stage=3, features=1]; x -> a; x -> b; "
	"a -> more; x -> more; z -> more -> c -> d -> join; b -> e -> join -> f -> loss; y -> loss "
	"}";

START_TEST(every_stage_reads_its_data_itself)
{
	const int64_t row = 4 * 10; /* bytes of a column of 10 samples */
	struct orr_graph *g = parse_graph(data);
	struct orr_pipeline *p = cut(g, 0, 10);
	const int from[] = {0, 1, 2}, to[] = {2, 3, 3};
	struct way way;

	ck_assert_int_eq(p->n_edges, 3);
	for (int e = 0; e < 3; e++) {
		ck_assert_int_eq(p->edges[e].from, from[e]);
		ck_assert_int_eq(p->edges[e].to, to[e]);
		ck_assert_int_eq(p->edges[e].bytes, 2 * row);
		ck_assert(!p->edges[e].detached);
	}
	ck_assert_int_eq(p->stages[0].input_bytes, 4 * row);
	ck_assert_int_eq(p->stages[1].input_bytes, 4 * row);
	ck_assert_int_eq(p->stages[2].input_bytes, (2 + 4 + 3) * row);
	ck_assert_int_eq(p->stages[3].input_bytes, (2 + 2 + 1) * row);
	way_init(&way, p, "1f1b", 4, M);
	ck_assert_int_eq(way.tried.figures->worker[1].recv_activation_bytes, 0);
	ck_assert_int_eq(way.tried.figures->worker[2].recv_activation_bytes, 2 * row * M);
	ck_assert_int_eq(way.tried.figures->worker[0].recv_gradient_bytes, 2 * row * M);
	/* stage 1 does not wait for stage 0 */
	ck_assert_int_eq(way.tried.figures->worker[1].first_start_ns, 0);
	way_end(&way);
	orr_graph_destroy(g);
}
END_TEST

/* Ends of a model on several stages, with and without gradients between them. */
static const char *const ends[] = {
	"a -> b -> c -> d -> e -> f -> g -> h; c -> i; f -> j",
	"a -> b -> c -> d -> e -> f -> g -> h; c -> i; f -> j; c -> d [gradient=false]",
	"a -> b -> c -> d; b -> e -> f; b -> g -> h; a -> i [gradient=false]; i -> j",
};

START_TEST(every_schedule_serves_several_ends_or_says_why_not)
{
	static const int n_workers[] = {10, 5, 2};
	int n_served = 0;
	char text[400];
	struct orr_graph *g;

	snprintf(text, sizeof(text), "strict digraph { node [forward=1, backward=2]; %s }",
		 ends[_i]);
	g = parse_graph(text);
	for (int i = 0; i < count_schedules(); i++) {
		bool served = false;

		for (int k = 0; k < N_OF(n_workers) && !served; k++) {
			struct orr_pipeline *p = cut(g, 0, 1);
			struct way way;

			served = way_try(&way, p, orr_schedules[i]->name, n_workers[k], M);
			if (served) {
				ck_assert_int_ge(way.tried.figures->makespan_ns,
						 way.tried.figures->lower_bound_ns);
				way_fini(&way);
			}
			orr_pipeline_destroy(p);
		}
		n_served += served;
	}
	ck_assert_int_ge(n_served, 24);
	orr_graph_destroy(g);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(an_edge_carries_what_its_operators_read, N_OF(sizes)),
	ONCE(copies_have_what_the_edge_into_them_and_out_of_them_says),
	EACH(without_a_gradient_the_stage_before_does_not_wait, 4),
	ONCE(a_stage_keeps_the_gradients_inside_it),
	EACH(a_plan_counts_what_moves, 6),
	ONCE(every_stage_reads_its_data_itself),
	EACH(every_schedule_serves_several_ends_or_says_why_not, N_OF(ends)),
};
SUITE("edges")
