/* The simulator against one that shares nothing with it (oracle.h), on random steps: sizes,
 * replicas, owners elsewhere, tied parameters, gangs, gathered minibatches, links by level and by
 * pair, of half duplex, ports, uplinks, exclusive and shared, latency, workers of other speeds,
 * caps, strict and greedy orders, updates. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/open.h"
#include "pipeline/cost.h"
#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/microbatches.h"
#include "simulate/noise.h"
#include "schedule/room.h"
#include "simulate/simulate.h"
#include "orrery/timeline.h"
#include "oracle.h"
#include "pipelines.h"
#include "suite.h"

#define N_STEPS suite_drawn(2000)

/* Where a schedule has the jobs of a step, whose stages may be elsewhere. */
struct given {
	struct oracle_step *step;
	int compute[ORACLE_JOBS], weights[ORACLE_JOBS];
	int with[ORACLE_STAGES]; /* 1 + a stage, or 0 */
	struct orr_machine machine;
};

/* Microbatches as the first, and half of the time with costs of their own here and there. */
static void draw_microbatches(struct oracle_step *t)
{

	t->differ = suite_draw(2);
	for (int b = 1; b < t->n_microbatches; b++) {
		memcpy(t->length[b], t->length[0], sizeof(t->length[0]));
		memcpy(t->stash[b], t->stash[0], sizeof(t->stash[0]));
		memcpy(t->bytes[b], t->bytes[0], sizeof(t->bytes[0]));
		memcpy(t->gradient_bytes[b], t->gradient_bytes[0], sizeof(t->gradient_bytes[0]));
		for (int s = 0; s < t->n_stages && t->differ; s++) {
			for (int d = 0; d < ORACLE_PASSES; d++)
				if (suite_draw(3))
					t->length[b][s][d] = 1 + suite_draw(1000000);
			if (suite_draw(2))
				t->stash[b][s] = suite_draw(1000000);
			for (int o = 0; o < s; o++)
				if (t->edge[o][s] && suite_draw(2)) {
					t->bytes[b][o][s] = suite_draw(500000);
					t->gradient_bytes[b][o][s] = suite_draw(500000);
				}
		}
	}
}

/* Of stage o one more output that several read, as large as all of them have bytes that no other
 * output has; of half of them it is all the rest. */
static void draw_output(struct oracle_step *t, int o)
{
	int u = t->n_outputs, n = 0;
	bool all = suite_draw(2);

	for (int s = 0; s < t->n_stages; s++)
		n += t->reads[u][s] = t->edge[o][s] && suite_draw(3);
	if (n < 2) {
		memset(t->reads[u], 0, sizeof(t->reads[u]));
		return;
	}
	t->maker[u] = o;
	t->n_outputs++;
	for (int b = 0; b < t->n_microbatches; b++) {
		int64_t taken[ORACLE_STAGES] = {0}, most = INT64_MAX;

		for (int s = 0; s < t->n_stages; s++) {
			for (int v = 0; v < u; v++)
				taken[s] +=
					t->maker[v] == o && t->reads[v][s] ? t->output[b][v] : 0;
			if (t->reads[u][s] && t->bytes[b][o][s] - taken[s] < most)
				most = t->bytes[b][o][s] - taken[s];
		}
		t->output[b][u] = b && !t->differ ? t->output[0][u]
				  : suite_draw(4) ? most
						  : suite_draw(most + 1);
		for (int s = 0; s < t->n_stages && all; s++)
			if (t->reads[u][s])
				t->bytes[b][o][s] = taken[s] + t->output[b][u];
	}
}

static void draw_outputs(struct oracle_step *t)
{
	t->n_outputs = 0;
	memset(t->reads, 0, sizeof(t->reads));
	for (int o = 0; o < t->n_stages; o++)
		for (int i = suite_draw(3); i > 0 && t->n_outputs < ORACLE_OUTPUTS; i--)
			draw_output(t, o);
}

static void draw_pipeline(struct oracle_step *t)
{
	bool updates = suite_draw(3) > 0, parameters = suite_draw(4) > 0;

	t->n_stages = 1 + suite_draw(ORACLE_STAGES);
	t->n_workers = 1 + suite_draw(ORACLE_WORKERS);
	t->n_microbatches = 1 + suite_draw(ORACLE_MICROBATCHES);
	t->n_passes = 2 + suite_draw(2);
	t->greedy = suite_draw(2);
	for (int s = 0; s < t->n_stages; s++) {
		for (int d = 0; d < ORACLE_PASSES; d++)
			t->length[0][s][d] = 1 + suite_draw(1000000);
		t->update[s] = updates ? suite_draw(300000) : 0;
		/* every ring has whole parts */
		t->parameters[s] = parameters && suite_draw(5) ? 60 * suite_draw(20000) : 0;
		t->stash[0][s] = suite_draw(1000000);
		for (int o = 0; o < s; o++) {
			t->edge[o][s] = o == s - 1 ? suite_draw(5) > 0 : suite_draw(4) == 0;
			t->bytes[0][o][s] = t->edge[o][s] ? suite_draw(500000) : 0;
			t->gradient_bytes[0][o][s] = t->bytes[0][o][s] && !suite_draw(3)
							     ? 1 + suite_draw(500000)
							     : t->bytes[0][o][s];
		}
	}
}

/* ---- machines ---- */

