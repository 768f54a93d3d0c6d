/* The schedules on a V fold. They lay stages out in a row by number, which suits every DAG, since
 * stages are numbered topologically; squeezing lets branches run side by side. */
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "base/sort.h"
#include "direct.h"
#include "order/timed.h"
#include "order/fold.h"

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_stages == 2 * p->n_workers)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"a V fold puts two stages on every worker: %d stages need %d workers%s, "
			"and there are %d ([workers], [stages])",
			p->n_stages, (p->n_stages + 1) / 2,
			p->n_stages % 2 ? " and one stage more" : "", p->n_workers);
}

/* data: the published block. */
static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	struct orr_block block;
	int code = orr_fold_init(&block, p, true, err);

	if (!code) {
		orr_fold_publish(&block, *(const enum orr_fold *)data);
		code = orr_block_lay_out(&block, 0, out->n, NULL, err);
	}
	orr_arrays_free(&block.all);
	return code;
}

/* V-Min: a third of 1F1B's memory. Passes that do not last equally long cost it a bubble per
 * microbatch [Qi24, section 3.3]. */
const struct orr_schedule orr_schedule_v_min = {
	.name = "v-min",
	.summary = "V fold, split backward: a third of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.split_backward = true,
	.check = check,
	.compute = orr_compute_folded,
	.place = place,
	.data = &(const enum orr_fold){ORR_FOLD_V_MIN},
};

/* V-Half: half of 1F1B's memory. No bubble grows with the microbatches while tW + 2tB >= 2tF and
 * tW + 2tF >= 2tB [Qi24, appendix E.1]. */
const struct orr_schedule orr_schedule_v_half = {
	.name = "v-half",
	.summary = "V fold, split backward: half of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.split_backward = true,
	.check = check,
	.compute = orr_compute_folded,
	.place = place,
	.data = &(const enum orr_fold){ORR_FOLD_V_HALF},
};

/* V-ZB: no bubble but the staggered start, in 1F1B's memory. */
const struct orr_schedule orr_schedule_v_zb = {
	.name = "v-zb",
	.summary = "V fold, split backward: 1f1b's memory and next to no bubble",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.split_backward = true,
	.check = check,
	.compute = orr_compute_folded,
	.place = place,
	.data = &(const enum orr_fold){ORR_FOLD_V_ZB},
};

/* ---- a search over the building blocks of the V fold under a memory limit [Qi24, appendix A] ----
 */

#define CELLS 6         /* T: F, B and W of two stages */
#define N_DELTAS 15     /* pairs d0, d1 >= 1 with d0 + d1 <= 6, where the memory is 1F1B's */
#define ROOM 4096       /* blocks that are ranked */
#define SQUEEZED 500000 /* jobs that are squeezed, over all blocks */
#define FILLED 30000    /* jobs that are reordered as well */

/* d0 and d1 on the first k workers, d0 and d1 on the others, and where F1, B1 and B0 of worker 0
 * lie modulo T if F0 lies at 0; F0 and B0 are of its first stage, F1 and B1 of its second. */
struct offsets {
	int k, low, high; /* of deltas[] */
	int f1, b1, b0;
};

struct search {
	const struct orr_pipeline *p;
	struct orr_error *err;
	int64_t stashes;
	int64_t deltas[N_DELTAS][2];
	struct offsets found[ROOM];
	struct orr_keyed ranked[ROOM];
	int n_found;
	struct orr_block block;
	struct orr_timed *timed;
	int64_t *n, makespan, span; /* the best so far; span 0: none */
	int64_t least;              /* stashes that the smallest block needs */
};

static int64_t next_cell(int64_t t, int64_t cell)
{
	return t + 1 + modulo(cell - t - 1, CELLS);
}

/* From one worker's starts to the next one's: later down the fold, and earlier up. */
static void step(const struct search *search, const struct offsets *o, int i, int64_t *cell)
{
	const int64_t *d = search->deltas[i < o->k ? o->low : o->high];

	cell[0] += d[0];
	cell[1] -= d[1];
	cell[2] += d[0];
	cell[3] -= d[1];
}

