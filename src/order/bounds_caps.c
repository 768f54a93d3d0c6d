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
 * r stashes are gone when so many W have ended, and before that all B of these stages. Where each
 * stage of A(t) leads to the next, it is after the r-th B from the end, and a W more, and if r is
 * |A(t)|, after every W.
 *
 * More follows B(t,i) on its worker before F(s,j) can start. Let X be the stashes A(t) of i and
 * A(s) of i + 1 to j, and g = |X| less what fits. If g > 0, F(t,i) starts before F(s,j), as above.
 * As B(t,i) ends, no stash of X is gone, since W of any of them comes after; so no more of X have
 * started than fit. As F(s,j) starts, all have, and no more are left than fit. So in between g W
 * run, B of all of these but (t,i), and g F, of which F(s,j) is one: all on one worker. In bytes,
 * where the largest stash of A(t) goes into what is too much g times, rounded up, it is the same.
 *
 * So it is for stages A of a worker that lead to a t on another one, and s = t. Then no B of X runs
 * before B(t,i) has been taken back to the nearest of A; until the first of them starts, no more of
 * X have started than fit; and all F of X end so long before F(t,j) starts as it takes from the
 * nearest of A down to t. So in between g F, B and W run. */
#include "bounds_caps.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/max.h"
#include "schedule/gang_order.h"

#define MOST_TOGETHER 8 /* stages of a worker: with more, r is 1, and s is t */
#define MOST_APART 4    /* more microbatches that wait for one */

struct finder {
	const struct orr_timed *timed;
	const struct orr_pipeline *p;
	const int64_t *duration;
	struct orr_caps *caps;
	int *size, *member; /* [n_stages] of A(t) of every t; that of the one at hand, ascending */
	int64_t *bytes;     /* [n_stages] of A(t) */
	int64_t largest;    /* stash of the one at hand, in bytes */
	bool *seen;         /* [n_stages] those that lead to the one at hand */
	int64_t *length;    /* [n_stages] */
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

static int add(struct finder *f, struct orr_cap cap)
{
	struct orr_caps *caps = f->caps;

	if (cap.apart >= f->p->n_microbatches)
		return 0;
	if (!orr_grow(&caps->list, caps->n, &caps->room, sizeof(*caps->list)))
		return orr_no_memory(f->err, "bounds");
	cap.next_started = caps->started[cap.started];
	cap.next_ended = caps->ended[cap.ended];
	caps->started[cap.started] = caps->ended[cap.ended] = caps->n;
	caps->list[caps->n++] = cap;
	return 0;
}

static int64_t least(const struct finder *f, int n_members, enum orr_pass d)
{
	int64_t ns = INT64_MAX;

	for (int k = 0; k < n_members; k++)
		ns = smaller(ns, f->duration[job(f, f->member[k], d)]);
	return ns;
}

/* F(s,i + apart) waits for B(t,i), from the least apart on where stashes of the members must go:
 * one W, B and F for each of them, and `beyond` of that. one: A(t); each: A(s). */
static int add_rows(struct finder *f, struct orr_cap cap, struct orr_load one, struct orr_load each,
		    int n, int64_t beyond)
{
	struct orr_load limit = orr_timed_most(f->timed, worker_of(f, f->member[0]));
	int64_t all = least(f, n, ORR_PASS_F) + least(f, n, ORR_PASS_B) + least(f, n, ORR_PASS_W);
	int code = 0, found = 0;

	for (cap.apart = 1; cap.apart < f->p->n_microbatches && found < MOST_APART && !code;
	     cap.apart++) {
		int64_t gone = one.stashes + cap.apart * each.stashes - limit.stashes,
			bytes = one.bytes + cap.apart * each.bytes - limit.bytes;

		if (f->largest && bytes > 0)
			gone = larger(gone, (bytes - 1) / f->largest + 1);
		if (gone <= 0)
			continue;
		cap.lag_ns = gone * all + beyond;
		found++;
		code = add(f, cap);
	}
	return code;
}

/* The least d from which on s waits for r stashes of t; n_microbatches or more: it never does. */
static int find_apart(const struct finder *f, int t, int s, int r)
{
	struct orr_load limit = orr_timed_most(f->timed, worker_of(f, t));
	int64_t m = f->p->n_microbatches, each = larger(0, f->size[s] - (r - 1)),
		beyond = limit.stashes - (f->size[t] + f->size[s] - (r - 1)),
		apart = beyond < 0 ? 1
			: each     ? beyond / each + 2
				   : m;

	if (r == 1 && f->bytes[s] && limit.bytes < INT64_MAX)
		apart = smaller(apart, larger(0, limit.bytes - f->bytes[t]) / f->bytes[s] + 1);
	return (int)smaller(apart, m);
}

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

	if (r > 1 && r < n && is_chain(f, n)) {
		cap.ended = f->member[n - r];
		cap.lag_ns = least(f, n, ORR_PASS_W);
		code = add(f, cap);
	}
	cap.lag_ns = 0;
	cap.d = ORR_PASS_W;
	for (int k = 0; k < n && r == n && !code; k++) {
		cap.ended = f->member[k];
		code = add(f, cap);
	}
	return code;
}

/* The members: those of worker w that lead to t, and t; their stashes. */
static struct orr_load collect(struct finder *f, int t, int w, int *n)
{
	struct orr_load all = {0, 0};

