#include "simulate/noise.h"

#include <stdio.h>

#include "base/json.h"
#include "base/quantity.h"

const char *orr_noise_title(const struct orr_noise *noise)
{
	char kind[32];

	return orr_text("noise: %s, %s, seed %llu", orr_noise_print(kind, sizeof(kind), noise),
			orr_count_text(noise->n_samples, "sample"),
			(unsigned long long)noise->seed);
}

const char *orr_noise_duration(int64_t ns, bool units)
{
	int64_t digit = 1;

	while (ns / digit >= 100000)
		digit *= 10;
	return orr_duration_text((ns + digit / 2) / digit * digit, units);
}

static void write_spread(FILE *file, const char *name, const struct orr_spread *x, bool units)
{
	fprintf(file, "  %-8s  %10s  %10s  %10s  %10s\n", name,
		orr_noise_duration(x->plain_ns, units), orr_noise_duration(x->median_ns, units),
		orr_noise_duration(x->p95_ns, units), orr_noise_duration(x->worst_ns, units));
}

void orr_noise_write(FILE *file, const struct orr_noise *noise, const struct orr_noisy *noisy,
		     bool units)
{
	fprintf(file, "\n%s\n  %-8s  %10s  %10s  %10s  %10s\n", orr_noise_title(noise), "order",
		"makespan", "median", "p95", "worst");
	write_spread(file, "strict", &noisy->strict, units);
	if (noisy->has_greedy)
		write_spread(file, "greedy", &noisy->greedy, units);
}

json_t *orr_noise_json(const struct orr_noise *noise)
{
	char kind[32];

	return json_pack("{s:s, s:i, s:I}", "jitter", orr_noise_print(kind, sizeof(kind), noise),
			 "samples", noise->n_samples, "seed", (json_int_t)noise->seed);
}

static json_t *spread_json(const struct orr_spread *spread)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "makespan", orr_json_time(spread->plain_ns),
			 "median", orr_json_time(spread->median_ns), "p95",
			 orr_json_time(spread->p95_ns), "worst", orr_json_time(spread->worst_ns));
}

json_t *orr_noisy_json(const struct orr_noisy *noisy)
{
	return json_pack("{s:o, s:o}", "strict", spread_json(&noisy->strict), "greedy",
			 noisy->has_greedy ? spread_json(&noisy->greedy) : json_null());
}