static bool keeps_apart(const struct search *search, const struct offsets *o)
{
	int64_t cell[4] = {0, o->f1, o->b1, o->b0};

	for (int i = 0; i < search->p->n_workers; i++) {
		unsigned cells = 0;

		if (i > 0)
			step(search, o, i, cell);
		for (int pass = 0; pass < 4; pass++)
			cells |= 1U << modulo(cell[pass], CELLS);
		if (__builtin_popcount(cells) < 4)
			return false;
	}
	return true;
}

/* How long F takes down the first half, and how long up the second. */
static void measure(const struct search *search, const struct offsets *o, int64_t *down,
		    int64_t *up)
{
	int64_t n = search->p->n_workers - 1, low = o->k > n ? n : o->k > 0 ? o->k - 1 : 0;

	*down = low * search->deltas[o->low][0] + (n - low) * search->deltas[o->high][0];
	*up = low * search->deltas[o->low][1] + (n - low) * search->deltas[o->high][1];
}

/* The starts of worker 0, as early as the offsets let them be. */
static void anchor(const struct search *search, const struct offsets *o, int64_t *cell)
{
	int64_t down, up;

	measure(search, o, &down, &up);
	cell[0] = 0;
	cell[1] = next_cell(down, o->f1 - up) + up;
	cell[2] = next_cell(cell[1], o->b1);
	cell[3] = next_cell(cell[2] + down, o->b0 - up) + up;
}

/* Of the permutations of worker 0, the one whose stashes live shortest; -1 where all collide. */
static int64_t find_permutation(const struct search *search, struct offsets *o)
{
	struct offsets tried = *o;
	int64_t least = -1;

	for (int way = 0; way < 5 * 5 * 5; way++) {
		int64_t cell[4], held;

		tried.f1 = 1 + way / 25;
		tried.b1 = 1 + way / 5 % 5;
		tried.b0 = 1 + way % 5;
		if (tried.f1 == tried.b1 || tried.f1 == tried.b0 || tried.b1 == tried.b0)
			continue;
		anchor(search, &tried, cell);
		held = cell[3] - cell[0] + cell[2] - cell[1];
		if ((least >= 0 && held >= least) || !keeps_apart(search, &tried))
			continue;
		least = held;
		*o = tried;
	}
	return least;
}

/* Every pair of pairs, and every worker where the one gives way to the other. Those that fill the
 * memory are the ones to try first. */
static int rank(struct search *search)
{
	int n_workers = search->p->n_workers;

	for (int low = 0; low < N_DELTAS; low++)
		for (int high = 0; high < N_DELTAS; high++)
			for (int k = low == high ? n_workers : 2;
			     k <= (low == high ? n_workers : n_workers - 1); k++) {
				struct offsets o = {k, low, high, 0, 0, 0};
				int64_t down, up, held;

				measure(search, &o, &down, &up);
				if (2 * (down + up) >= CELLS * search->stashes ||
				    search->n_found == ROOM)
					continue;
				held = find_permutation(search, &o);
				if (held < 0 || held >= CELLS * search->stashes)
					continue;
				search->ranked[search->n_found] =
					(struct orr_keyed){-held, search->n_found};
				search->found[search->n_found++] = o;
			}
	return search->n_found ? orr_sort(search->ranked, search->n_found, search->err) : 0;
}

/* Stashes on the worker that holds most, as block after block starts; n microbatches hold no more
 * than all of theirs. */
static int64_t hold(const struct search *search)
{
	const struct orr_block *block = &search->block;
	int64_t most = 0, all = 2 * (int64_t)search->p->n_microbatches;

	for (int i = 0; i < search->p->n_workers; i++)
		for (int64_t t = 0; t < CELLS; t++) {
			int64_t held = 0;

			for (int k = 0; k < 2; k++) {
				int f = 3 * (k ? block->n_stages - 1 - i : i);
				held += floor_of(t - block->start[f], CELLS) -
					floor_of(t - block->start[f + ORR_PASS_W] - 1, CELLS);
			}
			most = larger(most, held);
		}
	return smaller(most, all);
}

