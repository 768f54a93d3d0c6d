#ifndef ORR_TOOLS_STREAM_H
#define ORR_TOOLS_STREAM_H
/* What a training as a stream has found of its parameters' versions. */
#include <jansson.h>
#include "orrery/error.h"

struct orr_jobs;
struct orr_run;
struct orr_run_versions;

/* *out: of every stage, the caller's to free; NULL where the schedule flushes. All ranks call it.
 */
int stream_gather(struct orr_run_versions **out, const struct orr_jobs *jobs, struct orr_run *run,
		  struct orr_error *err);
/* For people; an array with an object for each stage, NULL: no memory. */
void stream_print(const struct orr_jobs *jobs, const struct orr_run_versions *stages);
json_t *stream_json(const struct orr_jobs *jobs, const struct orr_run_versions *stages);
#endif
