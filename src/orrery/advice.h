#ifndef ORR_ADVICE_H
#define ORR_ADVICE_H
/* What a plan loses, each with a number and the option to change [Separability]. */
#include "error.h"

ORR_BEGIN

struct orr_plan;

/* visit is called with a line for each, without a newline; not at all for a plan without fault. */
int orr_plan_advise(const struct orr_plan *plan, void (*visit)(void *user, const char *line),
		    void *user, struct orr_error *err);

ORR_END
#endif
