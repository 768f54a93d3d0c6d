/* An output that several stages read moves to a worker once, whatever reads it there: by hand, and
 * counted from the operators of drawn graphs. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "pipeline/partition.h"
#include "pipelines.h"
#include "suite.h"

#define M 4 /* microbatches */

static struct orr_pipeline *cut(const struct orr_graph *g)
{
	const struct orr_machine machine = orr_machine_default(0);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_partition(&p, g, &machine, 0, 1, &err), "%s", err.msg);
	return p;
}

/* Links on which 10 bytes take a unit; 0: free ones. */
static struct orr_machine links(int n_workers, bool slow)
{
	struct orr_machine machine = orr_machine_default(n_workers);

	machine.bandwidth_bytes_per_s = slow ? 10 : 0;
	return machine;
}

/* Stages of one operator or more, that make 10 bytes; of a microbatch what workers receive. */
static const struct {
	const char *edges, *schedule;
	int n_workers;
	int64_t activations[3], gradients[3];
} by_hand[] = {
	{"a -> b -> c -> d", "interleaved", 2, {10, 20}, {20, 10}},
	/* a's once for b and d */
	{"a -> b -> c -> d; a -> d", "interleaved", 2, {10, 20}, {30, 10}},
	{"a -> b -> c -> d; a -> d", "gpipe", 4, {0, 10, 10}, {20, 10, 10}},
	/* three readers on one worker, and one where it is made */
	{"a -> { b c d e f }; b -> c -> d -> e -> f", "interleaved", 2, {20, 30}, {50, 20}},
	/* two outputs of stage 0, of which d reads both */
	{"a -> b -> c -> d; a -> d; x -> d", "interleaved", 2, {10, 30}, {40, 10}},
	{"a -> b -> c -> d; x -> b; a -> d; x -> d", "interleaved", 2, {10, 30}, {50, 10}},
	/* what d reads of it is a part */
	{"a -> b -> c -> d; a -> d [bytes=4]", "interleaved", 2, {10, 20}, {24, 10}},
	/* every microbatch has all its stages on one worker */
	{"a -> b -> c -> d; a -> d", "ddp", 2, {0, 0}, {0, 0}},
	/* readers on different workers receive it each */
	{"a -> b; a -> c; b -> c", "gpipe", 3, {0, 10, 20}, {20, 10, 0}},
};

START_TEST(a_worker_receives_an_output_once)
{
	for (int slow = 0; slow < 2; slow++) {
		char text[400];
		struct orr_machine machine = links(by_hand[_i].n_workers, slow);
		struct orr_graph *g;
		struct orr_pipeline *p;
		struct way way;

		snprintf(text, sizeof(text),
			 "digraph { node [forward=1, backward=2, parameters=4, activation=10]; "
			 "a [stage=0]; %s b [stage=1]; c [stage=2]; %s %s %s }",
			 strstr(by_hand[_i].edges, "x") ? "x [stage=0];" : "",
			 strstr(by_hand[_i].edges, "d") ? "d [stage=3];" : "",
			 strstr(by_hand[_i].edges, "f") ? "e [stage=4]; f [stage=5];" : "",
			 by_hand[_i].edges);
		g = parse_graph(text);
		p = cut(g);
		way_init_on(&way, p, by_hand[_i].schedule, &machine, M);
		for (int w = 0; w < by_hand[_i].n_workers && w < 3; w++) {
			const struct orr_worker_figures *f = &way.tried.figures->worker[w];

			ck_assert_msg(f->recv_activation_bytes == M * by_hand[_i].activations[w] &&
					      f->recv_gradient_bytes ==
						      M * by_hand[_i].gradients[w],
				      "%s: worker %d receives %lld and %lld bytes",
				      by_hand[_i].edges, w, (long long)f->recv_activation_bytes / M,
				      (long long)f->recv_gradient_bytes / M);
		}
		way_fini(&way);
		orr_pipeline_destroy(p);
		orr_graph_destroy(g);
	}
}
END_TEST

/* Plain edges carry different things until they are told what they share. */
START_TEST(edges_say_what_they_share)
{
	const int readers[] = {1, 3}, wrong[] = {3, 1}, none[] = {1, 2};
	const struct orr_fanout x = {.from = 0, .n_readers = 2, .readers = readers, .bytes = 70};
	struct orr_fanout bad[] = {x, x, x, x};
	struct orr_pipeline *p = make_pipeline(4, "0>1 1>2 2>3 0>3", 1, 2, 0, 10, 0, 100);
	struct orr_error err = {""};

	bad[0].readers = wrong;
	bad[1].readers = none;
	bad[2].bytes = 101;
	bad[3].n_readers = 1;
	for (int i = 0; i < N_OF(bad); i++)
		ck_assert_int_eq(orr_pipeline_set_outputs(p, &bad[i], 1, &err), ORR_E_INPUT);
	for (int shared = 0; shared < 2; shared++) {
		struct way way;

		ck_assert_int_eq(orr_pipeline_set_outputs(p, &x, shared, &err), 0);
		way_init(&way, p, "interleaved", 2, M);
		ck_assert_int_eq(way.tried.figures->worker[1].recv_activation_bytes,
				 M * (shared ? 230 : 300));
		ck_assert_int_eq(way.tried.figures->worker[0].recv_gradient_bytes, M * 300);
		way_fini(&way);
	}
	orr_pipeline_destroy(p);
}
END_TEST

