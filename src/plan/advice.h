#pragma once
/* Advice on a plan: what it loses, with a number and the option to change [Separability]; and what
 * it would hold at a slower pace. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_plan;
struct orr_star_point;

/* Call visit with each piece of advice, one line without a newline, of less than 300 bytes; never
 * for a plan without fault in which nothing was free. */
int orr_plan_advise(const struct orr_plan *plan, void (*visit)(void *user, const char *line),
		    void *user, struct orr_error *err);

/* What the stages of a plan would hold at longer periods, if it is a chain of one worker a stage
 * with free links; see orr_star_points() in order/periodic.h. *points is the caller's to free, NULL
 * where *n is 0: any other plan. */
int orr_plan_periods(const struct orr_plan *plan, struct orr_star_point **points, int *n,
		     struct orr_error *err);

ORR_END
