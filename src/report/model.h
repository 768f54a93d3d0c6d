#pragma once
/* Reports of a model before it is scheduled: text for people, and the JSON object of `show --json`.
 */
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_graph;

/* Sums over all operators and over each encoder, and a row an operator. */
int orr_graph_report_write(FILE *file, const struct orr_graph *g, struct orr_error *err);
/* New reference; NULL with err filled. */
json_t *orr_graph_report_json(const struct orr_graph *g, struct orr_error *err);

ORR_END
