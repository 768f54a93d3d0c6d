#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "orrery/open.h"
#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "orrery/search.h"
#include "base/quantity.h"
#include "orrery/timeline.h"
#include "base/utf8.h"

#define MOST_GUESSES 8 /* of the least memory of a front; each is closer */
#define DIGITS 1000    /* values of sizes in between per power of ten */

static void take_figures(struct orr_contender *x, const struct orr_figures *f,
			 const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	x->period_ns = jobs->async ? f->steady.period_ns : f->makespan_ns;
	x->period_microbatches =
		jobs->async ? f->steady.microbatches : (int64_t)p->n_microbatches * p->alike;
	x->makespan_ns = f->makespan_ns;
	x->lower_bound_ns = f->lower_bound_ns;
	x->bubble = f->bubble;
	x->span_bubble = f->span_bubble;
	for (int w = 0; w < f->n_workers; w++) {
		const struct orr_worker_figures *worker = &f->worker[w];

		x->peak_stash = (int)larger(x->peak_stash, worker->peak_stash);
		x->peak_stash_bytes = larger(x->peak_stash_bytes, worker->peak_stash_bytes);
		x->memory_bytes = larger(x->memory_bytes, worker->memory_bytes);
		x->received_bytes += worker->recv_activation_bytes + worker->recv_gradient_bytes +
				     worker->recv_stash_bytes + worker->recv_parameter_bytes +
				     worker->sent_weight_gradient_bytes + worker->all_reduce_bytes;
	}
	x->received_bytes *= p->alike;
}

/* The message without the schedule's name before it: the name stands beside it anyway. */
static char *keep_reason(const char *name, const char *msg)
{
	static const char schedule[] = "schedule ";
	const char *at = strncmp(msg, schedule, strlen(schedule)) ? msg : msg + strlen(schedule);
	size_t length = strlen(name);

	if (!strncmp(at, name, length) && !strncmp(at + length, ": ", 2))
		msg = at + length + 2;
	return orr_utf8_copy(msg); /* a long name may end within a character */
}

/* That there is no step on one worker fewer is no reason against x. */
static int follow_failures(struct orr_contender *x, const struct orr_entry *entry,
			   const struct orr_schedule *schedule, struct orr_error *err)
{
	int64_t fewer_ns = 0;
	int code = 0;

	if (entry->failures) {
		x->copy_every = orr_failures_best(entry->failures, x->makespan_ns);
		x->goodput = orr_failures_goodput(entry->failures, x->makespan_ns, x->copy_every);
	}
	if (!entry->outage)
		return 0;
	if (entry->outage->for_ns) {
		if (!entry->fewer)
			return 0;
		code = orr_outage_step(&fewer_ns, entry->fewer, schedule, entry->order, err);
	}
	if (code)
		return code == ORR_E_INPUT || code == ORR_E_UNSUPPORTED ? 0 : code;
	return orr_outage_follow(&x->recovery, entry->outage, x->makespan_ns, fewer_ns, err);
}

static int simulate(struct orr_contender *x, const struct orr_entry *entry,
		    const struct orr_schedule *schedule, struct orr_error *err)
{
	struct orr_try tried;
	int code;

	if (!(code = orr_try_init_in(&tried, entry->pipeline, schedule, entry->home, entry->order,
				     err)) &&
	    !(code = orr_try_run(&tried, err)) &&
	    !(code = orr_figures_check_memory(tried.figures, &entry->pipeline->machine, err))) {
		take_figures(x, tried.figures, tried.jobs);
		x->untested = orr_untested_find(tried.jobs);
		if (entry->noise)
			code = orr_noise_run(&x->noisy, tried.jobs, entry->noise, err);
		if (!code && !tried.jobs->async && x->makespan_ns)
			code = follow_failures(x, entry, schedule, err);
	}
	x->laid_out = tried.jobs;
	orr_try_fini(&tried);
	return code;
}

static int try_schedule(struct orr_contender *x, const struct orr_entry *entry,
			const struct orr_schedule *schedule, struct orr_error *err)
{
	struct orr_error why = {""};
	int code = entry->refused ? orr_fail(&why, ORR_E_INPUT, "%s", entry->refused)
				  : simulate(x, entry, schedule, &why);

	x->schedule = schedule->name;
	if (!entry->refused) {
		x->pipeline = entry->pipeline;
		x->n_stages = entry->pipeline->n_stages;
	}
	if (!code)
		return 0;
	if (code != ORR_E_INPUT && code != ORR_E_UNSUPPORTED)
		return orr_fail(err, code, "%s", why.msg);
	if (!(x->reason = keep_reason(schedule->name, why.msg)))
		return orr_fail(err, ORR_E_NOMEM, "compare: no memory");
	return 0;
}

