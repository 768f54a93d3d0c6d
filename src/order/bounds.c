/* Why the microbatches may be taken in turn: in any order, let the k-th F of a stage that starts be
 * of microbatch k, and likewise the k-th B and the k-th W. Every job still follows what it waits
 * for, since the k-th F of a stage can only start when k are done of every stage before it, and so
 * on; times and loads stay as they are. So a bound on orders in which every stage takes its
 * microbatches in turn holds for all. And a backward that is not split is a split one whose W
 * follows at once, and need not be started: so W counts without what starting it takes.
 * Microbatches that differ cannot change places: then bounds hold for any order of them. */
#include "bounds.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/heap.h"
#include "base/max.h"
#include "base/sort.h"
#include "bounds_caps.h"

#define DENSE 3072 /* jobs: up to here all pairs are looked at */

/* A job, and the time between it and the one that waits for it, or that it waits for. */
struct awaited {
	int job;
	int64_t lag_ns;
};

struct finder {
	const struct orr_timed *timed;
	const struct orr_pipeline *p;
	int n_jobs, n_words;
	struct orr_error *err;
	int64_t *duration;    /* [n_jobs] at least */
	int64_t *head, *tail; /* [n_jobs] at least so much before its start, and after its end */
	int *sequence;        /* [n_jobs] jobs in an order that extends all edges */
	int *on;              /* jobs of each worker by number, those of w from jobs.first[w] on */
	struct orr_caps caps;
	int *room;               /* for jobs around one */
	struct awaited *list;    /* the same, with those of caps */
	struct orr_keyed *keyed; /* [n_jobs] */
	uint64_t *reach; /* [n_jobs * n_words] jobs before it (or after it); NULL: too many */
	int *sorted, *n_sorted; /* jobs of each worker by head (or tail), as they become known */
	int64_t *longest;       /* [2 * n_stages] */
	int *next;              /* [n_stages] of a way, -1: its end */
	struct orr_way way;     /* the one at hand */
	size_t n_around;        /* jobs around one, at most */
	struct orr_arrays all;
};

static int worker_of(const struct finder *f, int j)
{
	return f->timed->jobs.compute[j];
}

static int job(const struct finder *f, int s, int b, enum orr_pass d)
{
	return orr_jobs_index(&f->timed->jobs, s, b, d);
}

/* What a transfer between the workers of two jobs takes at least. */
static int64_t between(const struct finder *f, int j, int k)
{
	int v = worker_of(f, j), w = worker_of(f, k);

	if (v == w || f->timed->jobs.most_at > 1) /* there they may share one */
		return 0;
	return orr_machine_link(&f->p->machine, v, w).latency_ns;
}

/* An order of all jobs, microbatch by microbatch, F down the stages, B and W up; where a minibatch
 * is gathered, stage by stage. Where F of a later microbatch must follow a backward, that is no
 * order, and what is found no more than it is from the jobs met so far. */
static void fill_sequence(struct finder *f)
{
	int n = 0, n_stages = f->p->n_stages, m = f->p->n_microbatches,
	    together = orr_pipeline_gathers(f->p) ? m : 1;

	for (int first = 0; first < m; first += together) {
		for (int s = 0; s < n_stages; s++)
			for (int b = first; b < first + together; b++)
				f->sequence[n++] = job(f, s, b, ORR_PASS_F);
		for (int s = n_stages - 1; s >= 0; s--)
			for (int b = first; b < first + together; b++) {
				f->sequence[n++] = job(f, s, b, ORR_PASS_B);
				f->sequence[n++] = job(f, s, b, ORR_PASS_W);
			}
	}
}

