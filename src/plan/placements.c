/* A placement is looked at in three ways, each dearer than the one before: by a bound, by the
 * orders that a search starts from, and by the search itself, for those that did well. */
#include "plan_draft.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/random.h"
#include "base/hash.h"
#include "order/place.h"
#include "orrery/pipeline.h"
#include "orrery/search.h"

#define MOST_PLACES 3000 /* are tried, every one of them, where there are no more */
#define MOST_JOBS 600000 /* of placements that are tried, all together */
#define POOL 72          /* placements that a search improves, */
#define POOL_AT_LEAST 4
#define JOBS_OF_POOL 20000 /* of all of them together: fewer where steps are long */
#define N_SEEDS 12         /* searches of each, */
#define FEW_SEEDS 2        /* or, where there are few jobs, which have few orders: */
#define FEW_JOBS 30
#define N_STARTS 4      /* placements to start from */
#define MOST_KICKS 1000 /* from the best placement to one nearby */

struct candidate {
	int64_t makespan_ns; /* INT64_MAX: none yet */
	int64_t bound_ns;
	int *worker;
};

struct searching {
	const struct orr_places *places;
	const struct orr_pipeline *p;
	int n_stages, n_workers, n_jobs;
	bool alike; /* workers may change their names */
	uint64_t random;
	int *seen;        /* [n_seen()] a set of rows */
	int *rows;        /* [most * n_stages] the placements that were tried */
	int n_rows, most; /* most: placements that may be tried */
	int n_left;
	int64_t least_bound_ns;      /* of all that were tried or left out */
	struct candidate pool[POOL]; /* ascending */
	int64_t best_ns;             /* of a whole search, or what is known */
	int *best;                   /* its placement */
	int64_t *best_n, *n;         /* [n_jobs] its order, and room for another */
	int *now, *named, *kept;     /* [n_stages] room */
	bool found;
	int code; /* of the first failure: nothing is tried after it */
	struct orr_error *err;
	struct orr_arrays all;
};

static int64_t draw(struct searching *x, int range)
{
	return orr_random_below(&x->random, range);
}

/* Those that differ in the names of workers alone are one. */
static void name(const struct searching *x, int *named, const int *worker)
{
	int next = 0;

	for (int s = 0; s < x->n_stages; s++) {
		int t = 0;

		while (x->alike && t < s && worker[t] != worker[s])
			t++;
		named[s] = !x->alike ? worker[s] : t < s ? named[t] : next++;
	}
}

static size_t n_seen(const struct searching *x)
{
	return 4 * (size_t)x->most + 7;
}

/* Has this placement been tried? If not, it is from now on. */
static bool is_seen(struct searching *x, const int *named)
{
	size_t n = (size_t)x->n_stages, bytes = n * sizeof(*named);
	int *place = orr_set_find(x->seen, n_seen(x), x->rows, named, bytes);

	if (*place)
		return true;
	memcpy(x->rows + (size_t)x->n_rows * n, named, bytes);
	*place = ++x->n_rows;
	return false;
}

/* x->n: the order that a search of this effort finds. *makespan_ns INT64_MAX: nothing fits. */
static void look(struct searching *x, const int *worker, int64_t effort, int64_t seed,
		 int64_t *makespan_ns, int64_t *bound_ns)
{
	struct orr_search_options options = {.memory_bytes = x->places->memory_bytes,
					     .placement = ORR_PLACEMENT_GIVEN,
					     .worker = worker,
					     .effort = effort,
					     .seed = seed};
	struct orr_search_result result = {0};
	int code = orr_search(NULL, x->n, &result, x->p, &options, x->err);

	*makespan_ns = code ? INT64_MAX : result.makespan_ns;
	*bound_ns = code ? INT64_MAX : result.bound_ns;
	x->code = code == ORR_E_INPUT ? 0 : code; /* it does not fit */
}

static void take(struct searching *x, const int *worker, int64_t makespan_ns)
{
	if (makespan_ns >= x->best_ns)
		return;
	x->best_ns = makespan_ns;
	x->found = true;
	memcpy(x->best, worker, (size_t)x->n_stages * sizeof(*worker));
	memcpy(x->best_n, x->n, (size_t)x->n_jobs * sizeof(*x->n));
}

/* Number `at` of the pool goes before those that are longer. */
static void rise(struct searching *x, int at)
{
	struct candidate risen = x->pool[at];

	for (; at > 0 && risen.makespan_ns < x->pool[at - 1].makespan_ns; at--)
		x->pool[at] = x->pool[at - 1];
	x->pool[at] = risen;
}

static void add_to_pool(struct searching *x, const int *worker, int64_t makespan_ns,
			int64_t bound_ns)
{
	struct candidate *last = &x->pool[POOL - 1];

	if (makespan_ns >= last->makespan_ns)
		return;
	memcpy(last->worker, worker, (size_t)x->n_stages * sizeof(*worker));
	*last = (struct candidate){makespan_ns, bound_ns, last->worker};
	rise(x, POOL - 1);
}

