/* The planner beside brute force: every way to cut 200 random DAGs into stages and to give these
 * replicas, with what each link carries. What a plan takes is computed here from the random numbers
 * alone. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/plan.h"
#include "plan/plan_draft.h"
#include "graphs.h"
#include "suite.h"

#define MOST 8 /* operators */
#define N_CASES 200

/* Milliseconds and kilobytes. */
struct model {
	int n, n_workers, m, kilobytes_per_ms; /* 0: free links */
	bool straight;
	int work[MOST], update[MOST], parameters[MOST], activation[MOST];
	bool reads[MOST][MOST]; /* [reader][maker] */
	/* of an edge; -1: as the activation, and as bytes; detached: 0 */
	int bytes[MOST][MOST], gradient_bytes[MOST][MOST];
	bool detached[MOST][MOST];
};

static unsigned draw(unsigned *state, unsigned n)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % n;
}

/* A gradient that no other edge carries stays, so that all is trained as it was. */
static bool may_detach(const struct model *a, int reader, int maker)
{
	int readers = 0, makers = 0;

	for (int i = 0; i < a->n; i++) {
		readers += a->reads[i][maker] && !a->detached[i][maker];
		makers += a->reads[reader][i] && !a->detached[reader][i];
	}
	return readers > 1 && makers > 1;
}

static void draw_edges(struct model *a, unsigned *x)
{
	for (int i = 0; i < a->n; i++)
		for (int k = 0; k < i; k++) {
			a->bytes[i][k] = draw(x, 2) ? (int)draw(x, 250) : -1;
			a->gradient_bytes[i][k] = draw(x, 2) ? (int)draw(x, 250) : -1;
			if (!a->reads[i][k] || draw(x, 3) || !may_detach(a, i, k))
				continue;
			a->detached[i][k] = true;
			a->gradient_bytes[i][k] = -1;
		}
}

static struct model draw_model(unsigned seed)
{
	unsigned x = seed * 2654435761u + 1;
	struct model a = {.n = 3 + (int)draw(&x, MOST - 2),
			  .n_workers = 2 + (int)draw(&x, 4),
			  .m = 1 + (int)draw(&x, 12),
			  .straight = draw(&x, 3) == 0};
	unsigned dense = 1 + draw(&x, 3);

	a.kilobytes_per_ms = draw(&x, 6) ? 1 + (int)draw(&x, 20) : 0;
	for (int i = 0; i < a.n; i++) {
		bool is_free = !draw(&x, 8); /* where it reads nothing either */

		a.work[i] = is_free ? 0 : 2 + (int)draw(&x, 60);
		a.update[i] = is_free || draw(&x, 3) ? 0 : 1 + (int)draw(&x, 20);
		a.parameters[i] = is_free || draw(&x, 2) ? 0 : 1 + (int)draw(&x, 500);
		a.activation[i] = is_free ? 0 : (int)draw(&x, 250);
		for (int k = 0; k < i; k++) {
			a.reads[i][k] = draw(&x, 4) < dense;
			a.bytes[i][k] = a.gradient_bytes[i][k] = -1;
		}
	}
	if (seed % 2)
		draw_edges(&a, &x);
	return a;
}

/* ---- by brute force ---- */

static int bytes_of(const struct model *a, int reader, int maker)
{
	return a->bytes[reader][maker] < 0 ? a->activation[maker] : a->bytes[reader][maker];
}

static int gradient_of(const struct model *a, int reader, int maker)
{
	if (a->detached[reader][maker])
		return 0;
	return a->gradient_bytes[reader][maker] < 0 ? bytes_of(a, reader, maker)
						    : a->gradient_bytes[reader][maker];
}

/* What operator i sends to stage `to`, or gets back from it: the most that one there reads. */
static int sent_to(const struct model *a, const int *stage_of, int i, int to, bool back)
{
	int bytes = 0, gradient = 0;

	for (int k = i + 1; k < a->n; k++) {
		if (stage_of[k] != to || !a->reads[k][i])
			continue;
		bytes = bytes_of(a, k, i) > bytes ? bytes_of(a, k, i) : bytes;
		gradient = gradient_of(a, k, i) > gradient ? gradient_of(a, k, i) : gradient;
	}
	return back ? gradient : bytes;
}

static int meet(int a, int b)
{
	int n = a;

	while (n % b)
		n += a;
	return n;
}

