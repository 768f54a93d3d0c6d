/* Plug-ins that must be refused; BAD chooses which. Their schedule has the symbol of a built-in
 * one, as a copy of its file has. */
#include <stdlib.h>
#include "orrery/schedule.h"

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d, (void)data;
	if (BAD == 7) /* crashes */
		abort();
	return BAD == 1 ? p->n_workers + s : s % p->n_workers; /* 1: out of range */
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int64_t n = (int64_t)b * p->n_stages + s;

	(void)data;
	if (BAD == 2) /* equal */
		return 1;
	return d == ORR_PASS_F ? n : -1 - n; /* 3: all backwards before the forwards */
}

/* 6: refuses with a code that is none, and without a word */
static int lay_out(const struct orr_pipeline *p, const void *data, int64_t *n,
		   struct orr_error *err)
{
	(void)p, (void)data, (void)n, (void)err;
	return 1;
}

/* 8 and 9: an order that is there, and a bound that it proves wrong */
static int place(const struct orr_pipeline *p, const void *data, int *worker, int64_t *n,
		 int64_t *bound_ns, struct orr_error *err)
{
	(void)data, (void)err;
	for (int s = 0; s < p->n_stages; s++)
		worker[s] = 0;
	for (int i = 0; i < 2 * p->n_stages * p->n_microbatches; i++) {
		int s = i / 2 % p->n_stages, b = i / 2 / p->n_stages;

		n[i] = 2 * b * p->n_stages + (i % 2 ? 2 * p->n_stages - 1 - s : s);
	}
	*bound_ns = BAD == 8 ? INT64_MAX : -1;
	return 0;
}

extern const struct orr_schedule orr_schedule_1f1b;
const struct orr_schedule orr_schedule_1f1b = {
	.name = "bad",
	.summary = "must be refused",
	.order = ORR_ORDER_STRICT,
	.compute = compute,
	.priority = priority,
	.lay_out = BAD == 6 ? lay_out : NULL,
	.place = BAD >= 8 ? place : NULL,
};

#if BAD == 4
extern const struct orr_plugin orr_plugin;
const struct orr_plugin orr_plugin = {ORR_SCHEDULE_VERSION + 1, sizeof(struct orr_schedule),
				      &orr_schedule_1f1b};
#elif BAD == 5 /* no symbol */
extern const struct orr_schedule *const unheard_of;
const struct orr_schedule *const unheard_of = &orr_schedule_1f1b;
#else
ORR_PLUGIN(orr_schedule_1f1b);
#endif
