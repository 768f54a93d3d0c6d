#include "zero_bubble.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/max.h"
#include "orrery/orrery.h"
#include "base/arrays.h"
#include "base/sort.h"

/* What is open in the rules of the search. */
struct rules {
	bool late; /* the last forward of the warm-up may delay the first backward */
	bool skip; /* leave out a forward that would make the backward after it wait */
	bool fill; /* W in gaps shorter than itself, even where the worker can afford to idle */
};

struct search {
	const struct orr_pipeline *p;
	struct orr_zero_bubble limit;
	struct rules rules;
	int m;
	/* by stage */
	int (*done)[ORR_N_PASSES]; /* passes placed so far: the number of the next microbatch */
	int *want;                 /* forwards to place next */
	int64_t *held;             /* hundredths of a stash */
	int64_t *back;             /* estimate of the end of the first backward */
	int64_t *end[2];           /* of F and B, [b * n_stages + s] */
	/* by worker */
	int64_t *first;   /* start of the first job, or -1 */
	int64_t *free;    /* end of the last job */
	int64_t *idle;    /* time in between */
	int64_t *n, next; /* n of every job; the next one */
	int64_t *best_n, best_span, best_makespan;
	struct orr_keyed *keyed; /* [n_jobs] */
};

static int worker_of(const struct search *o, int s)
{
	return s % o->p->n_workers;
}

static int64_t duration(const struct search *o, int s, enum orr_pass d)
{
	return orr_pipeline_job_ns(o->p, s, 0, d, worker_of(o, s), true);
}

static int64_t latency(const struct search *o, int s, int t)
{
	int v = worker_of(o, s), w = worker_of(o, t);

	return v == w ? 0 : orr_machine_link(&o->p->machine, v, w).latency_ns;
}

/* When the inputs of pass d of (s,b), from jobs of other stages that are placed, have arrived. */
static int64_t arrival(const struct search *o, int s, int b, enum orr_pass d)
{
	const struct orr_stage *stage = &o->p->stages[s];
	int n = d == ORR_PASS_F ? stage->n_in : d == ORR_PASS_B ? stage->n_out : 0;
	int64_t time = 0;

	for (int i = 0; i < n; i++) {
		int t = d == ORR_PASS_F ? orr_stage_before(o->p, s, i)
					: orr_stage_after(o->p, s, i);

		time = larger(time, o->end[d][(int64_t)b * o->p->n_stages + t] + latency(o, s, t));
	}
	return time;
}

/* Place the next microbatch of a pass: after what its worker has, as soon as it can start. */
static void put(struct search *o, int s, enum orr_pass d)
{
	int w = worker_of(o, s), b = o->done[s][d]++;
	int64_t start = larger(o->free[w], arrival(o, s, b, d)),
		end = start + orr_pipeline_job_ns(o->p, s, b, d, w, true);
	int64_t place = (int64_t)b * o->p->n_stages + s;

	assert(b < o->m);
	if (o->first[w] < 0)
		o->first[w] = start;
	else
		o->idle[w] += start - o->free[w];
	o->free[w] = end;
	if (d != ORR_PASS_W)
		o->end[d][place] = end;
	o->held[s] += d == ORR_PASS_F   ? 100
		      : d == ORR_PASS_B ? o->limit.percent - 100
					: -o->limit.percent;
	o->n[place * ORR_N_PASSES + (int)d] = o->next++;
}

static int64_t longest_idle(const struct search *o)
{
	int64_t most = 0;

	for (int w = 0; w < o->p->n_workers; w++)
		most = larger(most, o->idle[w]);
	return most;
}

static bool has_weight(const struct search *o, int s)
{
	return o->done[s][ORR_PASS_W] < o->done[s][ORR_PASS_B];
}

static void make_room(struct search *o, int s)
{
	while (o->held[s] + 100 > 100 * (int64_t)o->limit.most && has_weight(o, s))
		put(o, s, ORR_PASS_W);
}

/* Weight gradients in the time until the next job can start. A gap too small for one is left where
 * another worker idles longer anyway. */
static void fill(struct search *o, int s, enum orr_pass next)
{
	int64_t until = arrival(o, s, o->done[s][next], next), w = worker_of(o, s);

	while (has_weight(o, s) && o->free[w] + duration(o, s, ORR_PASS_W) <= until)
		put(o, s, ORR_PASS_W);
	if (!has_weight(o, s) || o->free[w] >= until)
		return;
	if (o->rules.fill || until - o->free[w] > longest_idle(o) - o->idle[w])
		put(o, s, ORR_PASS_W);
}

/* ---- warm-up ---- */

