#pragma once
/* Comparison of schedules over cuts of a model on one machine: the figures of each, or the reason
 * why it does not fit. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "orrery/orrery.h"
#include "simulate/failures.h"
#include "simulate/noise.h"
#include "orrery/try.h"
#include "untested.h"

ORR_BEGIN

struct orr_comparison;
struct orr_machine;
struct orr_pipeline;
struct orr_schedule;

/* What is to be tried. */
struct orr_entry {
	/* its step must be set, and have as many microbatches as every other's */
	const struct orr_pipeline *pipeline;
	/* NULL: every built-in one, with its parameters' defaults */
	const struct orr_schedule *schedule;
	const int *home; /* (optional) where a plan has the stages, see orr_jobs_create_at() */
	/* in place of every built-in one: auto in memory after memory, a row each, see
	 * orr_compare(); the pipeline's machine has no limit */
	bool front;
	/* of these rows, seek the one that holds least and takes no longer; 0: the whole front */
	int64_t within_ns;
	enum orr_run_order order;            /* see orr_try_init_in() */
	const struct orr_noise *noise;       /* (optional) what it meets, see orr_noise_run() */
	const struct orr_failures *failures; /* (optional) of the goodput */
	const struct orr_outage *outage;     /* (optional) the loss of a worker */
	const struct orr_pipeline *fewer; /* (optional) without it, where it is lost for a time */
	const char *refused; /* (optional) why it is not tried, listed under the schedule's name */
	/* (optional) before each row that is tried, with those so far: orr_compare's, until this
	 * returns */
	void (*next)(void *user, const char *schedule, struct orr_comparison *so_far);
	void *user;
};

struct orr_contender {
	const char *schedule; /* borrowed: its name */
	const void *is;       /* (private) which, whatever its name */
	char *reason;  /* owned; why it does not fit; NULL: it does, and the rest is filled in */
	bool laid_out; /* it has an order of these stages, and is refused for something else */
	const struct orr_pipeline *pipeline; /* borrowed; that it was tried on; NULL: on none */
	int n_stages;                        /* of that pipeline; 0: there is none */
	int64_t makespan_ns, lower_bound_ns;
	/* training takes period_ns for period_microbatches, step after step: with a flush, the
	 * makespan of a step; without, the steady state; 0 and 0: not found */
	int64_t period_ns, period_microbatches;
	double bubble, span_bubble;
	int peak_stash;           /* of the worker that holds most */
	int64_t peak_stash_bytes; /* the same, in bytes */
	int64_t memory_bytes;   /* of that worker: parameters, all kept for them, and peak stash */
	int64_t received_bytes; /* by all workers in a step, whatever it is */
	struct orr_noisy noisy; /* with the entry's noise; else zeros */
	int64_t copy_every; /* with the entry's failures, the best; 0: none, or it never flushes */
	double goodput;     /* with that */
	struct orr_recovery recovery; /* from the entry's outage; step_ns 0: none */
	int64_t limit_bytes; /* of a front's row, the memory that the order had to fit; else 0 */
	bool in_front;       /* (private) a front's row */
	bool on_front;       /* no other is both faster and smaller */
	struct orr_untested untested;
};

#define ORR_MOST_FRONT 16 /* memories of a front that are tried */
#define ORR_FRONT_NAME 64

struct orr_comparison {
	bool units; /* times are units */
	bool bytes; /* memory is in bytes; false: no sizes were given, and it is in stage stashes */
	bool noisy; /* there was noise */
	bool several_cuts; /* rows have pipelines of different numbers of stages: with every_cut all
			      rows, else those that fit */
	struct orr_numerics numerics; /* what a parameter costs of it */
	int n, n_fitting;
	/* owned; those that fit first, by makespan, then by memory */
	struct orr_contender *contenders;
	char (*names)[ORR_FRONT_NAME]; /* (private) owned; of a front's rows, by when they were
					  tried */
	int n_tried;                   /* (private) contenders, with those that are left out */
	bool every_cut;                /* (private) as it was asked for */
};

