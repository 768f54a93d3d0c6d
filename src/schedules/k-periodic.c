/* k-periodic patterns: the smallest 1-periodic one with every (k+1)-th microbatch left out. Where k
 * + 1 equal stages would hold k + 1 microbatches, they hold k, and k of them take k + 1 periods. */
#include "orrery/periodic.h"
#include "orrery/schedule.h"

static const struct orr_parameter parameters[] = {
	{"k", "microbatches of every k + 1 that run", ORR_PARAMETER_MICROBATCHES, 1, 1000000, 2,
	 NULL},
	{0},
};

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_workers != p->n_stages)
		return orr_fail(err, ORR_E_INPUT,
				"k-periodic: %d stages on %d workers: it takes one worker a stage",
				p->n_stages, p->n_workers);
	return 0;
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)b, (void)d, (void)data;
	return s;
}

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	int64_t k = ((const struct orr_value *)data)->integer;
	struct orr_star *x = NULL;
	int code = orr_star_create(&x, p, 0, err);

	for (int b = 0; !code && b < p->n_microbatches; b++)
		for (int s = 0; s < p->n_stages; s++) {
			int64_t start = (b + b / k) * x->period_ns;

			out->n[(b * p->n_stages + s) * 2] = 2 * (x->forward_ns[s] + start);
			out->n[(b * p->n_stages + s) * 2 + 1] = 2 * (x->backward_ns[s] + start) + 1;
		}
	orr_star_destroy(x);
	return code;
}

extern const struct orr_schedule orr_schedule_k_periodic;
const struct orr_schedule orr_schedule_k_periodic = {
	.name = "k-periodic",
	.summary = "1F1B with every (k+1)-th microbatch left out: fewer in flight",
	.paper = "Beaumont et al. 2021, theorem 4",
	.order = ORR_ORDER_STRICT,
	.parameters = parameters,
	.check = check,
	.compute = compute,
	.place = place,
};