/* Forwards that fit before the gradient of the first microbatch comes back, by memory and time. */
static void plan_warm_up(struct search *o, int s)
{
	const struct orr_stage *stage = &o->p->stages[s];
	int64_t time = o->free[worker_of(o, s)], back = 0, forward = duration(o, s, ORR_PASS_F);

	for (int i = 0; i < stage->n_out; i++) {
		int t = orr_stage_after(o->p, s, i);

		back = larger(back, o->back[t] + latency(o, s, t));
	}
	o->want[s] = 0;
	while (stage->n_out && 1 + o->want[s] < o->m && 1 + o->want[s] < o->limit.most &&
	       (o->rules.late ? time < back : time + forward <= back)) {
		time += forward;
		o->want[s]++;
	}
	o->back[s] = larger(time, back) + duration(o, s, ORR_PASS_B);
}

static void warm_up(struct search *o)
{
	for (int s = 0; s < o->p->n_stages; s++)
		put(o, s, ORR_PASS_F);
	for (int s = o->p->n_stages - 1; s >= 0; s--)
		plan_warm_up(o, s);
	for (int s = 0; s < o->p->n_stages; s++) {
		/* at least one microbatch ahead of the stages after it, while there are any */
		for (int i = 0; i < o->p->stages[s].n_in; i++) {
			int ahead = o->want[orr_stage_before(o->p, s, i)];

			if (o->want[s] >= ahead && ahead + 1 < o->m)
				o->want[s] = ahead ? ahead - 1 : 0;
		}
		for (int i = 0; i < o->want[s]; i++)
			put(o, s, ORR_PASS_F);
	}
	for (int s = o->p->n_stages - 1; s >= 0; s--)
		put(o, s, ORR_PASS_B);
}

/* ---- one forward, one backward ---- */

/* Two ahead of every stage after it, is it better to take the next backward first? */
static bool is_skipped(const struct search *o, int s)
{
	const struct orr_stage *stage = &o->p->stages[s];
	int w = worker_of(o, s), ready = o->done[s][ORR_PASS_B] - o->done[s][ORR_PASS_W];
	int64_t back = 0, time = o->free[w] + duration(o, s, ORR_PASS_F), held = o->held[s] + 100;

	for (int i = 0; i < stage->n_out; i++) {
		int t = orr_stage_after(o->p, s, i);

		if (o->done[s][ORR_PASS_F] < o->done[t][ORR_PASS_F] + 2)
			return false;
		back = larger(back, o->free[worker_of(o, t)] + duration(o, t, ORR_PASS_F) +
					    duration(o, t, ORR_PASS_B) + latency(o, s, t));
	}
	if (!stage->n_out || o->free[w] >= back)
		return stage->n_out;
	for (int i = 0; i < ready && held > 100 * (int64_t)o->limit.most; i++) {
		time += duration(o, s, ORR_PASS_W);
		held -= o->limit.percent;
	}
	return time > back && back - o->free[w] <= longest_idle(o) - o->idle[w];
}

/* The forward after the last one can run only where all stages before have theirs; where the next
 * backward needs it, they do. */
static bool wants_forward(const struct search *o, int s)
{
	const struct orr_stage *stage = &o->p->stages[s];

	if (o->done[s][ORR_PASS_F] == o->done[s][ORR_PASS_B])
		return true;
	for (int i = 0; i < stage->n_in; i++)
		if (o->done[orr_stage_before(o->p, s, i)][ORR_PASS_F] == o->done[s][ORR_PASS_F])
			return false;
	return o->want[s];
}

static void place_round(struct search *o)
{
	for (int s = o->p->n_stages - 1; s >= 0; s--) {
		o->want[s] = o->done[s][ORR_PASS_F] < o->m && !(o->rules.skip && is_skipped(o, s));
		/* a stage stays ahead without running off */
		for (int i = 0; i < o->p->stages[s].n_out; i++)
			o->want[s] = o->want[s] && o->want[orr_stage_after(o->p, s, i)];
	}
	for (int s = 0; s < o->p->n_stages; s++) {
		if (!wants_forward(o, s))
			continue;
		make_room(o, s);
		if (o->p->stages[s].n_in)
			fill(o, s, ORR_PASS_F);
		put(o, s, ORR_PASS_F);
	}
	for (int s = o->p->n_stages - 1; s >= 0; s--) {
		if (o->p->stages[s].n_out)
			fill(o, s, ORR_PASS_B);
		/* no job waits for the backwards of the first stages */
		while (!o->p->stages[s].n_in && o->done[s][ORR_PASS_F] == o->m && has_weight(o, s))
			put(o, s, ORR_PASS_W);
		put(o, s, ORR_PASS_B);
	}
}

/* ---- the choice ---- */

