/* Allocations in which a worker has several runs of operators [Beaumont21, section 6]. */
#include "plan_draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "order/allocate.h"
#include "order/place.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "pipeline/parameter_cost.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"
#include "pipeline/charge.h"
#include "pipeline/numbering.h"
#include "crossing.h"

#define MOST_STEPS 2000000 /* of branch and bound: a second at most */

#define ROUNDS 4            /* of cooling down, each from the best placement so far */
#define MOVES 300000        /* in each of them, */
#define MOVES_OF_ONE 4000   /* but at most this number for each operator */
#define MOST_WORK 400000000 /* readers looked at, about */
#define HOTTEST 0.05        /* of a worker's share of the work, that a move may cost at first */
#define COOLING 0.99        /* factor, applied this number of times in a round: */
#define STEPS 800
#define ALL 0.05 /* what the sum over all counts, beside the busiest */
/* the power whose sum stands for all of them; by products and roots, which every machine rounds
 * alike */
#define EVENNESS 8

struct pieces {
	const struct orr_graph *g;
	const struct orr_plan_options *o;
	const struct orr_machine *machine;
	struct orr_stage *costs;  /* [n_operators] */
	int *layer, *of;          /* operator -> layer, or -1: free; layer -> operator */
	int64_t *work_ns, *bytes; /* [n_layers] */
	int n_layers;
	int *worker;               /* [n_layers] */
	struct orr_sent_list sent; /* of layers */
	int *left; /* [n_operators] inputs that have not come yet; -1: it has come itself */
	struct orr_arrays all;
};

static int pieces_init(struct pieces *x, const struct orr_graph *g,
		       const struct orr_plan_options *o, const struct orr_machine *machine,
		       int in_flight, struct orr_error *err)
{
	size_t n = (size_t)g->n_operators + 1;
	int code;

	*x = (struct pieces){.g = g, .o = o, .machine = machine};
	orr_arrays_make(&x->all, x->costs, n);
	orr_arrays_make(&x->all, x->layer, n);
	orr_arrays_make(&x->all, x->of, n);
	orr_arrays_make(&x->all, x->work_ns, n);
	orr_arrays_make(&x->all, x->bytes, n);
	orr_arrays_make(&x->all, x->worker, n);
	orr_arrays_make(&x->all, x->left, n);
	if ((code = orr_arrays_check(&x->all, "plan", err)))
		return code;
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_stage *c = &x->costs[i];

		orr_charge_least(c, g, i, o->samples, machine);
		x->left[i] = g->operators[i].n_inputs;
		x->layer[i] = -1;
		if (orr_operator_is_input(&g->operators[i]))
			continue;
		x->layer[i] = x->n_layers;
		x->of[x->n_layers] = i;
		x->work_ns[x->n_layers] = c->forward_ns + c->backward_ns + c->weight_ns +
					  c->update_ns / o->n_microbatches;
		x->bytes[x->n_layers++] = orr_parameters_kept(&o->numerics, c->parameter_bytes,
							      orr_stage_trained_bytes(c), 1) +
					  c->stash_bytes * in_flight;
	}
	return orr_sent_list_init(&x->sent, g, x->layer, x->n_layers, o->samples, err);
}

static bool are_linked(const struct orr_graph *g, int before, int after)
{
	for (int k = 0; k < g->operators[after].n_inputs; k++)
		if (g->operators[after].inputs[k] == before)
			return true;
	return false;
}

/* Fewer pieces: move layers to a neighbour's worker where period and memory allow. */
static void join(struct pieces *x, int64_t period_ns, int64_t *load, int64_t *held)
{
	const struct orr_machine *machine = x->machine;
	bool moved = true;

	for (int l = 0; l < x->n_layers; l++) {
		load[x->worker[l]] += x->work_ns[l];
		held[x->worker[l]] += x->bytes[l];
	}
	for (int round = 0; round < x->n_layers && moved; round++) {
		moved = false;
		for (int l = 0; l < x->n_layers; l++) {
			int here = x->worker[l], to = -1, ties = 0, kept = 0;

			for (int k = 0; k < x->n_layers; k++) {
				if (!are_linked(x->g, x->of[k], x->of[l]) &&
				    !are_linked(x->g, x->of[l], x->of[k]))
					continue;
				kept += x->worker[k] == here;
				if (x->worker[k] != here) {
					ties = to == x->worker[k] ? ties + 1 : to < 0 ? 1 : ties;
					to = to < 0 ? x->worker[k] : to;
				}
			}
			if (ties <= kept ||
			    orr_machine_work_ns(machine, to, load[to] + x->work_ns[l]) > period_ns)
				continue;
			if (orr_machine_memory(machine, to) &&
			    held[to] + x->bytes[l] > orr_machine_memory(machine, to))
				continue;
			load[here] -= x->work_ns[l];
			held[here] -= x->bytes[l];
			load[to] += x->work_ns[l];
			held[to] += x->bytes[l];
			x->worker[l] = to;
			moved = true;
		}
	}
}

