/* Replicas of a pipeline: a schedule evaluated on one of them, and repeated. */
#include <stdlib.h>

#include "base/max.h"
#include "functions.h"
#include "orrery/jobs.h"
#include "orrery/schedule.h"

/* As its schedule sees it: the first workers, microbatches that are alike, and no rings. */
static struct orr_pipeline first_of(const struct orr_pipeline *p)
{
	struct orr_pipeline one = *p;
	double flops_per_s = p->machine.flops_per_s;

	one.replicas = one.alike = 1;
	one.n_workers = p->n_workers / p->replicas;
	one.n_microbatches = p->n_microbatches / p->replicas;
	one.microbatches = NULL;
	if (p->machine.cluster)
		one.machine = orr_machine_of(p->machine.cluster, one.n_workers);
	one.machine.flops_per_s = flops_per_s;
	one.machine.n_workers = one.n_workers;
	return one;
}

/* A strict order cannot deadlock where that of the schedule cannot: let all replicas compute each
 * job of an order of the one's jobs before the next one. */
int orr_jobs_repeat(struct orr_jobs **out, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, const int *home, struct orr_error *err)
{
	struct orr_schedule strict = *schedule;
	struct orr_error why = {""};
	struct orr_pipeline pipeline;
	struct orr_jobs *one;
	int code;

	if (p->replicas * p->alike < 2)
		return orr_jobs_evaluate(out, p, schedule, home, err);
	pipeline = first_of(p);
	if (schedule->order == ORR_ORDER_BOUNDED) /* room is that of all jobs */
		strict.order = ORR_ORDER_STRICT;
	if ((code = orr_jobs_evaluate(&one, &pipeline, &strict, home, &why)))
		return orr_fail(err, code,
				"%s (in each of %d replicas, of %d worker%s: %d times that in all)",
				why.msg, p->replicas * p->alike, pipeline.n_workers,
				pipeline.n_workers == 1 ? "" : "s", p->replicas * p->alike);
	code = orr_jobs_stand_in(out, p, schedule, &(struct orr_stand_in){one, NULL}, err);
	orr_jobs_destroy(one);
	return code;
}

static bool are_links_alike(const struct orr_machine *m, int v, int w, int step)
{
	struct orr_link_cost x = orr_machine_link(m, v, w),
			     y = orr_machine_link(m, v + step, w + step);

	return x.latency_ns == y.latency_ns && !(x.bytes_per_s < y.bytes_per_s) &&
	       !(x.bytes_per_s > y.bytes_per_s);
}

/* Do the workers from `first` on, n of them, what those from 0 on do? */
static bool are_alike(const struct orr_machine *m, int first, int n)
{
	for (int w = 0; w < n; w++) {
		if (orr_machine_speed(m, w) < orr_machine_speed(m, first + w) ||
		    orr_machine_speed(m, w) > orr_machine_speed(m, first + w) ||
		    orr_machine_memory(m, w) != orr_machine_memory(m, first + w))
			return false;
		for (int v = 0; v < w; v++)
			if (!are_links_alike(m, v, w, first) || !are_links_alike(m, w, v, first))
				return false;
	}
	return true;
}

/* Do rings share anything but the links of two workers, whose turns the others' rings change? */
static bool shares_links(const struct orr_machine *m)
{
	const struct orr_cluster *c = m->cluster;
	bool any = c && c->shared;

	for (int g = 0; c && g < c->n_groups; g++)
		any = any || c->groups[g].ports || c->groups[g].lanes;
	return any;
}

bool orr_replicas_are_alike(const struct orr_pipeline *p)
{
	const struct orr_machine *m = &p->machine;
	int n = p->n_workers / p->replicas;

	if (p->replicas < 2 || p->n_workers % p->replicas || p->n_microbatches % p->replicas ||
	    n < orr_pipeline_widest(p) || p->microbatches || orr_pipeline_gathers(p) ||
	    orr_pipeline_has_gangs(p) || shares_links(m))
		return false;
	for (int r = 1; r < p->replicas && (m->cluster || m->levels.n); r++)
		if (!are_alike(m, r * n, n))
			return false;
	return true;
}

static long long multiple_above(int n, int k)
{
	return ((long long)n + k - 1) / k * k;
}

int orr_replicas_check(const struct orr_pipeline *p, const struct orr_schedule *schedule,
		       struct orr_error *err)
{
	int r = p->replicas, widest = orr_pipeline_widest(p), all = r * p->alike;
	int64_t least = larger(multiple_above(p->n_workers, r), (int64_t)r * widest);

	if (all < 2)
		return 0;
	if (schedule->asynchronous)
		return orr_fail(err, ORR_E_INPUT,
				"[replicas] %d: schedule %s never flushes, so whole replicas would "
				"be at different versions: give its stages replicas, as in "
				"pipedream:replicas=2-2, or take a schedule that flushes",
				all, schedule->name);
	for (int s = 0; s < p->n_stages; s++)
		if (orr_pipeline_n_at(p, s) > 1)
			return orr_fail(err, ORR_E_INPUT,
					"[replicas] %d: stage %d is on a gang of workers (gang=), "
					"of which there is one: leave one of them out",
					r, s);
	if (p->n_workers != least)
		return orr_fail(err, ORR_E_INPUT,
				"[replicas] %d, of as many workers each, and there are %d: set "
				"[workers] %lld",
				r, p->n_workers, (long long)least);
	if (p->n_microbatches % r)
		return orr_fail(err, ORR_E_INPUT,
				"[replicas] %d, of as many microbatches each, and there are %d: "
				"set [microbatches] %lld",
				r, p->n_microbatches, multiple_above(p->n_microbatches, r));
	return 0;
}
