/* What memory makes wait for an earlier microbatch. Stages take their microbatches in turn (see
 * bounds.c).
 *
 * Let A(t) be the stages on the worker of t that lead to it, and t. From the start of F(t,i) to the
 * end of B(t,i) microbatch i has a stash of each. Let s be one of A(t), so that A(s) is part of
 * A(t), and j = i + d. Then F(s,j) does not start before r stashes of A(t) of microbatch i are
 * gone, if |A(t)| + |A(s)| - (r - 1) + (d - 1) max(0, |A(s)| - (r - 1)) are more than fit. For
 * suppose it does.
 * - If F(t,i) has started, i has |A(t)| - (r - 1) at least. j has A(s), of which nothing is gone
 *   before B(s,j). Those between them have started A(s), and what is gone of each is of r - 1
 *   stages at most, since W of i went before.
 * - If not, then by the time that it starts nothing of i is gone, and so nothing of those after it.
 *
 * r stashes are gone when so many W have ended, and before that all B of these stages: after B(t,i)
 * these are r W and r - 1 B more, on one worker. Where each stage of A(t) leads to the next, it is
 * after the r-th B from the end, too, and if r is |A(t)|, after every W. */
#include "bounds_caps.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TOGETHER 8 /* stages of a worker: with more, r is 1, and s is t */

struct finder {
	const struct orr_timed *timed;
	const struct orr_pipeline *p;
	const int64_t *duration;
	struct orr_caps *caps;
	int *size, *member; /* [n_stages] of A(t) of every t; that of the one at hand, ascending */
	int64_t *bytes;     /* [n_stages] of A(t) */
	bool *seen;         /* [n_stages] */
	struct orr_error *err;
};

static int job(const struct finder *f, int s, enum orr_pass d)
{
	return orr_jobs_index(&f->timed->jobs, s, 0, d);
}

static int worker_of(const struct finder *f, int s)
{
	return f->timed->jobs.compute[job(f, s, ORR_PASS_F)];
}

/* Stages from which a way leads to t that a gradient takes back, and t. */
static void find_leading(struct finder *f, int t)
{
	memset(f->seen, 0, (size_t)f->p->n_stages * sizeof(*f->seen));
	f->seen[t] = true;
	for (int x = t; x >= 0; x--)
		for (int i = 0; f->seen[x] && i < f->p->stages[x].n_in; i++)
			if (!f->p->edges[f->p->stages[x].in[i]].detached)
				f->seen[orr_stage_before(f->p, x, i)] = true;
}

static int add(struct finder *f, struct orr_cap cap)
{
	struct orr_caps *caps = f->caps;

	if (cap.apart >= f->p->n_microbatches)
		return 0;
	if (caps->n == caps->room) {
		int room = 2 * caps->room + 64;
		struct orr_cap *list = realloc(caps->list, (size_t)room * sizeof(*list));

		if (!list)
			return orr_fail(f->err, ORR_E_NOMEM, "bounds: no memory for %d caps", room);
		caps->list = list;
		caps->room = room;
	}
	cap.next_started = caps->started[cap.started];
	cap.next_ended = caps->ended[cap.ended];
	caps->started[cap.started] = caps->ended[cap.ended] = caps->n;
	caps->list[caps->n++] = cap;
	return 0;
}

/* The sum of the n least durations of a pass of the members, but for t. */
static int64_t least(const struct finder *f, int n_members, int t, enum orr_pass d, int n)
{
	int64_t sorted[MOST_TOGETHER], sum = 0;
	int n_sorted = 0;

	for (int k = 0; k < n_members; k++) {
		int64_t ns = f->duration[job(f, f->member[k], d)];
		int i = n_sorted;

		if (f->member[k] == t)
			continue;
		for (; i > 0 && sorted[i - 1] > ns; i--)
			sorted[i] = sorted[i - 1];
		sorted[i] = ns;
		n_sorted++;
	}
	for (int i = 0; i < n; i++)
		sum += sorted[i];
	return sum;
}

/* The least d from which on s waits for r stashes of t; n_microbatches or more: it never does. */
static int find_apart(const struct finder *f, int t, int s, int r)
{
	struct orr_load limit = orr_timed_most(f->timed, worker_of(f, t));
	int64_t m = f->p->n_microbatches, each = f->size[s] > r - 1 ? f->size[s] - (r - 1) : 0,
		beyond = limit.stashes - (f->size[t] + f->size[s] - (r - 1)),
		apart = beyond < 0 ? 1
			: each     ? beyond / each + 2
				   : m;

	if (r == 1 && f->bytes[s] && limit.bytes < INT64_MAX) {
		int64_t by_bytes = limit.bytes > f->bytes[t]
					   ? (limit.bytes - f->bytes[t]) / f->bytes[s] + 1
					   : 1;

		apart = by_bytes < apart ? by_bytes : apart;
	}
	return (int)(apart < m ? apart : m);
}

