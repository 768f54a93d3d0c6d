#include "starts.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
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
	struct orr_error *err;
	int n_kinds;     /* of jobs: a pass of a stage each, numbers as of microbatch 0 */
	int64_t apart;   /* the work of a stage: of every n_places microbatches, so many as this */
	int n_apart;     /* are so far from the next one at least, evenly spread */
	int n_places;    /* microbatches in flight, about */
	int64_t *length; /* [n_kinds] of jobs */
	int64_t *offset; /* [n_kinds] from the start of a microbatch */
	int64_t *start;  /* [n_jobs] */
	struct row *row; /* [n_workers] */
	struct piece *room; /* of all rows */
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
		int64_t *most = &longest[k % ORR_N_PASSES];

		x->length[k] = x->timed->duration[k];
		*most = x->length[k] > *most ? x->length[k] : *most;
	}
	for (int k = 0; k < x->n_kinds && even; k++)
		x->length[k] = longest[k % ORR_N_PASSES];
	x->apart = longest[ORR_PASS_F] + longest[ORR_PASS_B] + longest[ORR_PASS_W];
}

/* ---- one microbatch alone ---- */

/* The first time from `since` on at which job k overlaps none of those placed. */
static int64_t first_free(const struct rigid *x, int k, const bool *there, int64_t since)
{
	const int64_t *length = x->length;
	bool moved = true;

	while (moved) {
		moved = false;
		for (int i = 0; i < x->n_kinds; i++) {
			struct piece piece = {x->offset[i], x->offset[i] + length[i], i};

			if (i != k && there[i] && worker_of(x, i) == worker_of(x, k) &&
			    !is_apart(since, since + length[k], &piece)) {
				since = piece.until;
				moved = true;
			}
		}
	}
	return since;
}

static void place_one(struct rigid *x, bool *there, int k)
{
	const struct orr_timed *t = x->timed;
	int64_t since = 0;

	if (!orr_jobs_has(&t->jobs, k))
		return;
	for (int i = t->first_before[k]; i < t->first_before[k + 1]; i++) {
		int before = t->before[i];
		int64_t end = x->offset[before] + x->length[before] + orr_timed_delay(t, before, k);

		since = there[before] && end > since ? end : since;
	}
	x->offset[k] = first_free(x, k, there, since);
	there[k] = true;
}

/* F of stage s as late as those that wait for it allow: its stash is held from then on. */
static void put_off(struct rigid *x, const bool *there, int s)
{
	const struct orr_timed *t = x->timed;
	int k = s * ORR_N_PASSES;
	int64_t since = INT64_MAX;

	for (int i = t->first_after[k]; i < t->first_after[k + 1] && there[k]; i++) {
		int after = t->after[i];
		int64_t latest = x->offset[after] - x->length[k] - orr_timed_delay(t, k, after);

		since = there[after] && latest < since ? latest : since;
	}
	if (since < INT64_MAX && since > x->offset[k] && first_free(x, k, there, since) == since)
		x->offset[k] = since;
}

static void lay_out_one(struct rigid *x, bool *there)
{
	memset(there, 0, (size_t)x->n_kinds * sizeof(*there));
	for (int s = 0; s < x->p->n_stages; s++)
		place_one(x, there, s * ORR_N_PASSES);
	for (int s = x->p->n_stages - 1; s >= 0; s--)
		place_one(x, there, s * ORR_N_PASSES + (int)ORR_PASS_B);
	for (int s = x->p->n_stages - 1; s >= 0; s--)
		put_off(x, there, s);
}

/* ---- rows ---- */

static void insert(struct row *row, int job, int64_t since, int64_t until)
{
	int i = row->n_busy++;

	for (; i > 0 && row->busy[i - 1].since > since; i--)
		row->busy[i] = row->busy[i - 1];
	row->busy[i] = (struct piece){since, until, job};
}

