#ifndef ORR_CHOICE_H
#define ORR_CHOICE_H
/* A schedule chosen by text: a built-in one by name, a plug-in, a table or a plan, with parameters.
 */
#include <stdint.h>
#include "error.h"
#include "schedule.h"
#include "schedules.h"

ORR_BEGIN

struct orr_plan_file;
struct orr_table;

/* A schedule that was chosen, with its parameters set and its module loaded. */
struct orr_choice {
	struct orr_schedule schedule;
	struct orr_value values[ORR_MOST_PARAMETERS]; /* lists are owned */
	void *module;                                 /* of a plug-in, or NULL */
	struct orr_table *table;    /* of a CSV or a plan, which fix every job and the size of the
				       step; or NULL */
	struct orr_plan_file *plan; /* the plan of the table, which fixes the stages too; or NULL */
};
/* text: NAME[:key=value,...], or a path: of a plug-in, where it ends in .so, else of a plan or a
 * CSV (see exchange.h), told by its content. A path without a dot or a slash is a plan's, and no
 * schedule's name. *choice must not be moved in memory. */
int orr_choice_init(struct orr_choice *choice, const char *text, struct orr_error *err);
/* The same of a plan, under any path. */
int orr_choice_init_plan(struct orr_choice *choice, const char *path, struct orr_error *err);
void orr_choice_fini(struct orr_choice *choice);
/* Set the schedule's list of replicas from a plan's stages, if it has such a parameter and the text
 * did not set it. */
int orr_choice_set_replicas(struct orr_choice *choice, const struct orr_plan_file *plan,
			    struct orr_error *err);

ORR_END
#endif
