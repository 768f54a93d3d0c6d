#include "exact.h"

#include <string.h>

/* Jobs are started one after the other in the order of their starts, each as early as its worker,
 * its predecessors and the memory allow. Every order of starts is tried: a schedule that waits for
 * no reason is no shorter. */
struct state {
	const struct exact *x;
	const int *worker;
	int64_t best;
	int64_t end[EXACT_JOBS];       /* -1: not started */
	int64_t free_at[EXACT_STAGES]; /* of workers */
	int64_t left[EXACT_STAGES];    /* work of each that has not started */
	int64_t tail[EXACT_STAGES][3]; /* of a pass: itself and the longest way after it */
	int n_left;
	int order[EXACT_STAGES][EXACT_JOBS], n_order[EXACT_STAGES]; /* of workers */
};

static int job(const struct exact *x, int s, int b, int d)
{
	return (b * x->n_stages + s) * 3 + d;
}

/* When what pass d of (s, b) waits for has ended; -1: not all of it has started. */
static int64_t ready(const struct state *t, int s, int b, int d)
{
	const struct exact *x = t->x;
	int64_t at = 0, end;

	if (d > 0) {
		if ((end = t->end[job(x, s, b, d - 1)]) < 0)
			return -1;
		at = end;
	}
	for (int e = 0; e < x->n_edges && d < 2; e++) {
		int before = d == 0 && x->to[e] == s     ? x->from[e]
			     : d == 1 && x->from[e] == s ? x->to[e]
							 : -1;

		if (before < 0)
			continue;
		if ((end = t->end[job(x, before, b, d)]) < 0)
			return -1;
		at = end > at ? end : at;
	}
	return at;
}

/* The earliest time from `at` on at which worker w holds less than it may; -1: what would make room
 * has not started yet. Nothing that starts later takes it away: jobs come in the order of starts.
 */
static int64_t room_from(const struct state *t, int w, int64_t at)
{
	const struct exact *x = t->x;

	for (;;) {
		int held = 0;
		int64_t next = INT64_MAX;

		for (int s = 0; s < x->n_stages; s++)
			for (int b = 0; b < x->n_microbatches && t->worker[s] == w; b++) {
				int64_t until = t->end[job(x, s, b, 2)];

				if (t->end[job(x, s, b, 0)] < 0 || (until >= 0 && until <= at))
					continue;
				held++;
				next = until >= 0 && until < next ? until : next;
			}
		if (!x->most || held < x->most)
			return at;
		if (next == INT64_MAX)
			return -1;
		at = next;
	}
}

/* Stashes that have to be on worker w as its last job starts, whatever comes. */
static int certain(const struct state *t, int w)
{
	int n = t->n_order[w], last = t->order[w][n - 1], held = last % 3 == 0;

	for (int i = 0; i < n; i++) {
		int j = t->order[w][i];

		held += j % 3 == 1 && (t->end[j + 1] < 0 || last == j + 1);
	}
	return held;
}

static int position(const struct state *t, int w, int j)
{
	int i = 0;

	while (t->order[w][i] != j)
		i++;
	return i;
}

/* The most that worker w holds in its order, with its stashes parked. */
static int parked_peak(const struct state *t, int w)
{
	int held[EXACT_JOBS] = {0}, most = 0;

	for (int i = 0; i < t->n_order[w]; i++) {
		int j = t->order[w][i], b, last;

		if (j % 3)
			continue;
		b = position(t, w, j + 1);
		last = position(t, w, j + 2);
		for (int k = i; k <= last; k++)
			held[k] += b - i < 4 || k == i || k >= b - 1;
	}
	for (int i = 0; i < t->n_order[w]; i++)
		most = held[i] > most ? held[i] : most;
	return most;
}

/* Nothing starts before `last` from here on. */
static int64_t bound(const struct state *t, int64_t last)
{
	int64_t most = 0;

	for (int w = 0; w < t->x->n_workers; w++)
		if (t->left[w] && t->left[w] + (t->free_at[w] > last ? t->free_at[w] : last) > most)
			most = t->left[w] + (t->free_at[w] > last ? t->free_at[w] : last);
	return most;
}

static void branch(struct state *t, int64_t last);

/* Start pass d of (s, b), and go on. */
static void start(struct state *t, int s, int b, int d, int64_t last)
{
	const struct exact *x = t->x;
	int w = t->worker[s], j = job(x, s, b, d);
	int64_t at = ready(t, s, b, d), kept = t->free_at[w];

	if (at < 0)
		return;
	at = at > kept ? at : kept;
	if (d == 0 && !x->parks && (at = room_from(t, w, at)) < 0)
		return;
	if (at < last) /* it comes before those that were started, in another order */
		return;
	if (at + t->tail[s][d] >= t->best)
		return;
	t->end[j] = t->free_at[w] = at + x->duration[s][d];
	t->left[w] -= x->duration[s][d];
	t->n_left--;
	t->order[w][t->n_order[w]++] = j;
	if (bound(t, at) < t->best && (!x->parks || certain(t, w) <= x->most))
		branch(t, at);
	t->n_order[w]--;
	t->n_left++;
	t->left[w] += x->duration[s][d];
	t->free_at[w] = kept;
	t->end[j] = -1;
}