/* What fits first, by makespan, then by memory; then what no order stands against; all else in the
 * order in which it was tried. */
static int compare_contenders(const struct orr_contender *x, const struct orr_contender *y)
{
	if (!x->reason != !y->reason)
		return x->reason ? 1 : -1;
	if (x->reason)
		return y->laid_out - x->laid_out;
	if (x->makespan_ns != y->makespan_ns)
		return x->makespan_ns < y->makespan_ns ? -1 : 1;
	if (x->memory_bytes != y->memory_bytes)
		return x->memory_bytes < y->memory_bytes ? -1 : 1;
	/* of the stages that there are: a stash of a shorter stage is smaller */
	int64_t x_stash = (int64_t)x->peak_stash * y->n_stages,
		y_stash = (int64_t)y->peak_stash * x->n_stages;

	return (x_stash > y_stash) - (x_stash < y_stash);
}

static void swap(struct orr_contender *a, struct orr_contender *b)
{
	struct orr_contender x = *a;

	*a = *b;
	*b = x;
}

/* Stable, and there are few. */
static void sort(struct orr_contender *x, int n)
{
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && compare_contenders(&x[k - 1], &x[k]) > 0; k--)
			swap(&x[k - 1], &x[k]);
}

/* In the order of makespan, those that need less memory than all before. */
static void find_front(struct orr_comparison *c)
{
	double least = INFINITY;
	int64_t makespan_ns = -1;

	for (int i = 0; i < c->n_fitting; i++) {
		struct orr_contender *x = &c->contenders[i];
		double memory = orr_contender_memory(c, x);

		x->on_front = memory < least || (memory == least && x->makespan_ns == makespan_ns);
		if (memory < least) {
			least = memory;
			makespan_ns = x->makespan_ns;
		}
	}
}

/* But the first row of every schedule; once they are sorted. */
static void drop_the_rest(struct orr_comparison *c)
{
	int n = 0;

	for (int i = 0; i < c->n; i++) {
		struct orr_contender *x = &c->contenders[i];
		bool seen = false;

		for (int k = 0; k < n && !seen; k++)
			seen = c->contenders[k].is == x->is;
		if (!seen)
			swap(&c->contenders[n++], x);
	}
	c->n = n;
}

/* Rows of a front that one before them beats, which is faster, and is no larger: more memory may
 * lead a search astray, and then the order in less is the one to take. */
static void drop_beaten(struct orr_comparison *c)
{
	int n = 0;

	for (int i = 0; i < c->n; i++) {
		const struct orr_contender x = c->contenders[i];
		bool beaten = false;

		for (int k = 0; k < n && x.in_front && !beaten; k++) {
			const struct orr_contender *y = &c->contenders[k];

			beaten = y->in_front && (!c->every_cut || y->pipeline == x.pipeline) &&
				 orr_contender_memory(c, y) <= orr_contender_memory(c, &x);
		}
		if (!beaten)
			swap(&c->contenders[n++], &c->contenders[i]);
	}
	c->n_fitting -= c->n - n;
	c->n = n;
}

static void sum_up(struct orr_comparison *c)
{
	int n_stages = 0;

	c->n_tried = c->n;
	sort(c->contenders, c->n);
	if (!c->every_cut)
		drop_the_rest(c);
	for (int i = 0; i < c->n; i++) {
		const struct orr_contender *x = &c->contenders[i];

		c->n_fitting += !x->reason;
		c->bytes = c->bytes || (!x->reason && x->memory_bytes > 0);
		if (!x->n_stages || (x->reason && !c->every_cut))
			continue;
		c->several_cuts = c->several_cuts || (n_stages && x->n_stages != n_stages);
		n_stages = x->n_stages;
	}
	drop_beaten(c);
	find_front(c);
}

static int try_next(struct orr_comparison *c, const struct orr_entry *entry,
		    const struct orr_schedule *schedule, struct orr_error *err)
{
	struct orr_comparison so_far = *c;
	size_t bytes = (size_t)(c->n + 1) * sizeof(*c->contenders);

	if (entry->next) {
		if (!(so_far.contenders = malloc(bytes)))
			return orr_fail(err, ORR_E_NOMEM, "compare: no memory");
		memcpy(so_far.contenders, c->contenders, bytes);
		sum_up(&so_far);
		entry->next(entry->user, schedule->name, &so_far);
		free(so_far.contenders);
	}
	return try_schedule(&c->contenders[c->n], entry, schedule, err);
}

