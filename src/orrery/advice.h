#ifndef ORR_ADVICE_H
#define ORR_ADVICE_H
/* Advice on a plan: what it loses, with a number and the option to change [Separability]. */
#include "error.h"

ORR_BEGIN

struct orr_plan;

/* Call visit with each piece of advice, one line without a newline; never for a plan without fault.
 */
int orr_plan_advise(const struct orr_plan *plan, void (*visit)(void *user, const char *line),
		    void *user, struct orr_error *err);

ORR_END
#endif
