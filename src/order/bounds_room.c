/* What memory does to one worker at the two ends of a step. Until the k-th B of the worker can
 * start, it has run at most k - 1 Bs and Ws, and only so many Fs as fit memory with k - 1 stashes
 * gone: if that is less work than there is time, the worker waits. And once all Fs but k - 1 must
 * have ended, so that what follows them can end in time, it has only the stashes of a full memory
 * and k - 1 more to work on. */
#include "bounds.h"

#include <stdbool.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"

#define MOST 128 /* Bs, and Fs, that are looked at */

struct end {
	const struct orr_timed *timed;
	int w, n;      /* jobs of a pass on the worker */
	const int *on; /* [n_on] its jobs */
	int n_on;
	int64_t room;                /* stashes that fit */
	int64_t *most[ORR_N_PASSES]; /* [n + 1] the longest jobs of a pass take so much together */
	struct orr_keyed *firsts, *lasts; /* [n] Bs by heads, and Fs by tails */
	struct orr_error *err;
};

static int64_t longest(const struct end *e, enum orr_pass d, int64_t count)
{
	return e->most[d][smaller(count, e->n)];
}

/* The worker's jobs of pass d by sign * value[], the smallest first. */
static int sort(struct orr_keyed *out, const struct end *e, enum orr_pass d, const int64_t *value,
		int sign)
{
	const struct orr_jobs *jobs = &e->timed->jobs;
	int n = 0;

	for (int i = 0; i < e->n_on; i++) {
		int j = e->on[i];

		if (jobs->compute[j] == e->w && j % ORR_N_PASSES == (int)d)
			out[n++] = (struct orr_keyed){sign * value[j], j};
	}
	return orr_sort(out, n, e->err);
}

/* Part of a step at one of its ends: so long, and no more than so much work in it. */
struct part {
	int64_t time, work;
};

/* Before B number k can start, or after all Fs but k must have ended; k -1: what all jobs leave. */
static struct part part_of(const struct end *e, const struct orr_keyed *keyed, int64_t at_once,
			   int k, bool at_last)
{
	int64_t forwards = at_last ? k : e->room + k, backwards = at_last ? e->room + k : k;

	if (k < 0)
		return (struct part){at_once, 0};
	return (struct part){keyed[k].key, longest(e, ORR_PASS_F, forwards) +
						   longest(e, ORR_PASS_B, backwards) +
						   longest(e, ORR_PASS_W, backwards)};
}

/* With more work than both parts take, they cannot overlap, and the rest goes in between. */
static int64_t join(const struct end *e, int64_t first, int64_t last, int64_t busy)
{
	int64_t bound = 0, most = smaller(e->n, MOST);

	for (int k = -1; k < most; k++)
		for (int l = -1; l < most; l++) {
			struct part x = part_of(e, e->firsts, first, k, false),
				    y = part_of(e, e->lasts, last, l, true);

			if (busy > x.work + y.work)
				bound = larger(bound, x.time + y.time + busy - x.work - y.work);
		}
	return bound;
}

static int find(struct end *e, const int64_t *duration, const int64_t *head, const int64_t *tail,
		int64_t *bound)
{
	const struct orr_timed *t = e->timed;
	int64_t first = INT64_MAX, last = INT64_MAX, busy = 0;
	int code;

	for (int i = 0; i < e->n_on; i++) {
		int j = e->on[i];

		if (t->jobs.compute[j] != e->w)
			continue;
		busy += duration[j];
		first = smaller(first, head[j]);
		last = smaller(last, tail[j]);
	}
	for (int d = 0; d < ORR_N_PASSES; d++) {
		if ((code = sort(e->lasts, e, (enum orr_pass)d, duration, -1)))
			return code;
		for (int k = 0; k < e->n; k++)
			e->most[d][k + 1] = e->most[d][k] - e->lasts[k].key;
	}
	if ((code = sort(e->firsts, e, ORR_PASS_B, head, 1)) ||
	    (code = sort(e->lasts, e, ORR_PASS_F, tail, 1)))
		return code;
	*bound = larger(*bound, join(e, first, last, busy));
	return 0;
}

int orr_bounds_room(int64_t *bound, const struct orr_timed *timed, int w, const int *on,
		    const int64_t *duration, const int64_t *head, const int64_t *tail,
		    struct orr_error *err)
{
	const struct orr_jobs *jobs = &timed->jobs;
	struct orr_load limit = orr_timed_most(timed, w);
	struct end e = {.timed = timed,
			.w = w,
			.on = on + jobs->first[w],
			.n_on = jobs->first[w + 1] - jobs->first[w],
			.room = limit.stashes,
			.err = err};
	int64_t least = INT64_MAX;
	struct orr_arrays all = {0};
	int code;

	for (int i = 0; i < e.n_on; i++) {
		int j = e.on[i];

		if (jobs->compute[j] == w && j % ORR_N_PASSES == ORR_PASS_F) {
			if (!orr_jobs_has(jobs, j + (int)ORR_PASS_B) ||
			    !orr_jobs_has(jobs, j + (int)ORR_PASS_W))
				return 0; /* then there is work that nothing of this holds back */
			e.n++;
			least = smaller(least, timed->up[j].bytes);
		}
	}
	if (!e.n)
		return 0;
	if (least > 0)
		e.room = smaller(e.room, limit.bytes / least);
	e.room = smaller(e.room, e.n);
	orr_arrays_make(&all, e.firsts, e.n);
	orr_arrays_make(&all, e.lasts, e.n);
	for (int d = 0; d < ORR_N_PASSES; d++)
		e.most[d] = orr_arrays_add(&all, (size_t)e.n + 1, sizeof(**e.most));
	if (!(code = orr_arrays_check(&all, "bounds", err)))
		code = find(&e, duration, head, tail, bound);
	orr_arrays_free(&all);
	return code;
}