static int try_all(struct orr_comparison *c, const struct orr_entry *entry, struct orr_error *err)
{
	int code = 0;

	for (int i = 0; orr_schedules[i] && !code; i++) {
		struct orr_choice choice;

		if ((code = orr_choice_init(&choice, orr_schedules[i]->name, err)))
			break;
		c->contenders[c->n].is = orr_schedules[i];
		code = try_next(c, entry, &choice.schedule, err);
		c->n++;
		orr_choice_fini(&choice);
	}
	return code;
}

static struct orr_comparison *allocate(const struct orr_entry *entries, int n)
{
	struct orr_comparison *c = calloc(1, sizeof(*c));
	size_t n_schedules = 0, room = 0;

	while (orr_schedules[n_schedules])
		n_schedules++;
	for (int i = 0; i < n; i++)
		room += entries[i].front      ? ORR_MOST_FRONT + 1
			: entries[i].schedule ? 1
					      : n_schedules;
	if (c && (!(c->contenders = calloc(room, sizeof(*c->contenders))) ||
		  !(c->names = calloc(room, sizeof(*c->names))))) {
		orr_comparison_destroy(c);
		return NULL;
	}
	return c;
}

/* ---- a front ---- */

struct point {
	int64_t limit, held, makespan_ns;
};

struct front {
	struct orr_comparison *c;
	const struct orr_entry *entry; /* on machines that do not limit memory */
	bool bytes;                    /* limits are a worker's memory, else stage stashes */
	int64_t step; /* less memory more makes no difference: a stash, the smallest of them */
	struct point points[ORR_MOST_FRONT]; /* ascending by limit */
	int n, n_tried;
};

/* In bytes where stages have stashes of a size, unless workers have memories of their own. */
static void measure(struct front *f)
{
	const struct orr_pipeline *p = f->entry->pipeline;

	for (int s = 0; s < p->n_stages && !p->machine.cluster; s++) {
		int64_t bytes = p->stages[s].stash_bytes;

		if (bytes > 0 && (!f->bytes || bytes < f->step))
			f->step = bytes;
		f->bytes = f->bytes || bytes > 0;
	}
	f->step = f->bytes ? f->step : 1;
}

/* A row of auto and a point more, unless it finds no order. */
static int try_limit(struct front *f, int64_t limit, struct orr_error *err)
{
	struct orr_comparison *c = f->c;
	struct orr_pipeline limited = *f->entry->pipeline;
	struct orr_entry entry = *f->entry;
	struct orr_contender *x = &c->contenders[c->n];
	char *name = c->names[c->n];
	struct orr_choice choice;
	struct point point;
	int code, i;

	f->n_tried++;
	limited.machine.memory_bytes = f->bytes ? limit : 0;
	entry.pipeline = &limited;
	if (f->bytes)
		(void)snprintf(name, ORR_FRONT_NAME, "auto in %s", orr_size_exact(limit));
	else
		(void)snprintf(name, ORR_FRONT_NAME, "auto:memory=%lld", (long long)limit);
	if ((code = orr_choice_init(&choice, f->bytes ? "auto" : name, err)))
		return code;
	code = try_next(c, &entry, &choice.schedule, err);
	orr_choice_fini(&choice);
	if (code || x->reason) {
		free(x->reason);
		memset(x, 0, sizeof(*x));
		return code;
	}
	x->is = x->schedule = name;
	x->pipeline = f->entry->pipeline;
	x->limit_bytes = limited.machine.memory_bytes;
	x->in_front = true;
	c->n++;
	point = (struct point){limit, f->bytes ? x->memory_bytes : x->peak_stash, x->makespan_ns};
	if (!point.held)
		return 0;
	for (i = f->n++; i > 0 && f->points[i - 1].limit > limit; i--)
		f->points[i] = f->points[i - 1];
	f->points[i] = point;
	return 0;
}

/* What an order lacks that has `limit`; 0: nothing, or that is not why there is none. */
static int find_missing(const struct front *f, int64_t limit, int64_t *missing,
			struct orr_error *err)
{
	const struct orr_search_options options = {.stashes = f->bytes ? 0 : limit,
						   .memory_bytes = f->bytes ? limit : 0};
	struct orr_search_result result;
	int code = orr_search(NULL, NULL, &result, f->entry->pipeline, &options, err);

	*missing = result.missing;
	return code == ORR_E_INPUT ? 0 : code;
}

static int find_least(const struct front *f, int64_t *least, struct orr_error *err)
{
	int64_t missing = 1;
	int code = 0;

	*least = 0;
	for (int i = 0; i < MOST_GUESSES && missing > 0 && !code; i++) {
		*least += missing;
		code = find_missing(f, *least, &missing, err);
	}
	return code;
}