/* Per microbatch: the busiest worker or direction of a link. */
static double slowest(const struct model *a, const int *stage_of, const int *replicas, int n_stages)
{
	double worst = 0;

	for (int s = 0; s < n_stages; s++) {
		double work = 0, update = 0, parameters = 0, time;
		int r = replicas[s], k = r < a->m ? r : a->m;

		for (int i = 0; i < a->n; i++)
			if (stage_of[i] == s) {
				work += a->work[i];
				update += a->update[i];
				parameters += a->parameters[i];
			}
		time = work / r + update / a->m;
		if (a->kilobytes_per_ms)
			time += 2.0 * (k - 1) / k * parameters / a->kilobytes_per_ms / a->m;
		worst = time > worst ? time : worst;
		for (int to = s + 1; to < n_stages && a->kilobytes_per_ms; to++)
			for (int back = 0; back < 2; back++) {
				double bytes = 0;

				for (int i = 0; i < a->n; i++)
					bytes += stage_of[i] == s
							 ? sent_to(a, stage_of, i, to, back)
							 : 0;
				time = bytes / a->kilobytes_per_ms / meet(r, replicas[to]);
				worst = time > worst ? time : worst;
			}
	}
	return worst;
}

/* Give stage s and those after it all numbers of replicas that the workers left allow. */
static double try_replicas(const struct model *a, const int *stage_of, int *replicas, int n_stages,
			   int s, int left)
{
	double best = 1e30;

	if (s == n_stages)
		return slowest(a, stage_of, replicas, n_stages);
	for (int r = 1; r <= (a->straight ? 1 : left - (n_stages - s - 1)); r++) {
		double time;

		replicas[s] = r;
		time = try_replicas(a, stage_of, replicas, n_stages, s + 1, left - r);
		best = time < best ? time : best;
	}
	return best;
}

/* Give operator i and those after it all stages that do not come before those of what it reads. */
static double try_stages(const struct model *a, int *stage_of, int i, int n_stages)
{
	int replicas[MOST], first = 0;
	double best = 1e30;
	unsigned used = 0;

	if (i == a->n || i == MOST) { /* gcc does not know that n is at most MOST */
		for (int k = 0; k < i; k++)
			used |= 1u << stage_of[k];
		return used == (1u << n_stages) - 1
			       ? try_replicas(a, stage_of, replicas, n_stages, 0, a->n_workers)
			       : best;
	}
	for (int k = 0; k < i; k++)
		if (a->reads[i][k] && stage_of[k] > first)
			first = stage_of[k];
	for (int s = first; s < n_stages; s++) {
		double time;

		stage_of[i] = s;
		time = try_stages(a, stage_of, i + 1, n_stages);
		best = time < best ? time : best;
	}
	return best;
}

static double brute_force(const struct model *a)
{
	double best = 1e30;

	for (int n_stages = 1; n_stages <= a->n && n_stages <= a->n_workers; n_stages++) {
		int stage_of[MOST];
		double time = try_stages(a, stage_of, 0, n_stages);

		best = time < best ? time : best;
	}
	return best;
}

/* ---- as the planner is asked ---- */

static struct orr_graph *make_graph(const struct model *a)
{
	struct orr_graph *g = NULL;
	struct orr_error err = {""};
	char text[6000];
	size_t n = (size_t)snprintf(text, sizeof(text), "digraph {\n");

	for (int i = 0; i < a->n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "n%d [forward=\"%dms\" backward=\"%dms\" update=\"%dms\" "
				      "parameters=\"%dkB\" activation=\"%dkB\"];\n",
				      i, a->work[i] / 2, a->work[i] - a->work[i] / 2, a->update[i],
				      a->parameters[i], a->activation[i]);
	for (int i = 0; i < a->n; i++)
		for (int k = 0; k < i; k++) {
			if (!a->reads[i][k])
				continue;
			n += (size_t)snprintf(text + n, sizeof(text) - n, "n%d -> n%d [gradient=%s",
					      k, i, a->detached[i][k] ? "false" : "true");
			if (a->bytes[i][k] >= 0)
				n += (size_t)snprintf(text + n, sizeof(text) - n,
						      ", bytes=\"%dkB\"", a->bytes[i][k]);
			if (a->gradient_bytes[i][k] >= 0)
				n += (size_t)snprintf(text + n, sizeof(text) - n,
						      ", gradient_bytes=\"%dkB\"",
						      a->gradient_bytes[i][k]);
			n += (size_t)snprintf(text + n, sizeof(text) - n, "];\n");
		}
	(void)snprintf(text + n, sizeof(text) - n, "}\n");
	ck_assert_msg(orr_graph_parse(&g, "random.dot", text, &err) == 0, "%s: %s", err.msg, text);
	return g;
}

