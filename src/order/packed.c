#include "starts.h"

#include <string.h>

#include "base/arrays.h"
#include "base/max.h"

#define MOST_CELLS 4096 /* of a period */
#define MOST_LONGER 4   /* cells more than the busiest worker needs */
#define TRIES 400       /* packings of each period */
#define STEPS 40        /* placements of a job, evictions included, in one of them */

/* A kind of job is a pass of a stage: number s * ORR_N_PASSES + d. */
struct packer {
	const struct orr_timed *timed;
	const struct orr_pipeline *p;
	int n_kinds, period;
	int64_t cell_ns;
	uint64_t random;
	int *length;        /* [n_kinds] cells; 0: no such job, or it is apart */
	int *height;        /* [n_kinds] cells from its start to the end of what follows */
	int *start, *tried; /* [n_kinds] a cell, -1: not placed; and where it was last */
	int *taken;         /* [n_workers * period] 1 + a kind; 0: free */
	int *best;          /* [n_kinds] starts of the best packing */
	int latency;        /* of that, INT32_MAX: none */
	struct orr_arrays all;
};

static int draw(struct packer *x, int range)
{
	/* not base/random.h: its packings of published placements are as often longer as shorter */
	x->random = x->random * 6364136223846793005u + 1442695040888963407u;
	return (int)((x->random >> 33) % (uint64_t)range);
}

/* Does kind k run in the period? */
static bool is_packed(const struct packer *x, int k)
{
	return orr_jobs_has(&x->timed->jobs, k) && !orr_gang_is_apart(x->p, k / ORR_N_PASSES);
}

/* Lengths in cells, and the least period; false: too fine a grid. */
static bool measure(struct packer *x)
{
	const struct orr_jobs *jobs = &x->timed->jobs;
	int64_t most = 0;

	x->cell_ns = 0;
	for (int k = 0; k < x->n_kinds; k++)
		if (is_packed(x, k))
			x->cell_ns = common_divisor(x->timed->jobs.duration_ns[k], x->cell_ns);
	for (int w = 0; w < x->p->n_workers && x->cell_ns; w++) {
		int64_t busy = 0;

		for (int k = 0; k < x->n_kinds; k++)
			if (is_packed(x, k) && orr_jobs_number_at(jobs, k, w) >= 0)
				busy += x->timed->jobs.duration_ns[k] / x->cell_ns;
		if (busy > MOST_CELLS)
			return false;
		most = larger(most, busy);
	}
	for (int k = 0; k < x->n_kinds && x->cell_ns; k++)
		x->length[k] =
			is_packed(x, k) ? (int)(x->timed->jobs.duration_ns[k] / x->cell_ns) : 0;
	x->period = (int)most;
	return most > 0;
}

/* Jobs of microbatch 0 have the dependencies of every one; a later job has a higher number along F
 * and a lower stage along B: so often over all is enough. */
static void find_heights(struct packer *x)
{
	const struct orr_timed *t = x->timed;

	memcpy(x->height, x->length, (size_t)x->n_kinds * sizeof(*x->height));
	for (bool changed = true; changed;) {
		changed = false;
		for (int k = 0; k < x->n_kinds; k++)
			for (int i = t->first_after[k]; i < t->first_after[k + 1]; i++) {
				int h = x->length[k] + x->height[t->after[i]];

				changed = changed || h > x->height[k];
				x->height[k] = (int)larger(x->height[k], h);
			}
	}
}

/* Put kind k at a cell, or with `put` false take it away. */
static void mark(struct packer *x, int k, int at, bool put)
{
	const struct orr_jobs *jobs = &x->timed->jobs;

	for (int i = 0; i < orr_jobs_n_at(jobs, k); i++) {
		int *row = x->taken + orr_jobs_worker(jobs, k, i) * x->period;

		for (int c = 0; c < x->length[k]; c++)
			row[(at + c) % x->period] = put ? k + 1 : 0;
	}
	x->start[k] = put ? at : -1;
}