/* All that j must follow; with `after`, all that must follow it: in f->list, how many there are. */
static int around(struct finder *f, int j, bool after)
{
	const struct orr_jobs *jobs = &f->timed->jobs;
	const struct orr_caps *caps = &f->caps;
	struct orr_job at = orr_jobs_at(jobs, j);
	int step = after ? 1 : -1, m = f->p->n_microbatches, *room = f->room,
	    n = after ? orr_jobs_successors(jobs, j, room) : orr_jobs_predecessors(jobs, j, room);

	for (int k = 0; k < n; k++)
		f->list[k] = (struct awaited){room[k], between(f, room[k], j)};
	if (f->p->microbatches)
		return n;
	if (at.b + step >= 0 && at.b + step < m)
		f->list[n++] = (struct awaited){job(f, at.s, at.b + step, at.d), 0};
	for (int i = after ? caps->ended[at.s] : -1; i >= 0; i = caps->list[i].next_ended) {
		const struct orr_cap *cap = &caps->list[i];

		if (at.d == cap->d && at.b + cap->apart < m)
			f->list[n++] = (struct awaited){
				job(f, cap->started, at.b + cap->apart, ORR_PASS_F), cap->lag_ns};
	}
	for (int i = !after && at.d == ORR_PASS_F ? caps->started[at.s] : -1; i >= 0;
	     i = caps->list[i].next_started) {
		const struct orr_cap *cap = &caps->list[i];

		if (at.b >= cap->apart)
			f->list[n++] = (struct awaited){
				job(f, cap->ended, at.b - cap->apart, cap->d), cap->lag_ns};
	}
	return n;
}

/* What j must follow on each worker takes its time there, whatever the order: not before the first
 * of any of them can start, and then all of those. */
static int64_t wait_for_load(const struct finder *f, int j, const int64_t *side)
{
	const uint64_t *reach = f->reach + (size_t)j * (size_t)f->n_words;
	const int *first = f->timed->jobs.first;
	int64_t most = 0;

	for (int w = 0; w < f->p->n_workers; w++) {
		int64_t load = 0;

		for (int i = f->n_sorted[w] - 1; i >= 0; i--) {
			int k = f->sorted[first[w] + i];

			if (!(reach[k / 64] >> (k % 64) & 1))
				continue;
			load += f->duration[k];
			most = larger(most, side[k] + load);
		}
	}
	return most;
}

static void insert(struct finder *f, int j, const int64_t *side)
{
	const struct orr_jobs *jobs = &f->timed->jobs;

	for (int k = 0; k < orr_jobs_n_at(jobs, j); k++) {
		int w = orr_jobs_worker(jobs, j, k), *sorted = f->sorted + jobs->first[w],
		    i = f->n_sorted[w]++;

		for (; i > 0 && side[sorted[i - 1]] > side[j]; i--)
			sorted[i] = sorted[i - 1];
		sorted[i] = j;
	}
}

static void merge(struct finder *f, int j, int k)
{
	uint64_t *to = f->reach + (size_t)j * (size_t)f->n_words;
	const uint64_t *from = f->reach + (size_t)k * (size_t)f->n_words;

	for (int i = 0; i < f->n_words; i++)
		to[i] |= from[i];
	to[k / 64] |= UINT64_C(1) << (k % 64);
}

/* Heads of all jobs; with `after`, tails. */
static void find_side(struct finder *f, bool after)
{
	int64_t *side = after ? f->tail : f->head;

	if (f->reach)
		memset(f->reach, 0, (size_t)f->n_jobs * (size_t)f->n_words * sizeof(*f->reach));
	memset(f->n_sorted, 0, (size_t)f->p->n_workers * sizeof(*f->n_sorted));
	for (int i = 0; i < f->n_jobs; i++) {
		int j = f->sequence[after ? f->n_jobs - 1 - i : i], n = around(f, j, after);
		struct orr_job at = orr_jobs_at(&f->timed->jobs, j);

		side[j] = after && at.d == ORR_PASS_W
				  ? orr_pipeline_update_ns(f->p, at.s, worker_of(f, j))
				  : 0;
		for (int k = 0; k < n; k++) {
			const struct awaited *x = &f->list[k];

			side[j] = larger(side[j], side[x->job] + f->duration[x->job] + x->lag_ns);
			if (f->reach)
				merge(f, j, x->job);
		}
		if (f->reach) {
			side[j] = larger(side[j], wait_for_load(f, j, side));
			insert(f, j, side);
		}
	}
}

/* One worker, heads and tails, preemption allowed: at any time run the job that is there with the
 * longest tail. Exact for that relaxation (Jackson's preemptive rule). */
