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

/* 6: refuses with a code that is none, and without a word; 10 and 11: fills in too little; 8 and 9:
 * an order that is there, and a bound that it proves wrong */
static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	(void)data, (void)err;
	if (BAD == 6)
		return 1;
	for (int i = 0; i < 2 * p->n_stages * p->n_microbatches; i++) {
		int s = i / 2 % p->n_stages, b = i / 2 / p->n_stages;

		if (BAD != 10)
			out->worker[i] = 0;
		if (BAD != 11)
			out->n[i] = 2 * b * p->n_stages + (i % 2 ? 2 * p->n_stages - 1 - s : s);
	}
	out->bound_ns = BAD == 8 ? INT64_MAX : BAD == 9 ? -1 : 0;
	return 0;
}

static const struct orr_parameter parameters[] = {
#if BAD == 12
	{"x", "a default out of range", ORR_PARAMETER_REAL, 0, 1, 1.5, NULL},
#elif BAD == 13
	{"x", "a kind that there is not", (enum orr_parameter_kind)99, 0, 1, 0, NULL},
#elif BAD == 14
	{"x", "a word of none", ORR_PARAMETER_WORD, 0, 1, 0, NULL},
#elif BAD == 15
	{"x", "the third of two words", ORR_PARAMETER_WORD, 0, 2, 2, "a|b"},
#elif BAD == 16
	{"a", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
	{"b", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
	{"c", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
	{"d", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
	{"e", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
	{"f", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
	{"g", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
	{"h", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
	{"i", "", ORR_PARAMETER_INTEGER, 0, 1, 0, NULL},
#endif
	{0},
};

#define PLACES (BAD == 6 || (BAD >= 8 && BAD <= 11))
extern const struct orr_schedule orr_schedule_1f1b;
const struct orr_schedule orr_schedule_1f1b = {
	.name = "bad",
	.summary = "must be refused",
	.order = ORR_ORDER_STRICT,
	.parameters = parameters,
	.compute = PLACES || BAD == 17 ? NULL : compute, /* 17: nothing says where */
	.priority = PLACES ? NULL : priority,
	.place = PLACES ? place : NULL,
};

#if BAD == 4 /* of another version, */
extern const struct orr_plugin orr_plugin;
const struct orr_plugin orr_plugin = {ORR_SCHEDULE_VERSION + 1, ORR_SIZES, &orr_schedule_1f1b};
#elif BAD == 18 /* of version 7, */
extern const struct {
	int version;
	size_t size;
	const struct orr_schedule *schedule;
} orr_plugin;
__typeof__(orr_plugin) orr_plugin = {7, sizeof(struct orr_schedule), &orr_schedule_1f1b};
#elif BAD == 19 /* or where stages are larger */
extern const struct orr_plugin orr_plugin;
struct orr_larger {
	struct orr_stage stage;
	double weight;
};
#define orr_stage orr_larger
const struct orr_plugin orr_plugin = {ORR_SCHEDULE_VERSION, ORR_SIZES, &orr_schedule_1f1b};
#elif BAD == 5 /* no symbol */
extern const struct orr_schedule *const unheard_of;
const struct orr_schedule *const unheard_of = &orr_schedule_1f1b;
#else
ORR_PLUGIN(orr_schedule_1f1b);
#endif
