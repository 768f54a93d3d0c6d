#pragma once
/* Failures of a long training that is started again from its newest copy: how many steps there
 * should be between two copies, and what share of the time is of use then. A failure comes at any
 * moment alike, once in mtbf_ns on average, also while a copy is written or the training starts;
 * what was done since the newest copy is done again. */
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_failures {
	int64_t mtbf_ns, copy_ns; /* above 0 */
	int64_t restart_ns;       /* from a failure until steps are run again */
	bool units;               /* these are in units of time, as a study's costs */
};

/* "3h:copy=2s,restart=30s". what: the place for the message. */
int orr_failures_parse(struct orr_failures *f, const char *text, const char *what,
		       struct orr_error *err);

/* The share of time in which steps are run that are not run again, with a copy after every so many:
 * its expectation [Daly06]. */
double orr_failures_goodput(const struct orr_failures *f, int64_t step_ns, int64_t every);

/* Between two copies: which number of steps has the highest expectation, counted; and how long it
 * should be by the closed forms of [Young74] and, of higher order, [Daly06]. */
int64_t orr_failures_best(const struct orr_failures *f, int64_t step_ns);
int64_t orr_failures_young_ns(const struct orr_failures *f);
int64_t orr_failures_daly_ns(const struct orr_failures *f);

/* These beside each other, for steps of step_ns > 0. */
void orr_failures_write(FILE *file, const struct orr_failures *f, int64_t step_ns);
json_t *orr_failures_json(const struct orr_failures *f, int64_t step_ns);

ORR_END