/* Try all n entries. With every_cut a schedule has a row for each pipeline that it was tried on;
 * without, that on which it comes first, or where it fits on none, one reason. A front goes from
 * the least memory in which auto finds an order to enough for as many stashes as an entry before
 * it holds on its pipeline, in bytes where stages have stashes of a size on workers alike, else in
 * stage stashes; the memories in between are those where makespans differ most. An order that is no
 * shorter than one that holds less has no row, so more memory is never slower. *out borrows the
 * schedules' names, and the pipelines. */
int orr_compare(struct orr_comparison **out, const struct orr_entry *entries, int n, bool every_cut,
		struct orr_error *err);
enum orr_rank {
	ORR_RANK_MAKESPAN, /* without noise */
	ORR_RANK_MEDIAN,   /* in strict order */
	ORR_RANK_P95,
	ORR_RANK_WORST,
	ORR_RANK_GREEDY_MEDIAN,
	ORR_RANK_GREEDY_P95,
	ORR_RANK_GREEDY_WORST
};
/* The row that holds least of those that take no longer; NULL: there is none. */
const struct orr_contender *orr_comparison_within(const struct orr_comparison *c,
						  int64_t makespan_ns);
/* Sort fitting rows by the chosen makespan; rows without it last. */
void orr_comparison_rank(struct orr_comparison *c, enum orr_rank by);
void orr_comparison_destroy(struct orr_comparison *c); /* NULL is fine */

/* Memory of the fullest worker, for comparison: bytes, or stage stashes; with several cuts, stashes
 * divided by the number of stages. */
static inline double orr_contender_memory(const struct orr_comparison *c,
					  const struct orr_contender *x)
{
	return c->bytes          ? (double)x->memory_bytes
	       : c->several_cuts ? x->peak_stash / (double)x->n_stages
				 : x->peak_stash;
}

/* "1f1b", or of several cuts "1f1b, 8 stages"; see orr_text(). */
const char *orr_contender_text(const struct orr_comparison *c, const struct orr_contender *x);

/* Memory against makespan as SVG, one labelled point per schedule. */
int orr_comparison_svg(FILE *file, const struct orr_comparison *c, const char *title,
		       struct orr_error *err);

/* What compare writes of: all that was tried with one number of microbatches and one memory. */
struct orr_compared {
	struct orr_comparison *rows;         /* borrowed */
	const struct orr_machine *machine;   /* borrowed */
	const struct orr_noise *noise;       /* borrowed; NULL: none */
	const struct orr_failures *failures; /* borrowed; NULL: none */
	const struct orr_outage *outage;     /* the same */
	int n_microbatches;
	int64_t limit_bytes; /* memory of a worker; 0: no limit */
	bool front;          /* with a front's rows */
	int64_t within_ns;   /* of a front: the least memory for this makespan is said; 0: not */
	const json_t *axes;  /* borrowed: {name: value} of what differs from table to table */
	char title[256];
	/* of the legend: what asks for within_ns, and what defines the other figures */
	const char *within_by, *defined_by;
};

void orr_compared_write(FILE *file, const struct orr_compared *c);
/* The rows, each with its table's axes and what else differs among tables, the cuts that they were
 * tried on, with stages and operators, and the common part of the tables; graph: its name. New
 * reference; NULL with err filled. */
json_t *orr_compared_json(const struct orr_compared *tables, int n, const char *graph,
			  struct orr_error *err);
/* strict_median and the like, of a row's "noise". */
void orr_csv_add_noise(json_t **columns);
/* In quotes. */
void orr_csv_write_text(FILE *file, const char *text);
/* row NULL: the headings. */
void orr_csv_write_line(FILE *file, const json_t *report, const json_t *row, const json_t *columns);
/* A heading and a line a row, those that do not fit with the reason: from that object, with the
 * rows of each table together. */
int orr_compared_csv(FILE *file, const json_t *report, const struct orr_compared *tables, int n,
		     struct orr_error *err);

ORR_END
