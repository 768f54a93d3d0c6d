/* Jobs are put down in the order of their starts, each as early as those before it allow: that is
 * every order in which nothing waits without a reason. Microbatches are alike, so the first stage
 * takes them by number. */
#include "exact_order.h"

#include <string.h>

struct finder {
	struct exact_order *x;
	int n_stages, n_jobs, n_left;
	int before[EXACT_JOBS][EXACT_STAGES + 1], n_before[EXACT_JOBS];
	int64_t lag[EXACT_JOBS][EXACT_STAGES + 1];
	int64_t length[EXACT_JOBS];
	int64_t tail[EXACT_STAGES][EXACT_JOBS]; /* from its start to the end of what is after it on
						   a worker; -1: nothing */
	int64_t start[EXACT_JOBS];              /* -1: not yet */
	int64_t first[EXACT_STAGES], free[EXACT_STAGES], rest[EXACT_STAGES]; /* of workers */
	int64_t stashes[EXACT_STAGES], bytes[EXACT_STAGES];
	int left[EXACT_STAGES]; /* weight gradients of a stage until its update */
};

static int stage_of(const struct finder *f, int j)
{
	return j / ORR_N_PASSES % f->n_stages;
}

static void add_before(struct finder *f, int j, int before)
{
	const struct exact_order *x = f->x;
	bool apart = x->worker[stage_of(f, j)] != x->worker[stage_of(f, before)];

	f->before[j][f->n_before[j]] = before;
	f->lag[j][f->n_before[j]++] = apart ? x->p->machine.latency_ns : 0;
}

static void add_job(struct finder *f, int j)
{
	const struct orr_pipeline *p = f->x->p;
	const struct orr_stage *stage = &p->stages[stage_of(f, j)];
	int d = j % ORR_N_PASSES, first = j - j % (ORR_N_PASSES * f->n_stages);

	f->length[j] = d == ORR_PASS_F   ? stage->forward_ns
		       : d == ORR_PASS_B ? stage->backward_ns
					 : stage->weight_ns;
	f->start[j] = -1;
	f->rest[f->x->worker[stage_of(f, j)]] += f->length[j];
	if (d != ORR_PASS_F)
		add_before(f, j, j - 1);
	for (int e = 0; e < p->n_edges; e++)
		if (d == ORR_PASS_F && p->edges[e].to == stage_of(f, j))
			add_before(f, j, first + p->edges[e].from * ORR_N_PASSES);
		else if (d == ORR_PASS_B && p->edges[e].from == stage_of(f, j))
			add_before(f, j, first + p->edges[e].to * ORR_N_PASSES + ORR_PASS_B);
}

/* Tails to the jobs of worker w: they grow until no edge makes them longer. */
static void find_tails(struct finder *f, int w)
{
	int64_t *tail = f->tail[w];
	bool changed = true;

	for (int j = 0; j < f->n_jobs; j++)
		tail[j] = f->x->worker[stage_of(f, j)] != w
				  ? -1
				  : f->length[j] +
					    (j % ORR_N_PASSES == ORR_PASS_W
						     ? f->x->p->stages[stage_of(f, j)].update_ns
						     : 0);
	while (changed) {
		changed = false;
		for (int j = 0; j < f->n_jobs; j++)
			for (int i = 0; i < f->n_before[j]; i++) {
				int k = f->before[j][i];
				int64_t more = f->length[k] + f->lag[j][i] + tail[j];

				if (tail[j] < 0 || more <= tail[k])
					continue;
				changed = true;
				tail[k] = more;
			}
	}
}

/* When j could start; -1: not before another one that is not there yet. */
static int64_t ready_at(const struct finder *f, int j)
{
	int64_t time = 0;

	if (!stage_of(f, j) && j % ORR_N_PASSES == ORR_PASS_F && j &&
	    f->start[j - f->n_stages * ORR_N_PASSES] < 0)
		return -1;
	for (int i = 0; i < f->n_before[j]; i++) {
		int k = f->before[j][i];
		int64_t end = f->start[k] + f->length[k] + f->lag[j][i];

		if (f->start[k] < 0)
			return -1;
		time = end > time ? end : time;
	}
	return time;
}