/* Repeat and squeeze the block. Does it fit? */
static int squeeze(struct search *search, bool *fits)
{
	int64_t held;
	int code;

	*fits = false;
	if ((code = orr_block_fill(&search->block, search->err)))
		return code;
	held = hold(search);
	search->least = smaller(search->least, held);
	if (held > search->stashes)
		return 0;
	if ((code = orr_block_repeat(search->timed, &search->block, search->err)))
		return code;
	*fits = true;
	return 0;
}

/* Reorder the squeezed orders, within their own memory or within the limit, and keep the best. */
static int reorder(struct search *search, bool own)
{
	struct orr_timed *timed = search->timed;
	int code;

	for (int w = 0; w < search->p->n_workers && !own; w++)
		timed->most[w] = (struct orr_load){search->stashes, INT64_MAX};
	if ((code = orr_reorder(timed, search->p->n_stages * ORR_N_PASSES, search->err)))
		return code;
	if (search->span &&
	    (timed->makespan_ns > search->makespan ||
	     (timed->makespan_ns == search->makespan && timed->span_ns >= search->span)))
		return 0;
	search->makespan = timed->makespan_ns;
	search->span = timed->span_ns;
	return orr_timed_number(timed, search->n, search->err);
}

static int try_published(struct search *search)
{
	bool fits = false;
	int code = 0;

	for (int which = 0; which < ORR_N_FOLDS && !code; which++) {
		orr_fold_publish(&search->block, (enum orr_fold)which);
		if (!(code = squeeze(search, &fits)) && fits)
			code = reorder(search, true);
	}
	return code;
}

static int squeeze_found(struct search *search, const struct offsets *o, bool *fits)
{
	int64_t cell[4];

	anchor(search, o, cell);
	for (int i = 0; i < search->p->n_workers; i++) {
		if (i > 0)
			step(search, o, i, cell);
		orr_fold_set(&search->block, i, cell);
	}
	return squeeze(search, fits);
}

static int bounded(int value, int low, int high)
{
	return (int)larger(low, smaller(value, high));
}

static int try_found(struct search *search)
{
	int n_jobs = search->timed->jobs.n_jobs, n_fit = 0, code = 0;
	int n_squeezed = bounded(SQUEEZED / n_jobs, 8, ROOM),
	    n_filled = bounded(FILLED / n_jobs, 1, ROOM);
	bool fits = false;

	for (int i = 0; i < search->n_found && n_fit < n_squeezed; i++) {
		int which = search->ranked[i].value;

		if ((code = squeeze_found(search, &search->found[which], &fits)))
			return code;
		if (fits) /* n_fit <= i: what is written was read */
			search->ranked[n_fit++] =
				(struct orr_keyed){search->timed->makespan_ns, which};
	}
	if (n_fit && (code = orr_sort(search->ranked, n_fit, search->err)))
		return code;
	for (int i = 0; i < n_fit && i < n_filled; i++)
		if ((code = squeeze_found(search, &search->found[search->ranked[i].value],
					  &fits)) ||
		    (code = reorder(search, false)))
			return code;
	return 0;
}

/* n of every job of the shortest order found in which no worker holds more than `stashes` stage
 * stashes, with the pipeline's own durations. Never longer than V-Min, V-Half or V-ZB, where these
 * fit. Its work is bounded: a larger step has fewer blocks tried on it. */
static int adapt(const struct orr_pipeline *p, int64_t stashes, int64_t *n, struct orr_error *err)
{
	struct search *search = calloc(1, sizeof(*search));
	int code, pairs = 0;

	if (!search)
		return orr_no_memory(err, "adaptive");
	search->p = p;
	search->err = err;
	search->stashes = stashes;
	search->n = n;
	search->least = INT64_MAX;
	for (int d0 = 1; d0 < CELLS; d0++)
		for (int d1 = 1; d0 + d1 <= CELLS; d1++, pairs++) {
			search->deltas[pairs][0] = d0;
			search->deltas[pairs][1] = d1;
		}
	if ((code = orr_fold_init(&search->block, p, true, err)) ||
	    (code = orr_timed_create(&search->timed, p, search->block.worker, 1, ORR_N_PASSES,
				     false, err)) ||
	    (code = try_published(search)) || (code = rank(search)) || (code = try_found(search)))
		goto out;
	if (!search->span)
		code = orr_fail(err, ORR_E_INPUT,
				"adaptive: nothing fits %lld stage stashes on a worker, the "
				"smallest block holds %lld: give memory=%lld or more",
				(long long)stashes, (long long)search->least,
				(long long)search->least);
out:
	orr_timed_destroy(search->timed);
	orr_arrays_free(&search->block.all);
	free(search);
	return code;
}

