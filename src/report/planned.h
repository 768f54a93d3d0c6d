#pragma once
/* What plan says of a plan: text for people, and the JSON object that is the plan's file. */
#include <stdbool.h>
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_plan;
struct orr_split_plan;

/* Stages, step and bounds, what was tried, advice. split: of a plan of groups, else NULL.
 * name_options puts options in the place of the quantities of a line (orrery/orrery.h), in place:
 * the line gets no longer. Times in the graph's unit. Fails for want of memory; whether the file
 * took everything is the caller's to ask. */
int orr_planned_write(FILE *file, const struct orr_plan *plan, const struct orr_split_plan *split,
		      char *(*name_options)(char *line), struct orr_error *err);
/* orr_plan_json() or, with a split, orr_split_plan_json(), and the keys not_tested (untested.h) and
 * advice, lines as in the text. New reference; NULL with err filled when there is no memory. */
json_t *orr_planned_json(const struct orr_plan *plan, const struct orr_split_plan *split,
			 bool embed, char *(*name_options)(char *line), struct orr_error *err);

ORR_END
