/* Jobs of a pipeline whose graph was split: the schedule evaluated on groups of workers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "functions.h"
#include "orrery/jobs.h"
#include "orrery/schedule.h"

/* ---- the machine whose workers are groups ---- */

/* Groups of t workers each, as the levels join them; where they do not, as if they did. */
static void join_levels(struct orr_levels *levels, int t)
{
	for (int l = 0; l < levels->n && t > 1; l++) {
		int n = levels->workers[l];

		levels->workers[l] = n % t == 0 ? n / t : 1;
		t = n % t == 0 ? 1 : (t + n - 1) / n;
	}
}

static int64_t smaller_memory(int64_t a, int64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* A group is as fast and has as much room as its least worker, and is where its first one is. */
static int join_cluster(struct orr_cluster *c, const struct orr_machine *m, int n_groups,
			struct orr_error *err)
{
	int t = m->n_workers / n_groups;
	size_t n = (size_t)c->n_groups;

	c->workers = calloc((size_t)n_groups, sizeof(*c->workers));
	c->groups = malloc(n * sizeof(*c->groups));
	c->pairs = calloc((size_t)c->n_pairs + 1, sizeof(*c->pairs));
	if (!c->workers || !c->groups || !c->pairs)
		return orr_no_memory(err, "jobs");
	memcpy(c->groups, m->cluster->groups, n * sizeof(*c->groups));
	for (int g = 0; g < n_groups; g++) {
		struct orr_cluster_worker *group = &c->workers[g];

		*group = (struct orr_cluster_worker){.group = m->cluster->workers[g * t].group,
						     .speed = orr_machine_speed(m, g * t)};
		for (int w = g * t; w < (g + 1) * t; w++) {
			group->speed = fmin(group->speed, orr_machine_speed(m, w));
			group->memory_bytes =
				smaller_memory(group->memory_bytes, orr_machine_memory(m, w));
		}
	}
	c->n_pairs = 0;
	for (int i = 0; i < m->cluster->n_pairs; i++) {
		struct orr_cluster_pair pair = m->cluster->pairs[i];

		if (pair.from % t || pair.to % t || pair.to >= n_groups * t)
			continue;
		pair.from /= t;
		pair.to /= t;
		c->pairs[c->n_pairs++] = pair;
	}
	return 0;
}

/* Of workers that groups of them make; c is for those that differ. */
static int join_machine(struct orr_machine *out, struct orr_cluster *c, const struct orr_machine *m,
			int n_groups, struct orr_error *err)
{
	*out = *m;
	out->n_workers = n_groups;
	join_levels(&out->levels, m->n_workers / n_groups);
	if (!m->cluster)
		return 0;
	*c = *m->cluster;
	c->workers = NULL; /* its own, in place of those that are borrowed */
	c->groups = NULL;
	c->pairs = NULL;
	c->n_workers = n_groups;
	out->cluster = c;
	return join_cluster(c, m, n_groups, err);
}

/* ---- the schedule on groups ---- */

static void widen(struct orr_groups *x, int group, int width)
{
	x->first[group + 1] = (int)larger(x->first[group + 1], width);
}

/* As many workers as the widest stage that the schedule puts there; of one that has none, 1. */
static int number_workers(struct orr_groups *x, const struct orr_split *split,
			  struct orr_error *err)
{
	x->first = calloc((size_t)x->n + 1, sizeof(*x->first));
	if (!x->first)
		return orr_no_memory(err, "jobs");
	for (int j = 0; j < x->jobs->n_jobs; j++) {
		int width = split->width[orr_jobs_at(x->jobs, j).s];

		widen(x, x->jobs->compute[j], width);
		widen(x, x->jobs->weights[j], width);
	}
	for (int g = 0; g < x->n; g++) {
		widen(x, g, 1);
		x->first[g + 1] += x->first[g];
	}
	return 0;
}

static bool is_home(const int *home, const struct orr_groups *x)
{
	const struct orr_pipeline *whole = &x->pipeline;

	for (int i = 0; home && i < whole->n_stages * whole->n_microbatches / whole->replicas; i++)
		if (home[i] >= x->n / whole->replicas)
			return false;
	return home != NULL;
}

static int evaluate_groups(struct orr_groups *x, const struct orr_pipeline *p, int n,
			   const struct orr_schedule *schedule, const int *home,
			   struct orr_error *err)
{
	struct orr_schedule strict = *schedule;
	int code;

	if (schedule->order == ORR_ORDER_BOUNDED) /* room is that of the parts */
		strict.order = ORR_ORDER_STRICT;
	orr_groups_clear(x);
	x->n = n;
	x->pipeline = *p->split->whole;
	x->pipeline.n_workers = n;
	x->pipeline.n_microbatches = p->n_microbatches;
	x->pipeline.replicas = p->replicas;
	x->pipeline.numerics = p->numerics;
	x->pipeline.prefetch = p->prefetch;
	if (p->machine.cluster && p->machine.cluster->streams && !x->pipeline.microbatches)
		x->pipeline.parts = p;
	if ((code = join_machine(&x->pipeline.machine, &x->cluster, &p->machine, n, err)) ||
	    (code = orr_jobs_repeat(&x->jobs, &x->pipeline, &strict, is_home(home, x) ? home : NULL,
				    err)))
		return code;
	return number_workers(x, p->split, err);
}

static int least_width(const struct orr_split *split)
{
	int64_t least = split->width[0];

	for (int S = 0; S < split->whole->n_stages; S++)
		least = smaller(least, split->width[S]);
	return (int)larger(least, 1);
}

/* The most groups that the workers are enough for. Where all stages are as wide that is a division;
 * else it depends on where the schedule puts which, and with fewer groups it may refuse less. */
static int find_groups(struct orr_groups *x, const struct orr_pipeline *p,
		       const struct orr_schedule *schedule, const int *home, struct orr_error *err)
{
	int least = least_width(p->split), widest = orr_pipeline_widest(p);
	int most = p->n_workers / least, needs = 0, code = 0;
	int n = most -= most % p->replicas;
	struct orr_error first = {""}, why = {""};

	while (n > 0) {
		int over = 0;

		if (!(code = evaluate_groups(x, p, n, schedule, home, &why)))
			over = x->first[n] - p->n_workers;
		else if (n == most || code != ORR_E_INPUT)
			first = why;
		if (!code && over <= 0)
			return 0;
		if (!code)
			needs = x->first[n];
		if (least == widest || (code && code != ORR_E_INPUT))
			break;
		n -= over > widest ? over / widest : 1; /* at least one group less */
		n -= n % p->replicas;
	}
	if (!needs || (code && code != ORR_E_INPUT))
		return orr_fail(err, code,
				"%s (where a worker is a group of %d, since the graph is split)",
				first.msg, widest);
	return orr_fail(err, ORR_E_INPUT,
			"schedule %s: %d workers, and in groups that are as wide as their stages "
			"it needs %d: set [workers] %d, or split less (split=)",
			schedule->name, p->n_workers, needs, needs);
}

/* ---- the jobs of the parts ---- */

static int check(const struct orr_schedule *schedule, struct orr_error *err)
{
	if (!schedule->asynchronous)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"schedule %s never flushes, and the graph is split among workers, which "
			"would be at different versions: take a schedule that flushes, or no split",
			schedule->name);
}

