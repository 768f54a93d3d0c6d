#pragma once
/* Microbatches that differ: a table of their costs, see cost.h. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_pipeline;

/* Give p a table of n microbatches, each with the costs of the stages as they are; it replaces the
 * one that p has. The table is p's. From here on p takes steps of n microbatches alone. */
int orr_microbatches_create(struct orr_pipeline *p, int n, struct orr_error *err);
/* The same with the costs of `like`, which has a table, and p's stages and outputs, and its edges
 * and more. */
int orr_microbatches_copy(struct orr_pipeline *p, const struct orr_pipeline *like,
			  struct orr_error *err);

/* Microbatch b costs what a microbatch of q does, which has p's stages and edges. */
void orr_microbatches_set(struct orr_pipeline *p, int b, const struct orr_pipeline *q);

/* After a change of the table: in p's stages and edges, durations are the means of the microbatches
 * and sizes the largest, for what takes all microbatches for alike. */
void orr_microbatches_settle(struct orr_pipeline *p);

/* Read costs from a CSV with the columns stage, microbatch and pass (F, B or W), in any order, and
 * any of duration, bytes (of what the pass sends over every edge) and stash (kept by F). An empty
 * cell or an absent row leaves the cost as it is. Durations are those of a job with a backward that
 * is not split, without overhead. */
int orr_microbatches_read(struct orr_pipeline *p, const char *path, struct orr_error *err);

ORR_END
