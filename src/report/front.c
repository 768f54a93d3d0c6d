#include "front.h"

#include <stdlib.h>

#include "orrery/pipeline.h"
#include "orrery/search.h"

#define MOST_GUESSES 8 /* of the least memory; each is closer */
#define DIGITS 1000    /* values of sizes in between per power of ten */

struct point {
	int64_t limit, held, makespan_ns;
};

struct finder {
	const struct orr_front *front;
	struct orr_error *err;
	bool bytes;
	int64_t step; /* less memory more makes no difference: a stash, the smallest of them */
	struct point *points; /* [front->most] ascending by limit */
	int n, n_tried;
};

static void measure(struct finder *f)
{
	const struct orr_pipeline *p = f->front->p;

	for (int s = 0; s < p->n_stages && !p->machine.cluster; s++) {
		int64_t bytes = p->stages[s].stash_bytes;

		if (bytes > 0 && (!f->bytes || bytes < f->step))
			f->step = bytes;
		f->bytes = f->bytes || bytes > 0;
	}
	f->step = f->bytes ? f->step : 1;
}

/* A point more, unless there is no order. */
static int try_limit(struct finder *f, int64_t limit)
{
	struct point point = {.limit = limit};
	int code = f->front->visit(f->front->user, f->bytes, limit, &point.held, &point.makespan_ns,
				   f->err),
	    i;

	f->n_tried++;
	if (code || !point.held)
		return code;
	for (i = f->n++; i > 0 && f->points[i - 1].limit > limit; i--)
		f->points[i] = f->points[i - 1];
	f->points[i] = point;
	return 0;
}

/* What an order lacks that has `limit`; 0: nothing, or that is not why there is none. */
static int find_missing(const struct finder *f, int64_t limit, int64_t *missing)
{
	const struct orr_pipeline *p = f->front->p;
	const struct orr_search_options options = {.stashes = f->bytes ? 0 : limit,
						   .memory_bytes = f->bytes ? limit : 0};
	struct orr_search_result result = {0};
	int *worker = calloc((size_t)p->n_stages, sizeof(*worker)), code;
	int64_t *n =
		calloc((size_t)p->n_stages * (size_t)p->n_microbatches * ORR_N_PASSES, sizeof(*n));

	if (!worker || !n)
		code = orr_fail(f->err, ORR_E_NOMEM, "front: no memory");
	else
		code = orr_search(worker, n, &result, p, &options, f->err);
	free(worker);
	free(n);
	*missing = result.missing;
	return code == ORR_E_INPUT ? 0 : code;
}

static int find_least(const struct finder *f, int64_t *least)
{
	int64_t missing = 1;
	int code = 0;

	*least = 0;
	for (int i = 0; i < MOST_GUESSES && missing > 0 && !code; i++) {
		*least += missing;
		code = find_missing(f, *least, &missing);
	}
	return code;
}

static int64_t middle(const struct finder *f, int64_t low, int64_t high)
{
	int64_t at = low + (high - low) / 2, unit = 1, round;

	while (f->bytes && at / unit >= DIGITS)
		unit *= 10;
	round = at / unit * unit;
	return round > low ? round : at;
}

/* Where the front is least known: the limits between two points, times what the second is shorter.
 * With within_ns, between those points alone that are longer and no longer. 0: nowhere. */
static int64_t choose(const struct finder *f)
{
	int64_t within_ns = f->front->within_ns, shortest = INT64_MAX, limit = 0;
	double most = 0;

	for (int i = 0; i + 1 < f->n; i++) {
		const struct point *low = &f->points[i], *high = low + 1;
		double area;

		shortest = low->makespan_ns < shortest ? low->makespan_ns : shortest;
		if (high->makespan_ns >= shortest || high->held - low->limit <= f->step ||
		    (within_ns && (shortest <= within_ns || high->makespan_ns > within_ns)))
			continue;
		area = (double)(high->held - low->limit) * (double)(shortest - high->makespan_ns);
		if (area > most) {
			most = area;
			limit = middle(f, low->limit, high->held);
		}
	}
	return limit;
}

int orr_front_visit(const struct orr_front *front, struct orr_error *err)
{
	struct finder f = {.front = front, .err = err};
	int64_t least, most, limit;
	int code;

	measure(&f);
	if (!(f.points = calloc((size_t)front->most, sizeof(*f.points))))
		return orr_fail(err, ORR_E_NOMEM, "front: no memory");
	if (!(code = find_least(&f, &least)))
		code = try_limit(&f, least);
	/* in bytes, parameters come on top of the stashes */
	most = f.bytes ? least + front->stash_bytes : front->stashes;
	if (!code && most > least)
		code = try_limit(&f, most);
	while (!code && f.n_tried < front->most && (limit = choose(&f)))
		code = try_limit(&f, limit);
	free(f.points);
	return code;
}