static struct orr_plan *plan_model(const struct model *a, const struct orr_graph *g,
				   const char *workers, const char *links)
{
	struct orr_plan_options o = {.activations = true,
				     .straight = a->straight,
				     .n_microbatches = a->m,
				     .samples = 1,
				     .flops_per_s = 1};

	return make_plan(g, workers, a->kilobytes_per_ms ? links : NULL, o);
}

START_TEST(no_cut_is_faster_than_the_plan)
{
	struct model a = draw_model((unsigned)_i);
	struct orr_graph *g = make_graph(&a);
	bool two_levels = _i % 4 == 3; /* of the inner one nobody uses the links */
	struct orr_plan *plan;
	double best = brute_force(&a) * 1e-3;
	char workers[20], links[60];

	(void)snprintf(workers, sizeof(workers), two_levels ? "1x%d" : "%d", a.n_workers);
	(void)snprintf(links, sizeof(links), two_levels ? "1B/s,%dMB/s" : "%dMB/s",
		       a.kilobytes_per_ms);
	plan = plan_model(&a, g, workers, links);
	ck_assert(!plan->coarse);
	ck_assert_msg(plan->slowest_s > best * (1 - 1e-6) && plan->slowest_s < best * (1 + 1e-6),
		      "case %d: %.9f s, and %.9f s is possible", _i, plan->slowest_s, best);
	ck_assert(plan->slowest.fastest);
	/* what the simulator finds takes no less */
	ck_assert_double_ge((double)plan->tried.figures->makespan_ns * 1e-9,
			    plan->slowest_s * a.m * (1 - 1e-6));
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
}
END_TEST

/* ---- workers that differ ---- */

#define MOST_DIFFERENT 4

struct workers {
	int n, m;
	double speed[MOST_DIFFERENT];
	int stage[MOST_DIFFERENT]; /* -1: idle */
};

/* Microbatches and updates of the workers of a stage end at once; links are free. */
static double slowest_of_workers(const struct model *a, const struct workers *x,
				 const int *stage_of, int n_stages)
{
	double worst = 0;

	for (int s = 0; s < n_stages; s++) {
		double work = 0, update = 0, speeds = 0, time;
		int k = 0;

		for (int i = 0; i < a->n; i++)
			if (stage_of[i] == s) {
				work += a->work[i];
				update += a->update[i];
			}
		for (int w = 0; w < x->n; w++)
			if (x->stage[w] == s) {
				speeds += x->speed[w];
				k++;
			}
		if (!k || (a->straight && k > 1))
			return 1e30;
		time = work / speeds + k * update / speeds / a->m;
		worst = time > worst ? time : worst;
	}
	return worst;
}

/* Give worker w and those after it all stages, or none. */
static double try_workers(const struct model *a, struct workers *x, const int *stage_of,
			  int n_stages, int w)
{
	double best = 1e30;

	if (w >= MOST_DIFFERENT || w == x->n)
		return slowest_of_workers(a, x, stage_of, n_stages);
	for (x->stage[w] = -1; x->stage[w] < n_stages; x->stage[w]++) {
		double time = try_workers(a, x, stage_of, n_stages, w + 1);

		best = time < best ? time : best;
	}
	return best;
}

/* All stages, as try_stages(). */
static double try_cuts(const struct model *a, struct workers *x, int *stage_of, int i, int n_stages)
{
	double best = 1e30;
	int first = 0;

	if (i == a->n || i == MOST)
		return try_workers(a, x, stage_of, n_stages, 0);
	for (int k = 0; k < i; k++)
		if (a->reads[i][k] && stage_of[k] > first)
			first = stage_of[k];
	for (int s = first; s < n_stages; s++) {
		double time;

		stage_of[i] = s;
		time = try_cuts(a, x, stage_of, i + 1, n_stages);
		best = time < best ? time : best;
	}
	return best;
}

static struct orr_cluster *draw_workers(struct workers *x, unsigned seed)
{
	static const double speeds[] = {1, 1, 1.5, 2, 3, 0.75};
	struct orr_cluster *cluster = NULL;
	unsigned state = seed * 2654435761u + 7;
	char text[300] = "graph {";
	size_t n = strlen(text);