/* A transfer from v to w takes a lane of the link of this name. */
static void pass(struct oracle_step *t, int v, int w, int name, int lanes, int64_t ns_per_byte)
{
	static int names[ORACLE_LINKS];
	int l = 0;

	while (l < t->n_links && names[l] != name)
		l++;
	ck_assert(l < ORACLE_LINKS && t->n_on_way[v][w] < ORACLE_WAY);
	if (l == t->n_links)
		t->n_links++;
	names[l] = name;
	t->lanes[l] = lanes;
	t->link_ns_per_byte[l] = ns_per_byte;
	t->way[v][w][t->n_on_way[v][w]++] = l;
	if (ns_per_byte > t->ns_per_byte[v][w])
		t->ns_per_byte[v][w] = ns_per_byte;
}

/* The link of each two, as slow as whatever else a transfer takes. */
static void pass_links(struct oracle_step *t, bool half_duplex)
{
	for (int v = 0; v < t->n_workers; v++)
		for (int w = 0; w < t->n_workers; w++)
			if (v != w)
				pass(t, v, w, half_duplex && v > w ? 100 * w + v : 100 * v + w, 1,
				     t->ns_per_byte[v][w]);
}

static double rate(int64_t ns_per_byte)
{
	return ns_per_byte ? 1e9 / (double)ns_per_byte : 0;
}

/* Workers that are alike, with links by level. */
static void draw_levels(struct oracle_step *t, struct orr_machine *machine)
{
	int64_t latency[2] = {suite_draw(2) ? suite_draw(100000) : 0}, ns_per_byte[2];
	int group = 1 + suite_draw(t->n_workers);

	t->n_workers = t->n_workers / group * group;
	ns_per_byte[0] = suite_draw(3);
	ns_per_byte[1] = ns_per_byte[0] * (1 + suite_draw(2));
	latency[1] = ns_per_byte[0] ? latency[0] * (1 + suite_draw(2)) : latency[0];
	for (int v = 0; v < t->n_workers; v++) {
		t->speed[v][0] = t->speed[v][1] = 1;
		for (int w = 0; w < t->n_workers; w++) {
			t->latency[v][w] = latency[v / group != w / group];
			t->ns_per_byte[v][w] = ns_per_byte[v / group != w / group];
		}
	}
	pass_links(t, false);
	*machine = orr_machine_default(t->n_workers);
	machine->latency_ns = latency[1];
	if (!ns_per_byte[0])
		return;
	machine->bandwidth_bytes_per_s = rate(ns_per_byte[1]);
	machine->levels =
		(struct orr_levels){.n = 2,
				    .workers = {group, t->n_workers / group},
				    .latency_ns = {latency[0], latency[1]},
				    .bytes_per_s = {rate(ns_per_byte[0]), rate(ns_per_byte[1])}};
}

#define MOST_GROUPS (2 * ORACLE_WORKERS)

static struct orr_cluster_worker drawn_workers[ORACLE_WORKERS];
static struct orr_cluster_pair drawn_pairs[ORACLE_WORKERS * ORACLE_WORKERS];
static struct orr_cluster_group drawn_groups[MOST_GROUPS];
static struct orr_cluster drawn;

static void draw_workers(struct oracle_step *t)
{
	bool speeds = suite_draw(4) > 0;

	for (int v = 0; v < t->n_workers; v++) {
		t->speed[v][0] = speeds ? 1 + suite_draw(4) : 1;
		t->speed[v][1] = speeds ? 1 + suite_draw(3) : 1;
		drawn_workers[v] = (struct orr_cluster_worker){.speed = (double)t->speed[v][0] /
									t->speed[v][1]};
	}
	drawn = (struct orr_cluster){.n_workers = t->n_workers,
				     .n_groups = 1,
				     .workers = drawn_workers,
				     .groups = drawn_groups,
				     .pairs = drawn_pairs};
	drawn.shared = t->fair = suite_draw(3) == 0;
	drawn.in_order = t->in_order = !t->fair && suite_draw(2);
}

/* The ports of v and w, which are as fast as the fastest link of each. */
static void pass_ports(struct oracle_step *t, int v, int w)
{
	for (int i = 0; i < 2; i++) {
		int at = i ? w : v;
		int64_t fastest = INT64_MAX;

		for (int u = 0; u < t->n_workers; u++)
			if (u != at && t->ns_per_byte[at][u] < fastest)
				fastest = t->ns_per_byte[at][u];
		pass(t, v, w, 1000 + 2 * at + i, 1, fastest);
	}
}

/* Workers that differ, with links by pair, or ports. */
static void draw_cluster(struct oracle_step *t, struct orr_machine *machine)
{
	bool latencies = suite_draw(3) > 0, rates = suite_draw(4) > 0, ports = suite_draw(2);

	draw_workers(t);
	drawn.half_duplex = !ports && suite_draw(2);
	drawn_groups[0] = (struct orr_cluster_group){.parent = -1, .ports = ports};
	for (int v = 0; v < t->n_workers; v++)
		for (int w = v + 1; w < t->n_workers; w++) {
			int64_t latency = latencies ? suite_draw(3) * suite_draw(50000) : 0,
				each = rates ? suite_draw(4) : 0;

			t->latency[v][w] = t->latency[w][v] = latency;
			t->ns_per_byte[v][w] = t->ns_per_byte[w][v] = each;
			drawn_pairs[drawn.n_pairs++] =
				(struct orr_cluster_pair){v, w, {latency, rate(each)}};
		}
	drawn_groups[0].link.bytes_per_s = 1e-9; /* it joins none */
	for (int v = 0; v < t->n_workers && ports; v++)
		for (int w = 0; w < t->n_workers; w++)
			if (v != w)
				pass_ports(t, v, w);
	pass_links(t, drawn.half_duplex);
	*machine = orr_machine_of(&drawn, 0);
}