/* Take everything of microbatch b away again, and of the Ws of others what was put after `ws`. */
static void take_back(struct rigid *x, int b, const int64_t *ws)
{
	for (int w = 0; w < x->p->n_workers; w++) {
		struct row *row = &x->row[w];
		int n = 0;

		for (int i = 0; i < row->n_busy; i++) {
			int j = row->busy[i].job;

			if (j / x->n_kinds != b && (j % ORR_N_PASSES != ORR_PASS_W || ws[j] >= 0))
				row->busy[n++] = row->busy[i];
		}
		row->n_busy = n;
		for (n = 0; n < row->n_held && row->held[n].job / x->n_kinds != b; n++)
			if (ws[row->held[n].job + (int)ORR_PASS_W] < 0)
				row->held[n].until = INT64_MAX;
		row->n_held = n;
	}
	memcpy(x->start, ws, (size_t)x->timed->jobs.n_jobs * sizeof(*ws));
}

/* When W of a stash could run first. */
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

/* What is held while stash i begins. */
static struct orr_load load_at(const struct rigid *x, const struct row *row, int i)
{
	struct orr_load load = {0, 0};
	int64_t now = row->held[i].since;

	for (int k = 0; k < row->n_held; k++)
		if (row->held[k].since <= now && now < row->held[k].until) {
			load.stashes += x->timed->up[row->held[k].job].stashes;
			load.bytes += x->timed->up[row->held[k].job].bytes;
		}
	return load;
}

/* Make room for stash i by the W that can run first; 0: there is, or else how much too late. */
static int64_t make_room(struct rigid *x, int w, int i)
{
	struct row *row = &x->row[w];
	const struct orr_load *most = &x->timed->most[w];
	struct orr_load load;

	while (load = load_at(x, row, i),
	       load.stashes > most->stashes || load.bytes > most->bytes) {
		struct piece *best = NULL;
		int64_t soonest = INT64_MAX;

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
		soonest += length_of(x, best->job + (int)ORR_PASS_W);
		if (soonest > row->held[i].since)
			return soonest - row->held[i].since;
		run_weight(x, row, best, soonest - length_of(x, best->job + (int)ORR_PASS_W));
	}
	return 0;
}

/* ---- all microbatches ---- */

/* By how much later than `time` a microbatch must come at least, for its Fs and Bs to fit. */
static int64_t collide(const struct rigid *x, int64_t time)
{
	int64_t later = 0;

	for (int k = 0; k < x->n_kinds; k++) {
		const struct row *row = &x->row[worker_of(x, k)];
		int64_t since = time + x->offset[k], until = since + x->length[k];

		if (k % ORR_N_PASSES == ORR_PASS_W || !orr_jobs_has(&x->timed->jobs, k))
			continue;
		for (int i = row->n_busy - 1; i >= 0 && row->busy[i].until > since; i--)
			if (!is_apart(since, until, &row->busy[i]) &&
			    row->busy[i].until - since > later)
				later = row->busy[i].until - since;
	}
	return later;
}