/* The next operator that has all its inputs, of worker w if there is one; -1: none is left. */
static int next_of(const struct pieces *x, int w)
{
	int any = -1;

	for (int i = 0; i < x->g->n_operators; i++) {
		if (x->left[i] != 0)
			continue;
		if (x->layer[i] < 0 || x->worker[x->layer[i]] == w)
			return i;
		any = any < 0 ? i : any;
	}
	return any;
}

/* A topological order that stays with a worker as long as it can; every change begins a stage. */
static int cut_runs(struct pieces *x, int *stage_of, int *worker_of_stage)
{
	int n_stages = 0, w = -1, i;

	while ((i = next_of(x, w)) >= 0) {
		x->left[i] = -1;
		for (int k = i + 1; k < x->g->n_operators; k++)
			for (int e = 0; e < x->g->operators[k].n_inputs; e++)
				x->left[k] -= x->g->operators[k].inputs[e] == i;
		if (x->layer[i] < 0) {
			stage_of[i] = -1;
			continue;
		}
		if (x->worker[x->layer[i]] != w) {
			w = x->worker[x->layer[i]];
			worker_of_stage[n_stages++] = w;
		}
		stage_of[i] = n_stages - 1;
	}
	return n_stages;
}

int orr_plan_draft_pins(struct orr_plan_draft *d, const struct orr_graph *g,
			const struct orr_plan_options *o, const struct orr_machine *machine,
			struct orr_error *err)
{
	struct orr_pipeline *p = NULL;
	int code;

	*d = (struct orr_plan_draft){0};
	if (o->unpin || !orr_graph_has_pins(g))
		return 0;
	if ((code = orr_partition(&p, g, machine, 0, o->samples, err)))
		return code;
	if ((code = orr_plan_draft_init(d, g, p->n_stages, p->n_stages, err)))
		goto out;
	for (int i = 0; i < g->n_operators; i++)
		d->stage_of[i] = p->stage_of[i];
	p->n_workers = machine->n_workers;
	d->pieces = p->n_stages > p->n_workers; /* else as a chain and side by side, in order */
	if (d->pieces)
		code = orr_place_evenly(d->workers, p, MOST_STEPS, err);
out:
	if (code)
		orr_plan_draft_fini(d);
	orr_pipeline_destroy(p);
	return code;
}

/* ---- annealing: layers move to the worker of a neighbour or to any other, and swap. What counts
 * is
 * the busiest worker or link and, a little, all of them: most moves change no maximum. A worker that
 * has several readers of what another one makes reads it once. ---- */

struct spreading {
	const struct pieces *x; /* its layers are what moves */
	int n_workers, n_loads;
	int *worker;
	double *load; /* [n_workers] seconds; then of every link, [n_workers * n_workers]: from, to;
		       * of half duplex only where from < to */
	double *held; /* [n_workers] bytes */
	int *makers, *first_maker; /* of what each operator reads */
	int *stamp, now;           /* [n_workers] workers that were counted for a tensor */
	double share, power;       /* of one worker; the sum over all loads */
	uint64_t random;
	struct orr_arrays all;
};

static double draw(struct spreading *s)
{
	return (double)(orr_random(&s->random) >> 11) * 0x1p-53;
}

static int pick(struct spreading *s, int range)
{
	return (int)(draw(s) * range);
}

static double power_of(const struct spreading *s, int at)
{
	double x = s->load[at] / s->share;

	for (int k = 1; k < EVENNESS; k *= 2)
		x *= x;
	return x;
}

static void add(struct spreading *s, int at, double seconds)
{
	s->power -= power_of(s, at);
	s->load[at] += seconds;
	s->power += power_of(s, at);
}

