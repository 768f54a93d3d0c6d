#pragma once
/* A checkpoint that is being written: on each rank its shard, and then, on rank 0, what makes them
 * one. */
#include <jansson.h>
#include "orrery/run.h"

struct orr_saving;

/* (state.c) All that the next steps depend on, but nothing of schedule, workers, cut and split. */
json_t *orr_run_about(const struct orr_run *run, struct orr_error *err);
/* Wait until the copy that is being made, if there is one, needs nothing of the run any more. */
void orr_saving_join(struct orr_run *run);
void orr_saving_destroy(struct orr_saving *x); /* joined; NULL is fine */
