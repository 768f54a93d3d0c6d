#ifndef ORR_JITTER_H
#define ORR_JITTER_H
/* Noise as simulate and compare are asked for it, and what came of it. */
#include <argp.h>
#include <jansson.h>
#include "orrery/noise.h"

struct jitter_options {
	struct orr_noise noise;
	const char *given; /* the first option of these; NULL: there is no noise */
	bool jitter;       /* --jitter was among them */
};

/* A child of a command's own argp, whose input is a struct jitter_options. */
extern const struct argp jitter_argp;
/* NULL: none. */
const struct orr_noise *jitter_noise(const struct jitter_options *o);

/* "noise: lognormal:0.2, 1000 samples, seed 1". Returns buffer. */
#define JITTER_TITLE 96
const char *jitter_title(char buffer[JITTER_TITLE], const struct orr_noise *noise);
/* A makespan of it, to five digits. Returns buffer. */
const char *jitter_duration(char *buffer, size_t size, int64_t ns, bool units);
void jitter_print(const struct orr_noise *noise, const struct orr_noisy *noisy, bool units);
/* {"jitter", "samples", "seed"}, and makespans {"strict", "greedy"}. New references; NULL: there
 * was no memory. */
json_t *jitter_json(const struct orr_noise *noise);
json_t *jitter_spreads_json(const struct orr_noisy *noisy);
#endif