static double link_s(const struct spreading *s, int from, int to, int64_t bytes)
{
	double rate = orr_machine_link(s->x->machine, from, to).bytes_per_s;

	return rate > 0 ? (double)bytes / rate : 0;
}

static int64_t there_and_back(struct orr_sent sent)
{
	return sent.bytes + sent.gradient_bytes;
}

/* The load of the link from one worker to another; of half duplex, also of the way back. */
static int link_at(const struct spreading *s, int from, int to)
{
	if (from > to && orr_machine_half_duplex(s->x->machine))
		return s->n_workers + to * s->n_workers + from;
	return s->n_workers + from * s->n_workers + to;
}

/* What operator i makes, sent to the workers that read it; sign 1: as well, -1: no longer. */
static void count_sent(struct spreading *s, int i, int sign)
{
	const struct pieces *x = s->x;
	int from = s->worker[i];
	double most = 0;

	s->now++;
	for (int k = x->sent.first[i]; k < x->sent.first[i + 1]; k++) {
		int to = s->worker[x->sent.readers[k]];
		struct orr_sent sent = {0};
		double seconds;

		if (to == from || s->stamp[to] == s->now)
			continue;
		s->stamp[to] = s->now;
		for (int e = k; e < x->sent.first[i + 1]; e++)
			if (s->worker[x->sent.readers[e]] == to &&
			    there_and_back(x->sent.sent[e]) > there_and_back(sent))
				sent = x->sent.sent[e];
		if (!x->o->added) {
			add(s, link_at(s, from, to), sign * link_s(s, from, to, sent.bytes));
			add(s, link_at(s, to, from),
			    sign * link_s(s, to, from, sent.gradient_bytes));
			continue;
		}
		seconds = link_s(s, from, to, there_and_back(sent));
		most = seconds > most ? seconds : most;
		add(s, to, sign * seconds);
	}
	if (x->o->added)
		add(s, from, sign * most);
}

static void count(struct spreading *s, int i, int sign)
{
	count_sent(s, i, sign);
	for (int k = s->first_maker[i]; k < s->first_maker[i + 1]; k++)
		if (k == s->first_maker[i] || s->makers[k] != s->makers[k - 1])
			count_sent(s, s->makers[k], sign);
}

static void place(struct spreading *s, int i, int to)
{
	const struct pieces *x = s->x;
	double seconds = (double)x->work_ns[i] * 1e-9;

	count(s, i, -1);
	add(s, s->worker[i], -seconds / orr_machine_speed(x->machine, s->worker[i]));
	s->held[s->worker[i]] -= (double)x->bytes[i];
	s->worker[i] = to;
	s->held[to] += (double)x->bytes[i];
	add(s, to, seconds / orr_machine_speed(x->machine, to));
	count(s, i, 1);
}

static bool fits(const struct spreading *s, int w)
{
	int64_t limit = orr_machine_memory(s->x->machine, w);

	return !limit || s->held[w] <= (double)limit;
}

static double busiest(const struct spreading *s)
{
	double most = 0;

	for (int i = 0; i < s->n_loads; i++)
		most = s->load[i] > most ? s->load[i] : most;
	return most;
}

static double cost_of(const struct spreading *s, double busiest_s)
{
	double root = s->power > 0 ? s->power : 0;

	for (int k = 1; k < EVENNESS; k *= 2)
		root = sqrt(root);
	return busiest_s + s->share * ALL * root;
}

/* All loads anew, since sums of doubles drift. */
static void recount(struct spreading *s)
{
	const struct pieces *x = s->x;

	memset(s->load, 0, (size_t)s->n_loads * sizeof(*s->load));
	memset(s->held, 0, (size_t)s->n_workers * sizeof(*s->held));
	s->power = 0;
	for (int i = 0; i < x->n_layers; i++) {
		add(s, s->worker[i],
		    (double)x->work_ns[i] * 1e-9 / orr_machine_speed(x->machine, s->worker[i]));
		s->held[s->worker[i]] += (double)x->bytes[i];
		count_sent(s, i, 1);
	}
}