static bool is_free(const struct packer *x, int k, int at)
{
	const struct orr_jobs *jobs = &x->timed->jobs;

	for (int i = 0; i < orr_jobs_n_at(jobs, k); i++) {
		const int *row = x->taken + orr_jobs_worker(jobs, k, i) * x->period;

		for (int c = 0; c < x->length[k]; c++)
			if (row[(at + c) % x->period])
				return false;
	}
	return true;
}

/* What is where k is to go, and what would have to start before k ends. */
static void evict(struct packer *x, int k, int at)
{
	const struct orr_jobs *jobs = &x->timed->jobs;
	const struct orr_timed *t = x->timed;

	for (int i = 0; i < orr_jobs_n_at(jobs, k); i++) {
		const int *row = x->taken + orr_jobs_worker(jobs, k, i) * x->period;

		for (int c = 0; c < x->length[k]; c++) {
			int other = row[(at + c) % x->period] - 1;

			if (other >= 0)
				mark(x, other, x->start[other], false);
		}
	}
	for (int i = t->first_after[k]; i < t->first_after[k + 1]; i++) {
		int after = t->after[i];

		if (x->start[after] >= 0 && x->start[after] < at + x->length[k])
			mark(x, after, x->start[after], false);
	}
}

/* Of those that have no place the one with most to follow it; now and then another. */
static int choose(struct packer *x)
{
	int best = -1, most = -1;

	for (int k = 0; k < x->n_kinds; k++) {
		int h = x->height[k] + (x->length[k] ? draw(x, 3) : 0);

		if (x->length[k] && x->start[k] < 0 && h > most) {
			most = h;
			best = k;
		}
	}
	return best;
}

static void place(struct packer *x, int k)
{
	const struct orr_timed *t = x->timed;
	int from = 0, at, skip = draw(x, 4) == 0;

	for (int i = t->first_before[k]; i < t->first_before[k + 1]; i++) {
		int before = t->before[i];

		if (x->start[before] >= 0)
			from = (int)larger(from, x->start[before] + x->length[before]);
	}
	for (at = from; at < from + x->period; at++)
		if (is_free(x, k, at) && skip-- <= 0)
			break;
	if (at == from + x->period) { /* not the place that it had to leave */
		at = (int)larger(from, x->tried[k] + 1);
		at = at > from + 2 * x->period ? from + draw(x, x->period) : at;
	}
	evict(x, k, at);
	mark(x, k, at, true);
	x->tried[k] = at;
}

/* As late as what waits for it allows: a stash is kept from then on. */
static void put_off(struct packer *x)
{
	const struct orr_timed *t = x->timed;

	for (int s = x->p->n_stages - 1; s >= 0; s--) {
		int k = s * ORR_N_PASSES, at = INT32_MAX, from = x->start[k];

		for (int i = t->first_after[k]; i < t->first_after[k + 1] && x->length[k]; i++)
			if (x->length[t->after[i]])
				at = (int)smaller(at, x->start[t->after[i]] - x->length[k]);
		if (at == INT32_MAX)
			continue;
		mark(x, k, from, false);
		while (at > from && !is_free(x, k, at))
			at--;
		mark(x, k, at, true);
	}
}

/* Stashes of stage s at once in cell c of the period: of every microbatch that it has one of. */
static int64_t count_held(const struct packer *x, int s, int c)
{
	const int *start = x->start + s * ORR_N_PASSES;
	int last = (int)orr_jobs_last_pass(&x->timed->jobs, s), since = start[0],
	    until = start[last] + x->length[s * ORR_N_PASSES + last];
	int first = since + ((c - since) % x->period + x->period) % x->period; /* such a cell */

	return last && first < until ? (until - 1 - first) / x->period + 1 : 0;
}