	x->n = 2 + (int)draw(&state, MOST_DIFFERENT - 1);
	for (int w = 0; w < x->n; w++) {
		x->speed[w] = speeds[draw(&state, N_OF(speeds))];
		n += (size_t)snprintf(text + n, sizeof(text) - n, " w%d [speed=%g];", w,
				      x->speed[w]);
	}
	(void)snprintf(text + n, sizeof(text) - n, " }");
	ck_assert(!orr_cluster_parse(&cluster, "random.dot", text, NULL));
	return cluster;
}

START_TEST(no_cut_is_faster_on_workers_that_differ)
{
	struct model a = draw_model((unsigned)_i);
	struct workers x;
	struct orr_cluster *cluster = draw_workers(&x, (unsigned)_i);
	struct orr_plan_options o = {
		.cluster = cluster, .activations = true, .samples = 1, .flops_per_s = 1};
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};
	struct orr_graph *g;
	double best = 1e30;
	int stage_of[MOST];

	a.n = a.n < 5 ? a.n : 5;
	memset(a.detached, 0, sizeof(a.detached)); /* links are free */
	g = make_graph(&a);
	for (int n_stages = 1; n_stages <= a.n && n_stages <= x.n; n_stages++) {
		double time = try_cuts(&a, &x, stage_of, 0, n_stages) * 1e-3;

		best = time < best ? time : best;
	}
	o.levels = (struct orr_levels){.n = 1, .workers = {x.n}};
	o.straight = a.straight;
	o.n_microbatches = a.m;
	if (best > 0) {
		ck_assert_msg(!orr_plan_create(&plan, g, &o, &err), "%s", err.msg);
		ck_assert_msg(plan->slowest_s > best * (1 - 1e-6) &&
				      plan->slowest_s < best * (1 + 1e-6),
			      "case %d: %.9f s, and %.9f s is possible", _i, plan->slowest_s, best);
		ck_assert(plan->slowest.fastest);
		ck_assert_double_ge((double)plan->tried.figures->makespan_ns * 1e-9,
				    plan->slowest_s * a.m * (1 - 1e-6));
	}
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
	orr_cluster_destroy(cluster);
}
END_TEST

/* On groups of workers the search is not exact; what a plan is said to take still is no more than
 * the simulator finds. */
START_TEST(no_step_is_faster_than_its_slowest_stage)
{
	static const char *const workers[] = {"2x2", "3x2", "2x3", "2x2x2"};
	struct model a = draw_model((unsigned)_i);
	struct orr_graph *g = make_graph(&a);
	struct orr_plan *plan;
	char links[60];

	a.straight = false;
	(void)snprintf(links, sizeof(links), "%dMB/s,%dMB/s%s", 8 * a.kilobytes_per_ms,
		       a.kilobytes_per_ms, _i % 4 == 3 ? ",1MB/s" : "");
	plan = plan_model(&a, g, workers[_i % 4], links);
	ck_assert_double_ge((double)plan->tried.figures->makespan_ns * 1e-9,
			    plan->slowest_s * a.m * (1 - 1e-6));
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
}
END_TEST

/* ---- machines that add up otherwise ---- */

#define N_SUMS 48 /* cases: each machine under each word */
#define SUMMED 3  /* operators */
#define SUMMING 4 /* workers */

/* One level; two nodes whose workers have a card each; a node and a worker outside it that differ.
 */
static const char *const summing[] = {
	"latency=%d; bandwidth=\"20MB/s\"; a [repeat=4];",
	"latency=%d; bandwidth=\"4MB/s\"; subgraph n { repeat=2; latency=1; bandwidth=\"40MB/s\"; "
	"ports=true; uplink=\"2MB/s\"; lanes=2; rails=true; a [repeat=2]; }",
	"latency=%d; bandwidth=\"4MB/s\"; subgraph n { latency=1; bandwidth=\"40MB/s\"; "
	"a [repeat=3]; } b [speed=2];",
};

/* What is tried: the stage of each operator and worker (-1: idle), and the least so far. */
struct every {
	const struct model *a;
	const struct orr_graph *g;
	const struct orr_plan_options *o;
	int stage_of[MOST], at[SUMMING], n_tried;
	double slowest_s;
	bool alike; /* the workers */
};