static int bound_worker(struct finder *f, int w, struct orr_heap *heap, int64_t *bound)
{
	const int *first = f->timed->jobs.first;
	struct orr_keyed *keyed = f->keyed;
	int n = 0, i = 0, code;
	int64_t now = 0;

	for (int k = first[w]; k < first[w + 1]; k++)
		keyed[n++] = (struct orr_keyed){f->head[f->on[k]], f->on[k]};
	if (n && (code = orr_sort(keyed, n, f->err)))
		return code;
	while (i < n || heap->n) {
		struct orr_heap_entry job;
		int64_t until;

		if (!heap->n && now < keyed[i].key)
			now = keyed[i].key;
		for (; i < n && keyed[i].key <= now; i++)
			if ((code = orr_heap_push(heap, -f->tail[keyed[i].value], keyed[i].value,
						  f->duration[keyed[i].value], f->err)))
				return code;
		job = orr_heap_pop(heap);
		until = i < n ? keyed[i].key : INT64_MAX;
		if (until - now < job.value) {
			job.value -= until - now;
			now = until;
			if ((code = orr_heap_push(heap, job.key, job.tie, job.value, f->err)))
				return code;
			continue;
		}
		now += job.value;
		*bound = larger(*bound, now - job.key);
	}
	return 0;
}

/* The least time from the start of F(s,b) to the end of W(s,b): down every way from s, and back. */
static int64_t shortest_life(struct finder *f, int s, int b)
{
	const struct orr_pipeline *p = f->p;
	int n = p->n_stages;
	int64_t *down = f->longest, *up = f->longest + n;
	const int64_t *duration = f->duration;

	for (int t = 0; t < n; t++)
		down[t] = up[t] = -1;
	down[s] = duration[job(f, s, b, ORR_PASS_F)];
	for (int t = s; t < n; t++)
		for (int i = 0; down[t] >= 0 && i < p->stages[t].n_out; i++) {
			int x = orr_stage_after(p, t, i), j = job(f, x, b, ORR_PASS_F);

			down[x] =
				larger(down[x], down[t] + between(f, j, job(f, t, b, ORR_PASS_F)) +
							duration[j]);
		}
	for (int t = n - 1; t >= s; t--) {
		int j = job(f, t, b, ORR_PASS_B);
		int64_t from = down[t];

		if (from < 0)
			continue;
		for (int i = 0; i < p->stages[t].n_out; i++) {
			int x = orr_stage_after(p, t, i);

			if (!p->edges[p->stages[t].out[i]].detached)
				from = larger(from,
					      up[x] + between(f, j, job(f, x, b, ORR_PASS_B)));
		}
		up[t] = from + duration[j];
	}
	return up[s] + duration[job(f, s, b, ORR_PASS_W)];
}

/* All stashes of worker w must live in its memory, one beside the other, from its first F to its
 * last W. At first it cannot be full yet: the k-th stash needs k - 1 forwards before; and at last
 * likewise. */
static int64_t bound_memory(struct finder *f, int w)
{
	const struct orr_timed *t = f->timed;
	struct orr_load limit = orr_timed_most(t, w);
	int64_t lives = 0, bytes = 0, n = 0, first = INT64_MAX, last = INT64_MAX;
	int64_t forward = INT64_MAX, weight = INT64_MAX, room = limit.stashes, flat, ramps = 0;
	bool countable = true; /* the bytes, else they bound nothing */

	for (int s = 0; s < f->p->n_stages; s++) {
		int64_t life = 0;

		if (orr_jobs_number_at(&t->jobs, job(f, s, 0, ORR_PASS_F), w) < 0 ||
		    !t->up[job(f, s, 0, ORR_PASS_F)].stashes)
			continue;
		for (int b = 0; b < f->p->n_microbatches; b++) {
			int j = job(f, s, b, ORR_PASS_F), k = job(f, s, b, ORR_PASS_W);
			int64_t weighed;

			if (!b || f->p->microbatches)
				life = shortest_life(f, s, b);
			n++;
			lives += life;
			if (__builtin_mul_overflow(life, t->up[j].bytes, &weighed) ||
			    __builtin_add_overflow(bytes, weighed, &bytes))
				countable = false;
			first = smaller(first, f->head[j]);
			last = smaller(last, f->tail[k]);
			forward = smaller(forward, f->duration[j]);
			weight = smaller(weight, f->duration[k]);
		}
	}
	if (!n)
		return 0;
	room = smaller(room, n);
	flat = lives / room;
	if ((room - 1) < INT64_MAX / 4 / (forward + weight + 1))
		ramps = (room - 1) * (forward + weight);
	/* either the ramps meet, or each costs a triangle */
	flat = larger(flat, smaller(ramps, flat + ramps / 2));
	if (limit.bytes < INT64_MAX && countable)
		flat = larger(flat, bytes / limit.bytes);
	return first + flat + last;
}

