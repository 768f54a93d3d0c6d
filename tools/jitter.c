#include "jitter.h"

#include <stdio.h>

#include "options.h"
#include "orrery/quantity.h"

enum { KEY_JITTER = 768, KEY_SAMPLES, KEY_SEED };

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Noise:", 5},
	{"jitter", KEY_JITTER, "KIND:WIDTH", 0,
	 "durations of jobs and updates times a drawn factor of mean 1: lognormal:0.2 (the "
	 "standard "
	 "deviation of its logarithm), uniform:0.1 (0.9 to 1.1) or normal:0.1 (none is below 0)",
	 5},
	{"samples", KEY_SAMPLES, "N", 0, "steps drawn (1000)", 5},
	{"seed", KEY_SEED, "N", 0, "of the draws (1)", 5},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct jitter_options *o = state->input;
	struct orr_error err;

	switch (key) {
	case ARGP_KEY_INIT:
		o->noise.n_samples = 1000;
		o->noise.seed = 1;
		return 0;
	case KEY_JITTER:
		o->jitter = true;
		options_check(orr_noise_parse(&o->noise, arg, "--jitter", &err), &err);
		return 0;
	case KEY_SAMPLES:
		o->given = "--samples";
		o->noise.n_samples = (int)options_count("--samples", arg, 1, 10000000);
		return 0;
	case KEY_SEED:
		o->given = "--seed";
		o->noise.seed = (uint64_t)options_count("--seed", arg, 0, INT64_MAX);
		return 0;
	case ARGP_KEY_END:
		if (o->given && !o->jitter)
			options_refuse("%s: of noise, and there is none: give --jitter "
				       "lognormal:0.2, or leave it out",
				       o->given);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp jitter_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

const struct orr_noise *jitter_noise(const struct jitter_options *o)
{
	return o->jitter ? &o->noise : NULL;
}

const char *jitter_title(char buffer[JITTER_TITLE], const struct orr_noise *noise)
{
	char kind[32];

	(void)snprintf(buffer, JITTER_TITLE, "noise: %s, %d sample%s, seed %llu",
		       orr_noise_print(kind, sizeof(kind), noise), noise->n_samples,
		       noise->n_samples == 1 ? "" : "s", (unsigned long long)noise->seed);
	return buffer;
}

const char *jitter_duration(char *buffer, size_t size, int64_t ns, bool units)
{
	int64_t digit = 1;

	while (ns / digit >= 100000)
		digit *= 10;
	return orr_duration_print(buffer, size, (ns + digit / 2) / digit * digit, units);
}

static void print_spread(const char *name, const struct orr_spread *spread, bool units)
{
	const int64_t ns[] = {spread->plain_ns, spread->median_ns, spread->p95_ns,
			      spread->worst_ns};
	char cell[40];

	printf("  %-8s", name);
	for (int i = 0; i < 4; i++)
		printf("  %10s", jitter_duration(cell, sizeof(cell), ns[i], units));
	printf("\n");
}

void jitter_print(const struct orr_noise *noise, const struct orr_noisy *noisy, bool units)
{
	char title[JITTER_TITLE];

	printf("\n%s\n  %-8s  %10s  %10s  %10s  %10s\n", jitter_title(title, noise), "order",
	       "makespan", "median", "p95", "worst");
	print_spread("strict", &noisy->strict, units);
	if (noisy->has_greedy)
		print_spread("greedy", &noisy->greedy, units);
}

json_t *jitter_json(const struct orr_noise *noise)
{
	char kind[32];

	return json_pack("{s:s, s:i, s:I}", "jitter", orr_noise_print(kind, sizeof(kind), noise),
			 "samples", noise->n_samples, "seed", (json_int_t)noise->seed);
}

static json_t *spread_json(const struct orr_spread *spread)
{
	return json_pack("{s:f, s:f, s:f, s:f}", "makespan", (double)spread->plain_ns / 1e9,
			 "median", (double)spread->median_ns / 1e9, "p95",
			 (double)spread->p95_ns / 1e9, "worst", (double)spread->worst_ns / 1e9);
}

json_t *jitter_spreads_json(const struct orr_noisy *noisy)
{
	return json_pack("{s:o, s:o}", "strict", spread_json(&noisy->strict), "greedy",
			 noisy->has_greedy ? spread_json(&noisy->greedy) : json_null());
}