/* As stages on the workers in their order: what it takes. */
static void try_draft(struct every *x, int n_stages)
{
	struct orr_plan_draft d;
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};
	double step_s;
	int k = 0;

	ck_assert(!orr_plan_draft_init(&d, x->g, n_stages, SUMMING, &err));
	memcpy(d.stage_of, x->stage_of, (size_t)x->a->n * sizeof(*d.stage_of));
	for (int s = 0; s < n_stages; s++) {
		d.replicas[s] = 0;
		for (int w = 0; w < SUMMING; w++)
			if (x->at[w] == s) {
				d.replicas[s]++;
				d.workers[k++] = w;
			}
		if (!d.replicas[s]) {
			orr_plan_draft_fini(&d);
			return;
		}
	}
	ck_assert_msg(!orr_plan_realise(&plan, x->g, x->o, &d, ORR_WORLD_DAG, false, &err), "%s",
		      err.msg);
	x->n_tried++;
	x->slowest_s = plan->slowest_s < x->slowest_s ? plan->slowest_s : x->slowest_s;
	step_s = (double)plan->tried.figures->makespan_ns * 1e-9;
	ck_assert_double_ge(step_s, plan->slowest_s * x->a->m * (1 - 1e-9));
	if (n_stages == 1 && x->alike && x->a->m % plan->replicas[0] == 0)
		ck_assert_double_le(step_s, plan->slowest_s * x->a->m * (1 + 1e-9));
	orr_plan_destroy(plan);
	orr_plan_draft_fini(&d);
}

static void try_workers_of(struct every *x, int n_stages, int w)
{
	if (w == SUMMING) {
		try_draft(x, n_stages);
		return;
	}
	for (x->at[w] = -1; x->at[w] < n_stages; x->at[w]++)
		try_workers_of(x, n_stages, w + 1);
}

/* Every cut of a chain, with every worker in any of its stages, or in none. */
START_TEST(no_cut_is_faster_however_the_machine_adds_up)
{
	static const char *const words[] = {"ring", "tree", "hierarchical", "auto"};
	struct model a = {.n = SUMMED, .n_workers = SUMMING};
	struct orr_cluster *cluster = NULL;
	struct orr_plan_options o = {.samples = 1, .flops_per_s = 1};
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};
	struct every x = {.a = &a, .o = &o, .slowest_s = 1e30, .alike = _i / 4 % 3 < 2};
	unsigned state = (unsigned)_i * 2654435761u + 3;
	char machine[300], text[400];
	size_t n;

	(void)snprintf(machine, sizeof(machine), summing[_i / 4 % 3], 1 + (int)draw(&state, 3));
	n = (size_t)snprintf(text, sizeof(text), "graph { all_reduce=%s; ", words[_i % 4]);
	(void)snprintf(text + n, sizeof(text) - n, "%s }", machine);
	ck_assert_msg(!orr_cluster_parse(&cluster, "m.dot", text, &err), "%s: %s", err.msg, text);
	a.m = 4 + (int)draw(&state, 8);
	for (int i = 0; i < a.n; i++) {
		/* one operator of most of the work, which replicas alone make faster */
		a.work[i] = (i == 1 ? 12000 : 1000) + (int)draw(&state, 4000);
		a.parameters[i] = 1000 * (int)draw(&state, 40);
		for (int k = 0; k < a.n; k++) {
			a.reads[i][k] = k == i - 1;
			a.bytes[i][k] = a.gradient_bytes[i][k] = -1;
		}
	}
	o.cluster = cluster;
	o.levels = (struct orr_levels){.n = 1, .workers = {SUMMING}};
	o.n_microbatches = a.m;
	o.numerics.shard_optimizer = _i / 12 % 2;
	x.g = make_graph(&a);
	for (int cuts = 0; cuts < 1 << (SUMMED - 1); cuts++) {
		for (int i = 1; i < SUMMED; i++)
			x.stage_of[i] = x.stage_of[i - 1] + (cuts >> (i - 1) & 1);
		try_workers_of(&x, x.stage_of[SUMMED - 1] + 1, 0);
	}
	ck_assert_int_eq(x.n_tried, 15 + 2 * 50 + 60);
	ck_assert_msg(!orr_plan_create(&plan, x.g, &o, &err), "%s", err.msg);
	ck_assert_msg(plan->slowest_s <= x.slowest_s * (1 + 1e-6),
		      "case %d: %.9f s, and %.9f s is possible: %s", _i, plan->slowest_s,
		      x.slowest_s, text);
	orr_plan_destroy(plan);
	orr_graph_destroy((struct orr_graph *)x.g);
	orr_cluster_destroy(cluster);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(no_cut_is_faster_however_the_machine_adds_up, N_SUMS),
	EACH(no_cut_is_faster_than_the_plan, N_CASES),
	EACH(no_cut_is_faster_on_workers_that_differ, N_CASES),
	EACH(no_step_is_faster_than_its_slowest_stage, N_CASES),
};
SUITE("plan")
