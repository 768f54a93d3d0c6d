#pragma once
/* The simulator: jobs on their pipeline's machine -> timeline. Exact and deterministic; ties are
 * broken by n, then by job. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;
struct orr_timeline;

/* Transfers overlap with computing. Each direction of the link between two workers carries one
 * thing at a time (network.h). A transfer is asked for when the pass that makes it ends. A worker
 * has places for the parameters that `prefetch` (pipeline.h) and one more of its jobs need from
 * other owners, and for the weight gradients of as many of its jobs for other owners; an owner, for
 * two gradients that come and have not been added yet (schedule/places.h). What has no place waits
 * for one, in the simulator as in the run.
 *
 * U(s, owner) runs as soon as all gradients of the stage are with their owners and, with several
 * owners that have parameters, a ring over them has all-reduced them; where it shares parameters
 * with other stages, these have theirs and a ring over the owners of all has reduced the shared
 * ones. It goes before the worker's
 * next job. Updates that take no time on free links leave no trace. *out borrows jobs. */
int orr_simulate(struct orr_timeline **out, const struct orr_jobs *jobs, struct orr_error *err);

ORR_END
