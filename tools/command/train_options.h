#pragma once
/* What the options of train mean together. */
#include "options.h"

struct session;

/* What can be said before any file is read. */
int train_options_check(struct options *o, struct orr_error *err);
/* How many workers there are where nothing says it; fills in o->train.workers. */
int train_options_workers(struct options *o, const struct session *session);
/* Fill in options from a plan or the schedule's file, and check those that depend on them. */
int train_options_settle(struct options *o, struct orr_opened *x, struct orr_error *err);