static void put_all(struct rigid *x, int b, int64_t time)
{
	for (int k = 0; k < x->n_kinds; k++) {
		int j = b * x->n_kinds + k;
		struct row *row = &x->row[worker_of(x, k)];
		int64_t since = time + x->offset[k];

		if (k % ORR_N_PASSES == ORR_PASS_W || !orr_jobs_has(&x->timed->jobs, k))
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

/* Microbatch b at the time, with the Ws that memory needs; else how much later it may be, at
 * least. */
static int64_t try_at(struct rigid *x, int b, int64_t time, int64_t *ws)
{
	memcpy(ws, x->start, (size_t)x->timed->jobs.n_jobs * sizeof(*ws));
	put_all(x, b, time);
	for (int w = 0; w < x->p->n_workers; w++)
		for (int i = 0; i < x->row[w].n_held; i++) {
			int64_t later = make_room(x, w, i);

			if (!later)
				continue;
			take_back(x, b, ws);
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
static bool fill(struct rigid *x, int64_t *ws)
{
	int64_t time = 0;

	for (int w = 0; w < x->p->n_workers; w++)
		x->row[w].n_busy = x->row[w].n_held = 0;
	for (int j = 0; j < x->timed->jobs.n_jobs; j++)
		x->start[j] = -1;
	for (int b = 0; b < x->p->n_microbatches; b++) {
		int64_t later;
		int tries = 0;

		while ((later = collide(x, time)) || (later = try_at(x, b, time, ws))) {
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

/* Jobs by their starts, those of no length first; what does not exist is with F. */
static int number(const struct rigid *x, int64_t *n)
{
	int n_jobs = x->timed->jobs.n_jobs, code;
	struct orr_keyed *keyed = malloc((size_t)n_jobs * sizeof(*keyed));

	if (!keyed)
		return orr_fail(x->err, ORR_E_NOMEM, "search: no memory for %d jobs", n_jobs);
	for (int j = 0; j < n_jobs; j++)
		keyed[j] = (struct orr_keyed){
			2 * x->start[x->start[j] < 0 ? j - j % ORR_N_PASSES : j] +
				(length_of(x, j) > 0),
			j};
	if (!(code = orr_sort(keyed, n_jobs, x->err)))
		for (int i = 0; i < n_jobs; i++)
			n[keyed[i].value] = i;
	free(keyed);
	return code;
}

static int visit(struct rigid *x, struct orr_starts *starts, int64_t *ws)
{
	bool fits;
	int code;

	if (!fill(x, ws))
		return 0;
	code = number(x, starts->n);
	return code ? code : starts->visit(starts->user, &fits);
}

static int visit_all(struct rigid *x, struct orr_starts *starts, int64_t *ws)
{
	int code = 0, n = x->n_places / MOST_PATTERNS + 1;

	for (x->n_apart = 0; x->n_apart <= x->n_places && !code; x->n_apart += n)
		if (starts->wanted(starts->user))
			code = visit(x, starts, ws);
	return code;
}

static int allocate(struct rigid *x, struct orr_arrays *all)
{
	size_t n_jobs = (size_t)x->timed->jobs.n_jobs, n_workers = (size_t)x->p->n_workers;

	x->offset = orr_arrays_add(all, (size_t)x->n_kinds, sizeof(*x->offset));
	x->length = orr_arrays_add(all, (size_t)x->n_kinds, sizeof(*x->length));
	x->start = orr_arrays_add(all, n_jobs, sizeof(*x->start));
	x->row = orr_arrays_add(all, n_workers, sizeof(*x->row));
	x->room = orr_arrays_add(all, 2 * n_jobs, sizeof(*x->room));
	if (all->failed)
		return orr_fail(x->err, ORR_E_NOMEM, "search: no memory for %zu jobs", n_jobs);
	for (size_t w = 0; w < n_workers; w++) {
		x->row[w].busy = x->room + 2 * x->timed->jobs.first[w];
		x->row[w].held = x->room + x->timed->jobs.first[w] + x->timed->jobs.first[w + 1];
	}
	return 0;
}

int orr_rigid_visit(struct orr_starts *starts, const struct orr_timed *timed, struct orr_error *err)
{
	struct rigid x = {.timed = timed,
			  .n_places = starts->stashes < starts->p->n_microbatches
					      ? (int)starts->stashes
					      : starts->p->n_microbatches,
			  .p = starts->p,
			  .err = err,
			  .n_kinds = starts->p->n_stages * ORR_N_PASSES};
	struct orr_arrays all = {0};
	int64_t *ws;
	bool *there;
	int code;

	if (timed->jobs.most_at > 1 || timed->jobs.n_jobs > MOST_JOBS ||
	    orr_pipeline_gathers(x.p) || x.p->microbatches)
		return 0;
	ws = orr_arrays_add(&all, (size_t)timed->jobs.n_jobs, sizeof(*ws));
	there = orr_arrays_add(&all, (size_t)x.n_kinds, sizeof(*there));
	code = allocate(&x, &all);
	for (int even = 0; even < 2 && !code; even++) {
		measure(&x, even);
		lay_out_one(&x, there);
		code = visit_all(&x, starts, ws);
	}
	orr_arrays_free(&all);
	return code;
}
