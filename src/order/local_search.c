/* Threshold accepting: a move may make things a little worse, and how much shrinks to nothing. Only
 * moves about the critical path are tried, since no other one can help at once. */
#include "local_search.h"

#include <string.h>

#include "base/arrays.h"
#include "base/clock.h"
#include "base/random.h"
#include "cyclic.h"

#define ROUNDS 6  /* coolings, each from the best order */
#define HOTTEST 4 /* mean durations that a move may cost at first; half in each round after it */
#define FINE 2    /* jobs that hold too much cost so much of a job each */
#define LONGEST 6 /* moves go up to 2^5 places */
#define SWAPS 4   /* one move in SWAPS exchanges microbatches, if these may change places */

/* The job at place `from` of w's order goes to place `to`; excess: of w then. */
struct shifted {
	int w, from, to, excess;
};

struct mover {
	struct orr_local_search *search;
	struct orr_timed *timed;
	int *path, n_path;           /* a critical path of the order that is kept */
	int *kept_order;             /* best order, as by_worker */
	size_t n_listed;             /* in that */
	struct orr_again *kept_list; /* of the best order that repeats */
	int64_t *kept_start;         /* [n_jobs] of the order that was timed before */
	int *excess;                 /* [n_workers] jobs that start in more memory than there is */
	int n_excess;                /* of all workers */
	int64_t fine;                /* for each of those */
	int64_t cost;                /* of the order that is kept */
	struct shifted *shifted;     /* [most_at] of the move at hand */
	int n_shifted;
	int code; /* of found() */
};

static int64_t draw(struct mover *m, int64_t range)
{
	return orr_random_below(&m->search->random, range);
}

static int64_t sought(const struct mover *m)
{
	return m->search->cyclic ? orr_cyclic_estimate(m->search->cyclic) : m->timed->sought_ns;
}

/* The makespan, or span, first; of equal ones, that whose workers end early. An order may hold too
 * much on the way to another one that does not. */
static int64_t cost_of(const struct mover *m)
{
	const struct orr_timed *t = m->timed;

	return sought(m) + t->ends_ns / (8 * (int64_t)t->jobs.pipeline->n_workers) +
	       m->n_excess * m->fine;
}

static int64_t end_of(const struct orr_timed *t, int j)
{
	return t->start[j] + t->jobs.duration_ns[j];
}

/* Number i of what j waits for: what comes before it on its workers, then its predecessors. -1:
 * that worker has nothing before it. *end: until when. */
static int awaited(const struct mover *m, int j, int i, int64_t *end)
{
	const struct orr_timed *t = m->timed;
	int n_at = orr_jobs_n_at(&t->jobs, j),
	    k = i < n_at ? orr_jobs_beside(&t->jobs, j, i, -1)
			 : t->before[t->first_before[j] + i - n_at];

	*end = k < 0 ? -1 : end_of(t, k) + (i < n_at ? 0 : orr_timed_delay(t, k, j));
	return k;
}

/* What j waited for to the last, one of them at random; -1: nothing. */
static int cause(struct mover *m, int j)
{
	const struct orr_timed *t = m->timed;
	int n_awaited = orr_jobs_n_at(&t->jobs, j) + t->first_before[j + 1] - t->first_before[j];
	int found = -1, n = 0;
	int64_t latest = 0, end;

	for (int i = 0; i < n_awaited; i++) {
		int k = awaited(m, j, i, &end);

		if (end < latest)
			continue;
		n = end > latest ? 1 : n + 1;
		latest = end;
		if (n == 1 || draw(m, n) == 0)
			found = k;
	}
	return t->start[j] > 0 ? found : -1;
}

static void find_path(struct mover *m)
{
	const struct orr_timed *t = m->timed;
	int j = -1, n = 0;
	int64_t latest = -1;

	for (int w = 0; w < t->jobs.pipeline->n_workers; w++) {
		int64_t end;
		int k;

		if (t->jobs.first[w] == t->jobs.first[w + 1])
			continue;
		k = t->jobs.by_worker[t->jobs.first[w + 1] - 1];
		end = end_of(t, k) -
		      (t->seeks_span ? t->start[t->jobs.by_worker[t->jobs.first[w]]] : 0);
		if (end < latest)
			continue;
		n = end > latest ? 1 : n + 1;
		latest = end;
		if (n == 1 || draw(m, n) == 0)
			j = k;
	}
	for (m->n_path = 0; j >= 0 && m->n_path < t->jobs.n_jobs; j = cause(m, j))
		m->path[m->n_path++] = j;
}

