#pragma once
/* What a stage is a part of, where the graph was split. */
#include <stddef.h>
#include <stdio.h>
#include <jansson.h>

struct orr_jobs;
struct orr_pipeline;

/* "stage 1, worker 0 of 2, level 3"; "" where the graph was not split. Returns buffer. */
const char *orr_part_print(char *buffer, size_t size, const struct orr_pipeline *p, int s);
/* The same as an object, of a graph that was split. */
json_t *orr_part_json(const struct orr_pipeline *p, int s);

/* A line of the report, or nothing where the graph was not split; and its object where it was: the
 * groups, and what their workers exchange. */
void orr_groups_write(FILE *file, const struct orr_jobs *jobs);
json_t *orr_groups_json(const struct orr_jobs *jobs);
