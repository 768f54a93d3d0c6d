#ifndef ORR_OPEN_PLUGIN_H
#define ORR_OPEN_PLUGIN_H
/* A plug-in on its way to a schedule. */
#include "orrery/orrery.h"

struct orr_schedule;

/* Load the module at path, whose functions *schedule borrows until dlclose(*module). Refuses one
 * that was compiled against other headers, and a schedule that breaks the contract of schedule.h.
 * On failure *module may be set as well. */
int orr_plugin_load(void **module, struct orr_schedule *schedule, const char *path,
		    struct orr_error *err);
#endif
