#ifndef ORR_CHOICE_H
#define ORR_CHOICE_H
/* From what a user writes to a schedule: the built-in ones by name, plug-ins, tables and plans,
 * with parameters. */
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
	struct orr_table *table; /* of a file that lays out every job, and with it the size of the
				    step; or NULL */
	struct orr_plan_file
		*plan; /* the plan that the table is of, and with it the stages; or NULL */
};
/* text: NAME[:key=value,...], or a path that ends in .so, a plug-in, in .csv, see exchange.h, or in
 * .json, a plan. Fills *choice, which must stay where it is. */
int orr_choice_init(struct orr_choice *choice, const char *text, struct orr_error *err);
void orr_choice_fini(struct orr_choice *choice);
/* Give the schedule the replicas of a plan's stages, where it has a list of them and the text that
 * it was chosen by says none. */
int orr_choice_set_replicas(struct orr_choice *choice, const struct orr_plan_file *plan,
			    struct orr_error *err);

ORR_END
#endif
