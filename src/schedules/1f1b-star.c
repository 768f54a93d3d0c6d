/* 1F1B*: of all orders that repeat every T, the one that holds the fewest microbatches on every
 * stage. A larger T is slower and holds fewer; the smallest is the longest stage's F + B. */
#include "orrery/periodic.h"
#include "orrery/schedule.h"

static const struct orr_parameter parameters[] = {
	{"T", "period; 0: the smallest", ORR_PARAMETER_DURATION, 0, 9e18, 0, NULL},
	{0},
};

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	const struct orr_value *T = data;

	if (T->ns && T->units != p->units)
		return orr_fail(err, ORR_E_INPUT,
				"1f1b-star: T is %s and the model's times are %s: give T in those",
				T->units ? "a number of units" : "a duration",
				p->units ? "units" : "durations");
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
static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	struct orr_star *x = NULL;
	int code = orr_star_create(&x, p, ((const struct orr_value *)data)->ns, err);

	for (int b = 0; !code && b < p->n_microbatches; b++)
		for (int s = 0; s < p->n_stages; s++) {
			out->n[(b * p->n_stages + s) * 2] =
				2 * (x->forward_ns[s] + b * x->period_ns);
			out->n[(b * p->n_stages + s) * 2 + 1] =
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
	.place = place,
};
