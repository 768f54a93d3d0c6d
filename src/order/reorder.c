/* An order that was squeezed still waits where the pipeline fills and drains. */
#include "timed.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/heap.h"

struct filler {
	struct orr_timed *timed;
	struct orr_error *err;
	int64_t now;
	struct orr_heap ends; /* of running jobs; the value is the worker */
	int *head;            /* [n_workers] first job of those left, in next; -1: none */
	int *next;            /* [n_jobs] a worker's jobs as a list */
	int *running;         /* [n_workers] job, or -1 */
	int *n_ready;         /* [n_workers] jobs left that wait for nothing */
	int n_alike;          /* kinds of jobs: j % n_alike */
	int *left;            /* [n_alike] jobs of a kind */
	int *n_kinds;         /* [n_workers] of which some are left */
	int *met;             /* [n_alike] in which scan it was met */
	int n_scans;
	int *filled;           /* [n_workers] place in by_worker */
	int64_t *shortest;     /* [n_workers] duration of its shortest job: no gap below that can be
				  filled */
	bool *touched;         /* [n_workers] may be able to start one */
	struct orr_load *held; /* [n_workers] */
};

static int start(struct filler *f, int w, int j, int before)
{
	struct orr_timed *timed = f->timed;
	struct orr_load peak = {0, 0};

	if (--f->left[j % f->n_alike] == 0)
		f->n_kinds[w]--;
	if (before < 0)
		f->head[w] = f->next[j];
	else
		f->next[before] = f->next[j];
	timed->start[j] = f->now;
	timed->jobs.by_worker[f->filled[w]++] = j;
	f->running[w] = j;
	f->n_ready[w]--;
	orr_load_add(&f->held[w], &peak, timed->up[j], timed->down[j]);
	return orr_heap_push(&f->ends, f->now + timed->jobs.duration_ns[j], 0, w, f->err);
}

/* May a job that adds `up` and leaves without `down` go before others whose peak is `peak`? */
static bool fits(const struct filler *f, int w, struct orr_load peak, struct orr_load up,
		 struct orr_load down)
{
	struct orr_load most = f->timed->most[w];

	return !orr_load_exceeds(orr_load_sum(f->held[w], up, 1), most) &&
	       !orr_load_exceeds(orr_load_sum(orr_load_sum(peak, up, 1), down, -1), most);
}

/* Worker w waits for the first job in its order. Start another one that ends before the first one
 * was to start, where memory allows it all the way to where it was: nothing else changes. */
static int fill_gap(struct filler *f, int w)
{
	const struct orr_timed *timed = f->timed;
	int first = f->head[w], n_kinds = f->n_kinds[w], before = first;
	int64_t gap = timed->start[first] - f->now;
	struct orr_load held = f->held[w], peak = held;

	if (gap < f->shortest[w])
		return 0;
	f->n_scans++;
	for (int j = first; n_kinds && j >= 0; before = j, j = f->next[j]) {
		struct orr_load up = timed->up[j], down = timed->down[j];
		int *met = &f->met[j % f->n_alike];

		if (*met != f->n_scans) { /* where the first of a kind may not, those behind it may
					     not either */
			*met = f->n_scans;
			n_kinds--;
			if (!timed->waits[j] && timed->jobs.duration_ns[j] <= gap &&
			    fits(f, w, peak, up, down))
				return start(f, w, j, before);
		}
		orr_load_add(&held, &peak, up, down);
	}
	return 0;
}

static int start_next(struct filler *f, int w)
{
	f->touched[w] = false;
	if (f->running[w] >= 0 || f->head[w] < 0 || !f->n_ready[w])
		return 0;
	if (!f->timed->waits[f->head[w]])
		return start(f, w, f->head[w], -1);
	return fill_gap(f, w);
}

static void end_job(struct filler *f, int w)
{
	struct orr_timed *timed = f->timed;
	int j = f->running[w];

	f->running[w] = -1;
	f->touched[w] = true;
	for (int i = timed->first_after[j]; i < timed->first_after[j + 1]; i++)
		if (--timed->waits[timed->after[i]] == 0) {
			int owner = timed->jobs.compute[timed->after[i]];

			f->n_ready[owner]++;
			f->touched[owner] = true;
		}
}

static void begin(struct filler *f)
{
	struct orr_timed *timed = f->timed;
	const struct orr_jobs *jobs = &timed->jobs;

	memset(f->left, 0, (size_t)f->n_alike * sizeof(*f->left));
	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		f->n_kinds[w] = 0;
		f->head[w] = f->running[w] = -1;
		f->filled[w] = jobs->first[w];
		f->n_ready[w] = 0;
		f->held[w] = (struct orr_load){0, 0};
		f->shortest[w] = INT64_MAX;
		for (int i = jobs->first[w + 1] - 1; i >= jobs->first[w]; i--) {
			int j = jobs->by_worker[i];

			if (f->shortest[w] > timed->jobs.duration_ns[j])
				f->shortest[w] = timed->jobs.duration_ns[j];
			if (f->left[j % f->n_alike]++ == 0)
				f->n_kinds[w]++;
			f->next[j] = f->head[w];
			f->head[w] = j;
			timed->waits[j] = timed->first_before[j + 1] - timed->first_before[j];
			f->n_ready[w] += !timed->waits[j];
		}
		f->touched[w] = true;
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
		for (int w = 0; w < f->timed->jobs.pipeline->n_workers; w++)
			if (f->touched[w] && (code = start_next(f, w)))
				return code;
		if (!f->ends.n)
			break;
		f->now = f->ends.entries[0].key;
		while (f->ends.n && f->ends.entries[0].key == f->now)
			end_job(f, (int)orr_heap_pop(&f->ends).value);
	}
	orr_timed_measure(f->timed);
	return 0;
}

