#pragma once
/* Failures of a long training that is started again from its newest copy: how many steps there
 * should be between two copies, and what share of the time is of use then; and what one of them
 * costs. A failure comes at any moment alike, once in mtbf_ns on average, also while a copy is
 * written or the training starts; what was done since the newest copy is done again. */
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"
#include "orrery/try.h"

ORR_BEGIN

struct orr_pipeline;
struct orr_schedule;
struct orr_timeline;

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

/* ---- one of them ---- */

/* Worker w is lost. */
struct orr_outage {
	int64_t w;
	int64_t at_ns;      /* after the first step began */
	int64_t copy_ns;    /* from the end of a step until its copy counts; written beside the next
			       step, whose updates wait for it: that step is no shorter */
	int64_t restart_ns; /* from the loss until steps are run again */
	int64_t every;      /* steps between two copies; 0: there is no loss */
	int64_t for_ns;     /* it comes back so long after the loss, > restart_ns, and is waited for
			       until a step has ended; 0: a spare takes its place at once */
	bool units;
};
/* "2@1.5s:copy=2s,restart=5s,every=10,for=30s", the last two or one of them left out. */
int orr_outage_parse(struct orr_outage *outage, const char *text, const char *what,
		     struct orr_error *err);

/* What becomes of a training. */
struct orr_recovery {
	const struct orr_outage *of; /* borrowed */
	int64_t step_ns, fewer_ns;   /* a step on all workers, and on one fewer; 0: on none */
	int64_t done, into_ns; /* steps that had ended at the loss, and time of the next one */
	int64_t from;          /* the step of the newest copy that counts */
	int64_t fewer;   /* steps after it run on one worker fewer; then a copy, and a restart */
	int64_t all_ns;  /* when steps are run on all workers again */
	int64_t next_ns; /* when the step ends in which it was lost */
	int64_t lost_ns; /* the delay of every step from then on */
};
/* A step on p, of one worker fewer; refused, too, where it does not fit the memory. */
int orr_outage_step(int64_t *step_ns, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, enum orr_run_order order,
		    struct orr_error *err);
/* fewer_ns: that; not read where outage->for_ns is 0. */
int orr_outage_follow(struct orr_recovery *r, const struct orr_outage *outage, int64_t step_ns,
		      int64_t fewer_ns, struct orr_error *err);
/* Of steps a + 1 to b, each step_ns long or, beside a copy, as long as that: the time, if training
 * is started again at the first of them, before which no copy is to be written. */
int64_t orr_outage_run_ns(const struct orr_outage *outage, int64_t step_ns, int64_t a, int64_t b);
/* t: of a step on all workers. */
void orr_outage_write(FILE *file, const struct orr_recovery *r, const struct orr_timeline *t);
json_t *orr_outage_json(const struct orr_recovery *r, const struct orr_timeline *t);
/* The training around the loss along time, from its newest copy until it has caught up: below
 * (left, top), so wide, ORR_OUTAGE_HEIGHT high. */
#define ORR_OUTAGE_HEIGHT 172
void orr_outage_svg(FILE *file, const struct orr_recovery *r, double left, double top,
		    double width);

ORR_END