/* Does each member lead to the next? */
static bool is_chain(const struct finder *f, int n)
{
	for (int k = 0; k < n; k++)
		if (f->size[f->member[k]] != k + 1)
			return false;
	return true;
}

/* s waits for r of the n stashes of t. */
static int add_pair(struct finder *f, int t, int s, int n, int r)
{
	struct orr_cap cap = {
		.started = s, .ended = t, .apart = find_apart(f, t, s, r), .d = ORR_PASS_B};
	int code = 0;

	if (n <= MOST_TOGETHER)
		cap.lag_ns = least(f, n, -1, ORR_PASS_W, r) + least(f, n, t, ORR_PASS_B, r - 1);
	if ((code = add(f, cap)))
		return code;
	cap.lag_ns = 0;
	if (r > 1 && r < n && is_chain(f, n)) {
		cap.ended = f->member[n - r];
		cap.lag_ns = least(f, n, -1, ORR_PASS_W, 1);
		code = add(f, cap);
	}
	cap.d = ORR_PASS_W;
	for (int k = 0; k < n && r == n && !code; k++) {
		cap.ended = f->member[k];
		code = add(f, cap);
	}
	return code;
}

static int add_stage(struct finder *f, int t)
{
	const struct orr_load *up = f->timed->up;
	struct orr_load limit = orr_timed_most(f->timed, worker_of(f, t)), others = {0, 0},
			one = up[job(f, t, ORR_PASS_F)];
	int m = f->p->n_microbatches, n = 0, code = 0;
	int64_t most = m;

	find_leading(f, t);
	for (int s = 0; s < t; s++) {
		struct orr_load load = up[job(f, s, ORR_PASS_F)];

		if (!f->seen[s] || !load.stashes || worker_of(f, s) != worker_of(f, t))
			continue;
		f->member[n++] = s;
		others.stashes++;
		others.bytes += load.bytes;
	}
	f->member[n++] = t;
	f->size[t] = n;
	f->bytes[t] = others.bytes + one.bytes;
	/* as F starts, t holds all that W has not ended */
	most = limit.stashes - others.stashes < most ? limit.stashes - others.stashes : most;
	if (one.bytes && (limit.bytes - others.bytes) / one.bytes < most)
		most = (limit.bytes - others.bytes) / one.bytes;
	f->caps->own[t] = most < 1 ? 1 : (int)most;
	for (int k = n <= MOST_TOGETHER ? 0 : n - 1; k < n && !code; k++)
		for (int r = 1; r <= (n <= MOST_TOGETHER ? n : 1) && !code; r++)
			code = add_pair(f, t, f->member[k], n, r);
	return code;
}

int orr_caps_init(struct orr_caps *caps, const struct orr_timed *timed, const int64_t *duration,
		  struct orr_error *err)
{
	const struct orr_pipeline *p = timed->jobs.pipeline;
	size_t n = (size_t)p->n_stages;
	struct orr_arrays all = {0};
	struct finder f = {.timed = timed, .p = p, .duration = duration, .caps = caps, .err = err};
	int code = 0;

	*caps = (struct orr_caps){0};
	caps->own = orr_arrays_add(&caps->all, n, sizeof(*caps->own));
	caps->started = orr_arrays_add(&caps->all, n, sizeof(*caps->started));
	caps->ended = orr_arrays_add(&caps->all, n, sizeof(*caps->ended));
	f.size = orr_arrays_add(&all, n, sizeof(*f.size));
	f.member = orr_arrays_add(&all, n, sizeof(*f.member));
	f.bytes = orr_arrays_add(&all, n, sizeof(*f.bytes));
	f.seen = orr_arrays_add(&all, n, sizeof(*f.seen));
	if (caps->all.failed || all.failed)
		code = orr_fail(err, ORR_E_NOMEM, "bounds: no memory for %zu stages", n);
	for (int s = 0; s < p->n_stages && !code; s++) {
		caps->own[s] = p->n_microbatches;
		caps->started[s] = caps->ended[s] = -1;
	}
	for (int s = 0; s < p->n_stages && !code; s++)
		if (timed->up[job(&f, s, ORR_PASS_F)].stashes && !p->microbatches)
			code = add_stage(&f, s);
	orr_arrays_free(&all);
	return code;
}

void orr_caps_fini(struct orr_caps *caps)
{
	free(caps->list);
	orr_arrays_free(&caps->all);
}
