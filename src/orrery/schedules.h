#ifndef ORR_SCHEDULES_H
#define ORR_SCHEDULES_H
/* The built-in schedules and their names. */
#include "error.h"
#include "schedule.h"

ORR_BEGIN

/* The built-in schedules, in the order in which they are listed; NULL at the end. */
extern const struct orr_schedule *const orr_schedules[];
/* What others call them: an alias, and the name with the parameters that make it that; NULLs at the
 * end. */
struct orr_schedule_alias {
	const char *alias, *means;
};
extern const struct orr_schedule_alias orr_schedule_aliases[];
/* The one that is called text, by its name or an alias, in any case and with or without - and _;
 * *parameters, of the alias, or NULL. Refuses what none is called, and says what is near. */
int orr_schedule_find(const struct orr_schedule **out, const char **parameters, const char *text,
		      struct orr_error *err);

ORR_END
#endif