/* ---- trees of switches ---- */

static bool is_in(int w, int group)
{
	for (int g = drawn_workers[w].group; g >= 0; g = drawn_groups[g].parent)
		if (g == group)
			return true;
	return false;
}

/* Groups one after the other, in groups; some have uplinks. Workers are in their order. */
static void draw_groups(struct oracle_step *t, int64_t *ns_per_byte, int64_t *uplink)
{
	bool latencies = suite_draw(2), pairs = suite_draw(3) == 0; /* of two workers each */

	for (int g = 0; g < MOST_GROUPS; g++) {
		struct orr_cluster_group *group = &drawn_groups[g];

		ns_per_byte[g] = suite_draw(4);
		uplink[g] = suite_draw(4);
		*group = (struct orr_cluster_group){
			.parent = -1,
			.link = {latencies ? suite_draw(50000) : 0, rate(ns_per_byte[g])}};
		if (g && suite_draw(4)) {
			group->lanes = 1 + suite_draw(3);
			group->uplink_bytes_per_s = rate(uplink[g] += !uplink[g]);
			group->rails = suite_draw(3) == 0;
		}
		if (!drawn.half_duplex && suite_draw(3) == 0)
			group->ports = 1 + g;
	}
	for (int w = 0, at = 0; w < t->n_workers; w++) {
		while (at && (pairs ? w % 2 == 0 : suite_draw(2))) /* out of some */
			at = drawn_groups[at].parent;
		while (drawn.n_groups < MOST_GROUPS &&
		       (pairs ? !at : suite_draw(2))) { /* and into others */
			int g = drawn.n_groups++;

			drawn_groups[g].parent = at;
			if (!drawn_groups[g].ports && !drawn.half_duplex && suite_draw(2))
				drawn_groups[g].ports = drawn_groups[at].ports;
			at = g;
		}
		drawn_workers[w].group = at;
	}
}

static void pass_uplinks(struct oracle_step *t, int v, int w, const int64_t *uplink)
{
	for (int g = 1; g < drawn.n_groups; g++) {
		const struct orr_cluster_group *group = &drawn_groups[g];
		bool leaves = is_in(v, g), enters = is_in(w, g);
		int at = leaves ? v : w, first = 0;

		if (leaves == enters || !group->lanes)
			continue;
		while (!is_in(first, g))
			first++;
		pass(t, v, w,
		     10000 + 100 * (2 * g + (enters && !drawn.half_duplex)) +
			     (group->rails ? (at - first) % group->lanes : 0),
		     group->rails ? 1 : group->lanes, uplink[g]);
	}
}

/* The fastest of the links that groups with these ports join, of those around w. */
static int64_t port_ns_per_byte(int w, int ports, const int64_t *ns_per_byte)
{
	int64_t fastest = INT64_MAX;

	for (int g = 0; g < drawn.n_groups; g++)
		if (is_in(w, g) && drawn_groups[g].ports == ports && ns_per_byte[g] < fastest)
			fastest = ns_per_byte[g];
	return fastest;
}

static void draw_tree(struct oracle_step *t, struct orr_machine *machine)
{
	int64_t ns_per_byte[MOST_GROUPS], uplink[MOST_GROUPS];

	draw_workers(t);
	drawn.half_duplex = suite_draw(2);
	draw_groups(t, ns_per_byte, uplink);
	for (int v = 0; v < t->n_workers; v++)
		for (int w = 0; w < t->n_workers; w++) {
			int joins = 0, ports;

			for (int g = 1; g < drawn.n_groups; g++) /* inner ones come later */
				if (is_in(v, g) && is_in(w, g)) {
					joins = g;
					t->depth[v][w]++;
				}
			ports = drawn_groups[joins].ports;
			if (v == w)
				continue;
			t->latency[v][w] = drawn_groups[joins].link.latency_ns;
			t->ns_per_byte[v][w] = ns_per_byte[joins];
			pass_uplinks(t, v, w, uplink);
			for (int i = 0; i < 2 && ports; i++)
				pass(t, v, w, 1000 + 100 * ports + 2 * (i ? w : v) + i, 1,
				     port_ns_per_byte(i ? w : v, ports, ns_per_byte));
		}
	pass_links(t, drawn.half_duplex);
	*machine = orr_machine_of(&drawn, 0);
}

/* Streams that slow down. */
static void draw_streams(struct oracle_step *t, struct orr_machine *machine)
{
	draw_tree(t, machine);
	drawn.streams = 1 + suite_draw(3);
	drawn.slowdown = t->slowdown = suite_draw(4) ? suite_draw(900) : 0;
	for (int v = 0; v < t->n_workers; v++)
		for (int w = 0; w < t->n_workers; w++)
			for (int i = 0; i < 2 && v != w; i++) {
				pass(t, v, w, 3000 + 2 * (i ? w : v) + i, drawn.streams, 0);
				t->stream_of[t->way[v][w][t->n_on_way[v][w] - 1]] = 1 + (i ? w : v);
			}
}

