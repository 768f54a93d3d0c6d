#ifndef ORR_COMPARE_H
#define ORR_COMPARE_H
/* Schedules on pipelines that a model was cut into, on one machine: what each comes to, or why it
 * does not fit. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "numerics.h"
#include "error.h"
#include "untested.h"

ORR_BEGIN

struct orr_pipeline;
struct orr_schedule;

/* What is to be tried. */
struct orr_entry {
	const struct orr_pipeline *
		pipeline; /* its step must be set, and have as many microbatches as every other's */
	const struct orr_schedule
		*schedule;   /* NULL: every built-in one, with its parameters' defaults */
	const int *home;     /* (optional) where a plan has the stages, see orr_jobs_create_at() */
	const char *refused; /* (optional) why there is nothing to try, under the schedule's name */
};

struct orr_contender {
	const char *schedule;          /* borrowed: its name */
	const struct orr_schedule *is; /* (private) which, whatever its name */
	char *reason;  /* owned; why it does not fit; NULL: it does, and the rest is filled in */
	bool laid_out; /* it has an order of these stages, and is refused for something else */
	int n_stages;  /* of the pipeline that it was tried on */
	int64_t makespan_ns, lower_bound_ns;
	/* training takes so long for so many microbatches, step after step: the makespan for all of
	 * a step where it flushes, the steady state where it does not; 0 for 0: not found */
	int64_t period_ns, period_microbatches;
	double bubble, span_bubble;
	int peak_stash;           /* of the worker that holds most */
	int64_t peak_stash_bytes; /* likewise */
	int64_t memory_bytes;   /* likewise: parameters and all that is kept of them, and peak stash
				 */
	int64_t received_bytes; /* by all workers in a step, whatever it is */
	bool on_front;          /* no other is both shorter and smaller */
	int n_untested;
	struct orr_untested untested[ORR_MOST_UNTESTED];
};

struct orr_comparison {
	bool units;        /* times are units */
	bool bytes;        /* memory is told in bytes; else nobody gave any: in stage stashes */
	bool several_cuts; /* those that fit have pipelines of different numbers of stages */
	struct orr_numerics numerics; /* what a parameter costs of it */
	int n, n_fitting;
	/* owned; those that fit first, by makespan, then by memory */
	struct orr_contender *contenders;
};

/* Try all n entries. Of a schedule that fits on several pipelines all rows are kept with every_cut,
 * else the first of their order; of one that fits on none, one reason. *out borrows the schedules'
 * names. */
int orr_compare(struct orr_comparison **out, const struct orr_entry *entries, int n, bool every_cut,
		struct orr_error *err);
void orr_comparison_destroy(struct orr_comparison *c); /* NULL is fine */

/* Of the worker that needs most, what they are compared by: bytes, or stage stashes; of several
 * cuts the share of all stages that these are. */
static inline double orr_contender_memory(const struct orr_comparison *c,
					  const struct orr_contender *x)
{
	return c->bytes          ? (double)x->memory_bytes
	       : c->several_cuts ? x->peak_stash / (double)x->n_stages
				 : x->peak_stash;
}

/* "1f1b", or of several cuts "1f1b, 8 stages". Returns buffer. */
#define ORR_CONTENDER_NAME 128
const char *orr_contender_print(char buffer[ORR_CONTENDER_NAME], const struct orr_comparison *c,
				const struct orr_contender *x);

/* Memory against makespan as SVG, a labelled point a schedule. */
int orr_comparison_svg(FILE *file, const struct orr_comparison *c, const char *title,
		       struct orr_error *err);

ORR_END
#endif