/* The schedule is evaluated on the stages before the split, whose workers are groups, one behind
 * the other: as many as there is room for. A group has as many workers as the widest stage that the
 * schedule puts there. A job of worker i of a stage is on number i of its group, and takes the
 * place of the job of the whole stage, forward passes level by level and backward passes the other
 * way round. home is of the stages before the split, and of groups.
 *
 * A strict order of them cannot deadlock where that of the schedule cannot: take an order of all
 * jobs of the stages before which extends their dependencies and the order on every group, and put
 * in place of each job those of its parts, F by ascending level, B by descending level, and W after
 * any B that is in the same place. Parts of a stage exchange forward from lower to higher levels
 * and gradients from higher to lower ones, and what else a part waits for is a part of what its
 * whole waits for. So it extends all dependencies of the parts, and the order on every worker. */
static int create(struct orr_jobs **out, const struct orr_pipeline *p,
		  const struct orr_schedule *schedule, const int *home, struct orr_error *err)
{
	struct orr_groups *x = calloc(1, sizeof(*x));
	int code;

	if (!x)
		return orr_no_memory(err, "jobs");
	if (!(code = check(schedule, err)) && !(code = find_groups(x, p, schedule, home, err)) &&
	    !(code = orr_jobs_stand_in(out, p, schedule, &(struct orr_stand_in){x->jobs, x},
				       err))) {
		(*out)->groups = x;
		x = NULL;
	}
	orr_groups_destroy(x);
	return code;
}

int orr_jobs_create(struct orr_jobs **out, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, struct orr_error *err)
{
	return orr_jobs_create_at(out, p, schedule, NULL, err);
}

int orr_jobs_create_at(struct orr_jobs **out, const struct orr_pipeline *p,
		       const struct orr_schedule *schedule, const int *home, struct orr_error *err)
{
	int code = orr_replicas_check(p, schedule, err);

	return code       ? code
	       : p->split ? create(out, p, schedule, home, err)
			  : orr_jobs_repeat(out, p, schedule, home, err);
}
