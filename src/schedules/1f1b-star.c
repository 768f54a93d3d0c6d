/* 1F1B*: of all orders that repeat every T, the one that holds the fewest microbatches on every
 * stage. A larger T is slower and holds fewer; the smallest is the longest stage's F + B.
 * k-periodic patterns are the smallest one with every (k+1)-th microbatch left out: where k + 1
 * equal stages would hold k + 1 microbatches, they hold k, and k of them take k + 1 periods. */
#include "order/periodic.h"
#include "direct.h"

static const struct orr_parameter star_parameters[] = {
	{"T", "period; 0: the smallest", ORR_PARAMETER_DURATION, 0, 9e18, 0, NULL},
	{0},
};

static const struct orr_parameter k_parameters[] = {
	{"k", "microbatches of every k + 1 that run", ORR_PARAMETER_MICROBATCHES, 1, 1000000, 2,
	 NULL},
	{0},
};

static int check(const struct orr_pipeline *p, const char *name, struct orr_error *err)
{
	if (p->n_workers != p->n_stages)
		return orr_fail(err, ORR_E_INPUT,
				"%s: %d stages on %d workers: it takes one worker a stage", name,
				p->n_stages, p->n_workers);
	return 0;
}

static int star_check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	const struct orr_value *T = data;

	if (T->ns && T->units != p->units)
		return orr_fail(err, ORR_E_INPUT,
				"1f1b-star: T is %s and the model's times are %s: give T in those",
				T->units ? "a number of units" : "a duration",
				p->units ? "units" : "durations");
	return check(p, "1f1b-star", err);
}

static int k_check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	return check(p, "k-periodic", err);
}

/* In the order of the starts; a pass that takes no time goes first, and F before B. data: T or k;
 * one period in k + 1 stays empty. */
static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	const struct orr_value *value = data;
	int64_t k = value->integer ? value->integer : INT64_MAX;
	struct orr_star x;
	int code = orr_star_init(&x, p, value->ns, err);

	for (int b = 0; !code && b < p->n_microbatches; b++)
		for (int s = 0; s < p->n_stages; s++) {
			int64_t start = (b + b / k) * x.period_ns,
				*n = &out->n[(b * p->n_stages + s) * 2];

			n[0] = 2 * (x.forward_ns[s] + start);
			n[1] = 2 * (x.backward_ns[s] + start) + 1;
		}
	orr_arrays_free(&x.all);
	return code;
}

const struct orr_schedule orr_schedule_1f1b_star = {
	.name = "1f1b-star",
	.summary = "the least memory of any order that repeats every T",
	.paper = "Beaumont et al. 2021, algorithm 1",
	.parameters = star_parameters,
	.check = star_check,
	.compute = orr_compute_in_turn,
	.place = place,
};

const struct orr_schedule orr_schedule_k_periodic = {
	.name = "k-periodic",
	.summary = "1F1B with every (k+1)-th microbatch left out: fewer in flight",
	.paper = "Beaumont et al. 2021, theorem 4",
	.parameters = k_parameters,
	.check = k_check,
	.compute = orr_compute_in_turn,
	.place = place,
};
