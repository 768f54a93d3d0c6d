#ifndef ORR_REPORT_H
#define ORR_REPORT_H
/* Reports of a timeline: text for people, and the JSON object of `simulate --json`. */
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_figures;
struct orr_timeline;

/* A table of the figures with their units, one row per worker, and the list of stages; at its end
 * a line, defined_by, on where the figures are explained (NULL: none). */
int orr_report_write(FILE *file, const struct orr_timeline *t, const struct orr_figures *f,
		     const char *defined_by, struct orr_error *err);
/* The keys: schedule, model, unit, stages (see stages.h), workers, microbatches, ... New reference.
 * Times in seconds, or in units in a study. NULL with err filled when there is no memory. */
json_t *orr_report_json(const struct orr_timeline *t, const struct orr_figures *f,
			struct orr_error *err);

ORR_END
#endif