/* Where operator i may go: mostly to a neighbour's worker. */
static int target_of(struct spreading *s, int i)
{
	const struct pieces *x = s->x;
	int n_after = x->sent.first[i + 1] - x->sent.first[i],
	    n_before = s->first_maker[i + 1] - s->first_maker[i];
	int k;

	if (n_after + n_before == 0 || draw(s) < 0.3)
		return pick(s, s->n_workers);
	k = pick(s, n_after + n_before);
	return s->worker[k < n_after ? x->sent.readers[x->sent.first[i] + k]
				     : s->makers[s->first_maker[i] + k - n_after]];
}

/* One move or swap, taken if it costs no more than a drawn part of `heat`. *cost follows. */
static void move(struct spreading *s, double heat, double *cost, double *busiest_s)
{
	int i = pick(s, s->x->n_layers), k = -1, from = s->worker[i], to = target_of(s, i);
	double now, most;

	if (to == from)
		return;
	if (draw(s) < 0.3) {
		k = pick(s, s->x->n_layers);
		if (s->worker[k] != to)
			k = -1;
	}
	place(s, i, to);
	if (k >= 0)
		place(s, k, from);
	most = busiest(s);
	now = cost_of(s, most);
	if (fits(s, to) && fits(s, from) && now <= *cost + heat * draw(s)) {
		*cost = now;
		*busiest_s = most;
		return;
	}
	if (k >= 0)
		place(s, k, to);
	place(s, i, from);
}

static void cool_down(struct spreading *s, int *best, double *best_s, int n_moves)
{
	size_t size = (size_t)s->x->n_layers * sizeof(*best);
	double most, cost, heat = s->share * HOTTEST;

	memcpy(s->worker, best, size);
	recount(s);
	most = busiest(s);
	cost = cost_of(s, most);
	for (int i = 0; i < n_moves; i++) {
		heat *= (i + 1) % (n_moves / STEPS + 1) ? 1 : COOLING;
		move(s, heat, &cost, &most);
		if (most < *best_s * (1 - 1e-9)) {
			*best_s = most;
			memcpy(best, s->worker, size);
		}
	}
}

/* What each operator reads, from what is read of each. */
static void list_makers(struct spreading *s)
{
	const struct pieces *x = s->x;

	for (int k = 0; k < x->sent.first[x->n_layers]; k++)
		s->first_maker[x->sent.readers[k] + 1]++;
	for (int i = 0; i < x->n_layers; i++)
		s->first_maker[i + 1] += s->first_maker[i];
	for (int i = x->n_layers - 1; i >= 0; i--)
		for (int k = x->sent.first[i]; k < x->sent.first[i + 1]; k++)
			s->makers[--s->first_maker[x->sent.readers[k] + 1]] = i;
	/* every end has come down to the beginning */
	memmove(s->first_maker, s->first_maker + 1, (size_t)x->n_layers * sizeof(*s->first_maker));
	s->first_maker[x->n_layers] = x->sent.first[x->n_layers];
}

static int spreading_init(struct spreading *s, const struct pieces *x, struct orr_error *err)
{
	size_t n = (size_t)x->n_layers + 2, n_workers = (size_t)x->machine->n_workers;
	double work = 0;
	int code;

	*s = (struct spreading){.x = x, .n_workers = (int)n_workers, .random = 1};
	s->n_loads = (int)(x->o->added ? n_workers : n_workers * (n_workers + 1));
	orr_arrays_make(&s->all, s->worker, n);
	orr_arrays_make(&s->all, s->load, s->n_loads);
	orr_arrays_make(&s->all, s->held, n_workers);
	orr_arrays_make(&s->all, s->stamp, n_workers);
	orr_arrays_make(&s->all, s->first_maker, n);
	orr_arrays_make(&s->all, s->makers, (size_t)x->sent.first[x->n_layers] + 1);
	if ((code = orr_arrays_check(&s->all, "plan", err)))
		return code;
	for (int i = 0; i < x->n_layers; i++)
		work += (double)x->work_ns[i] * 1e-9;
	s->share = work / orr_machine_speeds(x->machine) + 1e-12;
	list_makers(s);
	return 0;
}

/* Make worker[n_layers] better, if that can be found; *busiest_ns is then its. Fixed seed: every
 * run does the same. */
