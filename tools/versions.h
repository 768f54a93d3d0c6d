#ifndef ORR_TOOLS_VERSIONS_H
#define ORR_TOOLS_VERSIONS_H
/* The report of the versions that an asynchronous training observed. */
#include <jansson.h>
#include "orrery/error.h"

struct orr_jobs;
struct orr_run;
struct orr_run_versions;

/* *out: of every stage, the caller's to free; NULL where the schedule flushes. All ranks call it.
 */
int versions_gather(struct orr_run_versions **out, const struct orr_jobs *jobs, struct orr_run *run,
		    struct orr_error *err);
/* For people; an array with an object for each stage, NULL: no memory. */
void versions_print(const struct orr_jobs *jobs, const struct orr_run_versions *stages);
json_t *versions_json(const struct orr_jobs *jobs, const struct orr_run_versions *stages);
#endif