static void draw_machine(struct oracle_step *t, struct orr_machine *machine)
{
	int kind = suite_draw(3);

	if (kind == 0)
		draw_levels(t, machine);
	else if (kind == 1)
		draw_cluster(t, machine);
	else
		draw_tree(t, machine);
}

/* Some stages, and some edges without a gradient; what the loss does not reach cannot be trained.
 */
static void draw_frozen(struct oracle_step *t)
{
	bool frozen = suite_draw(2), detached = suite_draw(3) == 0;

	for (int s = 0; s < t->n_stages; s++) {
		t->frozen[s] = frozen && suite_draw(2);
		t->loss[s] = detached && suite_draw(3) == 0;
		for (int o = 0; o < s; o++)
			t->detached[o][s] = t->edge[o][s] && detached && suite_draw(3) == 0;
	}
	for (int s = 0; s < t->n_stages; s++)
		t->frozen[s] = t->frozen[s] || !oracle_reaches(t, s);
}

/* Some stages have parameters in common. */
static void draw_sets(struct oracle_step *t)
{
	int64_t left[ORACLE_STAGES];

	memcpy(left, t->parameters, sizeof(left));
	for (int tries = suite_draw(2 * ORACLE_SETS); tries > 0 && t->n_sets < ORACLE_SETS;
	     tries--) {
		bool frozen = suite_draw(4) == 0, *shares = t->shares[t->n_sets];
		int64_t least = INT64_MAX;
		int n = 0;

		for (int s = 0; s < t->n_stages; s++) {
			shares[s] = t->frozen[s] == frozen && t->n_at[s] == 1 && suite_draw(2);
			n += shares[s];
			if (shares[s] && left[s] < least)
				least = left[s];
		}
		if (n < 2) {
			memset(shares, 0, sizeof(t->shares[0]));
			continue;
		}
		t->shared[t->n_sets] = 60 * suite_draw(least / 60 + 1);
		for (int s = 0; s < t->n_stages; s++)
			left[s] -= shares[s] ? t->shared[t->n_sets] : 0;
		t->n_sets++;
	}
}

static void draw_placement(struct oracle_step *t)
{
	int kind = suite_draw(4), owner = suite_draw(4), stride = 1 + suite_draw(t->n_workers);

	for (int j = 0; j < t->n_stages * t->n_microbatches * t->n_passes; j++) {
		int s = j / t->n_passes % t->n_stages, b = j / t->n_passes / t->n_stages;

		t->compute[j] = kind == 0   ? s % t->n_workers
				: kind == 1 ? b % t->n_workers
				: kind == 2 ? (s + stride * b) % t->n_workers
					    : suite_draw(t->n_workers);
		t->weights[j] = owner == 0   ? t->compute[j]
				: owner == 1 ? s % t->n_workers
				: owner == 2 ? (s + b) % t->n_workers
					     : suite_draw(t->n_workers);
	}
}

/* Some stages on several workers, on workers that are named, on those of another stage, or reading
 * whole minibatches. given: what the schedule says, before. */
static void draw_gangs(struct oracle_step *t, struct given *given)
{
	int kind = suite_draw(3), each = t->n_stages * t->n_passes;

	for (int j = 0; j < each * t->n_microbatches; j++)
		if (!oracle_has(t, j)) { /* it is where F is, if anything is said to be with it */
			t->compute[j] = t->compute[j - j % t->n_passes];
			t->weights[j] = t->weights[j - j % t->n_passes];
		}
	memcpy(given->compute, t->compute, sizeof(t->compute));
	memcpy(given->weights, t->weights, sizeof(t->weights));
	for (int s = 0; s < t->n_stages; s++) {
		t->gather[s] = kind == 2 && suite_draw(3) == 0;
		t->n_at[s] = kind && suite_draw(2) ? 1 + suite_draw(t->n_workers) : 1;
		t->has_set[s] = t->n_at[s] > 1 ? suite_draw(2) : kind && suite_draw(4) == 0;
		given->with[s] =
			kind && !t->has_set[s] && s && suite_draw(3) == 0 ? 1 + suite_draw(s) : 0;
		for (int i = 0; t->has_set[s] && i < t->n_at[s]; i++)
			for (int k = -1; k < i;) /* none twice */
				for (t->set[s][i] = suite_draw(t->n_workers), k = 0;
				     k < i && t->set[s][k] != t->set[s][i]; k++)
					;
	}
	for (int j = 0; j < each * t->n_microbatches; j++) { /* `with` names stages before */
		int s = j / t->n_passes % t->n_stages,
		    other = j / each * each + (given->with[s] - 1) * t->n_passes + j % t->n_passes;

		if (t->has_set[s])
			t->compute[j] = t->weights[j] = t->set[s][0];
		if (!given->with[s])
			continue;
		t->compute[j] = t->compute[other];
		t->weights[j] = t->weights[other];
	}
}

/* A random order that extends every dependency; GREEDY may have any. */
static void draw_order(struct oracle_step *t)
{
	int n_jobs = t->n_stages * t->n_microbatches * t->n_passes, before[ORACLE_JOBS];
	bool done[ORACLE_JOBS] = {false}, gathers = false;

	for (int s = 0; s < t->n_stages; s++)
		gathers = gathers || t->gather[s];
	for (int s = 0; s < t->n_stages; s++)
		t->cap[s] = suite_draw(3) || gathers ? 0 : 1 + suite_draw(t->n_microbatches);
	for (int placed = 0; placed < n_jobs; placed++) {
		int choices[ORACLE_JOBS], n_choices = 0, j;

		for (j = 0; j < n_jobs; j++) {
			bool ready = !done[j];

			for (int i = 0, n = oracle_before(t, j, before); i < n && !t->greedy; i++)
				ready = ready && done[before[i]];
			if (ready)
				choices[n_choices++] = j;
		}
		j = choices[suite_draw(n_choices)];
		done[j] = true;
		t->n[j] = placed;
	}
}

