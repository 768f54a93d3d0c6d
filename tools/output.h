#ifndef ORR_OUTPUT_H
#define ORR_OUTPUT_H
/* Files that a command writes: drawings, a schedule, a trace. */
#include <stdio.h>
#include "error.h"

struct orr_comparison;
struct orr_timeline;

/* Each does nothing when path is NULL. */

/* Refuse a file that cannot be written, before the work that would be lost. */
int output_check(const char *path, struct orr_error *err);
int output_svg(const char *path, const struct orr_timeline *t, struct orr_error *err);
int output_csv(const char *path, const struct orr_timeline *t, struct orr_error *err);
int output_scatter(const char *path, const struct orr_comparison *c, const char *title, struct orr_error *err);
int output_trace(const char *path, const struct orr_timeline *const *timelines, const char *const *names, int n,
                 struct orr_error *err);
/* Columns of the terminal on standard output, 100 where there is none. */
int output_columns(void);
/* A terminal that wants colour: standard output is one and NO_COLOR is not set. */
int output_wants_colour(void);
#endif
