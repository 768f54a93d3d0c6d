#pragma once
/* A plug-in on its way to a schedule. */
#include <stdbool.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_schedule;

/* Is this the path of one, perhaps with :key=value: does it end in .so, and is no plan? */
bool orr_plugin_is(const char *text);

/* Load the module at path, whose functions *schedule borrows until dlclose(*module). Refuses one
 * that was compiled against other headers, and a schedule that breaks the contract of schedule.h.
 * On failure *module may be set as well. */
int orr_plugin_load(void **module, struct orr_schedule *schedule, const char *path,
		    struct orr_error *err);

ORR_END
