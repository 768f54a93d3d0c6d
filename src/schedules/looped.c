/* Looped pipelines [Rahimi25]: the W workers form G groups of R; group b mod G takes microbatch b,
 * and inside a group the stages go round the R workers: h(s,b) = (R b mod W) + (s mod R). */
#include "base/max.h"
#include "direct.h"
#include "one_f_one_b.h"
#include "rounds.h"

/* In the order of parameters; 0: not given. */
enum { LOOPED_G, LOOPED_R, LOOPED_MEMORY, LOOPED_ORDER };
enum { LOOPED_1F1B, LOOPED_BREADTH, LOOPED_DEPTH };

static const struct orr_parameter parameters[] = {
	{"G", "groups of workers; 0: workers/R", ORR_PARAMETER_WORKERS, 0, 1 << 20, 0, NULL},
	{"R",
	 "workers in a group; 0: workers/G, or the most that divides them and is at most the "
	 "stages",
	 ORR_PARAMETER_WORKERS, 0, 1 << 20, 0, NULL},
	{"memory",
	 "stashes per worker: sets G = microbatches/2 and R = 2 stages/memory; 0: not used",
	 ORR_PARAMETER_STASHES, 0, 1 << 20, 0, NULL},
	{"order",
	 "1f1b: backward before forward; breadth: all of a group's microbatches pass a round "
	 "before any passes the next; depth: R microbatches at a time pass all rounds",
	 ORR_PARAMETER_WORD, 0, 0, LOOPED_1F1B, "1f1b|breadth|depth"},
	{0},
};

static int group_size(const struct orr_pipeline *p, const void *data)
{
	const struct orr_value *value = data;
	int r = (int)smaller(p->n_stages, p->n_workers);

	if (value[LOOPED_MEMORY].integer)
		return (int)(2 * p->n_stages / value[LOOPED_MEMORY].integer);
	if (value[LOOPED_R].integer)
		return (int)value[LOOPED_R].integer;
	if (value[LOOPED_G].integer)
		return (int)(p->n_workers / value[LOOPED_G].integer);
	while (p->n_workers % r)
		r--;
	return r;
}

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	const struct orr_value *value = data;
	int64_t r = group_size(p, data), g = r ? p->n_workers / r : 0;
	int64_t want_g =
		value[LOOPED_MEMORY].integer ? p->n_microbatches / 2 : value[LOOPED_G].integer;

	if (value[LOOPED_MEMORY].integer && (value[LOOPED_G].integer || value[LOOPED_R].integer))
		return orr_fail(err, ORR_E_INPUT,
				"lpp, fslpp: memory sets G and R: give memory alone, or G and R");
	if (value[LOOPED_MEMORY].integer &&
	    (2 * p->n_stages % value[LOOPED_MEMORY].integer || p->n_microbatches % 2))
		return orr_fail(err, ORR_E_INPUT,
				"lpp, fslpp: memory=%d needs an even number of microbatches and a "
				"divisor of twice the %d stages",
				(int)value[LOOPED_MEMORY].integer, p->n_stages);
	if (r && g * r == p->n_workers && (!want_g || want_g == g))
		return 0;
	g = want_g ? want_g : larger(g, 1);
	return orr_fail(err, ORR_E_INPUT,
			"lpp, fslpp: G=%lld groups of R=%lld workers are not %d workers: "
			"set [workers] %lld, or another G and R",
			(long long)g, (long long)r, p->n_workers, (long long)g * r);
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	int r = group_size(p, data);

	(void)d;
	return (int)((int64_t)r * b % p->n_workers) + s % r;
}

/* Over the microbatches of the group. */
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int r = group_size(p, data), n_groups = p->n_workers / r;
	struct rounds o = {r, (p->n_stages + r - 1) / r,
			   (p->n_microbatches + n_groups - 1) / n_groups};

	switch (((const struct orr_value *)data)[LOOPED_ORDER].integer) {
	case LOOPED_BREADTH:
		return rounds_breadth_first(&o, s / r, b / n_groups, d);
	case LOOPED_DEPTH:
		return rounds_depth_first(&o, s % r, s / r, b / n_groups, d);
	default:
		return one_f_one_b(p, s, b / n_groups, d, p->stages[s].depth);
	}
}

/* Looped pipeline parallelism: between ddp (R = 1) and a pipeline (R = W). */
const struct orr_schedule orr_schedule_lpp = {
	.name = "lpp",
	.summary = "looped pipeline: G groups of R workers, stages go round in a group",
	.paper = "Rahimi 2025, table 1; breadth: Lamy-Poirier 2023",
	.parameters = parameters,
	.check = check,
	.compute = compute,
	.priority = priority,
};

/* Fully sharded: lpp with one owner of each stage's parameters, h(s,s). */
static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b;
	return compute(p, s, s, d, data);
}

const struct orr_schedule orr_schedule_fslpp = {
	.name = "fslpp",
	.summary = "fully sharded looped pipeline: lpp with one owner of each stage's parameters",
	.paper = "Rahimi 2025, table 1; breadth: Lamy-Poirier 2023",
	.parameters = parameters,
	.check = check,
	.compute = compute,
	.weights = weights,
	.priority = priority,
};