/* Take the job at place `from` of w's order to place `to`; those between move by one. */
static void shift(struct orr_timed *t, int w, int from, int to)
{
	const int *order = t->jobs.by_worker + t->jobs.first[w];
	int j = order[from], step = from < to ? 1 : -1;

	for (int i = from; i != to; i += step)
		orr_timed_put(t, w, i, order[i + step]);
	orr_timed_put(t, w, to, j);
}

/* May x come right after y although it came before? Not if y needs x, nor among equals: they keep
 * the order of microbatches, unless that is looked for as well. */
static bool must_precede(const struct mover *m, int x, int y)
{
	const struct orr_jobs *jobs = &m->timed->jobs;
	struct orr_job a = orr_jobs_at(jobs, x), b = orr_jobs_at(jobs, y);

	return a.s == b.s && ((a.d == b.d && !m->search->reorder) || (a.b == b.b && a.d < b.d));
}

/* Which place the job at `from` can reach on its way to `to`. */
static int reach(const struct mover *m, int w, int from, int to)
{
	const struct orr_timed *t = m->timed;
	const int *order = t->jobs.by_worker + t->jobs.first[w];
	int n = t->jobs.first[w + 1] - t->jobs.first[w], at = from, step = from < to ? 1 : -1;

	to = to < 0 ? 0 : to >= n ? n - 1 : to;
	while (at != to && (step > 0 ? !must_precede(m, order[from], order[at + 1])
				     : !must_precede(m, order[at - 1], order[from])))
		at += step;
	return at;
}

/* A move on a list that repeats: it is done then. Places go on behind the end. */
static bool propose_again(struct mover *m, int j, int steps, bool other)
{
	struct orr_cyclic *c = m->search->cyclic;
	struct shifted *s = &m->shifted[0];
	int place = orr_cyclic_place(c, j), to = place + steps, n;

	s->w = m->timed->jobs.compute[j];
	n = c->first[s->w + 1] - c->first[s->w];
	s->from = other ? ((to % n) + n) % n : place;
	if (other)
		to = s->from + place - to;
	s->to = s->from + orr_cyclic_shift(c, s->w, s->from, to - s->from);
	m->n_shifted = 1;
	return s->to != s->from;
}

/* The job that s moves is on worker w as well: there it goes past those that start before, or
 * after, the one whose place it takes. */
static struct shifted follow(const struct mover *m, const struct shifted *s, int w)
{
	const struct orr_timed *t = m->timed;
	int j = t->jobs.by_worker[t->jobs.first[s->w] + s->from];
	int64_t start = t->start[t->jobs.by_worker[t->jobs.first[s->w] + s->to]];
	const int *order = t->jobs.by_worker + t->jobs.first[w];
	int n = t->jobs.first[w + 1] - t->jobs.first[w], step = s->from < s->to ? 1 : -1,
	    from = orr_jobs_position(&t->jobs, j, orr_jobs_number_at(&t->jobs, j, w)), to = from;

	while (to + step >= 0 && to + step < n &&
	       (step > 0 ? t->start[order[to + 1]] <= start : t->start[order[to - 1]] >= start))
		to += step;
	return (struct shifted){w, from, reach(m, w, from, to), 0};
}

/* A move about a job of the critical path: itself, or another one past it; of a job on several
 * workers, in the orders of all. */
