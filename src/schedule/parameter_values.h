#pragma once
/* The values of a schedule's parameters. */
#include "orrery/schedule.h"

int orr_parameters_count(const struct orr_schedule *schedule);
/* Values for a schedule none of whose parameters is given, at most ORR_MOST_PARAMETERS. Returns
 * their number. */
int orr_parameters_default(struct orr_value *values, const struct orr_schedule *schedule);

/* Read a value from text, which is cut up. place names the parameter in a refusal: "schedule lpp:
 * order". Replaces *value, whose list is owned. */
int orr_parameter_parse(struct orr_value *value, const struct orr_parameter *parameter, char *text,
			const char *place, struct orr_error *err);
void orr_value_fini(struct orr_value *value);