/* ---- the same step, as the library takes it ---- */

static int number(const struct orr_pipeline *p, const struct oracle_step *t, int s, int b,
		  enum orr_pass d)
{
	return (b * p->n_stages + s) * t->n_passes + (int)d;
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const struct given *given = data;

	return given->compute[number(p, given->step, s, b, d)];
}

static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const struct given *given = data;

	return given->weights[number(p, given->step, s, b, d)];
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	const struct given *given = data;

	return given->step->n[number(p, given->step, s, b, d)];
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p;
	return ((const struct given *)data)->step->cap[s];
}

static void tie(struct orr_pipeline *p, const struct oracle_step *t)
{
	struct orr_tied tied[ORACLE_SETS];
	int stages[ORACLE_SETS][ORACLE_STAGES];
	struct orr_error err = {""};

	for (int i = 0; i < t->n_sets; i++) {
		int n = 0;

		for (int s = 0; s < t->n_stages; s++)
			if (t->shares[i][s])
				stages[i][n++] = s;
		tied[i] = (struct orr_tied){t->shared[i], t->frozen[stages[i][0]], n, stages[i]};
	}
	ck_assert_msg(!orr_pipeline_tie(p, tied, t->n_sets, &err), "%s", err.msg);
}

static void share(struct orr_pipeline *p, const struct oracle_step *t)
{
	struct orr_fanout outputs[ORACLE_OUTPUTS];
	int readers[ORACLE_OUTPUTS][ORACLE_STAGES];
	struct orr_error err = {""};

	for (int u = 0; u < t->n_outputs; u++) {
		outputs[u] = (struct orr_fanout){
			.from = t->maker[u], .readers = readers[u], .bytes = t->output[0][u]};
		for (int s = 0; s < t->n_stages; s++)
			if (t->reads[u][s])
				readers[u][outputs[u].n_readers++] = s;
	}
	ck_assert_msg(!orr_pipeline_set_outputs(p, outputs, t->n_outputs, &err), "%s", err.msg);
}

static void differ(struct orr_pipeline *p, const struct oracle_step *t)
{
	struct orr_microbatches *x;

	if (!t->differ)
		return;
	ck_assert_int_eq(orr_microbatches_create(p, t->n_microbatches, NULL), 0);
	x = p->microbatches;
	for (int b = 0; b < t->n_microbatches; b++) {
		for (int s = 0; s < t->n_stages; s++)
			x->costs[b * t->n_stages + s] =
				(struct orr_cost){.forward_ns = t->length[b][s][0],
						  .backward_ns = t->length[b][s][1],
						  .weight_ns = t->length[b][s][2],
						  .stash_bytes = t->stash[b][s]};
		for (int e = 0; e < p->n_edges; e++) {
			int from = p->edges[e].from, to = p->edges[e].to;

			x->bytes[b * p->n_edges + e] = t->bytes[b][from][to];
			x->gradient_bytes[b * p->n_edges + e] = t->gradient_bytes[b][from][to];
		}
		for (int u = 0; u < t->n_outputs; u++)
			x->outputs[b * p->n_outputs + u] = t->output[b][u];
	}
	orr_microbatches_settle(p);
}

static struct orr_pipeline *make(const struct oracle_step *t, const struct given *given)
{
	struct orr_stage stages[ORACLE_STAGES] = {{0}};
	struct orr_edge edges[ORACLE_STAGES * ORACLE_STAGES];
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};
	int n_edges = 0;

	for (int s = 0; s < t->n_stages; s++) {
		stages[s] = (struct orr_stage){
			.forward_ns = t->length[0][s][0],
			.backward_ns = t->length[0][s][1],
			.weight_ns = t->n_passes == 3 ? t->length[0][s][2] : 0,
			.update_ns = t->update[s],
			.stash_bytes = t->stash[0][s],
			.parameter_bytes = t->parameters[s],
			.has_loss = t->loss[s],
			.frozen = t->frozen[s],
			.gather = t->gather[s],
			.gang = {.n = t->n_at[s] > 1 || t->has_set[s] ? t->n_at[s] : 0,
				 .workers = t->has_set[s] ? t->set[s] : NULL,
				 .with = given->with[s]}};
		for (int o = 0; o < s; o++)
			if (t->edge[o][s])
				edges[n_edges++] = (struct orr_edge){
					.from = o,
					.to = s,
					.bytes = t->bytes[0][o][s],
					.gradient_bytes = t->gradient_bytes[0][o][s],
					.detached = t->detached[o][s]};
	}
	ck_assert_msg(!orr_pipeline_create(&p, stages, t->n_stages, edges, n_edges, &err) &&
			      !orr_pipeline_set_step(p, t->n_workers, t->n_microbatches, &err),
		      "%s", err.msg);
	p->has_weight = t->n_passes == 3;
	tie(p, t);
	share(p, t);
	differ(p, t);
	p->machine = given->machine;
	p->prefetch = t->ahead;
	return p;
}