static bool propose(struct mover *m)
{
	const struct orr_timed *t = m->timed;
	struct shifted *s = &m->shifted[0];
	int j = m->path[draw(m, m->n_path)], n_at = orr_jobs_n_at(&t->jobs, j), i, place, n;
	int distance = 1 + (int)draw(m, INT64_C(1) << draw(m, LONGEST));
	int steps = draw(m, 2) ? -distance : distance;
	bool other = draw(m, 2);

	if (m->search->cyclic)
		return propose_again(m, j, steps, other);
	i = n_at > 1 ? (int)draw(m, n_at) : 0;
	place = orr_jobs_position(&t->jobs, j, i);
	s->w = orr_jobs_worker(&t->jobs, j, i);
	n = t->jobs.first[s->w + 1] - t->jobs.first[s->w];
	s->from = other ? place - steps : place;
	if (s->from < 0 || s->from >= n)
		return false;
	s->to = reach(m, s->w, s->from, other ? place : place + steps);
	if (s->to == s->from || (other && s->to != place))
		return false;
	j = t->jobs.by_worker[t->jobs.first[s->w] + s->from];
	m->n_shifted = 1;
	for (i = 0; i < orr_jobs_n_at(&t->jobs, j); i++)
		if (orr_jobs_worker(&t->jobs, j, i) != s->w)
			m->shifted[m->n_shifted++] = follow(m, s, orr_jobs_worker(&t->jobs, j, i));
	return true;
}

static void keep_order(struct mover *m)
{
	const struct orr_cyclic *cyclic = m->search->cyclic;

	if (cyclic)
		memcpy(m->kept_list, cyclic->list, (size_t)cyclic->n * sizeof(*m->kept_list));
	else
		memcpy(m->kept_order, m->timed->jobs.by_worker,
		       m->n_listed * sizeof(*m->kept_order));
}

static void keep(struct mover *m)
{
	m->search->best_ns = sought(m);
	keep_order(m);
	m->code = m->search->found(m->search->user);
}

static void count_excess(struct mover *m)
{
	m->n_excess = 0;
	for (int w = 0; w < m->timed->jobs.pipeline->n_workers; w++)
		m->n_excess += m->excess[w] = orr_timed_excess(m->timed, w);
}

static void restore(struct mover *m)
{
	struct orr_timed *t = m->timed;

	if (m->search->cyclic) {
		orr_cyclic_take(m->search->cyclic, m->kept_list);
	} else {
		memcpy(t->jobs.by_worker, m->kept_order, m->n_listed * sizeof(*m->kept_order));
		orr_timed_renumber(t);
	}
	count_excess(m);
	(void)orr_timed_time(t);
	m->cost = cost_of(m);
	find_path(m);
}

static void swap_starts(struct mover *m)
{
	int64_t *start = m->timed->start;

	m->timed->start = m->kept_start;
	m->kept_start = start;
}

static void shift_all(struct mover *m)
{
	for (int i = 0; i < m->n_shifted; i++) {
		struct shifted *s = &m->shifted[i];

		if (m->search->cyclic)
			orr_cyclic_run(m->search->cyclic, s->w);
		else
			shift(m->timed, s->w, s->from, s->to);
		s->excess = orr_timed_excess(m->timed, s->w);
		m->n_excess += s->excess - m->excess[s->w];
	}
}

static void shift_back(struct mover *m)
{
	struct orr_cyclic *cyclic = m->search->cyclic;

	for (int i = 0; i < m->n_shifted; i++) {
		const struct shifted *s = &m->shifted[i];

		m->n_excess -= s->excess - m->excess[s->w];
		if (!cyclic) {
			shift(m->timed, s->w, s->to, s->from);
			continue;
		}
		(void)orr_cyclic_shift(cyclic, s->w, s->to, s->from - s->to);
		orr_cyclic_run(cyclic, s->w);
	}
}

/* The order as it is now: kept if it costs no more than `worse`. */
static bool accept(struct mover *m, int64_t worse)
{
	struct orr_timed *t = m->timed;

	if (!orr_timed_time(t) || cost_of(m) > m->cost + (worse ? draw(m, worse) : 0))
		return false;
	m->cost = cost_of(m);
	if (!m->n_excess && sought(m) < m->search->best_ns)
		keep(m);
	find_path(m);
	return true;
}

/* Microbatches a and b change places, in the orders of all workers. */
static void swap(struct orr_timed *t, int a, int b)
{
	const struct orr_jobs *jobs = &t->jobs;
	int each = jobs->pipeline->n_stages * jobs->n_passes;

	for (int e = 0; e < each; e++) {
		int j = a * each + e, k = b * each + e;

		for (int i = 0; orr_jobs_has(jobs, j) && i < orr_jobs_n_at(jobs, j); i++) {
			int w = orr_jobs_worker(jobs, j, i), place = orr_jobs_position(jobs, j, i);

			orr_timed_put(t, w, orr_jobs_position(jobs, k, i), j);
			orr_timed_put(t, w, place, k);
		}
	}
}

