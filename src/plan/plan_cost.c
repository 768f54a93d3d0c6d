/* What each stage of a plan takes, as the simulator counts it: workers compute one job at a time, a
 * link joins two of them and carries one tensor at a time each way, and replicas all-reduce once a
 * step. */
#include "orrery/plan.h"

#include <math.h>
#include <stdlib.h>

#include "base/arrays.h"
#include "base/max.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "pipeline/all_reduce.h"
#include "pipeline/charge.h"
#include "plan_draft.h"
#include "shares.h"
#include "crossing.h"

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

/* Of the worker or, with replicas that differ, all of them together. */
static double compute_s(const struct orr_plan *plan, int s, double work_s, double update_s)
{
	const struct orr_pipeline *p = plan->pipeline;
	double start_s = seconds(p->overhead_ns);
	int parts = p->numerics.shard_optimizer ? plan->replicas[s] : 1;
	const struct orr_share share = {work_s, work_s > 0 ? 2 * start_s : 0, update_s,
					update_s > 0 ? start_s : 0, p->n_microbatches};
	struct orr_sharing gang = orr_sharing_of(&p->machine, plan->workers + plan->first[s]);

	for (int i = 0; p->machine.cluster && i < plan->replicas[s]; i++)
		orr_sharing_join(&gang, &share);
	if (p->machine.cluster)
		return orr_sharing_each_s(&gang, &share, parts);
	return work_s / plan->replicas[s] + update_s / parts / p->n_microbatches;
}

/* How many workers own tied parameters, those that the first n of its stages have. */
static int list_owners(const struct orr_plan *plan, const struct orr_tied *tied, int n, int *owners)
{
	int k = 0;

	for (int i = 0; i < n; i++) {
		int s = tied->stages[i], m = plan->pipeline->n_microbatches;

		for (int r = 0; r < plan->replicas[s] && r < m; r++) {
			int w = plan->workers[plan->first[s] + r], at = 0;

			while (at < k && owners[at] != w)
				at++;
			owners[at] = w;
			k += at == k;
		}
	}
	return k;
}

/* What the owners of a set add up in, once on every worker; replicas without a microbatch have
 * nothing to. room: for all owners. */
static int charge_sum(struct orr_plan *plan, const struct orr_machine *machine, int set, int *room,
		      struct orr_error *err)
{
	const struct orr_pipeline *p = plan->pipeline;
	const struct orr_tied *tied = set < p->n_stages ? NULL : &p->tied[set - p->n_stages];
	int m = p->n_microbatches, k = tied ? list_owners(plan, tied, tied->n_stages, room)
					    : (int)smaller(plan->replicas[set], m);
	int64_t ns;
	int code = orr_sum_ns(&ns, machine, tied ? room : plan->workers + plan->first[set], k,
			      p->numerics.shard_optimizer, orr_set_trained_bytes(p, set), err);

	if (!tied)
		plan->costs[set].communication_s = seconds(ns) / m;
	for (int i = 0; tied && i < tied->n_stages && k > 1; i++)
		if (list_owners(plan, tied, i + 1, room) > list_owners(plan, tied, i, room))
			plan->costs[tied->stages[i]].communication_s += seconds(ns) / m;
	return code;
}

/* What edges between the workers of this one's stages send as it goes, and the other way. */
static struct orr_sent sent_beside(const struct orr_plan *plan, const struct orr_edge *edge)
{
	const struct orr_pipeline *p = plan->pipeline;
	const int *workers = plan->workers, *first = plan->first;
	int from = workers[first[edge->from]], to = workers[first[edge->to]];
	struct orr_sent sum = {0};