static void compare_workers(const struct orr_figures *f, const struct oracle_answer *answer,
			    int step)
{
	for (int w = 0; w < f->n_workers; w++) {
		const struct orr_worker_figures *is = &f->worker[w];
		const struct oracle_worker *want = &answer->worker[w];
		const int64_t pairs[][2] = {
			{is->busy_ns, want->busy},
			{is->peak_stash, want->peak_stash},
			{is->peak_stash_bytes, want->peak_stash_bytes},
			{is->recv_activation_bytes, want->activations},
			{is->recv_gradient_bytes, want->gradients},
			{is->recv_stash_bytes, want->stashes},
			{is->recv_parameter_bytes, want->fetched},
			{is->sent_weight_gradient_bytes, want->weight_gradients},
			{is->all_reduce_bytes, want->reduced},
			{is->parameter_bytes, want->owned},
		};

		for (int i = 0; i < N_OF(pairs); i++)
			ck_assert_msg(pairs[i][0] == pairs[i][1],
				      "step %d, worker %d, figure %d: %lld, not %lld", step, w, i,
				      (long long)pairs[i][0], (long long)pairs[i][1]);
	}
}

static int compare_moves(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct oracle_move));
}

/* Transfers and rings, each with its start and end. */
static void compare_transfers(const struct orr_timeline *timeline, struct oracle_answer *answer,
			      int step, const char *label)
{
	static struct oracle_move moves[ORACLE_MESSAGES];

	ck_assert_msg(timeline->n_transfers == answer->n_moves, "step %d%s: %d transfers, not %d",
		      step, label, timeline->n_transfers, answer->n_moves);
	for (int i = 0; i < timeline->n_transfers; i++) {
		const struct orr_transfer *x = &timeline->transfers[i];
		bool ring = x->kind == ORR_TRANSFER_ALL_REDUCE;

		moves[i] = (struct oracle_move){ring ? -1 : x->from, ring ? -1 : x->to, x->start_ns,
						x->end_ns};
	}
	qsort(moves, (size_t)answer->n_moves, sizeof(*moves), compare_moves);
	qsort(answer->moves, (size_t)answer->n_moves, sizeof(*moves), compare_moves);
	for (int i = 0; i < answer->n_moves; i++)
		ck_assert_msg(!compare_moves(&moves[i], &answer->moves[i]),
			      "step %d%s: from %d to %d at %lld to %lld, not from %d to %d at %lld "
			      "to %lld",
			      step, label, moves[i].from, moves[i].to, (long long)moves[i].start,
			      (long long)moves[i].end, answer->moves[i].from, answer->moves[i].to,
			      (long long)answer->moves[i].start, (long long)answer->moves[i].end);
}

/* The jobs that are of t, against the independent simulator; label: for messages. */
static void compare_jobs(const struct orr_jobs *jobs, struct oracle_step *t, int step,
			 const char *label)
{
	static struct oracle_answer answer;
	struct orr_timeline *timeline = NULL;
	struct orr_figures *f = NULL;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_jobs_sequence(jobs, t->order, &err), 0);
	oracle_simulate(t, &answer);
	ck_assert_msg(!orr_simulate(&timeline, jobs, &err) && !orr_timeline_check(timeline, &err) &&
			      !orr_figures_create(&f, timeline, &err),
		      "step %d%s: %s", step, label, err.msg);
	for (int j = 0; j < jobs->n_jobs; j++)
		ck_assert_msg(timeline->start_ns[j] == answer.start[j] &&
				      timeline->end_ns[j] == answer.end[j],
			      "step %d%s, job %d: %lld to %lld, not %lld to %lld", step, label, j,
			      (long long)timeline->start_ns[j], (long long)timeline->end_ns[j],
			      (long long)answer.start[j], (long long)answer.end[j]);
	compare_transfers(timeline, &answer, step, label);
	ck_assert_msg(f->makespan_ns == answer.makespan, "step %d%s: makespan %lld, not %lld", step,
		      label, (long long)f->makespan_ns, (long long)answer.makespan);
	compare_workers(f, &answer, step);
	orr_figures_destroy(f);
	orr_timeline_destroy(timeline);
}

/* In greedy order everything runs, and no worker holds more than it did in strict order; false
 * where stashes move. */
static bool check_freed(struct orr_jobs *jobs, const char *label)
{
	struct orr_figures *f[2] = {NULL, NULL};
	struct orr_error err = {""};

	for (int i = 0; i < 2; i++) {
		struct orr_timeline *timeline = NULL;

		if (i && orr_jobs_free(jobs, &err)) {
			ck_assert_msg(strstr(err.msg, "moves from worker"), "%s: %s", label,
				      err.msg);
			orr_figures_destroy(f[0]);
			return false;
		}
		ck_assert_msg(!orr_simulate(&timeline, jobs, &err) &&
				      !orr_timeline_check(timeline, &err) &&
				      !orr_figures_create(&f[i], timeline, &err),
			      "%s, freed %d: %s", label, i, err.msg);
		orr_timeline_destroy(timeline);
	}
	for (int w = 0; w < f[0]->n_workers; w++)
		ck_assert_msg(f[1]->worker[w].peak_stash <= f[0]->worker[w].peak_stash &&
				      f[1]->worker[w].peak_stash_bytes <=
					      f[0]->worker[w].peak_stash_bytes,
			      "%s: greedy, worker %d holds more", label, w);
	orr_figures_destroy(f[0]);
	orr_figures_destroy(f[1]);
	return true;
}