static void begin(struct search *o)
{
	size_t n_stages = (size_t)o->p->n_stages, n_workers = (size_t)o->p->n_workers;

	memset(o->done, 0, n_stages * sizeof(*o->done));
	memset(o->held, 0, n_stages * sizeof(*o->held));
	memset(o->free, 0, n_workers * sizeof(*o->free));
	memset(o->idle, 0, n_workers * sizeof(*o->idle));
	memset(o->first, -1, n_workers * sizeof(*o->first));
	o->next = 0;
}

static void run(struct search *o)
{
	begin(o);
	warm_up(o);
	for (int b = 1; b < o->m; b++)
		place_round(o);
	for (int s = 0; s < o->p->n_stages; s++)
		while (has_weight(o, s))
			put(o, s, ORR_PASS_W);
}

/* The closed form, of zb-h1 or of zb-h2: it may win where durations are close to each other. */
static int run_closed_form(struct search *o, int times, struct orr_error *err)
{
	int n_jobs = o->p->n_stages * o->m * ORR_N_PASSES, code;

	for (int j = 0; j < n_jobs; j++) {
		int s = j / ORR_N_PASSES % o->p->n_stages, b = j / ORR_N_PASSES / o->p->n_stages;
		enum orr_pass d = (enum orr_pass)(j % ORR_N_PASSES);
		int64_t n = split_one_f_one_b(
			o->p, s, b, d, split_one_f_one_b_at_once(o->p->stages[s].depth, times),
			split_one_f_one_b_at_once(o->p->depth, times));

		o->keyed[j] = (struct orr_keyed){n, j};
	}
	if ((code = orr_sort(o->keyed, n_jobs, err)))
		return code;
	begin(o);
	for (int i = 0; i < n_jobs; i++) {
		int j = o->keyed[i].value;

		put(o, j / ORR_N_PASSES % o->p->n_stages, (enum orr_pass)(j % ORR_N_PASSES));
	}
	return 0;
}

static void keep(struct search *o)
{
	int64_t span = 0, makespan = 0;

	for (int w = 0; w < o->p->n_workers; w++) {
		makespan = larger(makespan, o->free[w]);
		if (o->first[w] >= 0)
			span = larger(span, o->free[w] - o->first[w]);
	}
	if (span > o->best_span || (span == o->best_span && makespan >= o->best_makespan))
		return;
	o->best_span = span;
	o->best_makespan = makespan;
	memcpy(o->best_n, o->n, (size_t)o->next * sizeof(*o->n));
}

static int try_all(struct search *o, struct orr_error *err)
{
	int code;

	for (int times = 1; times <= 2; times++) {
		if (o->limit.most < split_one_f_one_b_at_once(o->p->depth, times))
			continue;
		if ((code = run_closed_form(o, times, err)))
			return code;
		keep(o);
	}
	/* more memory may lead a greedy order to a worse end: the limit of 1f1b as well */
	for (int i = 0; i < 16; i++) {
		if (i == 8 && o->limit.most <= o->p->depth)
			break;
		if (i == 8)
			o->limit.most = o->p->depth;
		o->rules = (struct rules){.late = i & 1, .skip = i & 2, .fill = i & 4};
		run(o);
		keep(o);
	}
	return 0;
}

int orr_zero_bubble(const struct orr_pipeline *p, const struct orr_zero_bubble *limit, int64_t *n,
		    struct orr_error *err)
{
	size_t n_stages = (size_t)p->n_stages, n_workers = (size_t)p->n_workers;
	size_t n_places = n_stages * (size_t)p->n_microbatches;
	struct search o = {.p = p,
			   .limit = *limit,
			   .m = p->n_microbatches,
			   .best_n = n,
			   .best_span = INT64_MAX,
			   .best_makespan = INT64_MAX};
	struct orr_arrays all = {0};
	int code;

	orr_arrays_make(&all, o.done, n_stages);
	orr_arrays_make(&all, o.want, n_stages);
	orr_arrays_make(&all, o.held, n_stages);
	orr_arrays_make(&all, o.back, n_stages);
	o.end[ORR_PASS_F] = orr_arrays_add(&all, n_places, sizeof(**o.end));
	o.end[ORR_PASS_B] = orr_arrays_add(&all, n_places, sizeof(**o.end));
	orr_arrays_make(&all, o.first, n_workers);
	orr_arrays_make(&all, o.free, n_workers);
	orr_arrays_make(&all, o.idle, n_workers);
	o.n = orr_arrays_add(&all, n_places, ORR_N_PASSES * sizeof(*o.n));
	orr_arrays_make(&all, o.keyed, n_places * ORR_N_PASSES);
	if (!(code = orr_arrays_check(&all, "zero bubble", err)))
		code = try_all(&o, err);
	orr_arrays_free(&all);
	return code;
}
