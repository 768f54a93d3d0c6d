#ifndef ORR_SCHEDULES_H
#define ORR_SCHEDULES_H
/* The built-in schedules and their names. */
#include "orrery.h"
#include "schedule.h"

ORR_BEGIN

/* The built-in schedules, in the order in which they are listed; NULL at the end. */
extern const struct orr_schedule *const *const orr_schedules;
/* Names used elsewhere: an alias, and the built-in schedule with the parameters that match it. Ends
 * with NULLs. */
struct orr_schedule_alias {
	const char *alias, *means;
};
extern const struct orr_schedule_alias *const orr_schedule_aliases;
/* Find a schedule by its name or an alias; case, - and _ do not count. *parameters: those of the
 * alias, or NULL. Refuses an unknown name and suggests a near one. */
int orr_schedule_find(const struct orr_schedule **out, const char **parameters, const char *text,
		      struct orr_error *err);

ORR_END
#endif