static int spread(const struct pieces *x, int *worker, int64_t *busiest_ns, struct orr_error *err)
{
	/* a move looks at every load, and at the readers of what two operators make and read */
	double work = (x->o->added ? 1 : x->machine->n_workers) * x->machine->n_workers +
		      8.0 * x->sent.first[x->n_layers] / (x->n_layers + 1);
	int n_moves = MOVES, code;
	struct spreading s;
	double best_s;

	if (x->n_layers < MOVES / MOVES_OF_ONE)
		n_moves = x->n_layers * MOVES_OF_ONE;
	if (work * ROUNDS * n_moves > MOST_WORK)
		n_moves = (int)(MOST_WORK / work / ROUNDS);
	if ((code = spreading_init(&s, x, err)))
		goto out;
	memcpy(s.worker, worker, (size_t)x->n_layers * sizeof(*worker));
	recount(&s);
	best_s = busiest(&s);
	for (int round = 0; round < ROUNDS; round++)
		cool_down(&s, worker, &best_s, n_moves);
	*busiest_ns = (int64_t)(best_s * 1e9 + 0.5);
out:
	orr_arrays_free(&s.all);
	return code;
}

/* ---- where links take time ---- */

/* Better with links counted, from there and from the best contiguous ones. */
static int count_links(struct pieces *x, struct orr_error *err)
{
	struct orr_layers layers = {x->n_layers, x->work_ns, x->bytes, x->machine};
	struct orr_allocation found;
	int64_t best_ns, other_ns;
	int *other, code;

	if (!(x->machine->bandwidth_bytes_per_s > 0))
		return 0;
	orr_arrays_make(&x->all, other, (size_t)x->n_layers + 1);
	if ((code = orr_arrays_check(&x->all, "plan", err)) ||
	    (code = spread(x, x->worker, &best_ns, err)) ||
	    (code = orr_allocate_contiguous(&found, other, &layers, x->machine->n_workers,
					    x->o->memory_bytes, err)) ||
	    found.period_ns < 0 || (code = spread(x, other, &other_ns, err)))
		return code;
	if (other_ns < best_ns)
		memcpy(x->worker, other, (size_t)x->n_layers * sizeof(*other));
	return 0;
}

/* The placement whose busiest worker does least; *found false: none fits. */
static int find_busy(struct pieces *x, double *bound_s, bool *found, struct orr_error *err)
{
	int n_workers = x->machine->n_workers, code;
	const struct orr_layers layers = {x->n_layers, x->work_ns, x->bytes, x->machine};
	struct orr_allocation best;
	int64_t *load, *held;

	orr_arrays_make(&x->all, load, n_workers);
	orr_arrays_make(&x->all, held, n_workers);
	if ((code = orr_arrays_check(&x->all, "plan", err)) ||
	    (code = orr_allocate_any(&best, x->worker, &layers, n_workers, x->o->memory_bytes,
				     MOST_STEPS, err)))
		return code;
	/* a memory limit is one of in_flight microbatches here, and another one elsewhere */
	*bound_s =
		(double)(best.proven && !x->o->memory_bytes ? best.period_ns : best.bound_ns) / 1e9;
	*found = best.period_ns >= 0;
	if (!*found)
		return 0;
	join(x, best.period_ns, load, held);
	return count_links(x, err);
}

static int find_small(struct pieces *x, struct orr_error *err)
{
	const struct orr_layers layers = {x->n_layers, x->bytes, NULL, NULL};
	struct orr_allocation best;

	return orr_allocate_any(&best, x->worker, &layers, x->machine->n_workers, 0, MOST_STEPS,
				err);
}

int orr_plan_draft_pieces(struct orr_plan_draft *d, const struct orr_graph *g,
			  const struct orr_plan_options *o, const struct orr_machine *machine,
			  int in_flight, double *bound_s, struct orr_error *err)
{
	struct pieces x = {0};
	bool found = true;
	int code;

	*d = (struct orr_plan_draft){0};
	if ((code = pieces_init(&x, g, o, machine, in_flight ? in_flight : 1, err)) ||
	    (code = in_flight ? find_busy(&x, bound_s, &found, err) : find_small(&x, err)) ||
	    !found)
		goto out;
	if ((code = orr_plan_draft_init(d, g, x.n_layers, x.n_layers, err)))
		goto out;
	d->n_stages = cut_runs(&x, d->stage_of, d->workers);
	d->pieces = true;
out:
	if (code)
		orr_plan_draft_fini(d);
	orr_arrays_free(&x.all);
	orr_arrays_free(&x.sent.all);
	return code;
}
