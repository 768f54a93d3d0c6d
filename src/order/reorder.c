/* Warm-up and cool-down: an order that was squeezed still waits where the pipeline fills and
 * drains. */
#include "weave.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/sort.h"

struct filler {
	struct orr_weave *weave;
	struct orr_error *err;
	int64_t now;
	struct orr_heap ends; /* of running jobs; the value is the worker */
	int *head;            /* [n_workers] first job of those left, in weave->next; -1: none */
	int *running;         /* [n_workers] job, or -1 */
	int *n_ready;         /* [n_workers] jobs left that wait for nothing */
	int *left;            /* [n_kinds] jobs of a kind */
	int *n_kinds;         /* [n_workers] of which some are left */
	int *met;             /* [n_kinds] in which scan it was met */
	int n_scans;
	int *filled;       /* [n_workers] place in by_worker */
	int64_t *shortest; /* [n_workers] duration of its shortest job: no gap below that can be
			      filled */
	bool *touched;     /* [n_workers] may be able to start one */
	int *touched_workers, n_touched;
	struct orr_held *held; /* [n_workers] */
};

static void touch(struct filler *f, int w)
{
	if (!f->touched[w]) {
		f->touched[w] = true;
		f->touched_workers[f->n_touched++] = w;
	}
}

static int start(struct filler *f, int w, int j, int before)
{
	struct orr_weave *weave = f->weave;
	struct orr_held peak = {0, 0};

	if (--f->left[j % weave->n_kinds] == 0)
		f->n_kinds[w]--;
	if (before < 0)
		f->head[w] = weave->next[j];
	else
		weave->next[before] = weave->next[j];
	weave->start[j] = f->now;
	weave->jobs.by_worker[f->filled[w]++] = j;
	f->running[w] = j;
	f->n_ready[w]--;
	orr_held_add(&f->held[w], &peak, orr_weave_held(weave, j, true),
		     orr_weave_held(weave, j, false));
	return orr_heap_push(&f->ends, f->now + weave->duration[j], 0, w, f->err);
}

/* May a job that adds `up` and leaves without `down` go before others whose peak is `peak`? */
static bool fits(const struct filler *f, int w, struct orr_held peak, struct orr_held up,
		 struct orr_held down)
{
	const struct orr_held *now = &f->held[w], *most = &f->weave->peak[w];

	return now->stashes + up.stashes <= most->stashes && now->bytes + up.bytes <= most->bytes &&
	       peak.stashes + up.stashes - down.stashes <= most->stashes &&
	       peak.bytes + up.bytes - down.bytes <= most->bytes;
}

/* Worker w waits for the first job in its order. Start another one that ends before the first one
 * was to start, where memory allows it all the way to where it was: nothing else changes. */
static int fill_gap(struct filler *f, int w)
{
	const struct orr_weave *weave = f->weave;
	int first = f->head[w], n_kinds = f->n_kinds[w], before = first;
	int64_t gap = weave->start[first] - f->now;
	struct orr_held held = f->held[w], peak = held;

	if (gap < f->shortest[w])
		return 0;
	f->n_scans++;
	for (int j = first; n_kinds && j >= 0; before = j, j = weave->next[j]) {
		struct orr_held up = orr_weave_held(weave, j, true),
				down = orr_weave_held(weave, j, false);
		int *met = &f->met[j % weave->n_kinds];

		if (*met != f->n_scans) { /* where the first of a kind may not, those behind it may
					     not either */
			*met = f->n_scans;
			n_kinds--;
			if (!weave->waits[j] && weave->duration[j] <= gap &&
			    fits(f, w, peak, up, down))
				return start(f, w, j, before);
		}
		orr_held_add(&held, &peak, up, down);
	}
	return 0;
}

static int start_next(struct filler *f, int w)
{
	f->touched[w] = false;
	if (f->running[w] >= 0 || f->head[w] < 0 || !f->n_ready[w])
		return 0;
	if (!f->weave->waits[f->head[w]])
		return start(f, w, f->head[w], -1);
	return fill_gap(f, w);
}