	for (int i = 0; i < p->n_outputs; i++) { /* every edge counts them, and they move once */
		const struct orr_fanout *x = &p->outputs[i];
		int other = workers[first[x->from]], n_from = 0, n_to = 0;

		for (int k = 0; k < x->n_readers; k++) {
			n_from += workers[first[x->readers[k]]] == from;
			n_to += workers[first[x->readers[k]]] == to;
		}
		if (other == from && n_to > 1)
			sum.bytes -= (n_to - 1) * x->bytes;
		if (other == to && n_from > 1)
			sum.gradient_bytes -= (n_from - 1) * x->bytes;
	}
	for (int i = 0; i < p->n_edges; i++) {
		const struct orr_edge *other = &p->edges[i];
		int other_from = workers[first[other->from]], other_to = workers[first[other->to]];
		int64_t back = other->detached ? 0 : other->gradient_bytes;

		if (from == other_from && to == other_to) {
			sum.bytes += other->bytes;
			sum.gradient_bytes += back;
		} else if (from == other_to && to == other_from) {
			sum.bytes += back;
			sum.gradient_bytes += other->bytes;
		}
	}
	return sum;
}

/* How long a transfer keeps its direction of a link busy. */
static int64_t busy_ns(const struct orr_machine *machine, int from, int to, int64_t bytes)
{
	return from == to ? 0
			  : orr_machine_transfer_ns(machine, from, to, bytes) -
				    orr_machine_link(machine, from, to).latency_ns;
}

/* How long the busier direction is, or both where they take turns. */
static int64_t link_ns(const struct orr_machine *machine, int from, int to, struct orr_sent sent)
{
	int64_t there = busy_ns(machine, from, to, sent.bytes),
		back = busy_ns(machine, from, to, sent.gradient_bytes);

	return orr_machine_half_duplex(machine) ? there + back : larger(there, back);
}

/* How long the busiest link between the replicas of two stages is busy, per microbatch: a pair's is
 * for those that both serve. Only stages of one worker each share one with others. */
static double link_s(const struct orr_plan *plan, const struct orr_machine *machine, int e)
{
	const struct orr_edge *edge = &plan->pipeline->edges[e];
	const int *from = plan->workers + plan->first[edge->from],
		  *to = plan->workers + plan->first[edge->to];
	int n_from = plan->replicas[edge->from], n_to = plan->replicas[edge->to];
	/* replicas that take turns: until the same two meet again */
	int m = machine->cluster ? plan->pipeline->n_microbatches
				 : n_from / (int)common_divisor(n_from, n_to) * n_to;
	struct orr_sent sent = sent_beside(plan, edge);
	struct orr_arrays all = {0};
	int64_t slowest_ns = 0, *busy;
	int *turns;

	orr_arrays_make(&all, turns, 2 * (size_t)m + (size_t)n_from + (size_t)n_to);
	orr_arrays_make(&all, busy, (size_t)n_from * (size_t)n_to);
	if (!all.failed) {
		orr_machine_turns(machine, from, n_from, turns, m);
		orr_machine_turns(machine, to, n_to, turns + m, m);
	}
	for (int i = 0; i < m && !all.failed; i++) {
		int a = turns[i], b = turns[m + i];

		busy[a * n_to + b] += link_ns(machine, from[a], to[b], sent);
		slowest_ns = larger(slowest_ns, busy[a * n_to + b]);
	}
	orr_arrays_free(&all);
	return seconds(slowest_ns) / m;
}

/* Stages of one worker add up; the cost beyond computing is that of the first of them. */
static double charge_worker(struct orr_plan *plan, int s)
{
	const int *workers = plan->workers, *first = plan->first;
	double busy = 0, link = 0;

	for (int t = 0; t < plan->pipeline->n_stages; t++) {
		if (workers[first[t]] != workers[first[s]])
			continue;
		if (t < s)
			return 0;
		busy += plan->costs[t].compute_s + plan->costs[t].communication_s;
		link = fmax(link, plan->costs[t].link_s);
	}
	plan->costs[s].communication_s += fmax(link - busy, 0);
	return fmax(link, busy);
}

/* Where all the replicas of a stage are is one place; stages that share a worker share it. */
static int place_of(const struct orr_plan *plan, int operator)
{
	return plan->workers[plan->first[plan->pipeline->stage_of[operator]]];
}

/* Adds to added_s [n_workers] the transfers of what operator i makes: once where it is sent from,
 * and at each place that reads it; the gradient comes back the same way. largest [n_workers]: 0. */
