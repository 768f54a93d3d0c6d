#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "front.h"
#include "orrery/open.h"
#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "base/quantity.h"
#include "orrery/timeline.h"
#include "base/utf8.h"

static void take_figures(struct orr_contender *x, const struct orr_figures *f,
			 const struct orr_jobs *jobs)
{
	x->period_ns = jobs->async ? f->steady.period_ns : f->makespan_ns;
	x->period_microbatches =
		jobs->async ? f->steady.microbatches : jobs->pipeline->n_microbatches;
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
		x->n_untested = orr_untested_find(x->untested, tried.jobs);
		if (entry->noise)
			code = orr_noise_run(&x->noisy, tried.jobs, entry->noise, err);
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

/* Stable, and there are few. */
static void sort(struct orr_contender *contenders, int n)
{
	for (int i = 1; i < n; i++) {
		struct orr_contender x = contenders[i];
		int k = i;

		for (; k > 0 && compare_contenders(&contenders[k - 1], &x) > 0; k--)
			contenders[k] = contenders[k - 1];
		contenders[k] = x;
	}
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

static void swap(struct orr_contender *a, struct orr_contender *b)
{
	struct orr_contender x = *a;

	*a = *b;
	*b = x;
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
	int n_schedules = 0, room = 0, n_names = 1;

	while (orr_schedules[n_schedules])
		n_schedules++;
	for (int i = 0; i < n; i++) {
		room += entries[i].front      ? ORR_MOST_FRONT + 1
			: entries[i].schedule ? 1
					      : n_schedules;
		n_names += entries[i].front ? ORR_MOST_FRONT : 0;
	}
	if (c && (!(c->contenders = calloc((size_t)room, sizeof(*c->contenders))) ||
		  !(c->names = calloc((size_t)n_names, sizeof(*c->names))))) {
		orr_comparison_destroy(c);
		return NULL;
	}
	return c;
}

/* ---- a front ---- */

struct limits {
	struct orr_comparison *c;
	const struct orr_entry *entry;
};

/* A row of auto, unless it finds no order. */
static int visit_limit(void *user, bool bytes, int64_t limit, int64_t *held, int64_t *makespan_ns,
		       struct orr_error *err)
{
	const struct limits *limits = user;
	struct orr_comparison *c = limits->c;
	struct orr_pipeline limited = *limits->entry->pipeline;
	struct orr_entry entry = *limits->entry;
	struct orr_contender *x = &c->contenders[c->n];
	char *name = c->names[c->n_names], size[32];
	struct orr_choice choice;
	int code;

	limited.machine.memory_bytes = bytes ? limit : 0;
	entry.pipeline = &limited;
	if (bytes)
		(void)snprintf(name, ORR_FRONT_NAME, "auto in %s",
			       orr_size_exact(size, sizeof(size), limit));
	else
		(void)snprintf(name, ORR_FRONT_NAME, "auto:memory=%lld", (long long)limit);
	if ((code = orr_choice_init(&choice, bytes ? "auto" : name, err)))
		return code;
	code = try_next(c, &entry, &choice.schedule, err);
	orr_choice_fini(&choice);
	if (code || x->reason) {
		free(x->reason);
		memset(x, 0, sizeof(*x));
		return code;
	}
	x->is = x->schedule = name;
	x->pipeline = limits->entry->pipeline;
	x->limit_bytes = limited.machine.memory_bytes;
	x->in_front = true;
	*held = bytes ? x->memory_bytes : x->peak_stash;
	*makespan_ns = x->makespan_ns;
	c->n++;
	c->n_names++;
	return 0;
}

static int try_front(struct orr_comparison *c, const struct orr_entry *entry, struct orr_error *err)
{
	struct limits limits = {c, entry};
	struct orr_front front = {.p = entry->pipeline,
				  .within_ns = entry->within_ns,
				  .most = ORR_MOST_FRONT,
				  .visit = visit_limit,
				  .user = &limits};

	for (int i = 0; i < c->n; i++) {
		const struct orr_contender *x = &c->contenders[i];

		if (x->reason || x->pipeline != entry->pipeline)
			continue;
		front.stashes = larger(front.stashes, x->peak_stash);
		front.stash_bytes = larger(front.stash_bytes, x->peak_stash_bytes);
	}
	return orr_front_visit(&front, err);
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
	for (int i = 1; i < c->n_fitting; i++) {
		struct orr_contender x = c->contenders[i];
		int k = i;

		for (; k > 0 && ranked_ns(&c->contenders[k - 1], by) > ranked_ns(&x, by); k--)
			c->contenders[k] = c->contenders[k - 1];
		c->contenders[k] = x;
	}
}

const char *orr_contender_print(char buffer[ORR_CONTENDER_NAME], const struct orr_comparison *c,
				const struct orr_contender *x)
{
	if (c->several_cuts && x->n_stages)
		(void)snprintf(buffer, ORR_CONTENDER_NAME, "%.*s, %s",
			       orr_utf8_fit(x->schedule, 80), x->schedule,
			       orr_count_text(x->n_stages, "stage"));
	else
		(void)snprintf(buffer, ORR_CONTENDER_NAME, "%.*s", orr_utf8_fit(x->schedule, 120),
			       x->schedule);
	return buffer;
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
