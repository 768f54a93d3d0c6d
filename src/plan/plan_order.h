#pragma once
/* From stages on workers to the order of every worker's jobs. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"

struct orr_pipeline;
struct orr_table;

/* Microbatch b of stage s is on the worker workers[first[s] + turns[s * n_microbatches + b]]; at
 * most cap[s] of its microbatches are in flight. */
struct orr_assignment {
	const int *workers, *first, *replicas;
	int *turns;           /* as orr_machine_turns() has them */
	int *cap;             /* filled by orr_assignment_cap */
	bool tight;           /* caps were lowered, and must be kept */
	int64_t wanted_bytes; /* then the need of the fullest worker with the original caps */
};

/* Set the caps to the smallest that keep every worker after s busy: s's replicas plus those on the
 * path from it to a sink that has most. */
void orr_assignment_cap(struct orr_assignment *x, const struct orr_pipeline *p);

/* Lower the caps to what every worker has room for beside its parameters, gradients and optimizer's
 * state, but not below a microbatch. A longer period holds less, as in 1F1B* [Beaumont21]. */
void orr_assignment_fit(struct orr_assignment *x, const struct orr_pipeline *p);

/* The better of two orders on p, whose step is set: 1F1B by its closed form, and one forward one
 * backward as they come, a backward first, under the caps [Narayanan19]; where they are tight, only
 * the second. */
int orr_assignment_order(struct orr_table **out, const struct orr_assignment *x,
			 const struct orr_pipeline *p, int64_t *makespan_ns, struct orr_error *err);
/* The same stages, each also after the one before it. */
int orr_pipeline_flatten(struct orr_pipeline **out, const struct orr_pipeline *p,
			 struct orr_error *err);
