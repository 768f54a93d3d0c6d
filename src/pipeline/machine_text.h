#pragma once
/* What reports say of a machine whose workers differ; of others nothing. */
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_machine;

/* " gpu.0 x2": a worker's name and speed, behind its number, or ""; see orr_text(). */
const char *orr_worker_text(const struct orr_machine *m, int w);
/* A line of what its workers are, after the heading. */
void orr_machine_write(FILE *file, const struct orr_machine *m, const char *heading);
/* Add name, node, speed and memory to the object of worker w (base/json.h). */
void orr_worker_json(json_t **worker, const struct orr_machine *m, int w);

ORR_END
