#include "starts.h"

#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"

#define MOST_JOBS 20000 /* with more of them it takes too long */
#define MOST_PATTERNS 16
#define MOST_TRIES 4000 /* times of one microbatch that are looked at */

/* A job, or with `since` and `until` the life of a stash. */
struct piece {
	int64_t since, until;
	int job;
};

/* Pieces of a worker in the order of time, and stashes in any. */
struct row {
	struct piece *busy, *held;
	int n_busy, n_held;
};

struct rigid {
	const struct orr_timed *timed;
	const struct orr_pipeline *p;
	int n_kinds;     /* of jobs: a pass of a stage each, numbers as of microbatch 0 */
	int64_t apart;   /* the work of a stage: of every n_places microbatches, so many as this */
	int n_apart;     /* are so far from the next one at least, evenly spread */
	int n_places;    /* microbatches in flight, about */
	int64_t *length; /* [n_kinds] of jobs */
	int64_t *offset; /* [n_kinds] from the start of a microbatch; -1: none yet */
	int64_t *start;  /* [n_jobs] */
	int64_t *kept;   /* [n_jobs] starts before the microbatch at hand */
	struct row *row; /* [n_workers] */
};

static int worker_of(const struct rigid *x, int j)
{
	return x->timed->jobs.compute[j];
}

static int64_t length_of(const struct rigid *x, int j)
{
	return x->length[j % x->n_kinds];
}

static bool is_apart(int64_t since, int64_t until, const struct piece *piece)
{
	return until <= piece->since || piece->until <= since;
}

/* Lengths of jobs; with `even` those of the longest stage: then the slots are alike, and what that
 * leaves is taken out as the order is timed. */
static void measure(struct rigid *x, bool even)
{
	int64_t longest[ORR_N_PASSES] = {0};

	for (int k = 0; k < x->n_kinds; k++) {
		x->length[k] = x->timed->jobs.duration_ns[k];
		longest[k % ORR_N_PASSES] = larger(longest[k % ORR_N_PASSES], x->length[k]);
	}
	for (int k = 0; k < x->n_kinds && even; k++)
		x->length[k] = longest[k % ORR_N_PASSES];
	x->apart = longest[ORR_PASS_F] + longest[ORR_PASS_B] + longest[ORR_PASS_W];
}

/* ---- one microbatch alone ---- */

/* The first time from `since` on at which job k overlaps none of those placed. */
static int64_t first_free(const struct rigid *x, int k, int64_t since)
{
	for (bool moved = true; moved;) {
		moved = false;
		for (int i = 0; i < x->n_kinds; i++) {
			struct piece piece = {x->offset[i], x->offset[i] + x->length[i], i};

			if (i == k || x->offset[i] < 0 || worker_of(x, i) != worker_of(x, k) ||
			    is_apart(since, since + x->length[k], &piece))
				continue;
			since = piece.until;
			moved = true;
		}
	}
	return since;
}

static void place_one(struct rigid *x, int k)
{
	const struct orr_timed *t = x->timed;
	int64_t since = 0;

	if (!orr_jobs_has(&t->jobs, k))
		return;
	for (int i = t->first_before[k]; i < t->first_before[k + 1]; i++) {
		int before = t->before[i];

		if (x->offset[before] >= 0)
			since = larger(since, x->offset[before] + x->length[before] +
						      orr_timed_delay(t, before, k));
	}
	x->offset[k] = first_free(x, k, since);
}

/* F of stage s as late as those that wait for it allow: its stash is held from then on. */
static void put_off(struct rigid *x, int s)
{
	const struct orr_timed *t = x->timed;
	int k = s * ORR_N_PASSES;
	int64_t since = INT64_MAX;

	for (int i = t->first_after[k]; i < t->first_after[k + 1] && x->offset[k] >= 0; i++) {
		int after = t->after[i];

		if (x->offset[after] >= 0)
			since = smaller(since, x->offset[after] - x->length[k] -
						       orr_timed_delay(t, k, after));
	}
	if (since < INT64_MAX && since > x->offset[k] && first_free(x, k, since) == since)
		x->offset[k] = since;
}

static void lay_out_one(struct rigid *x)
{
	for (int k = 0; k < x->n_kinds; k++)
		x->offset[k] = -1;
	for (int s = 0; s < x->p->n_stages; s++)
		place_one(x, s * ORR_N_PASSES);
	for (int s = x->p->n_stages - 1; s >= 0; s--)
		place_one(x, s * ORR_N_PASSES + (int)ORR_PASS_B);
	for (int s = x->p->n_stages - 1; s >= 0; s--)
		put_off(x, s);
}

/* ---- rows ---- */