static void add_transfers(const struct orr_plan *plan, const struct orr_machine *machine,
			  const struct orr_sent_list *sent, int i, double *added_s,
			  int64_t *largest)
{
	const int *stage_of = plan->pipeline->stage_of;
	int from = place_of(plan, i), first = sent->first[i], end = sent->first[i + 1];
	double most = 0;

	for (int k = first; k < end; k++) {
		int64_t *bytes = &largest[place_of(plan, sent->readers[k])];

		*bytes = larger(*bytes, sent->sent[k].bytes + sent->sent[k].gradient_bytes);
	}
	for (int k = first; k < end; k++) {
		int to = place_of(plan, sent->readers[k]);
		double time = to == from ? 0 : seconds(busy_ns(machine, from, to, largest[to]));

		largest[to] = 0; /* the others there read it with this one */
		most = fmax(most, time);
		added_s[to] += time / plan->replicas[stage_of[sent->readers[k]]];
	}
	added_s[from] += most / plan->replicas[stage_of[i]];
}

/* The busiest worker, where transfers are added to what it computes. */
static int cost_added(struct orr_plan *plan, const struct orr_machine *machine,
		      struct orr_error *err)
{
	const struct orr_graph *g = plan->graph;
	const struct orr_pipeline *p = plan->pipeline;
	struct orr_arrays all = {0};
	double *added_s = orr_arrays_add(&all, (size_t)p->n_workers, sizeof(*added_s));
	int *number = orr_arrays_add(&all, (size_t)g->n_operators, sizeof(*number));
	int64_t *largest = orr_arrays_add(&all, (size_t)p->n_workers, sizeof(*largest));
	struct orr_sent_list sent = {0};
	int code = orr_arrays_check(&all, "plan", err);

	if (code)
		return code;
	for (int i = 0; i < g->n_operators; i++) /* data is sent by none */
		number[i] = orr_operator_is_input(&g->operators[i]) ? -1 : i;
	if ((code = orr_sent_list_init(&sent, g, number, g->n_operators, plan->options.samples,
				       err)))
		goto out;
	for (int i = 0; i < g->n_operators && plan->options.activations; i++)
		if (number[i] >= 0)
			add_transfers(plan, machine, &sent, i, added_s, largest);
	for (int s = 0; s < p->n_stages; s++)
		added_s[plan->workers[plan->first[s]]] +=
			plan->costs[s].compute_s + plan->costs[s].communication_s;
	for (int w = 0; w < p->n_workers; w++)
		plan->slowest.added_s = fmax(plan->slowest.added_s, added_s[w]);
out:
	orr_arrays_free(&sent.all);
	orr_arrays_free(&all);
	return code;
}

int orr_plan_cost(struct orr_plan *plan, const struct orr_machine *machine, struct orr_error *err)
{
	const struct orr_pipeline *p = plan->pipeline;
	int m = p->n_microbatches, *owners = calloc((size_t)p->n_workers, sizeof(*owners)),
	    code = 0;

	if (!owners)
		return orr_no_memory(err, "plan");
	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_stage *stage = &p->stages[s];
		int64_t work_ns = stage->forward_ns + stage->backward_ns + stage->weight_ns;

		plan->costs[s] =
			(struct orr_plan_cost){.compute_s = compute_s(plan, s, seconds(work_ns),
								      seconds(stage->update_ns))};
		plan->one_worker_s += seconds(work_ns) + seconds(stage->update_ns) / m;
	}
	for (int set = 0; set < orr_pipeline_n_sets(p) && !code; set++)
		code = charge_sum(plan, machine, set, owners, err);
	free(owners);
	if (code || (code = cost_added(plan, machine, err)))
		return code;
	for (int e = 0; e < p->n_edges && plan->options.activations; e++) {
		double link = link_s(plan, machine, e);
		double *from = &plan->costs[p->edges[e].from].link_s,
		       *to = &plan->costs[p->edges[e].to].link_s;

		*from = fmax(*from, link);
		*to = fmax(*to, link);
	}
	for (int s = 0; s < p->n_stages; s++)
		plan->slowest.overlapped_s =
			fmax(plan->slowest.overlapped_s, charge_worker(plan, s));
	plan->slowest_s = plan->options.added ? plan->slowest.added_s : plan->slowest.overlapped_s;
	return 0;
}
