/* Annealing: operators move to the worker of a neighbour or to any other, and swap. What counts is
 * the busiest worker or link and, a little, all of them: most moves change no maximum. */
#include "crossing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/random.h"
#include "orrery/machine.h"
#include "pipeline/charge.h"

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

struct spreading {
	const struct orr_spread_problem *x;
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
	const struct orr_spread_problem *x = s->x;
	int from = s->worker[i];
	double most = 0;

	s->now++;
	for (int k = x->sent->first[i]; k < x->sent->first[i + 1]; k++) {
		int to = s->worker[x->sent->readers[k]];
		struct orr_sent sent = {0};
		double seconds;

		if (to == from || s->stamp[to] == s->now)
			continue;
		s->stamp[to] = s->now;
		for (int e = k; e < x->sent->first[i + 1]; e++)
			if (s->worker[x->sent->readers[e]] == to &&
			    there_and_back(x->sent->sent[e]) > there_and_back(sent))
				sent = x->sent->sent[e];
		if (!x->added) {
			add(s, link_at(s, from, to), sign * link_s(s, from, to, sent.bytes));
			add(s, link_at(s, to, from),
			    sign * link_s(s, to, from, sent.gradient_bytes));
			continue;
		}
		seconds = link_s(s, from, to, there_and_back(sent));
		most = seconds > most ? seconds : most;
		add(s, to, sign * seconds);
	}
	if (x->added)
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
	const struct orr_spread_problem *x = s->x;
	double seconds = (double)x->work_ns[i] * 1e-9;

	count(s, i, -1);
	add(s, s->worker[i], -seconds / orr_machine_speed(x->machine, s->worker[i]));
	s->held[s->worker[i]] -= (double)x->held_bytes[i];
	s->worker[i] = to;
	s->held[to] += (double)x->held_bytes[i];
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
	const struct orr_spread_problem *x = s->x;

	memset(s->load, 0, (size_t)s->n_loads * sizeof(*s->load));
	memset(s->held, 0, (size_t)s->n_workers * sizeof(*s->held));
	s->power = 0;
	for (int i = 0; i < x->n; i++) {
		add(s, s->worker[i],
		    (double)x->work_ns[i] * 1e-9 / orr_machine_speed(x->machine, s->worker[i]));
		s->held[s->worker[i]] += (double)x->held_bytes[i];
		count_sent(s, i, 1);
	}
}

/* Where operator i may go: mostly to a neighbour's worker. */
static int target_of(struct spreading *s, int i)
{
	const struct orr_spread_problem *x = s->x;
	int n_after = x->sent->first[i + 1] - x->sent->first[i],
	    n_before = s->first_maker[i + 1] - s->first_maker[i];
	int k;

	if (n_after + n_before == 0 || draw(s) < 0.3)
		return pick(s, s->n_workers);
	k = pick(s, n_after + n_before);
	return s->worker[k < n_after ? x->sent->readers[x->sent->first[i] + k]
				     : s->makers[s->first_maker[i] + k - n_after]];
}

/* One move or swap, taken if it costs no more than a drawn part of `heat`. *cost follows. */
static void move(struct spreading *s, double heat, double *cost, double *busiest_s)
{
	int i = pick(s, s->x->n), k = -1, from = s->worker[i], to = target_of(s, i);
	double now, most;

	if (to == from)
		return;
	if (draw(s) < 0.3) {
		k = pick(s, s->x->n);
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
	size_t size = (size_t)s->x->n * sizeof(*best);
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
	const struct orr_spread_problem *x = s->x;

	for (int k = 0; k < x->sent->first[x->n]; k++)
		s->first_maker[x->sent->readers[k] + 1]++;
	for (int i = 0; i < x->n; i++)
		s->first_maker[i + 1] += s->first_maker[i];
	for (int i = x->n - 1; i >= 0; i--)
		for (int k = x->sent->first[i]; k < x->sent->first[i + 1]; k++)
			s->makers[--s->first_maker[x->sent->readers[k] + 1]] = i;
	/* every end has come down to the beginning */
	memmove(s->first_maker, s->first_maker + 1, (size_t)x->n * sizeof(*s->first_maker));
	s->first_maker[x->n] = x->sent->first[x->n];
}

static int spreading_init(struct spreading *s, const struct orr_spread_problem *x,
			  struct orr_error *err)
{
	size_t n = (size_t)x->n + 2, n_workers = (size_t)x->machine->n_workers;
	double work = 0;
	int code;

	*s = (struct spreading){.x = x, .n_workers = (int)n_workers, .random = 1};
	s->n_loads = (int)(x->added ? n_workers : n_workers * (n_workers + 1));
	orr_arrays_make(&s->all, s->worker, n);
	orr_arrays_make(&s->all, s->load, s->n_loads);
	orr_arrays_make(&s->all, s->held, n_workers);
	orr_arrays_make(&s->all, s->stamp, n_workers);
	orr_arrays_make(&s->all, s->first_maker, n);
	orr_arrays_make(&s->all, s->makers, (size_t)x->sent->first[x->n] + 1);
	if ((code = orr_arrays_check(&s->all, "plan", err)))
		return code;
	for (int i = 0; i < x->n; i++)
		work += (double)x->work_ns[i] * 1e-9;
	s->share = work / orr_machine_speeds(x->machine) + 1e-12;
	list_makers(s);
	return 0;
}

int orr_spread_improve(const struct orr_spread_problem *x, int *worker, int64_t *busiest_ns,
		       struct orr_error *err)
{
	/* a move looks at every load, and at the readers of what two operators make and read */
	double work = (x->added ? 1 : x->machine->n_workers) * x->machine->n_workers +
		      8.0 * x->sent->first[x->n] / (x->n + 1);
	int n_moves = MOVES, code;
	struct spreading s;
	double best_s;

	if (x->n < MOVES / MOVES_OF_ONE)
		n_moves = x->n * MOVES_OF_ONE;
	if (work * ROUNDS * n_moves > MOST_WORK)
		n_moves = (int)(MOST_WORK / work / ROUNDS);
	if ((code = spreading_init(&s, x, err)))
		goto out;
	memcpy(s.worker, worker, (size_t)x->n * sizeof(*worker));
	recount(&s);
	best_s = busiest(&s);
	for (int round = 0; round < ROUNDS; round++)
		cool_down(&s, worker, &best_s, n_moves);
	*busiest_ns = (int64_t)(best_s * 1e9 + 0.5);
out:
	orr_arrays_free(&s.all);
	return code;
}