static int64_t middle(const struct front *f, int64_t low, int64_t high)
{
	int64_t at = low + (high - low) / 2, unit = 1, round;

	while (f->bytes && at / unit >= DIGITS)
		unit *= 10;
	round = at / unit * unit;
	return round > low ? round : at;
}

/* Where the front is least known: the limits between two points, times what the second is shorter.
 * With within_ns, between those points alone that are longer and no longer. 0: nowhere. */
static int64_t choose(const struct front *f)
{
	int64_t within_ns = f->entry->within_ns, shortest = INT64_MAX, limit = 0;
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

static int try_front(struct orr_comparison *c, const struct orr_entry *entry, struct orr_error *err)
{
	struct front f = {.c = c, .entry = entry};
	int64_t least, most, limit, stashes = 0, bytes = 0;
	int code;

	measure(&f);
	for (const struct orr_contender *x = c->contenders; x < c->contenders + c->n; x++)
		if (!x->reason && x->pipeline == entry->pipeline) { /* no order needs more */
			stashes = larger(stashes, x->peak_stash);
			bytes = larger(bytes, x->peak_stash_bytes);
		}
	if (!(code = find_least(&f, &least, err)))
		code = try_limit(&f, least, err);
	/* in bytes, parameters come on top of the stashes */
	most = f.bytes ? least + bytes : stashes;
	if (!code && most > least)
		code = try_limit(&f, most, err);
	while (!code && f.n_tried < ORR_MOST_FRONT && (limit = choose(&f)))
		code = try_limit(&f, limit, err);
	return code;
}

static int try_entry(struct orr_comparison *c, const struct orr_entry *entry, struct orr_error *err)
{
	int code;

	if (entry->front)
		return try_front(c, entry, err);
	if (!entry->schedule)
		return try_all(c, entry, err);
	c->contenders[c->n].is = entry->schedule;
	code = try_next(c, entry, entry->schedule, err);
	c->n++;
	return code;
}

/* ---- all of them ---- */

int orr_compare(struct orr_comparison **out, const struct orr_entry *entries, int n, bool every_cut,
		struct orr_error *err)
{
	struct orr_comparison *c = allocate(entries, n);
	int code = 0;

	if (!c)
		return orr_fail(err, ORR_E_NOMEM, "compare: no memory");
	c->units = entries[0].pipeline->units;
	c->numerics = entries[0].pipeline->numerics;
	c->noisy = entries[0].noise != NULL;
	c->every_cut = every_cut;
	for (int i = 0; i < n && !code; i++)
		code = try_entry(c, &entries[i], err);
	if (code) {
		c->n_tried = c->n;
		orr_comparison_destroy(c);
		return code;
	}
	sum_up(c);
	*out = c;
	return 0;
}

const struct orr_contender *orr_comparison_within(const struct orr_comparison *c,
						  int64_t makespan_ns)
{
	const struct orr_contender *least = NULL;

	for (int i = 0; i < c->n_fitting; i++) {
		const struct orr_contender *x = &c->contenders[i];

		if (x->makespan_ns <= makespan_ns &&
		    (!least || orr_contender_memory(c, x) < orr_contender_memory(c, least)))
			least = x;
	}
	return least;
}

static int64_t ranked_ns(const struct orr_contender *x, enum orr_rank by)
{
	bool greedy = by >= ORR_RANK_GREEDY_MEDIAN;
	const struct orr_spread *spread = greedy ? &x->noisy.greedy : &x->noisy.strict;
	const int64_t ns[] = {spread->median_ns, spread->p95_ns, spread->worst_ns};

	if (by == ORR_RANK_MAKESPAN)
		return x->makespan_ns;
	return greedy && !x->noisy.has_greedy ? INT64_MAX
					      : ns[(by - ORR_RANK_MEDIAN) % ORR_RANK_WORST];
}

void orr_comparison_rank(struct orr_comparison *c, enum orr_rank by)
{
	struct orr_contender *x = c->contenders;

	for (int i = 1; i < c->n_fitting; i++)
		for (int k = i; k > 0 && ranked_ns(&x[k - 1], by) > ranked_ns(&x[k], by); k--)
			swap(&x[k - 1], &x[k]);
}

const char *orr_contender_text(const struct orr_comparison *c, const struct orr_contender *x)
{
	bool cut = c->several_cuts && x->n_stages;

	return orr_text("%.*s%s%s", orr_utf8_fit(x->schedule, cut ? 80 : 120), x->schedule,
			cut ? ", " : "", cut ? orr_count_text(x->n_stages, "stage") : "");
}

void orr_comparison_destroy(struct orr_comparison *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->n_tried; i++)
		free(c->contenders[i].reason);
	free(c->contenders);
	free(c->names);
	free(c);
}
