#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "jobs.h"
#include "machine.h"
#include "simulate.h"
#include "timeline.h"
#include "utf8.h"

static void take_figures(struct orr_contender *x, const struct orr_figures *f,
			 const struct orr_jobs *jobs)
{
	x->period_ns = jobs->stream ? f->steady.period_ns : f->makespan_ns;
	x->period_microbatches =
		jobs->stream ? f->steady.microbatches : jobs->pipeline->n_microbatches;
	x->makespan_ns = f->makespan_ns;
	x->lower_bound_ns = f->lower_bound_ns;
	x->bubble = f->bubble;
	x->span_bubble = f->span_bubble;
	for (int w = 0; w < f->n_workers; w++) {
		const struct orr_worker_figures *worker = &f->worker[w];

		if (worker->peak_stash > x->peak_stash)
			x->peak_stash = worker->peak_stash;
		if (worker->peak_stash_bytes > x->peak_stash_bytes)
			x->peak_stash_bytes = worker->peak_stash_bytes;
		if (worker->memory_bytes > x->memory_bytes)
			x->memory_bytes = worker->memory_bytes;
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

static int simulate(struct orr_contender *x, const struct orr_pipeline *p,
		    const struct orr_machine *machine, const struct orr_schedule *schedule,
		    struct orr_error *err)
{
	struct orr_jobs *jobs = NULL;
	struct orr_timeline *timeline = NULL;
	struct orr_figures *figures = NULL;
	int code;

	if ((code = orr_jobs_create(&jobs, p, schedule, err)) ||
	    (code = orr_simulate(&timeline, jobs, machine, err)) ||
	    (code = orr_timeline_check(timeline, err)) ||
	    (code = orr_figures_create(&figures, timeline, err)) ||
	    (code = orr_steady_find(&figures->steady, timeline, machine, err)) ||
	    (code = orr_figures_check_memory(figures, machine, err)))
		goto out;
	take_figures(x, figures, jobs);
out:
	orr_figures_destroy(figures);
	orr_timeline_destroy(timeline);
	orr_jobs_destroy(jobs);
	return code;
}

static int try_schedule(struct orr_contender *x, const struct orr_pipeline *p,
			const struct orr_machine *machine, const struct orr_schedule *schedule,
			struct orr_error *err)
{
	struct orr_error why = {""};
	int code = simulate(x, p, machine, schedule, &why);

	x->schedule = schedule->name;
	if (!code)
		return 0;
	if (code != ORR_E_INPUT && code != ORR_E_UNSUPPORTED)
		return orr_fail(err, code, "%s", why.msg);
	if (!(x->reason = keep_reason(schedule->name, why.msg)))
		return orr_fail(err, ORR_E_NOMEM, "compare: no memory");
	return 0;
}

/* What fits first, by makespan, then by memory; the rest in the order in which it was tried. */
static int compare_contenders(const void *a, const void *b)
{
	const struct orr_contender *x = a, *y = b;

	if (!x->reason != !y->reason)
		return x->reason ? 1 : -1;
	if (x->makespan_ns != y->makespan_ns)
		return x->makespan_ns < y->makespan_ns ? -1 : 1;
	if (x->memory_bytes != y->memory_bytes)
		return x->memory_bytes < y->memory_bytes ? -1 : 1;
	return (x->peak_stash > y->peak_stash) - (x->peak_stash < y->peak_stash);
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

/* In the order of makespan, whoever needs less memory than all before it. */
static void find_front(struct orr_comparison *c)
{
	int64_t least = INT64_MAX, makespan_ns = -1;

	for (int i = 0; i < c->n_fitting; i++) {
		struct orr_contender *x = &c->contenders[i];
		int64_t memory = orr_contender_memory(c, x);

		x->on_front = memory < least || (memory == least && x->makespan_ns == makespan_ns);
		if (memory < least) {
			least = memory;
			makespan_ns = x->makespan_ns;
		}
	}
}

static struct orr_comparison *allocate(const struct orr_schedule *extra)
{
	struct orr_comparison *c = calloc(1, sizeof(*c));
	int n = extra != NULL;

	for (int i = 0; orr_schedules[i]; i++)
		n++;
	if (c && !(c->contenders = calloc((size_t)n, sizeof(*c->contenders)))) {
		free(c);
		return NULL;
	}
	return c;
}

int orr_compare(struct orr_comparison **out, const struct orr_pipeline *p,
		const struct orr_machine *machine, const struct orr_schedule *extra,
		struct orr_error *err)
{
	struct orr_comparison *c = allocate(extra);
	int code = 0;

	if (!c)
		return orr_fail(err, ORR_E_NOMEM, "compare: no memory");
	c->units = p->units;
	if (extra && (code = try_schedule(&c->contenders[c->n++], p, machine, extra, err)))
		goto out;
	for (int i = 0; orr_schedules[i]; i++) {
		struct orr_choice choice;

		if ((code = orr_choice_init(&choice, orr_schedules[i]->name, err)))
			goto out;
		code = try_schedule(&c->contenders[c->n++], p, machine, &choice.schedule, err);
		orr_choice_fini(&choice);
		if (code)
			goto out;
	}
	for (int i = 0; i < c->n; i++) {
		c->n_fitting += !c->contenders[i].reason;
		c->bytes = c->bytes || c->contenders[i].memory_bytes > 0;
	}
	sort(c->contenders, c->n);
	find_front(c);
	*out = c;
	c = NULL;
out:
	orr_comparison_destroy(c);
	return code;
}

void orr_comparison_destroy(struct orr_comparison *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->n; i++)
		free(c->contenders[i].reason);
	free(c->contenders);
	free(c);
}
