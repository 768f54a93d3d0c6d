/* For a microbatch as large as the largest on every stage. All forwards before any backward hold
 * most, and fit as a rule. Where they do not, a shortest path
 * is looked for: its nodes are the sets of jobs that are done, its length the fullest that any
 * worker was. W follows its B at once. */
#include "smallest.h"

#include <string.h>

#include "base/arrays.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/max.h"
#include "schedule/gang_order.h"

#define MOST_STATES 20000
#define MOST_STAGES 2048 /* with more, a path is too long to look for */

struct state {
	int64_t excess;   /* of the fullest worker, so far */
	int parent, move; /* the state before, and the job that led here; -1: none */
	int n_done;
	bool closed;
};

struct finder {
	const struct orr_timed *timed;
	const struct orr_pipeline *p;
	struct orr_error *err;
	int64_t least; /* no order has less excess */
	int n_words, n_states;
	struct state *states;  /* [MOST_STATES] */
	uint64_t *done;        /* [MOST_STATES * n_words] a bit a job; B stands for W too */
	int *table;            /* [2 * MOST_STATES] states by the set of jobs done, + 1 */
	struct orr_load *load; /* [n_workers] of the state at hand */
	/* [n_stages * ORR_N_PASSES] the largest of all microbatches */
	struct orr_load *up, *down;
	struct orr_heap open;
};

static bool is_done(const uint64_t *done, int s, enum orr_pass d)
{
	int bit = 2 * s + (d == ORR_PASS_B);

	return done[bit / 64] >> (bit % 64) & 1;
}

