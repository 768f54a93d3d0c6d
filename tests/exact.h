#pragma once
/* The shortest step of a few jobs, by branch and bound over every start that can matter, and the
 * least busy workers, by counting on every placement: optima to hold searches and bounds against,
 * which share no code with them. */
#include <stdbool.h>
#include <stdint.h>

#define EXACT_STAGES 7
#define EXACT_JOBS 48

struct exact {
	int n_stages, n_workers, n_microbatches;
	int64_t duration[EXACT_STAGES][3]; /* F, B, W */
	int n_edges, from[3 * EXACT_STAGES], to[3 * EXACT_STAGES];
	int64_t sends[EXACT_STAGES]; /* how long a link takes for what a stage makes, one way, or
					added, both; exact_busiest() alone counts it */
	int most; /* stashes of stages that a worker holds, from the start of F to the end of W; 0:
		     any */
	bool parks; /* a stash is away from the end of F to the start of the job before B, in the
		       order of its worker, if that is beside one job at least */
};

/* On these workers, or `known` where nothing is shorter than that. */
int64_t exact_on(const struct exact *x, const int *worker, int64_t known);
/* On any. */
int64_t exact_anywhere(const struct exact *x, int64_t known);
/* What the busiest worker takes for a microbatch, at least, with no limit of memory. added: to what
 * it computes comes what it sends, once, and what it reads, each once there and back; else links
 * are busy by themselves, each from one worker to another, and the busiest counts like a worker. */
int64_t exact_busiest(const struct exact *x, bool added);