/* All passes of a stage's microbatches on worker w. */
static int64_t work_of(const struct orr_pipeline *p, int s, int w)
{
	int64_t sum = 0;

	for (int b = 0; b < p->n_microbatches; b++)
		for (int d = 0; d < ORR_N_PASSES; d++)
			if (orr_pipeline_has_pass(p, s, (enum orr_pass)d, true))
				sum += orr_pipeline_job_ns(p, s, b, (enum orr_pass)d, w, true);
	return sum;
}

/* m microbatches of the busiest worker's work. */
static int64_t load_ns(const struct searching *x, const int *worker)
{
	int64_t most = 0;

	for (int w = 0; w < x->n_workers; w++) {
		int64_t sum = 0;

		for (int s = 0; s < x->n_stages; s++)
			sum += worker[s] == w ? work_of(x->p, s, w) : 0;
		most = larger(most, sum);
	}
	return most;
}

/* Try a placement that is new: its makespan as a search starts, or INT64_MAX. */
static int64_t visit(struct searching *x, const int *worker)
{
	int64_t value, bound_ns, least_ns;

	name(x, x->named, worker);
	if (x->n_left <= 0 || x->code || is_seen(x, x->named))
		return INT64_MAX;
	x->n_left--;
	least_ns = load_ns(x, x->named);
	if (least_ns >= x->best_ns)
		return INT64_MAX;
	look(x, x->named, 0, 1, &value, &bound_ns);
	if (value == INT64_MAX) /* what was not found may be there */
		bound_ns = least_ns;
	x->least_bound_ns = smaller(x->least_bound_ns, bound_ns);
	if (value == INT64_MAX || bound_ns >= x->best_ns)
		return value;
	take(x, x->named, value);
	add_to_pool(x, x->named, value, bound_ns);
	return value;
}

/* ---- all of them ---- */

/* The placement after this one; false: it was the last. */
static bool next_place(const struct searching *x, int *worker)
{
	for (int s = x->n_stages - 1; s >= 0; s--) {
		int64_t most = x->alike ? 0 : x->n_workers - 1;

		for (int t = 0; t < s && x->alike; t++)
			most = larger(most, worker[t] + 1);
		if (worker[s] < smaller(most, x->n_workers - 1)) {
			worker[s]++;
			return true;
		}
		worker[s] = 0;
	}
	return false;
}

/* Are there no more placements than this? */
static bool are_few(const struct searching *x, int most)
{
	int n = 0;

	memset(x->now, 0, (size_t)x->n_stages * sizeof(*x->now));
	do
		n++;
	while (n <= most && next_place(x, x->now));
	return n <= most;
}

static void try_all(struct searching *x)
{
	memset(x->now, 0, (size_t)x->n_stages * sizeof(*x->now));
	do
		(void)visit(x, x->now);
	while (!x->code && next_place(x, x->now));
}

/* ---- some of them ---- */

/* One move or swap of stages of x->now, number i of an order that a stride decides. */
static void change(const struct searching *x, int *worker, int i)
{
	int n_moves = x->n_stages * x->n_workers, a, b, w;

	if (i < n_moves) {
		worker[i / x->n_workers] = i % x->n_workers;
		return;
	}
	a = (i - n_moves) / x->n_stages;
	b = (i - n_moves) % x->n_stages;
	w = worker[a];
	worker[a] = worker[b];
	worker[b] = w;
}

/* Take every change of x->now that helps, until none does. */
static void descend(struct searching *x)
{
	int n = x->n_stages * (x->n_workers + x->n_stages), *worker = x->now;
	size_t size = (size_t)x->n_stages * sizeof(*worker);
	int64_t value = visit(x, worker), changed;

	for (int i = 0, at = (int)draw(x, n); i < n && x->n_left > 0; i++) {
		memcpy(x->kept, worker, size);
		change(x, worker, at);
		at = at + 1 < n ? at + 1 : 0;
		changed = visit(x, worker);
		if (changed < value) {
			value = changed;
			i = -1;
		} else {
			memcpy(worker, x->kept, size);
		}
	}
}

/* Number i of the placements to start from. */
static void start_at(struct searching *x, int i)
{
	if (i == 0 && x->places->from)
		memcpy(x->now, x->places->from, (size_t)x->n_stages * sizeof(*x->now));
	else if (i < 3)
		orr_place_in_turn(x->now, x->p, i == 2);
	else
		x->code = orr_place_evenly(x->now, x->p, ORR_PLACE_STEPS, x->err);
}