static void end_job(struct filler *f, int w)
{
	struct orr_weave *weave = f->weave;
	int j = f->running[w];

	f->running[w] = -1;
	touch(f, w);
	for (int i = weave->first_after[j]; i < weave->first_after[j + 1]; i++)
		if (--weave->waits[weave->after[i]] == 0) {
			int owner = weave->jobs.compute[weave->after[i]];

			f->n_ready[owner]++;
			touch(f, owner);
		}
}

static void begin(struct filler *f)
{
	struct orr_weave *weave = f->weave;
	const struct orr_jobs *jobs = &weave->jobs;

	memset(f->left, 0, (size_t)weave->n_kinds * sizeof(*f->left));
	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		f->n_kinds[w] = 0;
		f->head[w] = f->running[w] = -1;
		f->filled[w] = jobs->first[w];
		f->n_ready[w] = 0;
		f->held[w] = (struct orr_held){0, 0};
		f->shortest[w] = INT64_MAX;
		for (int i = jobs->first[w + 1] - 1; i >= jobs->first[w]; i--) {
			int j = jobs->by_worker[i];

			if (f->shortest[w] > weave->duration[j])
				f->shortest[w] = weave->duration[j];
			if (f->left[j % weave->n_kinds]++ == 0)
				f->n_kinds[w]++;
			weave->next[j] = f->head[w];
			f->head[w] = j;
			weave->waits[j] = weave->first_before[j + 1] - weave->first_before[j];
			f->n_ready[w] += !weave->waits[j];
		}
		touch(f, w);
	}
}

/* Run the order again, and whenever a worker would wait, let a later job of its go first. No job
 * starts later than it did. */
static int fill_gaps(struct filler *f)
{
	int code = 0;

	begin(f);
	f->now = 0;
	for (;;) {
		for (int i = 0; i < f->n_touched; i++)
			if ((code = start_next(f, f->touched_workers[i])))
				return code;
		f->n_touched = 0;
		if (!f->ends.n)
			break;
		f->now = f->ends.entries[0].key;
		while (f->ends.n && f->ends.entries[0].key == f->now)
			end_job(f, (int)orr_heap_pop(&f->ends).value);
	}
	orr_weave_measure(f->weave);
	return 0;
}

static bool adds(const struct orr_weave *weave, int j)
{
	struct orr_held up = orr_weave_held(weave, j, true);

	return up.stashes > 0 || up.bytes > 0;
}

/* After its last F a worker gathers no stash (where B runs F again, after that): put Bs first and
 * let Ws fill the gaps [Qi24, appendix C]. */
static void put_off_weights(struct orr_weave *weave)
{
	struct orr_jobs *jobs = &weave->jobs;

	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		int last = jobs->first[w + 1], n_late = 0, place;

		while (last > jobs->first[w] && !adds(weave, jobs->by_worker[last - 1]))
			last--;
		place = last;
		for (int i = last; i < jobs->first[w + 1]; i++) {
			int j = jobs->by_worker[i];

			if (j % 3 == ORR_PASS_W)
				weave->queue[n_late++] = j;
			else
				jobs->by_worker[place++] = j;
		}
		for (int i = 0; i < n_late; i++)
			jobs->by_worker[place++] = weave->queue[i];
	}
}

struct outcome {
	int *order; /* [n_jobs] */
	int64_t makespan, span;
};

static bool improves(const struct orr_weave *weave, const struct outcome *best)
{
	return weave->makespan < best->makespan ||
	       (weave->makespan == best->makespan && weave->span < best->span);
}

static void keep(const struct orr_weave *weave, struct outcome *best)
{
	memcpy(best->order, weave->jobs.by_worker,
	       (size_t)weave->jobs.n_jobs * sizeof(*best->order));
	best->makespan = weave->makespan;
	best->span = weave->span;
}