/* The longest way down from stage s, there and back, over edges that a gradient takes. */
static void find_way(struct finder *f, int s)
{
	struct orr_way *way = &f->way;
	const struct orr_pipeline *p = f->p;
	int64_t *length = f->longest;

	for (int t = p->n_stages - 1; t >= s; t--) {
		int j = job(f, t, 0, ORR_PASS_F);

		length[t] = 0;
		f->next[t] = -1;
		for (int i = 0; i < p->stages[t].n_out; i++) {
			int x = orr_stage_after(p, t, i), k = job(f, x, 0, ORR_PASS_F);
			int64_t through = length[x] + between(f, j, k) + between(f, k, j);

			if (!p->edges[p->stages[t].out[i]].detached &&
			    (f->next[t] < 0 || through > length[t])) {
				length[t] = through;
				f->next[t] = x;
			}
		}
		length[t] += f->duration[j] + f->duration[j + (int)ORR_PASS_B];
	}
	way->n = 0;
	for (int t = s, before = -1; t >= 0; before = t, t = f->next[t]) {
		int j = job(f, t, 0, ORR_PASS_F),
		    k = before < 0 ? j : job(f, before, 0, ORR_PASS_F);

		way->forward_ns[way->n] = f->duration[j];
		way->backward_ns[way->n] = f->duration[j + (int)ORR_PASS_B];
		way->down_ns[way->n] = between(f, k, j);
		way->up_ns[way->n++] = between(f, j, k);
	}
}

/* The k-th microbatch of stage s starts no sooner than this, and no later before the end. */
static int64_t head_of(const struct finder *f, int s, int k)
{
	int first = job(f, s, 0, ORR_PASS_F);

	return larger(f->head[job(f, s, k, ORR_PASS_F)], f->head[first] + k * f->duration[first]);
}

/* After the k-th B of stage s: all Ws from its own on, at least. */
static int64_t left_of(const struct finder *f, int s, int k)
{
	int m = f->p->n_microbatches, last = job(f, s, m - 1, ORR_PASS_W);

	return larger(f->tail[job(f, s, k, ORR_PASS_B)],
		      (m - k) * f->duration[last] + f->tail[last]);
}

/* A microbatch of stage s can start when the c-th before it has been down the longest way, and
 * back. No head or tail is above longest. */
static int64_t bound_meetings(struct finder *f, int s, int64_t longest)
{
	struct orr_way *way = &f->way;
	int m = f->p->n_microbatches, first = job(f, s, 0, ORR_PASS_F), far = s;
	int64_t length = 0;

	if (f->caps.own[s] >= m || f->p->microbatches || orr_pipeline_gathers(f->p) ||
	    f->timed->jobs.most_at > 1 || !orr_jobs_has(&f->timed->jobs, first + (int)ORR_PASS_B) ||
	    !orr_jobs_has(&f->timed->jobs, first + (int)ORR_PASS_W))
		return 0;
	find_way(f, s);
	while (f->next[far] >= 0)
		far = f->next[far];
	for (int x = 0; x < way->n; x++)
		length +=
			way->forward_ns[x] + way->backward_ns[x] + way->down_ns[x] + way->up_ns[x];
	way->weight_ns = f->duration[first + (int)ORR_PASS_W];
	if (longest > INT64_MAX / 16 / m || length + way->weight_ns > INT64_MAX / 16 / m / m)
		return 0; /* sums would not fit */
	way->n_microbatches = m;
	way->n_at_once = f->caps.own[s];
	way->far_start_ns = f->head[job(f, far, 0, ORR_PASS_F)];
	for (int k = 0; k < m; k++) {
		int j = job(f, s, k, ORR_PASS_F), back = job(f, far, k, ORR_PASS_B);
		int64_t left = left_of(f, s, k);

		way->far_left_ns[k] = f->duration[back] + f->tail[back];
		way->start_ns[k + 1] = way->start_ns[k] + head_of(f, s, k);
		way->left_ns[k + 1] = way->left_ns[k] + left;
		way->rest_ns[k + 1] =
			way->rest_ns[k] + larger(f->duration[j] + f->tail[j], length + left);
	}
	return orr_bounds_meet(way);
}