static bool fits(const struct finder *f, int j)
{
	int s = stage_of(f, j), w = f->x->worker[s];

	return j % ORR_N_PASSES != ORR_PASS_F ||
	       (f->stashes[w] < f->x->stashes[w] &&
		f->bytes[w] + f->x->p->stages[s].stash_bytes <= f->x->bytes[w]);
}

/* Can what is left still be shorter than the best? */
static bool is_hopeless(const struct finder *f, int64_t last)
{
	const struct exact_order *x = f->x;

	for (int w = 0; w < x->p->n_workers; w++) {
		int64_t since = x->seeks_span ? f->first[w] : 0;
		int64_t from = f->free[w] > last || since < 0 ? f->free[w] : last;

		if (f->rest[w] && from + f->rest[w] - (since < 0 ? f->free[w] : since) >=
					  (x->seeks_span ? x->span : x->makespan))
			return true;
	}
	for (int j = 0; j < f->n_jobs; j++) {
		int64_t ready = f->start[j] < 0 ? ready_at(f, j) : -1;
		int64_t from = ready > last ? ready : last;

		for (int w = 0; w < x->p->n_workers && ready >= 0; w++)
			if (f->tail[w][j] >= 0 &&
			    (x->seeks_span ? f->first[w] >= 0 &&
						     from + f->tail[w][j] - f->first[w] >= x->span
					   : from + f->tail[w][j] >= x->makespan))
				return true;
	}
	return false;
}

/* Put j down, or with `back` take it up again. */
static void put(struct finder *f, int j, int64_t start, bool back)
{
	const struct orr_stage *stage = &f->x->p->stages[stage_of(f, j)];
	int w = f->x->worker[stage_of(f, j)], sign = back ? -1 : 1;

	f->rest[w] -= sign * f->length[j];
	f->n_left -= sign;
	f->start[j] = back ? -1 : start;
	if (j % ORR_N_PASSES == ORR_PASS_B)
		return;
	sign = j % ORR_N_PASSES == ORR_PASS_F ? sign : -sign;
	f->stashes[w] += sign;
	f->bytes[w] += sign * stage->stash_bytes;
}

static void note(struct finder *f)
{
	struct exact_order *x = f->x;
	int64_t makespan = 0, span = 0;

	for (int w = 0; w < x->p->n_workers; w++) {
		makespan = f->free[w] > makespan ? f->free[w] : makespan;
		span = f->free[w] - f->first[w] > span ? f->free[w] - f->first[w] : span;
	}
	x->makespan = !x->seeks_span && makespan < x->makespan ? makespan : x->makespan;
	x->span = x->seeks_span && span < x->span ? span : x->span;
}

static void branch(struct finder *f, int64_t last)
{
	if (++f->x->n_nodes > f->x->most_nodes || (f->n_left && is_hopeless(f, last)))
		return;
	if (!f->n_left)
		note(f);
	for (int j = 0; j < f->n_jobs; j++) {
		int s = stage_of(f, j), w = f->x->worker[s];
		int64_t start, free = f->free[w], first = f->first[w];

		if (f->start[j] >= 0 || !fits(f, j) || (start = ready_at(f, j)) < 0)
			continue;
		start = start > free ? start : free;
		if (start < last)
			continue;
		put(f, j, start, false);
		f->free[w] = start + f->length[j];
		f->first[w] = first < 0 ? start : first;
		if (j % ORR_N_PASSES == ORR_PASS_W && !--f->left[s])
			f->free[w] += f->x->p->stages[s].update_ns;
		branch(f, start);
		f->left[s] += j % ORR_N_PASSES == ORR_PASS_W;
		put(f, j, start, true);
		f->free[w] = free;
		f->first[w] = first;
	}
}

bool exact_order_find(struct exact_order *x)
{
	struct finder f = {.x = x, .n_stages = x->p->n_stages};

	f.n_jobs = f.n_left = f.n_stages * x->p->n_microbatches * ORR_N_PASSES;
	for (int w = 0; w < EXACT_STAGES; w++)
		f.first[w] = -1;
	for (int s = 0; s < f.n_stages; s++)
		f.left[s] = x->p->n_microbatches;
	for (int j = 0; j < f.n_jobs; j++)
		add_job(&f, j);
	for (int w = 0; w < x->p->n_workers; w++)
		find_tails(&f, w);
	branch(&f, 0);
	return x->n_nodes <= x->most_nodes;
}