static void set_done(uint64_t *done, int s, enum orr_pass d)
{
	int bit = 2 * s + (d == ORR_PASS_B);

	done[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static int64_t excess_of(const struct finder *f, int w, struct orr_load load)
{
	const struct orr_load *most = &f->timed->most[w];

	return larger(most->stashes < INT64_MAX ? load.stashes - most->stashes : INT64_MIN,
		      most->bytes < INT64_MAX ? load.bytes - most->bytes : INT64_MIN);
}

/* The excess of the fullest worker of job (s, d) while it runs. */
static int64_t excess_during(const struct finder *f, int s, enum orr_pass d)
{
	const struct orr_jobs *jobs = &f->timed->jobs;
	struct orr_load up = f->up[s * ORR_N_PASSES + (int)d];
	int64_t most = INT64_MIN;

	for (int i = 0; i < orr_jobs_n_at(jobs, s * ORR_N_PASSES); i++) {
		int w = orr_jobs_worker(jobs, s * ORR_N_PASSES, i);

		most = larger(most, excess_of(f, w, orr_load_sum(f->load[w], up, 1)));
	}
	return most;
}

static void run(struct finder *f, int s, enum orr_pass d)
{
	const struct orr_jobs *jobs = &f->timed->jobs;
	const struct orr_load *up = &f->up[s * ORR_N_PASSES + (int)d],
			      *down = &f->down[s * ORR_N_PASSES + ORR_PASS_W];

	for (int i = 0; i < orr_jobs_n_at(jobs, s * ORR_N_PASSES); i++) {
		struct orr_load *load = &f->load[orr_jobs_worker(jobs, s * ORR_N_PASSES, i)];

		*load = orr_load_sum(*load, *up, 1);
		if (d == ORR_PASS_B)
			*load = orr_load_sum(*load, *down, -1);
	}
}

static void clear(struct finder *f)
{
	memset(f->load, 0, (size_t)f->p->n_workers * sizeof(*f->load));
}

static void number_weights(const struct finder *f, int64_t *n)
{
	for (int s = 0; s < f->p->n_stages; s++)
		n[s * ORR_N_PASSES + ORR_PASS_W] = n[s * ORR_N_PASSES + ORR_PASS_B] + 1;
}

/* All forwards, then all backwards from the last stage on. */
static int64_t try_plain(struct finder *f, int64_t *n)
{
	int n_stages = f->p->n_stages;
	int64_t most = INT64_MIN;

	clear(f);
	for (int i = 0; i < 2 * n_stages; i++) {
		enum orr_pass d = i < n_stages ? ORR_PASS_F : ORR_PASS_B;
		int s = i < n_stages ? i : 2 * n_stages - 1 - i;

		most = larger(most, excess_during(f, s, d));
		run(f, s, d);
		n[s * ORR_N_PASSES + (int)d] = i < n_stages ? i : 2 * i - n_stages;
	}
	number_weights(f, n);
	return most;
}

/* As the forward of any stage starts, all whose gradients come back from there is held: most where
 * none comes back to the stage itself. */
static void find_least(struct finder *f, bool *leads)
{
	const struct orr_pipeline *p = f->p;

	f->least = INT64_MIN;
	for (int sink = 0; sink < p->n_stages; sink++) {
		if (p->stages[sink].n_out && !p->edges[p->stages[sink].out[0]].detached)
			continue;
		clear(f);
		orr_stages_leading(leads, p, sink);
		for (int s = sink; s >= 0; s--)
			if (leads[s])
				run(f, s, ORR_PASS_F);
		for (int w = 0; w < p->n_workers; w++)
			f->least = larger(f->least, excess_of(f, w, f->load[w]));
	}
}

/* ---- the path ---- */

static uint64_t *done_of(const struct finder *f, int state)
{
	return f->done + (size_t)state * (size_t)f->n_words;
}

/* The place in the table of the state with these jobs done, or a free one. */
static int *look_up(const struct finder *f, const uint64_t *done)
{
	return orr_set_find(f->table, (size_t)2 * MOST_STATES, f->done, done,
			    (size_t)f->n_words * sizeof(*done));
}

static bool is_ready(const struct finder *f, const uint64_t *done, int s, enum orr_pass d)
{
	const struct orr_stage *stage = &f->p->stages[s];

	if (is_done(done, s, d) || (d == ORR_PASS_B && !is_done(done, s, ORR_PASS_F)))
		return false;
	for (int i = 0; i < stage->n_in && d == ORR_PASS_F; i++)
		if (!is_done(done, orr_stage_before(f->p, s, i), d))
			return false;
	for (int i = 0; i < stage->n_out && d == ORR_PASS_B; i++)
		if (!f->p->edges[stage->out[i]].detached &&
		    !is_done(done, orr_stage_after(f->p, s, i), d))
			return false;
	return true;
}

/* The state after job (s, d): a new one, or one that is reached with less now. The deeper first. */
static int reach(struct finder *f, int from, int s, enum orr_pass d)
{
	uint64_t *done = done_of(f, f->n_states); /* there is always room for one more */
	int64_t excess = excess_during(f, s, d);
	struct state *state;
	int *place;

	excess = larger(excess, f->states[from].excess);
	memcpy(done, done_of(f, from), (size_t)f->n_words * sizeof(*done));
	set_done(done, s, d);
	place = look_up(f, done);
	if (!*place) {
		f->states[f->n_states++].excess = INT64_MAX;
		*place = f->n_states;
	}
	state = &f->states[*place - 1];
	if (state->excess <= excess)
		return 0;
	*state = (struct state){.excess = excess,
				.parent = from,
				.move = s * ORR_N_PASSES + (int)d,
				.n_done = f->states[from].n_done + 1};
	return orr_heap_push(&f->open, excess, -state->n_done, *place - 1, f->err);
}

static void load_state(struct finder *f, const uint64_t *done)
{
	clear(f);
	for (int s = 0; s < f->p->n_stages; s++)
		if (is_done(done, s, ORR_PASS_F)) {
			run(f, s, ORR_PASS_F);
			if (is_done(done, s, ORR_PASS_B))
				run(f, s, ORR_PASS_B);
		}
}

/* The job that needs least of those that are ready, a backward first: one that needs no more than
 * was needed before only makes room. */
static int pick(const struct finder *f, const uint64_t *done, int64_t before, int64_t *least)
{
	int best = -1;

	*least = INT64_MAX;
	for (int i = 0; i < 2 * f->p->n_stages; i++) {
		enum orr_pass d = i < f->p->n_stages ? ORR_PASS_B : ORR_PASS_F;
		int s = i % f->p->n_stages;
		int64_t excess;

		if (d == ORR_PASS_F && best >= 0 && *least <= before)
			break;
		if (!is_ready(f, done, s, d) || (excess = excess_during(f, s, d)) >= *least)
			continue;
		*least = excess;
		best = s * ORR_N_PASSES + (int)d;
	}
	return best;
}

static int expand(struct finder *f, int from)
{
	const uint64_t *done = done_of(f, from);
	int64_t excess;
	int best, code = 0;

	load_state(f, done);
	best = pick(f, done, f->states[from].excess, &excess);
	if (best % ORR_N_PASSES == ORR_PASS_B && excess <= f->states[from].excess)
		return reach(f, from, best / ORR_N_PASSES, ORR_PASS_B);
	for (int s = 0; s < f->p->n_stages && !code; s++)
		for (int d = ORR_PASS_F; d <= ORR_PASS_B && !code; d++)
			if (is_ready(f, done, s, (enum orr_pass)d))
				code = reach(f, from, s, (enum orr_pass)d);
	return code;
}

/* By a shortest path to where all is done; false in *exact: to where there was no more room. */
static int find_path(struct finder *f, int *end, bool *exact)
{
	int n_jobs = 2 * f->p->n_stages, code;

	f->states[0] = (struct state){.excess = f->least, .parent = -1, .move = -1};
	*look_up(f, done_of(f, 0)) = f->n_states = 1;
	code = orr_heap_push(&f->open, f->least, 0, 0, f->err);
	while (!code) {
		*end = (int)orr_heap_pop(&f->open).value;
		*exact = f->states[*end].n_done == n_jobs;
		if (*exact || f->n_states + n_jobs >= MOST_STATES)
			return 0;
		if (f->states[*end].closed)
			continue;
		f->states[*end].closed = true;
		code = expand(f, *end);
	}
	return code;
}

/* Number the jobs up to the state, and from there on those that need least. */
static int64_t follow(struct finder *f, int end, int64_t *n)
{
	int64_t excess = f->states[end].excess, needed;
	uint64_t *done = done_of(f, end);
	int n_done = f->states[end].n_done, move;

	for (int i = end; f->states[i].parent >= 0; i = f->states[i].parent) {
		move = f->states[i].move;
		n[move] = 2 * (f->states[i].n_done - 1);
	}
	load_state(f, done);
	for (; (move = pick(f, done, excess, &needed)) >= 0; n_done++) {
		excess = larger(excess, needed);
		run(f, move / ORR_N_PASSES, (enum orr_pass)(move % ORR_N_PASSES));
		set_done(done, move / ORR_N_PASSES, (enum orr_pass)(move % ORR_N_PASSES));
		n[move] = 2 * n_done;
	}
	number_weights(f, n);
	return excess;
}

static int search(struct finder *f, struct orr_smallest *out)
{
	struct orr_arrays all = {0};
	int end = 0, code;

	f->n_words = (2 * f->p->n_stages + 63) / 64;
	orr_arrays_make(&all, f->states, MOST_STATES);
	orr_arrays_make(&all, f->done, (size_t)MOST_STATES * (size_t)f->n_words);
	orr_arrays_make(&all, f->table, (size_t)2 * MOST_STATES);
	if ((code = orr_arrays_check(&all, "search", f->err)))
		return code;
	if (!(code = find_path(f, &end, &out->exact)))
		out->excess = follow(f, end, out->n);
	orr_heap_fini(&f->open);
	orr_arrays_free(&all);
	return code;
}

static void find_largest(struct finder *f)
{
	int n_kinds = f->p->n_stages * ORR_N_PASSES;

	for (int j = 0; j < f->timed->jobs.n_jobs; j++) {
		orr_load_raise(&f->up[j % n_kinds], f->timed->up[j]);
		orr_load_raise(&f->down[j % n_kinds], f->timed->down[j]);
	}
}

int orr_smallest_find(struct orr_smallest *out, const struct orr_timed *timed,
		      struct orr_error *err)
{
	const struct orr_pipeline *p = timed->jobs.pipeline;
	struct finder f = {.timed = timed, .p = p, .err = err};
	struct orr_arrays all = {0};
	size_t n_kinds = (size_t)p->n_stages * ORR_N_PASSES;
	bool *leads = orr_arrays_add(&all, (size_t)p->n_stages, sizeof(*leads));
	int code;

	orr_arrays_make(&all, f.load, p->n_workers);
	orr_arrays_make(&all, f.up, n_kinds);
	orr_arrays_make(&all, f.down, n_kinds);
	if ((code = orr_arrays_check(&all, "search", err)))
		return code;
	find_largest(&f);
	out->excess = try_plain(&f, out->n);
	out->exact = out->excess <= 0;
	if (out->exact)
		goto out;
	find_least(&f, leads);
	out->exact = out->excess == f.least;
	if (!out->exact && p->n_stages <= MOST_STAGES)
		code = search(&f, out);
	/* an order that suits no largest microbatch may suit each of those there are */
	out->exact = out->exact && (out->excess <= 0 || !p->microbatches);
out:
	orr_arrays_free(&all);
	return code;
}
