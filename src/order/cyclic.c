#include "cyclic.h"

#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "base/sort.h"

#define MORE_REPEATS 5  /* than are in flight: what one takes is seen in the last of them */
#define MOST_REPEATS 64 /* in flight */
#define LONGEST 4 /* times all microbatches come while one is on its way: none of them repeats */

void orr_cyclic_fini(struct orr_cyclic *c)
{
	orr_timed_destroy(c->timed);
	orr_arrays_free(&c->all);
}

static int n_kinds(const struct orr_cyclic *c)
{
	return c->p->n_stages * ORR_N_PASSES;
}

static int residue(const struct orr_cyclic *c, int b)
{
	return (int)modulo(b, c->k);
}

static void set(struct orr_cyclic *c, int w, int place, struct orr_again again)
{
	c->list[c->first[w] + place] = again;
	c->place[residue(c, again.b) * n_kinds(c) + again.kind] = place;
}

/* How long a repetition takes in the middle of an order: no shorter than keeps the microbatches of
 * every stage in order. */
static int64_t period_of(const struct orr_timed *timed, int k, int middle)
{
	int m = timed->jobs.pipeline->n_microbatches, each = timed->jobs.n_jobs / m, since = m / 4,
	    until = m - 1 - m / 4;
	int64_t period = timed->makespan_ns / m * k;

	if (until > since && timed->start[until * each] > timed->start[since * each])
		period = (timed->start[until * each] - timed->start[since * each]) * k /
			 (until - since);
	for (int i = 0; i < each; i++) {
		int64_t apart = timed->start[(middle + k - 1) * each + i] -
				timed->start[middle * each + i] + 1;

		period = larger(period, apart);
	}
	return larger(period, 1);
}

/* Twice the start of job j: what has no length goes before what starts with it. */
static int64_t start_of(const struct orr_timed *timed, int j)
{
	return 2 * timed->start[j] + (timed->jobs.duration_ns[j] > 0);
}

static void number_places(struct orr_cyclic *c)
{
	for (int w = 0; w < c->p->n_workers; w++)
		for (int i = c->first[w]; i < c->first[w + 1]; i++)
			set(c, w, i - c->first[w], c->list[i]);
}

/* Lists in the order of starts modulo the period; none where microbatches are on their way for so
 * long, by slow links, that lists would be run for more microbatches than there are. */
static int fill(struct orr_cyclic *c, const struct orr_timed *timed, struct orr_error *err)
{
	int n = c->k * n_kinds(c), middle = (c->p->n_microbatches - c->k) / 2 * n_kinds(c),
	    code = 0;
	int64_t period = 2 * period_of(timed, c->k, middle / n_kinds(c)), last = 0,
		first = INT64_MAX;
	struct orr_keyed *keyed = calloc((size_t)n, sizeof(*keyed));

	if (!keyed)
		return orr_no_memory(err, "search");
	for (int i = 0; i < n; i++) {
		int64_t at = start_of(timed, middle + i);

		if (!orr_jobs_has(&timed->jobs, middle + i))
			continue;
		keyed[c->n++] = (struct orr_keyed){modulo(at, period), i};
		c->first[timed->jobs.compute[middle + i] + 1]++;
		first = smaller(first, at);
		last = larger(last, at);
	}
	if ((last - first) / period > LONGEST * c->p->n_microbatches / c->k) {
		c->n = 0;
		goto out;
	}
	for (int w = 0; w < c->p->n_workers; w++)
		c->first[w + 1] += c->first[w];
	code = orr_sort(keyed, c->n, err);
	for (int i = 0; i < c->n && !code; i++) {
		int j = keyed[i].value, w = timed->jobs.compute[middle + j],
		    number = (int)floor_of(start_of(timed, middle + j), period);

		c->list[c->first[w]++] =
			(struct orr_again){j % n_kinds(c), j / n_kinds(c) - c->k * number};
	}
	memmove(c->first + 1, c->first, (size_t)c->p->n_workers * sizeof(*c->first));
	c->first[0] = 0;
	number_places(c);
out:
	free(keyed);
	return code;
}

/* The first and last microbatch of a list in one repetition. */
static void find_range(const struct orr_again *list, int n, int *least, int *most)
{
	*least = *most = list[0].b;
	for (int i = 1; i < n; i++) {
		*least = (int)smaller(*least, list[i].b);
		*most = (int)larger(*most, list[i].b);
	}
}

static int open_few(struct orr_cyclic *c, const struct orr_timed *timed, struct orr_error *err)
{
	int least, most, repeats, code, m = c->p->n_microbatches;
	int *worker = calloc((size_t)c->p->n_stages, sizeof(*worker));

	if (!worker)
		return orr_no_memory(err, "search");
	for (int s = 0; s < c->p->n_stages; s++)
		worker[s] = timed->jobs.compute[s * ORR_N_PASSES];

	find_range(c->list, c->n, &least, &most);
	repeats = (most - least) / c->k + 1;
	repeats = (repeats < MOST_REPEATS ? repeats : MOST_REPEATS) + MORE_REPEATS;
	c->few = *c->p;
	c->few.n_microbatches = repeats < m / c->k ? repeats * c->k : m;
	code = orr_timed_create(&c->timed, &c->few, worker, 1, ORR_N_PASSES, true, err);
	free(worker);
	if (code)
		return code;
	if ((code = orr_timed_park(c->timed, timed->parked, err)))
		return code;
	memcpy(c->timed->most, timed->most, (size_t)c->p->n_workers * sizeof(*timed->most));
	c->timed->seeks_span = timed->seeks_span;
	return 0;
}

