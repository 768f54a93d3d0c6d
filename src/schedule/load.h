#pragma once
/* What a worker holds, or may hold: both are looked after where stages differ in size. */
#include <stdbool.h>
#include <stdint.h>
#include "base/max.h"
#include "orrery/jobs.h"

struct orr_load {
	int64_t stashes, bytes;
};

static inline void orr_load_raise(struct orr_load *peak, struct orr_load load)
{
	peak->stashes = larger(peak->stashes, load.stashes);
	peak->bytes = larger(peak->bytes, load.bytes);
}

static inline struct orr_load orr_load_sum(struct orr_load load, struct orr_load more,
					   int64_t times)
{
	return (struct orr_load){load.stashes + times * more.stashes,
				 load.bytes + times * more.bytes};
}

/* A job adds `up` as it starts and takes `down` away as it ends; peak follows. */
static inline void orr_load_add(struct orr_load *load, struct orr_load *peak, struct orr_load up,
				struct orr_load down)
{
	*load = orr_load_sum(*load, up, 1);
	orr_load_raise(peak, *load);
	*load = orr_load_sum(*load, down, -1);
}

static inline bool orr_load_exceeds(struct orr_load load, struct orr_load most)
{
	return load.stashes > most.stashes || load.bytes > most.bytes;
}

/* What job j adds to its worker's load as it starts, and takes away as it ends: a stash, whose
 * bytes grow where F runs again. */
struct orr_load orr_jobs_adds(const struct orr_jobs *jobs, int j);
struct orr_load orr_jobs_frees(const struct orr_jobs *jobs, int j);
