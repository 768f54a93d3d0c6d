#ifndef ORR_PLUGIN_H
#define ORR_PLUGIN_H
/* A plug-in's functions run inside the command and may do anything there. What they do instead of
 * returning (they crash, end the process or never answer) is said in a line that names the
 * function, and the exit code is not 0. */
#include <argp.h>

struct orr_schedule;

/* --timeout SECONDS; its input is a double. */
extern const struct argp plugin_argp;
#define PLUGIN_TIMEOUT_S 60.0

/* From before the schedule that this text chooses is loaded. Nothing happens where it is no
 * plug-in. One plug-in in a process. */
void plugin_watch(const char *schedule, double timeout_s);
/* It was loaded: its functions are replaced by ones that are watched and call them. NULL: it was
 * not. */
void plugin_loaded(struct orr_schedule *schedule);
/* Before it is unloaded, which runs its destructors; plugin_loaded(NULL) comes after. */
void plugin_unload(void);
#endif