int orr_cyclic_init(struct orr_cyclic *c, const struct orr_timed *timed, int k,
		    struct orr_error *err)
{
	size_t n = (size_t)k * (size_t)timed->jobs.pipeline->n_stages * ORR_N_PASSES;
	int code;

	*c = (struct orr_cyclic){.p = timed->jobs.pipeline, .k = k};
	orr_arrays_make(&c->all, c->first, (size_t)c->p->n_workers + 1);
	orr_arrays_make(&c->all, c->list, n);
	orr_arrays_make(&c->all, c->place, n);
	if ((code = orr_arrays_check(&c->all, "search", err)) || (code = fill(c, timed, err)))
		return code;
	return c->n ? open_few(c, timed, err) : 0;
}

int orr_cyclic_place(const struct orr_cyclic *c, int j)
{
	return c->place[j / n_kinds(c) % c->k * n_kinds(c) + j % n_kinds(c)];
}

static bool must_precede(struct orr_again x, struct orr_again y)
{
	return x.kind == y.kind ||
	       (x.b == y.b && x.kind < y.kind && x.kind / ORR_N_PASSES == y.kind / ORR_N_PASSES);
}

/* What is at a place and what comes next change places. */
static bool swap(struct orr_cyclic *c, int w, int place)
{
	int n = c->first[w + 1] - c->first[w], next = (place + 1) % n, later = next ? 0 : c->k;
	struct orr_again x = c->list[c->first[w] + place], y = c->list[c->first[w] + next];

	y.b += later; /* of the next repetition */
	if (must_precede(x, y))
		return false;
	x.b -= later;
	set(c, w, place, y);
	set(c, w, next, x);
	return true;
}

int orr_cyclic_shift(struct orr_cyclic *c, int w, int from, int steps)
{
	int n = c->first[w + 1] - c->first[w], done = 0;

	from = (from % n + n) % n;
	for (; done < steps && swap(c, w, from); done++)
		from = (from + 1) % n;
	for (; done > steps && swap(c, w, (from + n - 1) % n); done--)
		from = (from + n - 1) % n;
	return done;
}

static void run(struct orr_cyclic *c, int w)
{
	const struct orr_again *list = c->list + c->first[w];
	int n = c->first[w + 1] - c->first[w], m = c->few.n_microbatches, place = 0, least, most;

	if (!n)
		return;
	find_range(list, n, &least, &most);
	for (int now = (int)floor_of(-most, c->k) * c->k; now + least < m; now += c->k)
		for (int i = 0; i < n; i++)
			if (list[i].b + now >= 0 && list[i].b + now < m)
				orr_timed_put(c->timed, w, place++,
					      (list[i].b + now) * n_kinds(c) + list[i].kind);
}

void orr_cyclic_run(struct orr_cyclic *c, int w)
{
	for (int v = 0; v < c->p->n_workers; v++)
		if (w < 0 || v == w)
			run(c, v);
}

void orr_cyclic_take(struct orr_cyclic *c, const struct orr_again *list)
{
	memcpy(c->list, list, (size_t)c->n * sizeof(*list));
	number_places(c);
	orr_cyclic_run(c, -1);
}

int64_t orr_cyclic_estimate(const struct orr_cyclic *c)
{
	int last = c->few.n_microbatches - 1, before = last - 2 * c->k,
	    left = c->p->n_microbatches - c->few.n_microbatches;
	int64_t apart = 0;

	for (int s = 0; s < c->p->n_stages; s++) {
		int64_t now = c->timed->start[last * n_kinds(c) + s * ORR_N_PASSES] -
			      c->timed->start[before * n_kinds(c) + s * ORR_N_PASSES];

		apart = larger(apart, now);
	}
	return c->timed->sought_ns + apart * left / (2 * c->k);
}

void orr_cyclic_number(const struct orr_cyclic *c, int64_t *n)
{
	int m = c->p->n_microbatches, least, most;

	find_range(c->list, c->n, &least, &most);
	for (int j = 0; j < m * n_kinds(c); j++)
		n[j] = -1;
	for (int w = 0; w < c->p->n_workers; w++)
		for (int i = c->first[w]; i < c->first[w + 1]; i++)
			for (int b = residue(c, c->list[i].b); b < m; b += c->k)
				n[b * n_kinds(c) + c->list[i].kind] =
					(int64_t)(b - c->list[i].b + most) / c->k * c->n + i;
	for (int j = 0; j < m * n_kinds(c); j++)
		if (n[j] < 0) /* there is no such job: as F */
			n[j] = n[j - j % ORR_N_PASSES];
}
