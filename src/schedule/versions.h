#pragma once
/* Weight versions of an asynchronous schedule [Narayanan19, section 3.3]: the version of its
 * stage's parameters that each pass reads, the version that each update makes and from which
 * microbatches, and how long a version is held. All of it follows from the order of n, so every
 * rank computes it without messages.
 *
 * Version 0 is what training starts from. Update v of stage s is made of the microbatches [(v-1) u,
 * v u), u = every[s]: accumulate of them on each of the stage's replicas, their gradients averaged
 * over the samples. It runs after the last pass of the last of them and makes version v from
 * version v-1, on every replica. The latest version at a job is that of the updates before it in
 * the order of n.
 *
 *   stashing  F reads the latest version, B and W read the one that F read
 *   vertical  all stages read versions made of equally many microbatches: of those in the version
 *             that the microbatch read at the input (of several input stages, the one that has seen
 *             fewest; after frozen ones, the first that are trained)
 *   none      every pass reads the latest version, so B may differ from F: no valid gradient, and
 *             another one where F is recomputed, by the version of B
 *
 * b is a microbatch counted from the start of training. On a straight pipeline of n stages with an
 * update a microbatch, microbatch t at stage s (from 0) reads version t-n+1+s under stashing and
 * t-n+1 under vertical sync, or 0 where that is below 0. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

ORR_BEGIN

struct orr_jobs;

#define ORR_NEVER INT32_MAX
struct orr_versions {
	int n_stages, n_microbatches, n_passes;
	int *every; /* [n_stages] u: microbatches in an update; divides n_microbatches, or is
		       ORR_NEVER: a frozen stage has version 0 alone */
	/* [n_jobs] updates between the version read and b / u, the version that the update of b
	 * starts from, once the pipeline is full */
	int *behind;
	int *least,
		*most; /* [n_stages] of a round's F in behind: the staleness of a full pipeline */
	int *peak; /* [n_stages] most versions that an owner holds at once; 1: updates are in place
		    */
	struct orr_arrays all; /* these */
};

/* jobs is evaluated but for its versions. Refuses an accumulate that does not divide the round. */
int orr_versions_create(struct orr_versions **out, const struct orr_jobs *jobs,
			struct orr_error *err);
void orr_versions_destroy(struct orr_versions *v); /* NULL is fine */

/* The version that pass d of b reads. */
static inline int64_t orr_versions_read(const struct orr_versions *v, int s, int64_t b,
					enum orr_pass d)
{
	int64_t sb = b % v->n_microbatches * v->n_stages + s;
	int64_t version = b / v->every[s] - v->behind[sb * v->n_passes + (int)d];

	return version > 0 ? version : 0;
}

/* The last microbatch of which a pass on worker w reads this version of stage s; -1: none does. A
 * version is freed after the last pass of it and, if it is the latest, not before the update that
 * follows. Versions are read in their order. */
int64_t orr_versions_last_reader(const struct orr_versions *v, const struct orr_jobs *jobs, int s,
				 int w, int64_t version);
/* The microbatch from which the staleness of stage s is least to most; before, it grows from 0. */
int64_t orr_versions_full(const struct orr_versions *v, int s);

/* Microbatches in a step of training: the smallest number in which every stage makes whole updates.
 * It divides the round. */
int orr_versions_step(const struct orr_versions *v);

/* "stashing", "vertical", "none". */
const char *orr_sync_name(enum orr_sync sync);
int orr_sync_parse(enum orr_sync *sync, const char *text, struct orr_error *err);

ORR_END