static void try_some(struct searching *x)
{
	for (int i = 0; i < N_STARTS && !x->code && x->n_left > 0; i++) {
		start_at(x, i);
		descend(x);
	}
	for (int i = 0; i < MOST_KICKS && !x->code && x->n_left > 0 && x->found; i++) {
		memcpy(x->now, x->pool[draw(x, 3)].worker, (size_t)x->n_stages * sizeof(*x->now));
		for (int k = 0; k < 3; k++)
			change(x, x->now, (int)draw(x, x->n_stages * (x->n_workers + x->n_stages)));
		descend(x);
	}
}

/* ---- the best of them ---- */

/* Search the order of the first n of the pool, each time from another seed; those that change are
 * sorted in again. */
static void improve(struct searching *x, int n, int round)
{
	int64_t seed = (x->places->seed - 1) * N_SEEDS + round + 1, value, bound_ns;

	for (int i = 0; i < n && !x->code; i++) {
		struct candidate *c = &x->pool[i];

		if (c->makespan_ns == INT64_MAX || c->bound_ns >= x->best_ns)
			continue;
		look(x, c->worker, 1, seed, &value, &bound_ns);
		take(x, c->worker, value);
		c->makespan_ns = smaller(c->makespan_ns, value);
		rise(x, i);
	}
}

static int search(struct searching *x, struct orr_places_found *found)
{
	int n = JOBS_OF_POOL / x->n_jobs;

	n = (int)smaller(larger(n, POOL_AT_LEAST), POOL);
	found->all = are_few(x, x->most);
	if (found->all)
		try_all(x);
	else
		try_some(x);
	found->n_tried = x->most - x->n_left;
	for (int round = 0; round < (x->n_jobs > FEW_JOBS ? N_SEEDS : FEW_SEEDS); round++)
		improve(x, round == 0 ? n : round < 4 ? n / 2 : n / 12 + 1, round);
	return x->code;
}

/* ---- a bound on all placements ---- */

static int64_t bound_of_all(const struct orr_pipeline *p)
{
	double sum = 0;

	if (p->machine.cluster) /* what a job takes is another time on each */
		return 0;
	for (int s = 0; s < p->n_stages; s++)
		sum += (double)work_of(p, s, 0);
	return (int64_t)(sum / orr_machine_speeds(&p->machine) * (1 - 1e-12));
}

static int searching_init(struct searching *x, const struct orr_places *places,
			  struct orr_error *err)
{
	const struct orr_pipeline *p = places->p;
	size_t n_stages = (size_t)p->n_stages,
	       n_jobs = n_stages * (size_t)p->n_microbatches * ORR_N_PASSES;
	int *workers, code;

	*x = (struct searching){.places = places,
				.p = p,
				.n_stages = p->n_stages,
				.n_workers = p->n_workers,
				.n_jobs = (int)n_jobs,
				.alike = !p->machine.cluster && p->machine.levels.n < 2,
				.random = (uint64_t)places->seed,
				.least_bound_ns = INT64_MAX,
				.best_ns = places->known_ns ? places->known_ns : INT64_MAX,
				.most = (int)(MOST_JOBS / n_jobs) + 1,
				.err = err};
	x->most = (int)smaller(x->most, MOST_PLACES);
	x->n_left = x->most;
	orr_arrays_make(&x->all, x->seen, n_seen(x));
	orr_arrays_make(&x->all, x->rows, (size_t)x->most * n_stages);
	orr_arrays_make(&x->all, x->best_n, n_jobs);
	orr_arrays_make(&x->all, x->n, n_jobs);
	orr_arrays_make(&x->all, workers, (POOL + 4) * n_stages);
	x->best = workers;
	if ((code = orr_arrays_check(&x->all, "plan", err)))
		return code;
	x->now = workers + n_stages;
	x->named = workers + 2 * n_stages;
	x->kept = workers + 3 * n_stages;
	for (size_t i = 0; i < POOL; i++)
		x->pool[i] = (struct candidate){INT64_MAX, 0, workers + (4 + i) * n_stages};
	return 0;
}

int orr_places_search(int *worker, int64_t *n, struct orr_places_found *found,
		      const struct orr_places *places, struct orr_error *err)
{
	const struct orr_pipeline *p = places->p;
	struct searching x;
	int code = searching_init(&x, places, err);

	*found = (struct orr_places_found){0};
	if (code || (code = search(&x, found)))
		goto out;
	found->bound_ns = bound_of_all(p);
	if (found->all) /* those that were left out are no shorter than the best */
		found->bound_ns = larger(found->bound_ns, smaller(x.least_bound_ns, x.best_ns));
	if (x.found) {
		found->makespan_ns = x.best_ns;
		memcpy(worker, x.best, (size_t)p->n_stages * sizeof(*worker));
		memcpy(n, x.best_n, (size_t)x.n_jobs * sizeof(*n));
	}
out:
	orr_arrays_free(&x.all);
	return code;
}