/* The shortest order of the V fold that a search over building blocks finds in a given memory. */
static const struct orr_parameter parameters[] = {
	{"memory",
	 "stage stashes that a worker may hold; 0: as many as there are stages, which is 1f1b's "
	 "memory",
	 ORR_PARAMETER_STASHES, 0, 1 << 20, 0, NULL},
	{0},
};

static int adaptive_place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
			  struct orr_error *err)
{
	int64_t memory = ((const struct orr_value *)data)->integer;

	return adapt(p, memory ? memory : p->n_stages, out->n, err);
}

const struct orr_schedule orr_schedule_adaptive = {
	.name = "adaptive",
	.summary = "V fold, split backward: the shortest building block found for a memory limit",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix A",
	.split_backward = true,
	.parameters = parameters,
	.check = check,
	.compute = orr_compute_folded,
	.place = adaptive_place,
};

/* 1F1B on a V fold: two thirds of 1F1B's memory without splitting the backward, and less of a
 * bubble. [Qi24, appendix H] draws the block and does not list it; this one is derived. Forward
 * passes are one cell apart. B takes 2 cells, and the two forward passes of a worker leave room for
 * two Bs: Bs follow each other at once, but every third waits 3 cells, so that a worker's Bs stay 3
 * apart modulo 6. The stages of a worker live for 8P cells together: 8P/6 stage stashes, two thirds
 * of P whole ones. Which B is the first to wait, and whether the first of all does, is tried: two
 * ways of six do not collide. */

/* When B runs after `hops` others, if the first waits `gap` and is the phase-th of three. */
static int64_t backward(int64_t P, int64_t hops, int64_t gap, int64_t phase)
{
	return 2 * P + gap + 2 * hops + 3 * ((hops + phase) / 3);
}

static int place_1f1b_v(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
			struct orr_error *err)
{
	size_t size = (size_t)p->n_stages * (size_t)p->n_microbatches * 2 * sizeof(*out->n);
	int64_t P = p->n_workers, peak = 2 * (2 * P / 3 + 1), best_ns = INT64_MAX, makespan_ns;
	int64_t *tried = malloc(size);
	struct orr_block block = {0};
	int code = tried ? orr_fold_init(&block, p, false, err) : orr_no_memory(err, "1f1b-v");

	(void)data;
	for (int way = 0; !code && way < 6; way++) {
		int64_t gap = way % 2 * 3, phase = way / 2;

		for (int64_t i = 0; i < P; i++)
			orr_fold_set(&block, (int)i,
				     (const int64_t[]){i, 2 * P - 1 - i, backward(P, i, gap, phase),
						       backward(P, 2 * P - 1 - i, gap, phase)});
		if ((code = orr_block_fill(&block, err)) == ORR_E_INPUT) {
			code = way < 5 || best_ns < INT64_MAX ? 0 : code;
			continue;
		}
		if (!code)
			code = orr_block_lay_out(&block, peak, tried, &makespan_ns, err);
		if (!code && makespan_ns < best_ns) {
			best_ns = makespan_ns;
			memcpy(out->n, tried, size);
		}
	}
	orr_arrays_free(&block.all);
	free(tried);
	return code;
}

const struct orr_schedule orr_schedule_1f1b_v = {
	.name = "1f1b-v",
	.summary = "V fold, whole backward: two thirds of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix H",
	.check = check,
	.compute = orr_compute_folded,
	.place = place_1f1b_v,
};
