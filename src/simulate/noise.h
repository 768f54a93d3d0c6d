#pragma once
/* Noise: durations that differ from run to run. Each sample simulates the jobs once, every duration
 * times a drawn factor, and the makespans of many samples say what an order is worth where
 * durations are not what was measured. */
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"

ORR_BEGIN

enum orr_noise_kind {
	ORR_NOISE_LOGNORMAL, /* mean 1; width: the standard deviation of the factor's logarithm */
	ORR_NOISE_UNIFORM,   /* 1 - width to 1 + width */
	ORR_NOISE_NORMAL     /* mean 1, standard deviation width, cut off at 0 */
};
struct orr_noise {
	enum orr_noise_kind kind;
	double width; /* 0: none */
	uint64_t seed;
	int n_samples;
};

/* "lognormal:0.2", the kind and the width; seed and n_samples stay. what: the place for the
 * message. */
int orr_noise_parse(struct orr_noise *noise, const char *text, const char *what,
		    struct orr_error *err);
/* The same again. Returns buffer. */
const char *orr_noise_print(char *buffer, size_t size, const struct orr_noise *noise);

/* The factor of job (s,b,d) in a sample, in units of 2^-20: a function of seed, sample, s, b and d
 * alone, so that all schedules, orders and placements meet the same draws, and the same bits on
 * every processor. d ORR_N_PASSES and b 0: of the updates of stage s. */
#define ORR_NOISE_ONE (1 << 20)
int64_t orr_noise_factor(const struct orr_noise *noise, int sample, int s, int b, int d);

/* Jobs as a sample has them: all but their durations and those of updates is borrowed. Transfers
 * take what they take without noise. */
struct orr_sample {
	struct orr_jobs jobs;
	struct orr_pipeline pipeline;
	const struct orr_jobs *plain; /* borrowed */
};
int orr_sample_init(struct orr_sample *sample, const struct orr_jobs *jobs, struct orr_error *err);
/* May be called again with another number, counted from 0. Refuses durations that add up to more
 * than can be counted. */
int orr_sample_draw(struct orr_sample *sample, const struct orr_noise *noise, int number,
		    struct orr_error *err);
void orr_sample_fini(struct orr_sample *sample); /* all zeros is fine */

/* Makespans of one order. A quantile q of n samples is the ceil(q n)-th shortest of them. */
struct orr_spread {
	int64_t plain_ns; /* without noise */
	int64_t median_ns, p95_ns, worst_ns;
};
/* In strict order and greedily, of a strict schedule in its memory (orr_jobs_free), of a greedy one
 * strictly as it runs without noise (orr_jobs_fix). */
struct orr_noisy {
	struct orr_spread strict, greedy;
	bool has_greedy; /* not without a flush, nor where stashes move */
};
/* Samples run on all cores; the result does not depend on how many there are. */
int orr_noise_run(struct orr_noisy *out, const struct orr_jobs *jobs, const struct orr_noise *noise,
		  struct orr_error *err);

/* ---- reports of it ---- */

/* "noise: lognormal:0.2, 1000 samples, seed 1"; see orr_text(). */
const char *orr_noise_title(const struct orr_noise *noise);
/* A makespan of it, to five digits. */
const char *orr_noise_duration(int64_t ns, bool units);
/* Two rows of makespans, under a heading. */
void orr_noise_write(FILE *file, const struct orr_noise *noise, const struct orr_noisy *noisy,
		     bool units);
/* {"jitter", "samples", "seed"}, and makespans {"strict", "greedy"}. New references; NULL: there
 * was no memory. */
json_t *orr_noise_json(const struct orr_noise *noise);
json_t *orr_noisy_json(const struct orr_noisy *noisy);

ORR_END
