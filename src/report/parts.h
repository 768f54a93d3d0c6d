#ifndef ORR_PARTS_H
#define ORR_PARTS_H
/* What a stage is a part of, where the graph was split. */
#include <stddef.h>
#include <stdio.h>
#include <jansson.h>

struct orr_jobs;
struct orr_pipeline;

/* "stage 1, worker 0 of 2, level 3"; "" where the graph was not split. Returns buffer. */
const char *orr_part_print(char *buffer, size_t size, const struct orr_pipeline *p, int s);
/* Not 0: no memory. */
int orr_part_json(json_t *stage, const struct orr_pipeline *p, int s);

/* A line of the report, and its object: the groups, and what their workers exchange. Nothing where
 * the graph was not split. */
void orr_groups_write(FILE *file, const struct orr_jobs *jobs);
int orr_groups_json(json_t *report, const struct orr_jobs *jobs);
#endif