static void list_by_worker(struct finder *f)
{
	const struct orr_jobs *jobs = &f->timed->jobs;

	for (int j = 0; j < f->n_jobs; j++)
		for (int i = 0; i < orr_jobs_n_at(jobs, j); i++) {
			int w = orr_jobs_worker(jobs, j, i);

			f->on[jobs->first[w] + f->n_sorted[w]++] = j;
		}
}

static int find_all(struct finder *f, struct orr_bounds *out)
{
	struct orr_heap heap = {0};
	int code = 0;

	for (int j = 0; j < f->n_jobs; j++)
		f->duration[j] = f->timed->jobs.duration_ns[j] -
				 (j % ORR_N_PASSES == ORR_PASS_W && orr_jobs_has(&f->timed->jobs, j)
					  ? f->p->overhead_ns
					  : 0);
	list_by_worker(f);
	fill_sequence(f);
	if ((code = orr_caps_init(&f->caps, f->timed, f->duration, f->err)))
		return code;
	orr_arrays_make(&f->all, f->list, f->n_around + 1 + (size_t)f->caps.n);
	if ((code = orr_arrays_check(&f->all, "bounds", f->err)))
		return code;
	for (int after = 0; after < 2 && !f->timed->seeks_span; after++)
		find_side(f, after);
	for (int j = 0; j < f->n_jobs; j++)
		out->path_ns = larger(out->path_ns, f->head[j] + f->duration[j] + f->tail[j]);
	for (int w = 0; !code && w < f->p->n_workers; w++) {
		code = bound_worker(f, w, &heap, &out->worker_ns);
		out->memory_ns = larger(out->memory_ns, bound_memory(f, w));
		if (!code)
			code = orr_bounds_room(&out->room_ns, f->timed, w, f->on, f->duration,
					       f->head, f->tail, f->err);
	}
	for (int s = 0; !code && s < f->p->n_stages; s++)
		out->meet_ns = larger(out->meet_ns, bound_meetings(f, s, out->path_ns));
	out->largest_ns = larger(larger(larger(out->path_ns, out->worker_ns), out->meet_ns),
				 larger(out->memory_ns, out->room_ns));
	orr_heap_fini(&heap);
	return code;
}

int orr_bounds_find(struct orr_bounds *out, const struct orr_timed *timed, struct orr_error *err)
{
	const struct orr_pipeline *p = timed->jobs.pipeline;
	struct finder f = {.timed = timed,
			   .p = p,
			   .n_jobs = timed->jobs.n_jobs,
			   .n_words = (timed->jobs.n_jobs + 63) / 64,
			   .n_around = orr_jobs_most_around(&timed->jobs),
			   .err = err};
	size_t n = (size_t)f.n_jobs, n_stages = (size_t)p->n_stages, m = (size_t)p->n_microbatches,
	       n_listed = (size_t)timed->jobs.first[p->n_workers];
	struct orr_arrays *all = &f.all;
	int code;

	memset(out, 0, sizeof(*out));
	orr_arrays_make(all, f.duration, n);
	orr_arrays_make(all, f.head, n);
	orr_arrays_make(all, f.tail, n);
	orr_arrays_make(all, f.sequence, n);
	orr_arrays_make(all, f.keyed, n);
	orr_arrays_make(all, f.room, f.n_around);
	orr_arrays_make(all, f.sorted, n_listed);
	orr_arrays_make(all, f.on, n_listed);
	orr_arrays_make(all, f.n_sorted, p->n_workers);
	orr_arrays_make(all, f.next, n_stages);
	orr_arrays_make(all, f.way.forward_ns, n_stages);
	orr_arrays_make(all, f.way.backward_ns, n_stages);
	orr_arrays_make(all, f.way.down_ns, n_stages);
	orr_arrays_make(all, f.way.up_ns, n_stages);
	orr_arrays_make(all, f.way.start_ns, m + 1);
	orr_arrays_make(all, f.way.left_ns, m + 1);
	orr_arrays_make(all, f.way.rest_ns, m + 1);
	orr_arrays_make(all, f.way.far_left_ns, m + 1);
	orr_arrays_make(all, f.longest, 2 * n_stages);
	if (f.n_jobs <= DENSE)
		orr_arrays_make(all, f.reach, n * (size_t)f.n_words);
	if (!(code = orr_arrays_check(all, "bounds", err)))
		code = find_all(&f, out);
	orr_caps_fini(&f.caps);
	orr_arrays_free(all);
	return code;
}