/* One microbatch of the critical path and any other one. */
static void move_microbatch(struct mover *m, int64_t worse)
{
	struct orr_timed *t = m->timed;
	int a = orr_jobs_at(&t->jobs, m->path[draw(m, m->n_path)]).b,
	    b = (int)draw(m, t->jobs.pipeline->n_microbatches);

	if (a == b)
		return;
	swap(t, a, b);
	count_excess(m);
	swap_starts(m);
	if (accept(m, worse))
		return;
	swap_starts(m);
	swap(t, a, b);
	count_excess(m);
}

/* One move, taken if it costs no more than `worse`. */
static void move(struct mover *m, int64_t worse)
{
	if (m->search->reorder && !draw(m, SWAPS)) {
		move_microbatch(m, worse);
		return;
	}
	if (!propose(m))
		return;
	shift_all(m);
	swap_starts(m);
	if (accept(m, worse)) {
		for (int i = 0; i < m->n_shifted; i++)
			m->excess[m->shifted[i].w] = m->shifted[i].excess;
		return;
	}
	swap_starts(m);
	shift_back(m);
}

bool orr_is_late(int64_t until_ns)
{
	return until_ns && orr_ns_now(CLOCK_MONOTONIC) >= until_ns;
}

static void run(struct mover *m)
{
	struct orr_local_search *search = m->search;
	struct orr_timed *t = m->timed;
	int64_t mean = 0, before = t->n_timed, part = search->n_timed / ROUNDS,
		stop = before + search->stop;

	for (int j = 0; j < t->jobs.n_jobs; j++)
		mean += t->jobs.duration_ns[j]; /* all of them together can be counted, see
						   functions.c */
	mean = mean / t->jobs.n_jobs + 1;
	if (search->cyclic) /* a move is made in every repetition */
		mean = mean * search->cyclic->p->n_microbatches / search->cyclic->k;
	m->fine = mean / FINE + 1;
	for (int round = 0; round < ROUNDS && search->best_ns > search->bound_ns; round++) {
		int64_t first = before + round * part, idle = 0,
			end = first + part < stop ? first + part : stop;

		restore(m);
		/* a move that is not timed costs something too: count it, so that the end comes */
		while (t->n_timed + idle < end && search->best_ns > search->bound_ns && !m->code) {
			int64_t left = first + part - t->n_timed - idle, timed = t->n_timed;

			move(m, part > 0 ? (int64_t)((double)(HOTTEST * mean >> round) *
						     (double)left / (double)part)
					 : 0);
			if (t->n_timed == timed)
				idle += 1 + t->jobs.n_jobs / 16;
			if (draw(m, 64))
				continue;
			if (search->until_ns && search->watch)
				search->watch(search->user);
			if (orr_is_late(search->until_ns))
				return;
		}
		t->n_timed = first + part;
	}
}

int orr_local_search(struct orr_local_search *search, struct orr_error *err)
{
	struct orr_timed *t = search->timed;
	size_t n = (size_t)t->jobs.n_jobs;
	struct mover m = {.search = search, .timed = t};
	struct orr_arrays all = {0};
	int64_t *start;
	int code;

	orr_arrays_make(&all, m.path, n);
	orr_arrays_make(&all, m.excess, t->jobs.pipeline->n_workers);
	m.n_listed = (size_t)t->jobs.first[t->jobs.pipeline->n_workers];
	orr_arrays_make(&all, m.kept_order, m.n_listed);
	orr_arrays_make(&all, m.shifted, t->jobs.most_at);
	m.kept_start = start = orr_arrays_add(&all, n, sizeof(*start));
	orr_arrays_make(&all, m.kept_list, search->cyclic ? (size_t)search->cyclic->n : 1);
	if ((code = orr_arrays_check(&all, "search", err)))
		return code;
	keep_order(&m);
	run(&m);
	if (t->start == start) { /* which is this search's */
		memcpy(m.kept_start, start, n * sizeof(*start));
		swap_starts(&m);
	}
	orr_arrays_free(&all);
	return m.code;
}