static int n_summed[ORR_ALL_REDUCES]; /* by three owners or more */

/* true: in greedy order, too. */
static bool compare(struct oracle_step *t, const struct given *given, int step)
{
	struct orr_schedule schedule = {.name = "random",
					.order = t->greedy ? ORR_ORDER_GREEDY : ORR_ORDER_STRICT,
					.split_backward = t->n_passes == 3,
					.compute = compute,
					.weights = weights,
					.priority = priority,
					.in_flight = in_flight,
					.data = given};
	struct orr_pipeline *p = make(t, given);
	struct orr_timeline *timeline = NULL;
	struct orr_figures *f = NULL;
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};
	char label[32];
	bool freed;

	ck_assert_msg(!orr_jobs_create(&jobs, p, &schedule, &err) &&
			      !orr_simulate(&timeline, jobs, &err) &&
			      !orr_timeline_check(timeline, &err) &&
			      !orr_figures_create(&f, timeline, &err),
		      "step %d: %s", step, err.msg);
	ck_assert_int_le(f->lower_bound_ns, f->makespan_ns);
	compare_jobs(jobs, t, step, "");
	for (int i = 0; i < timeline->n_transfers; i++)
		if (timeline->transfers[i].kind == ORR_TRANSFER_ALL_REDUCE)
			n_summed[timeline->transfers[i].all_reduce] +=
				orr_jobs_ring_size(jobs, timeline->transfers[i].set) > 2;
	(void)snprintf(label, sizeof(label), "step %d", step);
	freed = !t->greedy && check_freed(jobs, label);
	orr_figures_destroy(f);
	orr_timeline_destroy(timeline);
	orr_jobs_destroy(jobs);
	orr_pipeline_destroy(p);
	return freed;
}

static void draw_step(struct oracle_step *t, struct given *given, uint64_t seed,
		      void (*machine)(struct oracle_step *t, struct orr_machine *machine))
{
	suite_random = seed;
	suite_draw(2);
	memset(t, 0, sizeof(*t));
	draw_pipeline(t);
	draw_microbatches(t);
	draw_outputs(t);
	machine(t, &given->machine);
	draw_frozen(t);
	draw_placement(t);
	draw_gangs(t, given);
	draw_sets(t);
	t->ahead = suite_draw(4);
	draw_order(t);
	if (!given->machine.cluster)
		return;
	t->all_reduce = suite_draw(t->fair ? 3 : 4);
	drawn.all_reduce = (enum orr_all_reduce)t->all_reduce;
}

START_TEST(random_steps_are_those_of_another_simulator)
{
	static struct oracle_step t;
	static struct given given = {.step = &t};
	int with_rings = 0, with_fetches = 0, with_sets = 0, with_greedy = 0;
	bool links;

	for (int step = 0; step < N_STEPS; step++) {
		draw_step(&t, &given, (uint64_t)step, draw_machine);
		with_greedy += compare(&t, &given, step);
		links = given.machine.bandwidth_bytes_per_s > 0 || given.machine.latency_ns;
		for (int i = 0; i < t.n_sets; i++)
			with_sets += t.shared[i] && links;
		if (links)
			for (int j = 0; j < t.n_stages * t.n_microbatches * t.n_passes; j++) {
				int s = j / t.n_passes % t.n_stages;

				with_fetches += t.parameters[s] && t.weights[j] != t.compute[j];
				with_rings += t.parameters[s] &&
					      t.weights[j] != t.weights[s * t.n_passes];
			}
	}
	ck_assert_int_gt(with_rings, N_STEPS);
	ck_assert_int_gt(with_fetches, N_STEPS);
	ck_assert_int_gt(with_sets, N_STEPS / 5);
	ck_assert_int_gt(with_greedy, N_STEPS / 4);
}
END_TEST

#define N_NETWORKS 500

/* Do two ways that differ pass the same uplink or port? */
static bool ways_meet(const struct oracle_step *t)
{
	int n[ORACLE_LINKS] = {0};

	for (int v = 0; v < t->n_workers; v++)
		for (int w = 0; w < t->n_workers; w++)
			for (int i = 0; i < t->n_on_way[v][w]; i++)
				if (n[t->way[v][w][i]]++ && !drawn.half_duplex)
					return true;
	return false;
}

START_TEST(random_networks_are_those_of_another_simulator)
{
	static struct oracle_step t;
	static struct given given = {.step = &t};
	int n_meet = 0, n_shared = 0, n_half = 0, n_rails = 0;

	for (int step = 0; step < N_NETWORKS; step++) {
		draw_step(&t, &given, 2000000 + (uint64_t)step, draw_tree);
		(void)compare(&t, &given, step);
		n_meet += ways_meet(&t);
		n_shared += t.fair;
		n_half += drawn.half_duplex;
		for (int g = 1; g < drawn.n_groups; g++)
			n_rails += drawn_groups[g].lanes > 1 && drawn_groups[g].rails;
	}
	ck_assert_int_gt(n_meet, N_NETWORKS / 5);
	ck_assert_int_gt(n_shared, N_NETWORKS / 5);
	ck_assert_int_gt(n_half, N_NETWORKS / 5);
	ck_assert_int_gt(n_rails, N_NETWORKS / 5);
	for (int i = 0; i < ORR_ALL_REDUCES; i++)
		ck_assert_msg(n_summed[i] > N_NETWORKS / 10, "%s: %d",
			      orr_all_reduce_name((enum orr_all_reduce)i), n_summed[i]);
}
END_TEST