/* 0F1 is on the link right behind 0F0, whose part for 3F0 is there with 1F0's: by hand, where 10
 * bytes take a unit. */
START_TEST(transfers_do_not_wait_for_what_is_there)
{
	struct orr_machine machine = links(2, true);
	struct orr_graph *g = parse_graph("digraph { node [forward=1, backward=2, activation=10]; "
					  "a [stage=0]; b [stage=1]; c [stage=2]; d [stage=3]; "
					  "a -> b -> c -> d; a -> d }");
	struct orr_pipeline *p = cut(g);
	struct way way;

	way_init_on(&way, p, "interleaved", &machine, 2);
	for (int s = 0; s < 4; s++)
		for (int b = 0; b < 2; b++) {
			static const int starts[4][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 9}};

			ck_assert_int_eq(units(way.tried.timeline->start_ns[orr_jobs_index(
						 way.tried.jobs, s, b, ORR_PASS_F)]),
					 starts[s][b]);
		}
	way_fini(&way);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

/* ---- drawn ---- */

/* Two operators a stage; each reads one before it at least, of stages before its own or not. */
static struct orr_graph *draw_graph(uint64_t seed, int n_stages)
{
	static char text[8000];
	size_t used = (size_t)snprintf(text, sizeof(text),
				       "digraph { node [forward=1, backward=2, parameters=4]; ");

	suite_random = seed;
	for (int i = 0; i < 2 * n_stages; i++) {
		uint64_t before = i ? UINT64_C(1) << (i - 1) : 0;

		for (int k = suite_draw(3); i && k > 0; k--)
			before |= UINT64_C(1) << suite_draw(i);
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "o%02d [stage=%d, activation=%d]; ", i, i / 2,
					 suite_draw(5) * 10);
		for (int k = 0; k < i; k++)
			if (before >> k & 1)
				used += (size_t)snprintf(text + used, sizeof(text) - used,
							 "o%02d -> o%02d; ", k, i);
	}
	(void)snprintf(text + used, sizeof(text) - used, "}");
	return parse_graph(text);
}

/* Does operator k of microbatch b have a reader on worker w in another stage? */
static bool is_read_on(const struct orr_jobs *jobs, int k, int b, int w)
{
	const struct orr_graph *g = jobs->pipeline->graph;
	const int *stage_of = jobs->pipeline->stage_of;

	for (int i = 0; i < g->n_operators; i++)
		for (int n = 0; n < g->operators[i].n_inputs; n++)
			if (g->operators[i].inputs[n] == k && stage_of[i] != stage_of[k] &&
			    jobs->compute[orr_jobs_index(jobs, stage_of[i], b, ORR_PASS_F)] == w)
				return true;
	return false;
}

static int64_t count(const struct orr_jobs *jobs, int w)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int64_t bytes = 0;

	for (int k = 0; k < p->graph->n_operators; k++)
		for (int b = 0; b < p->n_microbatches; b++)
			if (jobs->compute[orr_jobs_index(jobs, p->stage_of[k], b, ORR_PASS_F)] !=
				    w &&
			    is_read_on(jobs, k, b, w))
				bytes += p->graph->operators[k].activation_bytes;
	return bytes;
}

static int64_t sum_transfers(const struct orr_timeline *t, int w)
{
	int64_t bytes = 0;

	for (int i = 0; i < t->n_transfers; i++)
		if (t->transfers[i].kind == ORR_TRANSFER_ACTIVATION && t->transfers[i].to == w)
			bytes += t->transfers[i].bytes;
	return bytes;
}

static const char *const schedules[] = {"interleaved",   "gpipe",     "v-half",       "zb-h1",
					"lpp:G=2,R=2",   "pipedream", "looped-bfs",   "1f1b",
					"fslpp:G=2,R=2", "ddp",       "auto:effort=0"};

START_TEST(a_worker_receives_what_is_read_there)
{
	int n_served = 0;

	for (uint64_t seed = 0; seed < 6; seed++) {
		struct orr_graph *g = draw_graph(seed * 100 + (uint64_t)_i, 8);
		struct orr_pipeline *p = cut(g);

		for (int slow = 0; slow < 2; slow++) {
			struct orr_machine machine = links(4, slow);
			struct orr_error err = {""};
			struct way way;

			if (!way_try_on(&way, p, schedules[_i], &machine, 8))
				continue;
			n_served++;
			ck_assert_msg(!orr_timeline_check(way.tried.timeline, &err), "%s", err.msg);
			for (int w = 0; w < 4; w++) {
				int64_t bytes = count(way.tried.jobs, w);

				ck_assert_int_eq(way.tried.figures->worker[w].recv_activation_bytes,
						 bytes);
				ck_assert_int_eq(sum_transfers(way.tried.timeline, w),
						 slow ? bytes : 0);
			}
			way_fini(&way);
		}
		orr_pipeline_destroy(p);
		orr_graph_destroy(g);
	}
	ck_assert_int_gt(n_served, 0);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_worker_receives_an_output_once, N_OF(by_hand)),
	ONCE(edges_say_what_they_share),
	ONCE(transfers_do_not_wait_for_what_is_there),
	EACH(a_worker_receives_what_is_read_there, N_OF(schedules)),
};
SUITE("once")
