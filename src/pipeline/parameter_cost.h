#pragma once
/* Memory of a parameter during training: one formula for planner, search, simulator, report and
 * run. */
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

/* Bytes for each parameter, which itself is a float32 whatever the precision. */
struct orr_parameter_cost {
	int weights, gradient, optimizer; /* with each owner */
	int rounded; /* BF16: the rounded copy, on each worker that computes with it */
	int all;     /* together */
};
struct orr_parameter_cost orr_parameter_cost(const struct orr_numerics *numerics);

/* Of n bytes of trained parameters those whose optimizer's state the i-th of n_replicas keeps: all
 * of them, or its part in whole floats, of which the first replica has the largest. */
int64_t orr_parameters_part(const struct orr_numerics *numerics, int64_t n, int n_replicas, int i);

/* The same for parameters that take weight_bytes themselves, at most INT64_MAX / 8, of which
 * trained_bytes are trained and have a gradient, and state_bytes the optimizer's state: what an
 * owner keeps, */
int64_t orr_parameters_owned(const struct orr_numerics *numerics, int64_t weight_bytes,
			     int64_t trained_bytes, int64_t state_bytes);
/* what is rounded where they are computed with, */
int64_t orr_parameters_rounded(const struct orr_numerics *numerics, int64_t weight_bytes);
/* and everything on each of n_replicas workers that own and compute a stage; with more than one,
 * the running sum of their all-reduce included. */
int64_t orr_parameters_kept(const struct orr_numerics *numerics, int64_t weight_bytes,
			    int64_t trained_bytes, int n_replicas);

/* "16 B a parameter: 4 weights, 4 gradient, 8 adamw"; see orr_text(). */
const char *orr_parameter_cost_text(const struct orr_numerics *numerics);
/* Adds optimizer, precision and bytes_per_parameter to a report (base/json.h). */
void orr_parameter_cost_json(json_t **report, const struct orr_numerics *numerics);

ORR_END