static bool adds(const struct orr_timed *timed, int j)
{
	return timed->up[j].stashes > 0 || timed->up[j].bytes > 0;
}

/* After its last F a worker gathers no stash (where B runs F again, after that): put Bs first and
 * let Ws fill the gaps [Qi24, appendix C]. */
static void put_off_weights(struct orr_timed *timed)
{
	struct orr_jobs *jobs = &timed->jobs;

	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		int last = jobs->first[w + 1], n_late = 0, place;

		while (last > jobs->first[w] && !adds(timed, jobs->by_worker[last - 1]))
			last--;
		place = last;
		for (int i = last; i < jobs->first[w + 1]; i++) {
			int j = jobs->by_worker[i];

			if (j % 3 == ORR_PASS_W)
				timed->queue[n_late++] = j;
			else
				jobs->by_worker[place++] = j;
		}
		for (int i = 0; i < n_late; i++)
			jobs->by_worker[place++] = timed->queue[i];
	}
}

/* Every worker keeps its order, every job starts as early as it can. */
static void squeeze(struct orr_timed *timed)
{
	orr_timed_renumber(timed);
	(void)orr_timed_time(timed);
}

struct outcome {
	int *order; /* [n_jobs] */
	int64_t makespan, span;
};

static void keep(const struct orr_timed *timed, struct outcome *best)
{
	memcpy(best->order, timed->jobs.by_worker,
	       (size_t)timed->jobs.n_jobs * sizeof(*best->order));
	best->makespan = timed->makespan_ns;
	best->span = timed->span_ns;
}

static bool keep_better(const struct orr_timed *timed, struct outcome *best)
{
	if (timed->makespan_ns > best->makespan ||
	    (timed->makespan_ns == best->makespan && timed->span_ns >= best->span))
		return false;
	keep(timed, best);
	return true;
}

static void restore(struct orr_timed *timed, const struct outcome *best)
{
	memcpy(timed->jobs.by_worker, best->order,
	       (size_t)timed->jobs.n_jobs * sizeof(*best->order));
	squeeze(timed);
}

/* The same from the end: the cool-down is a warm-up in which time runs backwards. */
static int fill_backwards(struct filler *f)
{
	int code;

	orr_timed_reverse(f->timed);
	squeeze(f->timed);
	code = fill_gaps(f);
	orr_timed_reverse(f->timed);
	squeeze(f->timed);
	return code ? code : fill_gaps(f);
}

/* Put Ws off and fill gaps as long as that helps: what was put off may leave room for others. */
static int put_off_and_fill(struct filler *f, struct outcome *best)
{
	struct orr_timed *timed = f->timed;
	bool improved;
	int code;

	for (int round = 0; round < 4; round++) {
		if (timed->jobs.n_passes == 3) {
			put_off_weights(timed);
			squeeze(timed);
		}
		if ((code = fill_gaps(f)))
			return code;
		improved = keep_better(timed, best);
		if ((code = fill_backwards(f)))
			return code;
		if (!keep_better(timed, best) && !improved)
			break;
	}
	return 0;
}

/* The better of two starts: Ws of the cool-down put off at once, or after the gaps were filled. */
static int try_starts(struct filler *f, struct outcome *squeezed, struct outcome *best)
{
	struct orr_timed *timed = f->timed;
	int code;

	keep(timed, squeezed);
	keep(timed, best);
	if ((code = put_off_and_fill(f, best)))
		return code;
	restore(timed, squeezed);
	if ((code = fill_gaps(f)))
		return code;
	(void)keep_better(timed, best);
	if ((code = put_off_and_fill(f, best)))
		return code;
	restore(timed, best);
	return 0;
}

int orr_reorder(struct orr_timed *timed, int n_alike, struct orr_error *err)
{
	size_t n = (size_t)timed->jobs.pipeline->n_workers, n_jobs = (size_t)timed->jobs.n_jobs;
	size_t n_kinds = (size_t)n_alike;
	struct filler f = {.timed = timed, .n_alike = n_alike, .err = err};
	struct outcome squeezed, best;
	struct orr_arrays all = {0};
	int code;

	if (timed->jobs.most_at > 1) /* a gap of one worker is none of a job on several */
		return 0;
	orr_arrays_make(&all, squeezed.order, n_jobs);
	orr_arrays_make(&all, best.order, n_jobs);
	orr_arrays_make(&all, f.head, n);
	orr_arrays_make(&all, f.next, n_jobs);
	orr_arrays_make(&all, f.running, n);
	orr_arrays_make(&all, f.n_ready, n);
	orr_arrays_make(&all, f.left, n_kinds);
	orr_arrays_make(&all, f.met, n_kinds);
	orr_arrays_make(&all, f.n_kinds, n);
	orr_arrays_make(&all, f.filled, n);
	orr_arrays_make(&all, f.shortest, n);
	orr_arrays_make(&all, f.touched, n);
	orr_arrays_make(&all, f.held, n);
	if (!(code = orr_arrays_check(&all, "block", err)))
		code = try_starts(&f, &squeezed, &best);
	orr_heap_fini(&f.ends);
	orr_arrays_free(&all);
	return code;
}
