/* 1F1B*: of all orders that repeat every T, the one that holds the fewest microbatches on every
 * stage. A larger T is slower and holds fewer; the smallest is the longest stage's F + B. */
#include "orrery/periodic.h"
#include "orrery/schedule.h"

static const struct orr_parameter parameters[] = {
	{"T", "period: units in a study, else microseconds; 0: the smallest", 0,
	 INT64_C(1000000000000), 0, ORR_PARAMETER_PERIOD},
	{0},
};
static const int64_t defaults[] = {0};

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_workers != p->n_stages)
		return orr_fail(err, ORR_E_INPUT,
				"1f1b-star: %d stages on %d workers: it takes one worker a stage",
				p->n_stages, p->n_workers);
	return 0;
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)b, (void)d, (void)data;
	return s;
}

/* In the order of the starts; a pass that takes no time goes first, and F before B. */
static int lay_out(const struct orr_pipeline *p, const void *data, int64_t *n,
		   struct orr_error *err)
{
	int64_t period_ns = *(const int64_t *)data * (p->units ? ORR_UNIT_NS : 1000);
	struct orr_star *x = NULL;
	int code = orr_star_create(&x, p, period_ns, err);

	for (int b = 0; !code && b < p->n_microbatches; b++)
		for (int s = 0; s < p->n_stages; s++) {
			n[(b * p->n_stages + s) * 2] = 2 * (x->forward_ns[s] + b * x->period_ns);
			n[(b * p->n_stages + s) * 2 + 1] =
				2 * (x->backward_ns[s] + b * x->period_ns) + 1;
		}
	orr_star_destroy(x);
	return code;
}

extern const struct orr_schedule orr_schedule_1f1b_star;
const struct orr_schedule orr_schedule_1f1b_star = {
	.name = "1f1b-star",
	.summary = "the least memory of any order that repeats every T",
	.paper = "Beaumont et al. 2021, algorithm 1",
	.order = ORR_ORDER_STRICT,
	.parameters = parameters,
	.check = check,
	.compute = compute,
	.lay_out = lay_out,
	.data = defaults,
};