static void restore(struct orr_weave *weave, const struct outcome *best)
{
	memcpy(weave->jobs.by_worker, best->order,
	       (size_t)weave->jobs.n_jobs * sizeof(*best->order));
	orr_weave_squeeze(weave);
}

/* The same from the end: the cool-down is a warm-up in which time runs backwards. */
static int fill_backwards(struct filler *f)
{
	int code;

	orr_weave_turn(f->weave);
	orr_weave_squeeze(f->weave);
	code = fill_gaps(f);
	orr_weave_turn(f->weave);
	orr_weave_squeeze(f->weave);
	return code ? code : fill_gaps(f);
}

/* Put Ws off and fill gaps as long as that helps: what was put off may leave room for others. */
static int put_off_and_fill(struct filler *f, struct outcome *best)
{
	struct orr_weave *weave = f->weave;
	bool improved;
	int code;

	for (int round = 0; round < 4; round++) {
		if (weave->jobs.n_passes == 3) {
			put_off_weights(weave);
			orr_weave_squeeze(weave);
		}
		if ((code = fill_gaps(f)))
			return code;
		if ((improved = improves(weave, best)))
			keep(weave, best);
		if ((code = fill_backwards(f)))
			return code;
		if (improves(weave, best))
			keep(weave, best);
		else if (!improved)
			break;
	}
	return 0;
}

/* The better one of two starts: Ws of the cool-down put off at once, or after the gaps were filled.
 */
static int try_starts(struct filler *f, struct outcome *squeezed, struct outcome *best)
{
	struct orr_weave *weave = f->weave;
	int code;

	keep(weave, squeezed);
	keep(weave, best);
	if ((code = put_off_and_fill(f, best)))
		return code;
	restore(weave, squeezed);
	if ((code = fill_gaps(f)))
		return code;
	if (improves(weave, best))
		keep(weave, best);
	if ((code = put_off_and_fill(f, best)))
		return code;
	restore(weave, best);
	return 0;
}

int orr_weave_reorder(struct orr_weave *weave, struct orr_error *err)
{
	size_t n = (size_t)weave->jobs.pipeline->n_workers, n_jobs = (size_t)weave->jobs.n_jobs;
	size_t n_kinds = (size_t)weave->n_kinds;
	struct filler f = {.weave = weave, .err = err};
	struct outcome squeezed = {.order = calloc(n_jobs, sizeof(int))},
		       best = {.order = calloc(n_jobs, sizeof(int))};
	int code;

	f.head = calloc(n, sizeof(*f.head));
	f.running = calloc(n, sizeof(*f.running));
	f.n_ready = calloc(n, sizeof(*f.n_ready));
	f.left = calloc(n_kinds, sizeof(*f.left));
	f.met = calloc(n_kinds, sizeof(*f.met));
	f.n_kinds = calloc(n, sizeof(*f.n_kinds));
	f.filled = calloc(n, sizeof(*f.filled));
	f.shortest = calloc(n, sizeof(*f.shortest));
	f.touched = calloc(n, sizeof(*f.touched));
	f.touched_workers = calloc(n, sizeof(*f.touched_workers));
	f.held = calloc(n, sizeof(*f.held));
	if (!squeezed.order || !best.order || !f.head || !f.running || !f.n_ready || !f.left ||
	    !f.met || !f.n_kinds || !f.filled || !f.shortest || !f.touched || !f.touched_workers ||
	    !f.held)
		code = orr_fail(err, ORR_E_NOMEM, "block: no memory for %zu jobs", n_jobs);
	else
		code = try_starts(&f, &squeezed, &best);
	orr_heap_fini(&f.ends);
	free(squeezed.order);
	free(best.order);
	free(f.head);
	free(f.running);
	free(f.n_ready);
	free(f.left);
	free(f.met);
	free(f.n_kinds);
	free(f.filled);
	free(f.shortest);
	free(f.touched);
	free(f.touched_workers);
	free(f.held);
	return code;
}
