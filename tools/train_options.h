#ifndef ORR_TRAIN_OPTIONS_H
#define ORR_TRAIN_OPTIONS_H
/* The options of train. */
#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints.h"
#include "evaluations.h"
#include "orrery/run.h"
#include "output.h"
#include "work.h"

struct session;

struct train_options {
	struct work_options work;
	struct orr_run_options run;
	struct checkpoints_options keep;
	struct output_options output;
	int64_t steps, epochs; /* -1 and 0: not given */
	struct evaluations_options evaluate;
	bool has_lr, has_momentum, has_final_rate;
	const char *data, *losses;
	const char *init, *weights; /* files of weights, to begin with and at the end; or NULL */
	bool init_partly;
	const char *workers; /* the reason for their number; NULL: an option or a file gives it */
};

extern const struct argp train_argp;
struct train_options train_options_default(void);

/* What can be said before any file is read. */
int train_options_check(struct train_options *o, struct orr_error *err);
/* How many workers there are where nothing says it; fills in o->workers. */
int train_options_workers(struct train_options *o, const struct session *session);
/* Fill in options from a plan or the schedule's file, and check those that depend on them. */
int train_options_settle(struct train_options *o, struct orr_opened *x, struct orr_error *err);
#endif