static void insert(struct row *row, int job, int64_t since, int64_t until)
{
	int i = row->n_busy++;

	for (; i > 0 && row->busy[i - 1].since > since; i--)
		row->busy[i] = row->busy[i - 1];
	row->busy[i] = (struct piece){since, until, job};
}

/* Take everything away again that has come since the starts were kept. */
static void take_back(struct rigid *x)
{
	memcpy(x->start, x->kept, (size_t)x->timed->jobs.n_jobs * sizeof(*x->start));
	for (int w = 0; w < x->p->n_workers; w++) {
		struct row *row = &x->row[w];
		int n = 0;

		for (int i = 0; i < row->n_busy; i++)
			if (x->start[row->busy[i].job] >= 0)
				row->busy[n++] = row->busy[i];
		row->n_busy = n;
		for (n = 0; n < row->n_held && x->start[row->held[n].job] >= 0; n++)
			if (x->start[row->held[n].job + (int)ORR_PASS_W] < 0)
				row->held[n].until = INT64_MAX;
		row->n_held = n;
	}
}

static int64_t first_gap(const struct rigid *x, const struct row *row, int j)
{
	int64_t since = x->start[j - 1] + length_of(x, j - 1);

	for (int i = 0; i < row->n_busy; i++)
		if (!is_apart(since, since + length_of(x, j), &row->busy[i]))
			since = row->busy[i].until;
	return since;
}

static void run_weight(struct rigid *x, struct row *row, struct piece *stash, int64_t since)
{
	int j = stash->job + (int)ORR_PASS_W;

	x->start[j] = since;
	stash->until = since + length_of(x, j);
	insert(row, j, since, stash->until);
}

static struct orr_load load_at(const struct rigid *x, const struct row *row, int i)
{
	struct orr_load load = {0, 0};
	int64_t now = row->held[i].since;

	for (int k = 0; k < row->n_held; k++)
		if (row->held[k].since <= now && now < row->held[k].until)
			load = orr_load_sum(load, x->timed->up[row->held[k].job], 1);
	return load;
}

/* Make room for stash i by the W that can run first; 0: there is, or else how much too late. */
static int64_t make_room(struct rigid *x, int w, int i)
{
	struct row *row = &x->row[w];
	const struct orr_load *most = &x->timed->most[w];

	while (orr_load_exceeds(load_at(x, row, i), *most)) {
		struct piece *best = NULL;
		int64_t soonest = INT64_MAX, late;

		for (int k = 0; k < row->n_held; k++) {
			int j = row->held[k].job + (int)ORR_PASS_W;
			int64_t since;

			if (row->held[k].until < INT64_MAX || k == i || x->start[j - 1] < 0 ||
			    (since = first_gap(x, row, j)) >= soonest)
				continue;
			soonest = since;
			best = &row->held[k];
		}
		if (!best)
			return INT64_MAX;
		late = soonest + length_of(x, best->job + (int)ORR_PASS_W) - row->held[i].since;
		if (late > 0)
			return late;
		run_weight(x, row, best, soonest);
	}
	return 0;
}

/* ---- all microbatches ---- */

/* Does kind k run at a time of its own? */
static bool has_offset(const struct rigid *x, int k)
{
	return k % ORR_N_PASSES != ORR_PASS_W && orr_jobs_has(&x->timed->jobs, k);
}

/* By how much later than `time` a microbatch must come at least, for its Fs and Bs to fit. */
static int64_t collide(const struct rigid *x, int64_t time)
{
	int64_t later = 0;

	for (int k = 0; k < x->n_kinds; k++) {
		const struct row *row = &x->row[worker_of(x, k)];
		int64_t since = time + x->offset[k], until = since + x->length[k];

		for (int i = row->n_busy - 1;
		     i >= 0 && row->busy[i].until > since && has_offset(x, k); i--)
			if (!is_apart(since, until, &row->busy[i]))
				later = larger(later, row->busy[i].until - since);
	}
	return later;
}

static void put_all(struct rigid *x, int b, int64_t time)
{
	for (int k = 0; k < x->n_kinds; k++) {
		int j = b * x->n_kinds + k;
		struct row *row = &x->row[worker_of(x, k)];
		int64_t since = time + x->offset[k];

		if (!has_offset(x, k))
			continue;
		x->start[j] = since;
		insert(row, j, since, since + length_of(x, j));
		if (k % ORR_N_PASSES == ORR_PASS_F && x->timed->up[j].stashes)
			row->held[row->n_held++] = (struct piece){since, INT64_MAX, j};
	}
}

/* Stashes that have ended, since no F starts any more before `time`. */
static void forget(struct rigid *x, int64_t time)
{
	for (int w = 0; w < x->p->n_workers; w++) {
		struct row *row = &x->row[w];
		int n = 0;

		for (int i = 0; i < row->n_held; i++)
			if (row->held[i].until > time)
				row->held[n++] = row->held[i];
		row->n_held = n;
	}
}

