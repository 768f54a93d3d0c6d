/* A plug-in with a parameter of every kind, which it prints. */
#include "orrery/schedule.h"

static const struct orr_parameter parameters[] = {
	{"integer", "", ORR_PARAMETER_INTEGER, -3, 9, 2, NULL},
	{"memory", "", ORR_PARAMETER_MEMORY, 0, 100, 0, NULL},
	{"real", "", ORR_PARAMETER_REAL, -0.5, 1.5, 0.25, NULL},
	{"word", "", ORR_PARAMETER_WORD, 0, 0, 1, "left|right|up"},
	{"size", "", ORR_PARAMETER_SIZE, 0, 1e9, 4096, NULL},
	{"list", "", ORR_PARAMETER_LIST, 1, 9, 0, NULL}, /* not the last */
	{"duration", "", ORR_PARAMETER_DURATION, 0, 5e9, 1500, NULL},
	{0},
};

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	const struct orr_value *v = data;

	(void)p;
	return orr_fail(err, ORR_E_INPUT,
			"%lld, %lld or %lld B, %g, %lld, %lld B, %d: %lld, %lld ns%s",
			(long long)v[0].integer, (long long)v[1].integer, (long long)v[1].bytes,
			v[2].real, (long long)v[3].integer, (long long)v[4].bytes, v[5].n_list,
			v[5].n_list ? (long long)v[5].list[v[5].n_list - 1] : 0LL,
			(long long)v[6].ns, v[6].units ? ", in units" : "");
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)s, (void)b, (void)d, (void)data;
	return 0;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	(void)p, (void)s, (void)b, (void)d, (void)data;
	return 0;
}

static const struct orr_schedule kinds = {
	.name = "kinds",
	.summary = "prints its parameters",
	.parameters = parameters,
	.check = check,
	.compute = compute,
	.priority = priority,
};
ORR_PLUGIN(kinds);