	*n = 0;
	f->largest = 0;
	for (int s = 0; s <= t; s++) {
		struct orr_load load = f->timed->up[job(f, s, ORR_PASS_F)];

		if (!f->seen[s] || !load.stashes || worker_of(f, s) != w)
			continue;
		f->member[(*n)++] = s;
		all.stashes++;
		all.bytes += load.bytes;
		f->largest = larger(f->largest, load.bytes);
	}
	return all;
}

static int add_stage(struct finder *f, int t)
{
	int m = f->p->n_microbatches, n, code, w = worker_of(f, t);
	struct orr_load limit = orr_timed_most(f->timed, w),
			one = f->timed->up[job(f, t, ORR_PASS_F)], all;
	int64_t most = m, beyond;

	orr_stages_leading(f->seen, f->p, t);
	all = collect(f, t, w, &n);
	f->size[t] = n;
	f->bytes[t] = all.bytes;
	/* as F starts, t holds all that W has not ended */
	most = smaller(most, limit.stashes - (n - 1));
	if (one.bytes)
		most = smaller(most, (limit.bytes - (all.bytes - one.bytes)) / one.bytes);
	f->caps->own[t] = (int)larger(most, 1);
	code = add(f, (struct orr_cap){
			      .started = t, .ended = t, .apart = f->caps->own[t], .d = ORR_PASS_W});
	beyond = -least(f, n, ORR_PASS_F) - least(f, n, ORR_PASS_B); /* (t,i), and F(s,j) */
	for (int k = n <= MOST_TOGETHER ? 0 : n - 1; k < n && !code; k++) {
		int s = f->member[k];
		struct orr_load each = {f->size[s], f->bytes[s]};

		code = add_rows(f, (struct orr_cap){.started = s, .ended = t, .d = ORR_PASS_B}, all,
				each, n, beyond);
		for (int r = 1; r <= (n <= MOST_TOGETHER ? n : 1) && !code; r++)
			code = add_pair(f, t, s, n, r);
	}
	return code;
}

/* The least of what is between the members and t, there and back. */
static int64_t find_beyond(struct finder *f, int t, int n)
{
	int64_t least_of[2] = {INT64_MAX, INT64_MAX};

	for (int d = 0; d < 2; d++) {
		f->length[t] = -f->duration[job(f, t, (enum orr_pass)d)];
		for (int x = t - 1; x >= 0; x--) {
			f->length[x] = 0;
			for (int i = 0; f->seen[x] && i < f->p->stages[x].n_out; i++) {
				int y = orr_stage_after(f->p, x, i);

				if (!f->p->edges[f->p->stages[x].out[i]].detached && f->seen[y])
					f->length[x] = larger(
						f->length[x],
						f->length[y] +
							f->duration[job(f, y, (enum orr_pass)d)]);
			}
		}
		for (int k = 0; k < n; k++)
			least_of[d] = smaller(least_of[d], f->length[f->member[k]]);
	}
	return least_of[0] + least_of[1];
}

/* Stages of a worker that meet in t, on another one. */
static int add_join(struct finder *f, int t)
{
	int code = 0;

	orr_stages_leading(f->seen, f->p, t);
	for (int w = 0; w < f->p->n_workers && !code; w++) {
		bool meet = w != worker_of(f, t);
		int n;
		struct orr_load all = collect(f, t, w, &n);

		for (int k = 0; k < n; k++)
			meet = meet && f->size[f->member[k]] < n;
		if (meet && n)
			code = add_rows(f,
					(struct orr_cap){.started = t, .ended = t, .d = ORR_PASS_B},
					all, all, n, find_beyond(f, t, n));
	}
	return code;
}

int orr_caps_init(struct orr_caps *caps, const struct orr_timed *timed, const int64_t *duration,
		  struct orr_error *err)
{
	const struct orr_pipeline *p = timed->jobs.pipeline;
	size_t n = (size_t)p->n_stages;
	struct orr_arrays all = {0};
	struct finder f = {.timed = timed, .p = p, .duration = duration, .caps = caps, .err = err};
	int code;

	*caps = (struct orr_caps){0};
	orr_arrays_make(&caps->all, caps->own, n);
	orr_arrays_make(&caps->all, caps->started, n);
	orr_arrays_make(&caps->all, caps->ended, n);
	orr_arrays_make(&all, f.size, n);
	orr_arrays_make(&all, f.member, n);
	orr_arrays_make(&all, f.bytes, n);
	orr_arrays_make(&all, f.length, n);
	orr_arrays_make(&all, f.seen, n);
	if ((code = orr_arrays_check(&caps->all, "bounds", err)) ||
	    (code = orr_arrays_check(&all, "bounds", err)))
		goto out;
	for (int s = 0; s < p->n_stages; s++) {
		caps->own[s] = p->n_microbatches;
		caps->started[s] = caps->ended[s] = -1;
	}
	for (int s = 0; s < p->n_stages && !code; s++)
		if (timed->up[job(&f, s, ORR_PASS_F)].stashes && !p->microbatches)
			code = add_stage(&f, s);
	for (int s = 0; s < p->n_stages && !code; s++)
		if (p->stages[s].n_in > 1 && !p->microbatches)
			code = add_join(&f, s);
out:
	orr_arrays_free(&all);
	return code;
}

void orr_caps_fini(struct orr_caps *caps)
{
	free(caps->list);
	orr_arrays_free(&caps->all);
}