/* Microbatch b at the time, with the Ws that memory needs; else the least that it must be later. */
static int64_t try_at(struct rigid *x, int b, int64_t time)
{
	memcpy(x->kept, x->start, (size_t)x->timed->jobs.n_jobs * sizeof(*x->kept));
	put_all(x, b, time);
	for (int w = 0; w < x->p->n_workers; w++)
		for (int i = 0; i < x->row[w].n_held; i++) {
			int64_t later = make_room(x, w, i);

			if (!later)
				continue;
			take_back(x);
			return later;
		}
	return 0;
}

static void run_weights(struct rigid *x)
{
	for (int w = 0; w < x->p->n_workers; w++)
		for (int i = 0; i < x->row[w].n_held; i++) {
			struct piece *stash = &x->row[w].held[i];
			int j = stash->job + (int)ORR_PASS_W;

			if (stash->until == INT64_MAX && x->start[j - 1] >= 0)
				run_weight(x, &x->row[w], stash, first_gap(x, &x->row[w], j));
		}
}

static bool is_kept_apart(const struct rigid *x, int b)
{
	int place = b % x->n_places;

	return (place + 1) * x->n_apart / x->n_places > place * x->n_apart / x->n_places;
}

/* All of them; false: one fits nowhere. */
static bool fill(struct rigid *x)
{
	int64_t time = 0;

	for (int w = 0; w < x->p->n_workers; w++)
		x->row[w].n_busy = x->row[w].n_held = 0;
	for (int j = 0; j < x->timed->jobs.n_jobs; j++)
		x->start[j] = -1;
	for (int b = 0; b < x->p->n_microbatches; b++) {
		int64_t later;
		int tries = 0;

		while ((later = collide(x, time)) || (later = try_at(x, b, time))) {
			if (later == INT64_MAX || ++tries > MOST_TRIES)
				return false;
			time += later;
		}
		forget(x, time);
		time += is_kept_apart(x, b) ? x->apart : 0;
	}
	run_weights(x);
	return true;
}

/* n by the starts, jobs of no length first; what does not exist is with F. */
static int visit(struct rigid *x, struct orr_searched *of)
{
	int64_t *n = of->searcher->tried;
	int n_jobs = x->timed->jobs.n_jobs, code;

	for (int j = 0; j < n_jobs; j++)
		n[j] = 2 * x->start[x->start[j] < 0 ? j - j % ORR_N_PASSES : j] +
		       (length_of(x, j) > 0);
	code = orr_rank(n, NULL, n_jobs, of->searcher->err);
	return code ? code : orr_searched_consider(of, false);
}

static int visit_all(struct rigid *x, struct orr_searched *of)
{
	int code = 0, n = x->n_places / MOST_PATTERNS + 1;

	for (x->n_apart = 0; x->n_apart <= x->n_places && !code; x->n_apart += n)
		if (orr_searched_is_open(of) && fill(x))
			code = visit(x, of);
	return code;
}

int orr_rigid_visit(struct orr_searched *of)
{
	const struct orr_timed *timed = of->timed;
	const struct orr_pipeline *p = of->searcher->p;
	struct rigid x = {.timed = timed,
			  .n_places = (int)smaller(of->searcher->most_stashes, p->n_microbatches),
			  .p = p,
			  .n_kinds = p->n_stages * ORR_N_PASSES};
	size_t n_jobs = (size_t)timed->jobs.n_jobs, n_kinds = (size_t)x.n_kinds;
	const int *first = timed->jobs.first;
	struct orr_arrays all = {0};
	struct piece *room; /* of all rows */
	int code;

	if (timed->jobs.most_at > 1 || timed->jobs.n_jobs > MOST_JOBS || orr_pipeline_gathers(p) ||
	    p->microbatches)
		return 0;
	orr_arrays_make(&all, x.kept, n_jobs);
	orr_arrays_make(&all, x.offset, n_kinds);
	orr_arrays_make(&all, x.length, n_kinds);
	orr_arrays_make(&all, x.start, n_jobs);
	orr_arrays_make(&all, x.row, p->n_workers);
	orr_arrays_make(&all, room, 2 * n_jobs);
	if ((code = orr_arrays_check(&all, "search", of->searcher->err)))
		return code;
	for (int w = 0; w < p->n_workers; w++) {
		x.row[w].busy = room + 2 * first[w];
		x.row[w].held = room + first[w] + first[w + 1];
	}
	for (int even = 0; even < 2 && !code; even++) {
		measure(&x, even);
		lay_out_one(&x);
		code = visit_all(&x, of);
	}
	orr_arrays_free(&all);
	return code;
}
