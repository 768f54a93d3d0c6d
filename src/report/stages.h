#pragma once
/* The list of stages, with operators, workers and costs, as text and as JSON. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;
struct orr_pipeline;

/* One row per stage, and what stages share; the middle of a long list is left out. */
int orr_stages_write(FILE *file, const struct orr_jobs *jobs, struct orr_error *err);
/* An array of objects: operators, worker (null where several compute it), workers, owners, frozen,
 * recompute, forward, backward, weight (null where it is no pass of its own), update,
 * parameter_bytes; of a graph that was split part, an object: stage, worker, workers, level. Times
 * are those of a pass under this schedule, in seconds or units. New
 * reference; NULL with err filled. */
json_t *orr_stages_json(const struct orr_jobs *jobs, struct orr_error *err);
/* The same of a cut that no schedule has dealt out: operators, frozen, forward, backward, weight
 * (null where the costs do not tell it apart: backward is then both), update, parameter_bytes,
 * stash_bytes; times and stash are a microbatch's, the first one's where they differ. New
 * reference; NULL with err filled. */
json_t *orr_stages_cut_json(const struct orr_pipeline *p, struct orr_error *err);
/* Is there a job of stage s whose parameters are on another worker? */
bool orr_stages_are_apart(const struct orr_jobs *jobs, int s);
/* "units" or "seconds". */
const char *orr_stages_unit(const struct orr_pipeline *p);

/* Workers: "3", "4-7" or "0,4,8"; truncated to size; see orr_text(). */
const char *orr_workers_text(size_t size, const int *workers, int n);

/* (omissions.c) What a schedule's CSV cannot say of the jobs that it is written from: it has rows
 * of stage, pass and microbatch, and nothing else. */
#define ORR_MOST_OMISSIONS 8
#define ORR_OMISSION_TEXT 112
struct orr_omissions {
	int n;
	char text[ORR_MOST_OMISSIONS][ORR_OMISSION_TEXT]; /* "recomputation of 3 stages" */
};

void orr_omissions_find(struct orr_omissions *losses, const struct orr_jobs *jobs);

ORR_END