static void branch(struct state *t, int64_t last)
{
	const struct exact *x = t->x;

	if (!t->n_left) {
		int64_t most = 0;

		for (int w = 0; w < x->n_workers && x->parks; w++)
			if (parked_peak(t, w) > x->most)
				return;
		for (int j = 0; j < x->n_stages * x->n_microbatches * 3; j++)
			most = t->end[j] > most ? t->end[j] : most;
		t->best = most < t->best ? most : t->best;
		return;
	}
	for (int d = 2; d >= 0; d--)
		for (int s = 0; s < x->n_stages; s++)
			for (int b = 0; b < x->n_microbatches; b++) {
				if (t->end[job(x, s, b, d)] >= 0)
					continue;
				start(t, s, b, d, last);
				break; /* microbatches are alike: the first is as good as the next
					*/
			}
}

static void find_tails(struct state *t)
{
	const struct exact *x = t->x;

	for (int s = 0; s < x->n_stages; s++) { /* from the sources, where backwards end */
		int64_t after = x->duration[s][2];

		for (int e = 0; e < x->n_edges; e++)
			if (x->to[e] == s && t->tail[x->from[e]][1] > after)
				after = t->tail[x->from[e]][1];
		t->tail[s][2] = x->duration[s][2];
		t->tail[s][1] = x->duration[s][1] + after;
	}
	for (int s = x->n_stages - 1; s >= 0; s--) {
		int64_t after = t->tail[s][1];

		for (int e = 0; e < x->n_edges; e++)
			if (x->from[e] == s && t->tail[x->to[e]][0] > after)
				after = t->tail[x->to[e]][0];
		t->tail[s][0] = x->duration[s][0] + after;
	}
}

int64_t exact_on(const struct exact *x, const int *worker, int64_t known)
{
	struct state t = {.x = x, .worker = worker, .best = known};

	t.n_left = x->n_stages * x->n_microbatches * 3;
	memset(t.end, 0xff, sizeof(t.end));
	for (int s = 0; s < x->n_stages; s++)
		for (int d = 0; d < 3; d++)
			t.left[worker[s]] += x->n_microbatches * x->duration[s][d];
	find_tails(&t);
	branch(&t, 0);
	return t.best;
}

/* The placement after this one, in which stage 0 stays where it is: workers are alike. false: it
 * was the last. */
static bool next_placement(const struct exact *x, int *worker)
{
	int s = x->n_stages - 1;

	while (s > 0 && worker[s] == x->n_workers - 1)
		worker[s--] = 0;
	worker[s]++;
	return s > 0;
}

int64_t exact_anywhere(const struct exact *x, int64_t known)
{
	int worker[EXACT_STAGES] = {0};
	int64_t best = known;

	do
		best = exact_on(x, worker, best);
	while (next_placement(x, worker));
	return best;
}

/* Does worker w read what stage s makes on another one? */
static bool reads(const struct exact *x, const int *worker, int s, int w)
{
	for (int e = 0; e < x->n_edges; e++)
		if (x->from[e] == s && worker[x->to[e]] == w && worker[s] != w)
			return true;
	return false;
}

static int64_t busiest_on(const struct exact *x, const int *worker, bool added)
{
	int64_t load[EXACT_STAGES] = {0}, link[EXACT_STAGES][EXACT_STAGES] = {{0}}, most = 0;

	for (int s = 0; s < x->n_stages; s++) {
		int at = worker[s];
		bool sent = false;

		load[at] += x->duration[s][0] + x->duration[s][1] + x->duration[s][2];
		for (int w = 0; w < x->n_workers; w++) {
			if (!reads(x, worker, s, w))
				continue;
			sent = true;
			load[w] += added ? x->sends[s] : 0;
			link[at][w] += added ? 0 : x->sends[s];
			link[w][at] += added ? 0 : x->sends[s];
		}
		load[at] += added && sent ? x->sends[s] : 0;
	}
	for (int w = 0; w < x->n_workers; w++) {
		most = load[w] > most ? load[w] : most;
		for (int v = 0; v < x->n_workers; v++)
			most = link[w][v] > most ? link[w][v] : most;
	}
	return most;
}

int64_t exact_busiest(const struct exact *x, bool added)
{
	int worker[EXACT_STAGES] = {0};
	int64_t best = INT64_MAX;

	do {
		int64_t now = busiest_on(x, worker, added);

		best = now < best ? now : best;
	} while (next_placement(x, worker));
	return best;
}
