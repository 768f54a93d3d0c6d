#pragma once
/* A search over the building blocks of the V fold under a memory limit [Qi24, appendix A]. */
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

/* n of every job of the shortest order found in which no worker holds more than `stashes` stage
 * stashes, with the pipeline's own durations and a split backward. Never longer than V-Min, V-Half
 * or V-ZB, where these fit. Deterministic, and its work is bounded: a larger step has fewer blocks
 * tried on it. */
int orr_offsets_search(const struct orr_pipeline *p, int64_t stashes, int64_t *n,
		       struct orr_error *err);
