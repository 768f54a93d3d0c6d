#pragma once
/* A schedule as CSV, and the parts that the format cannot express: a line on standard error, or
 * with --strict-csv a refusal, and beside FILE.csv the list of its stages, FILE.stages.json. A CSV
 * of another name has none. */
#include <stdbool.h>
#include "orrery/orrery.h"

struct orr_jobs;
struct orr_timeline;

/* Before the work: that the files can be written. A list of stages that no command wrote is not
 * overwritten. csv may be NULL. */
int export_check(const char *csv, struct orr_error *err);
/* Before the run: strict refuses a schedule that a CSV cannot express in full. */
int export_check_jobs(const char *csv, bool strict, const struct orr_jobs *jobs,
		      struct orr_error *err);
/* strict: refuse a simulated timeline that does not come back from its CSV on this machine; not
 * strict: say so. */
int export_check_timeline(const char *csv, bool strict, const struct orr_timeline *t,
			  struct orr_error *err);
/* Both files, and the line where there are losses. csv may be NULL. */
int export_write(const char *csv, const struct orr_timeline *t, struct orr_error *err);
