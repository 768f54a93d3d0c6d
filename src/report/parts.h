#pragma once
/* What a stage consists of: its operators, its part of a graph that was split, and what it shares
 * (stages.c). */
#include <stddef.h>
#include <stdio.h>
#include <jansson.h>
#include "base/arrays.h"

struct orr_error;
struct orr_jobs;
struct orr_pipeline;

/* The operators of every stage, in the order of the graph: operators[first[s]] to operators[first[s
 * + 1] - 1]. Empty for a pipeline without a graph. */
struct orr_members {
	const struct orr_pipeline *pipeline; /* borrowed */
	int *first, *operators;
	struct orr_arrays all; /* owned: these two, and what a user adds */
};
int orr_members_init(struct orr_members *m, const struct orr_pipeline *p, struct orr_error *err);
/* "a, b, c", or "first .. last (n)" of a long list; a long name is truncated to size; see
 * orr_text(). */
const char *orr_members_text(size_t size, const struct orr_members *m, int s);

/* "stage 1, worker 0 of 2, level 3"; "" where the graph was not split. See orr_text(). */
const char *orr_part_text(const struct orr_pipeline *p, int s);

/* An array of objects, one for each set of parameters that stages have in common: stages, owners,
 * bytes, frozen. New reference; NULL: no memory. */
json_t *orr_tied_json(const struct orr_jobs *jobs);

/* A line of the report, or nothing where the graph was not split; and its object where it was: the
 * groups, and what their workers exchange. */
void orr_groups_write(FILE *file, const struct orr_jobs *jobs);
json_t *orr_groups_json(const struct orr_jobs *jobs);
