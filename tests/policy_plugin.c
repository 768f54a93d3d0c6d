/* Policies that no built-in schedule has, put together from words: which worker computes a job,
 * which one owns its parameters, and in which order jobs run. Compiled with ORDER and SPLIT. */
#include "orrery/schedule.h"

enum { COMPUTE, WEIGHTS, TURN, CAP, AGAIN, SEED };

static const struct orr_parameter parameters[] = {
	{"compute", "", ORR_PARAMETER_WORD, 0, 0, 0, "stage|microbatch|sum|pass|apart|drawn"},
	/* of the first two one owner a stage, of the others several */
	{"weights", "", ORR_PARAMETER_WORD, 0, 0, 0,
	 "stage|placed|microbatch|pairs|drawn|by-pass|here"},
	{"turn", "", ORR_PARAMETER_WORD, 0, 0, 0, "depth|breadth|wave|last"},
	{"cap", "microbatches in flight; 0: any number", ORR_PARAMETER_INTEGER, 0, 99, 0, 0},
	{"again", "percent of the stages that are recomputed", ORR_PARAMETER_INTEGER, 0, 100, 0, 0},
	{"seed", "of what is drawn", ORR_PARAMETER_INTEGER, 0, 1e9, 0, 0},
	{0},
};

static int64_t value(const void *data, int i)
{
	return ((const struct orr_value *)data)[i].integer;
}

/* (lowbias32; Chris Wellons, public domain) */
static uint32_t draw(const void *data, int s, int b, int d)
{
	uint32_t x = (uint32_t)value(data, SEED);
	const int of[] = {s, b, d};

	for (int i = 0; i < 3; i++) {
		x += (uint32_t)of[i] + 1;
		x = (x ^ x >> 16) * 0x7feb352du;
		x = (x ^ x >> 15) * 0x846ca68bu;
		x ^= x >> 16;
	}
	return x;
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const uint32_t of[] = {(uint32_t)s,
			       (uint32_t)b,
			       (uint32_t)(s + b),
			       (uint32_t)(s + (int)d),
			       (uint32_t)(s + b + (int)d),
			       draw(data, s, b, (int)d)};

	return (int)(of[value(data, COMPUTE)] % (uint32_t)p->n_workers);
}

static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const uint32_t of[] = {(uint32_t)s,
			       draw(data, s, -1, -1),
			       (uint32_t)b,
			       (uint32_t)(b / 2),
			       draw(data, s, b, -1),
			       draw(data, s, b, (int)d),
			       (uint32_t)compute(p, s, b, d, data)};

	return (int)(of[value(data, WEIGHTS)] % (uint32_t)p->n_workers);
}

/* An order that extends all dependencies, so that no worker waits for itself. */
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int64_t n_stages = p->n_stages, n = p->n_microbatches, last = 2 * n_stages - 1 - s;
	int64_t at = d == ORR_PASS_F ? s : d == ORR_PASS_B ? last : 2 * n_stages + s;

	switch (value(data, TURN)) {
	case 0: /* a microbatch after the other */
		return b * 3 * n_stages + at;
	case 1: /* all of a pass */
		return at * n + b;
	case 2: /* F and B in turn */
		return (2 * b + at) * 3 * n_stages * n + b * 3 * n_stages + at;
	default: /* the last microbatch comes back first */
		return d == ORR_PASS_F ? b * n_stages + s
				       : (2 * n - b) * 3 * n_stages + at - n_stages;
	}
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p, (void)s;
	return (int)value(data, CAP);
}

static bool recompute(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p;
	return draw(data, s, -2, -2) % 100 < (uint32_t)value(data, AGAIN);
}

static const struct orr_schedule policy = {
	.name = "policy",
	.summary = "put together from words",
	.parameters = parameters,
	.order = ORDER,
	.split_backward = SPLIT,
	.compute = compute,
	.weights = weights,
	.priority = priority,
	.in_flight = in_flight,
	.recompute = recompute,
};
ORR_PLUGIN(policy);