static bool fits(const struct packer *x)
{
	const struct orr_timed *t = x->timed;

	for (int w = 0; w < x->p->n_workers; w++)
		for (int c = 0; c < x->period; c++) {
			struct orr_load load = {0, 0};

			for (int s = 0; s < x->p->n_stages; s++) {
				int k = s * ORR_N_PASSES;

				if (x->length[k] && orr_jobs_number_at(&t->jobs, k, w) >= 0)
					load = orr_load_sum(load, t->up[k], count_held(x, s, c));
			}
			if (orr_load_exceeds(load, t->most[w]))
				return false;
		}
	return true;
}

/* One packing; keep it if it fits, and a microbatch passes sooner. */
static void pack(struct packer *x)
{
	int left = STEPS * x->n_kinds, k, first = INT32_MAX, last = 0;

	for (k = 0; k < x->n_kinds; k++)
		x->start[k] = x->tried[k] = -1;
	memset(x->taken, 0, (size_t)x->p->n_workers * (size_t)x->period * sizeof(*x->taken));
	while ((k = choose(x)) >= 0 && left-- > 0)
		place(x, k);
	if (k >= 0)
		return;
	put_off(x);
	for (k = 0; k < x->n_kinds; k++)
		if (x->length[k]) {
			first = (int)smaller(first, x->start[k]);
			last = (int)larger(last, x->start[k] + x->length[k]);
		}
	if (last - first >= x->latency || !fits(x))
		return;
	x->latency = last - first;
	memcpy(x->best, x->start, (size_t)x->n_kinds * sizeof(*x->best));
}

static int visit(const struct packer *x, struct orr_searched *of)
{
	int m = x->p->n_microbatches;
	int64_t all = ((int64_t)x->latency + (int64_t)x->period * m + 1) * x->n_kinds;

	for (int j = 0; j < x->n_kinds * m; j++) {
		int k = j % x->n_kinds, b = j / x->n_kinds, d = k % ORR_N_PASSES;
		int64_t turn = (int64_t)b * x->n_kinds + k, cell;

		/* what does not exist is with F */
		cell = (int64_t)x->best[x->length[k] ? k : k - d] + (int64_t)b * x->period;
		of->searcher->tried[j] =
			!orr_gang_is_apart(x->p, k / ORR_N_PASSES) ? cell * x->n_kinds + k
			: d ? (1 + d) * 2 * all + turn /* its Bs at the end, and then its Ws */
			    : turn - all;
	}
	return orr_searched_consider(of, false);
}

static int pack_all(struct packer *x, struct orr_searched *of)
{
	int least = x->period, code = 0;
	size_t most = (size_t)least + MOST_LONGER;

	find_heights(x);
	orr_arrays_make(&x->all, x->taken, (size_t)x->p->n_workers * most);
	if ((code = orr_arrays_check(&x->all, "search", of->searcher->err)))
		return code;
	for (; x->period <= least + MOST_LONGER && !code; x->period++) {
		x->latency = INT32_MAX;
		for (int i = 0; i < TRIES; i++)
			pack(x);
		if (x->latency < INT32_MAX)
			code = visit(x, of);
	}
	return code;
}

int orr_packed_visit(struct orr_searched *of)
{
	const struct orr_pipeline *p = of->searcher->p;
	struct packer x = {
		.timed = of->timed, .p = p, .random = 1, .n_kinds = p->n_stages * ORR_N_PASSES};
	size_t n = (size_t)x.n_kinds;
	int code;

	if (of->timed->jobs.most_at < 2 || orr_pipeline_gathers(p))
		return 0;
	orr_arrays_make(&x.all, x.length, n);
	orr_arrays_make(&x.all, x.height, n);
	orr_arrays_make(&x.all, x.start, n);
	orr_arrays_make(&x.all, x.tried, n);
	orr_arrays_make(&x.all, x.best, n);
	if ((code = orr_arrays_check(&x.all, "search", of->searcher->err)))
		return code;
	if (measure(&x))
		code = pack_all(&x, of);
	orr_arrays_free(&x.all);
	return code;
}