#define N_STREAMS 300

START_TEST(random_streams_are_those_of_another_simulator)
{
	static struct oracle_step t;
	static struct given given = {.step = &t};
	int n_slow = 0, n_shared = 0;

	for (int step = 0; step < N_STREAMS; step++) {
		draw_step(&t, &given, 3000000 + (uint64_t)step, draw_streams);
		(void)compare(&t, &given, step);
		n_slow += t.slowdown > 0 && t.n_workers > 1;
		n_shared += t.fair && t.n_workers > 1;
	}
	ck_assert_int_gt(n_slow, N_STREAMS / 5);
	ck_assert_int_gt(n_shared, N_STREAMS / 5);
}
END_TEST

/* ---- every schedule, on models as they are ---- */

#define N_MODELS suite_drawn(300)

/* What schedule made of the model, written as plain tables. */
static void note(struct oracle_step *t, const struct orr_jobs *jobs)
{
	t->n_passes = jobs->n_passes;
	t->greedy = jobs->order == ORR_ORDER_GREEDY;
	t->lengths = jobs->duration_ns;
	for (int s = 0; s < t->n_stages; s++)
		t->cap[s] = jobs->cap ? jobs->cap[s] : 0;
	for (int j = 0; j < jobs->n_jobs; j++) {
		t->compute[j] = jobs->compute[j];
		t->weights[j] = jobs->weights[j];
		t->n[j] = jobs->priority[j];
	}
}

/* Its own durations, then drawn ones, against the independent simulator; then greedily. That one
 * knows no versions, and of what is run again no bytes: those timelines are checked. */
static void try_model(struct orr_jobs *jobs, const struct oracle_step *model, int step,
		      const char *label)
{
	const struct orr_noise noise = {ORR_NOISE_LOGNORMAL, 0.4, 1, 1};
	struct oracle_step t = *model;
	struct orr_sample sample;
	struct orr_error err = {""};
	bool alone = jobs->async;

	for (int s = 0; s < t.n_stages; s++)
		alone = alone || jobs->recompute[s];
	note(&t, jobs);
	if (!alone)
		compare_jobs(jobs, &t, step, label);
	ck_assert_int_eq(orr_sample_init(&sample, jobs, &err), 0);
	ck_assert_int_eq(orr_sample_draw(&sample, &noise, step, &err), 0);
	t.lengths = sample.jobs.duration_ns;
	for (int s = 0; s < t.n_stages; s++)
		t.update[s] = sample.pipeline.stages[s].update_ns;
	if (!alone)
		compare_jobs(&sample.jobs, &t, step, label);
	orr_sample_fini(&sample);
	if (jobs->order == ORR_ORDER_STRICT && !jobs->async)
		ck_assert(check_freed(jobs, label));
}

static int try_schedule(const char *name, const struct orr_pipeline *p, const struct oracle_step *t,
			int step)
{
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};
	char label[64];
	int code;

	(void)snprintf(label, sizeof(label), ", %s", name);
	ck_assert_msg(!orr_choice_init(&choice, name, &err), "%s", err.msg);
	if (!(code = orr_jobs_create(&jobs, p, &choice.schedule, &err)))
		try_model(jobs, t, step, label);
	else
		ck_assert_msg(code == ORR_E_INPUT || code == ORR_E_UNSUPPORTED, "step %d%s: %s",
			      step, label, err.msg);
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	return !code;
}

START_TEST(every_schedule_on_random_models_is_that_of_another_simulator)
{
	static struct oracle_step t;
	static struct given given = {.step = &t};
	int n_served[64] = {0}, n_tied = 0, n_schedules = 0;

	while (orr_schedules[n_schedules])
		n_schedules++;
	for (int step = 0; step < N_MODELS; step++) {
		struct orr_pipeline *p;

		suite_random = 1000000 + (uint64_t)step;
		suite_draw(2);
		memset(&t, 0, sizeof(t));
		draw_pipeline(&t);
		draw_microbatches(&t);
		draw_outputs(&t);
		draw_machine(&t, &given.machine);
		t.n_passes = 3;
		draw_frozen(&t);
		draw_placement(&t);
		draw_gangs(&t, &given);
		draw_sets(&t);
		t.ahead = suite_draw(4);
		memset(t.gather, 0, sizeof(t.gather)); /* blocks of one microbatch cannot have it */
		p = make(&t, &given);
		n_tied += t.n_sets > 0;
		for (int i = 0; i < n_schedules; i++)
			n_served[i] += try_schedule(quick_schedule(i), p, &t, step);
		orr_pipeline_destroy(p);
	}
	ck_assert_int_gt(n_tied, N_MODELS / 10);
	for (int i = 0; orr_schedules[i]; i++)
		printf("%s: %d of %d models\n", orr_schedules[i]->name, n_served[i], N_MODELS);
	for (int i = 0; orr_schedules[i]; i++)
		ck_assert_msg(n_served[i] > N_MODELS / 40, "%s: %d", orr_schedules[i]->name,
			      n_served[i]);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(random_steps_are_those_of_another_simulator),
	ONCE(random_networks_are_those_of_another_simulator),
	ONCE(random_streams_are_those_of_another_simulator),
	ONCE(every_schedule_on_random_models_is_that_of_another_simulator),
};
SUITE("simulator")
