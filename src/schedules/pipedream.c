/* PipeDream's 1F1B-RR: asynchronous, stages replicated round robin [Narayanan19, section 3.2 and
 * figures 4 and 8].
 *
 * A stage with r replicas, on w workers from itself to the sink (along the path with most), admits
 * ceil(w / r) microbatches on each replica before its first backward: what [Narayanan19] calls NOAM
 * at the input. Of the round of r whose backward is next, r (ceil(w / r) - 1) microbatches are
 * ahead.
 *
 * That fills the pipeline where nothing is late. A round of replicas shares its gradients and so is
 * as late as its last one, and links take time; slack counts every stage still to come as so many
 * workers more. On a chain slack=1 is to pipedream what eager-1f1b is to 1f1b. */
#include "base/max.h"
#include "direct.h"

static const struct orr_parameter parameters[] = {
	{"slack", "microbatches more in flight for every stage still to come",
	 ORR_PARAMETER_MICROBATCHES, 0, 1 << 10, 0, NULL},
	{"replicas", "workers of each stage, 2-1: two for stage 0, one for stage 1 (one each)",
	 ORR_PARAMETER_LIST, 1, 1 << 20, 0, NULL},
	{0},
};

enum { SLACK, REPLICAS };

static int64_t replicas(const struct orr_value *value, int s)
{
	return value[REPLICAS].n_list ? value[REPLICAS].list[s] : 1;
}

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	const struct orr_value *value = data;
	int n = value[REPLICAS].n_list;

	if (n && n != p->n_stages)
		return orr_fail(err, ORR_E_INPUT,
				"schedule pipedream: replicas lists %d stages and there are %d: "
				"give one number a stage, or none",
				n, p->n_stages);
	for (int s = 0; s < p->n_stages; s++) {
		int64_t r = replicas(value, s);

		if (r > p->n_workers)
			return orr_fail(err, ORR_E_INPUT,
					"schedule pipedream: stage %d has %lld replicas and there "
					"are %d workers: take fewer, or more [workers]",
					s, (long long)r, p->n_workers);
		if (p->n_microbatches % r)
			return orr_fail(
				err, ORR_E_INPUT,
				"schedule pipedream: the %lld replicas of stage %d take turns, and "
				"%d microbatches are no multiple: change [microbatches]",
				(long long)r, s, p->n_microbatches);
	}
	return 0;
}

/* Stages take workers one after the other; with fewer workers than that it wraps around. */
static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	int64_t first = 0;

	(void)d;
	for (int before = 0; before < s; before++)
		first += replicas(data, before);
	return (int)((first + b % replicas(data, s)) % p->n_workers);
}

/* Microbatches ahead of the round of replicas whose backward is next. */
static int64_t ahead(const struct orr_pipeline *p, int s, const void *data)
{
	int64_t workers[ORR_MOST_LISTED],
		r = replicas(data, s); /* workers: from a stage to the sink */
	const struct orr_value *value = data;
	int64_t slack = value[SLACK].integer;

	if (!value[REPLICAS].n_list)
		return (p->stages[s].depth - 1) * (1 + slack);
	for (int at = p->n_stages - 1; at >= s; at--) {
		workers[at] = 0;
		for (int i = 0; i < p->stages[at].n_out; i++) {
			int after = orr_stage_after(p, at, i);

			workers[at] = larger(workers[at], workers[after] + slack);
		}
		workers[at] += replicas(data, at);
	}
	return (workers[s] + r - 1) / r * r - r;
}

/* ahead() shrinks from stage to stage, so n extends every dependency. No update waits in vain
 * either: the backwards of a round of replicas all come before the forwards that read what it
 * makes. */
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int64_t n = d == ORR_PASS_F ? 2 * (int64_t)b - ahead(p, s, data)
				    : 2 * (int64_t)b + ahead(p, s, data) + 1;

	/* of stages that share a worker: backward first, then the stage nearer to the input */
	return (2 * n + (d == ORR_PASS_F)) * p->n_stages + s;
}

const struct orr_schedule orr_schedule_pipedream = {
	.name = "pipedream",
	.summary = "1F1B without a flush, weight versions, stages replicated round robin (1F1B-RR)",
	.paper = "Narayanan et al. 2019 (PipeDream)",
	.asynchronous = true,
	.parameters = parameters,
	.check = check,
	.compute = compute,
	.priority = priority,
};
