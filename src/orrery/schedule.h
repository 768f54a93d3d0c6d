#pragma once
/* A schedule is a plain struct of functions. Built-in ones and plug-ins are written alike.
 *
 * Functions are pure: the same arguments give the same result, so every process evaluates a
 * schedule by itself and all agree. They must not keep pointers into the pipeline. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "orrery.h"
#include "pipeline.h"

ORR_BEGIN

enum orr_order {
	ORR_ORDER_STRICT, /* a worker waits for its next job in the order of n */
	ORR_ORDER_GREEDY, /* a free worker takes its ready job of lowest n [Rahimi25] */
	ORR_ORDER_BOUNDED /* greedy, but no worker holds more stashes, or more bytes of them, than
			     in strict order */
};

/* ---- parameters, NAME:key=value,key=value ---- */

/* How a value is written, and what it counts, which tells a search the values worth trying. */
enum orr_parameter_kind {
	ORR_PARAMETER_INTEGER,
	ORR_PARAMETER_MICROBATCHES, /* an integer; those above the step's microbatches are equal */
	ORR_PARAMETER_WORKERS,      /* an integer; those above the number of workers are equal */
	ORR_PARAMETER_STASHES,      /* an integer: the stage stashes that a worker may hold */
	ORR_PARAMETER_MEMORY,       /* stage stashes, memory=4, or their size, memory=2GB */
	ORR_PARAMETER_REAL,
	ORR_PARAMETER_WORD,     /* one of parameter.words */
	ORR_PARAMETER_SIZE,     /* 12MB; a plain number is bytes */
	ORR_PARAMETER_DURATION, /* 1.2ms; a plain number is units, for a study that has them */
	ORR_PARAMETER_LIST      /* integers: 2-1-1 */
};

struct orr_parameter {
	const char *key, *summary;
	enum orr_parameter_kind kind;
	/* The accepted range (bytes, ns; LIST: of each number; WORD: unused) and the default (WORD:
	 * its number; LIST: unused, the default is empty). */
	double low, high, otherwise;
	const char *words; /* WORD: "depth|breadth", numbered from 0; else NULL */
};
#define ORR_MOST_PARAMETERS 8
#define ORR_MOST_LISTED 64 /* numbers in a list */

/* A parameter's value. The members that its kind does not name are 0. */
struct orr_value {
	int64_t integer;     /* INTEGER, MICROBATCHES, WORKERS, STASHES; MEMORY given as stashes;
				WORD: its number */
	int64_t bytes;       /* SIZE; MEMORY given as a size */
	int64_t ns;          /* DURATION */
	bool units;          /* DURATION: given as a plain number */
	double real;         /* REAL */
	int n_list;          /* LIST */
	const int64_t *list; /* [n_list] */
};

/* ---- the contract ---- */

/* Progress of a search: tell (may be NULL) is called for every better order, in the searching
 * thread. */
struct orr_observer {
	void (*tell)(void *user, int64_t best_ns, int64_t bound_ns);
	void *user;
};

/* A whole step, job by job: job (b * n_stages + s) * n_passes + d, n_passes 3 with split_backward,
 * else 2. */
struct orr_placed {
	int *worker;      /* [n_jobs] w_compute */
	int64_t *n;       /* [n_jobs] */
	int64_t bound_ns; /* lower bound of the makespan, within the schedule's limits; 0: none is
			     known. One above the makespan of this order is refused */
	int64_t span_bound_ns; /* the same of the span, see figures.h, if the schedule minimizes
				  it; else 0 */
	struct orr_observer observer; /* given: for a place() that searches */
	bool stays;                   /* no stash is parked, though the user allows it */
};

/* Required: name; compute and priority, unless place sets what they leave out. A function that
 * fails returns orr_fail() with a one-line message. */
struct orr_schedule {
	const char *name;     /* "1f1b" */
	const char *summary;  /* one line for `orrery schedules` */
	const char *paper;    /* (optional) its source */
	enum orr_order order; /* STRICT unless set */
	bool split_backward;  /* B is the input gradient, and W, the weight gradient, another job */
	bool asynchronous;    /* no flush: n is then defined for every b >= 0, grows by one period
			       per round of B microbatches, and orders the jobs of all workers */
	const struct orr_parameter *parameters; /* (optional) ends with a NULL key */
	const void *data; /* (optional) passed to the functions; with parameters, the library passes
			     their values instead, an array of struct orr_value in the same order */

	/* (optional) Called first, to refuse pipelines that the schedule cannot serve; the message
	 * says what to change: orr_fail(err, ORR_E_INPUT, "mine: %d stages ...: set [workers]"). */
	int (*check)(const struct orr_pipeline *p, const void *data, struct orr_error *err);

	/* w_compute(s,b,d): the worker that runs the job, in [0, n_workers). */
	int (*compute)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data);

	/* (optional) w_weights(s,b,d): the worker that owns the parameters that the job reads. If
	 * another worker runs the job, it fetches them and drops them afterwards; several owners of
	 * a stage all-reduce its gradient. NULL: the worker that runs the job. */
	int (*weights)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data);

	/* n(s,b,d): the job's priority on its worker. Lower runs first; no two jobs of a worker
	 * have the same n. */
	int64_t (*priority)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			    const void *data);

	/* (optional) Lays out the whole step at once, if there is no closed form. compute and
	 * priority have filled in *out (-1 and 0 if they are NULL), and place may change it. Not
	 * for asynchronous schedules. */
	int (*place)(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		     struct orr_error *err);

	/* (optional) The most microbatches of stage s in flight, from the start of F to the end of
	 * the backward; F of one more waits. 0: no limit. */
	int (*in_flight)(const struct orr_pipeline *p, int s, const void *data);

	/* (optional) Does B of stage s run F again, so that until then its stash is only its input?
	 * If the user requests it (p->stages[s].recompute), it does in any case. */
	bool (*recompute)(const struct orr_pipeline *p, int s, const void *data);

	/* (optional) park(s,b): where the stash of a microbatch is between F and the backward: 0:
	 * where F left it; ORR_HOST: in the memory of the worker's host; w + 1: with worker w. 0
	 * leaves it to the user (p->stages[s].park). Strict orders only, see orr_jobs_parked(). */
	int (*park)(const struct orr_pipeline *p, int s, int b, const void *data);

	/* (optional) Set by a caller in its copy of the schedule; passed to place. */
	struct orr_observer observer;
};

/* ---- plug-ins ---- */

/* A plug-in is a shared module, one schedule followed by ORR_PLUGIN(schedule). It may call every
 * function of the public headers. The macro records version and struct sizes: a plug-in that
 * differs in these from the program that loads it is refused. */
#define ORR_SCHEDULE_VERSION 8
struct orr_size {
	const char *name;
	size_t bytes;
};
#define ORR_SIZE_OF(type) \
	{ \
#type, sizeof(type) \
	}
#define ORR_SIZES \
	{ \
		ORR_SIZE_OF(struct orr_schedule), ORR_SIZE_OF(struct orr_parameter), \
			ORR_SIZE_OF(struct orr_value), ORR_SIZE_OF(struct orr_error), \
			ORR_SIZE_OF(struct orr_machine), ORR_SIZE_OF(struct orr_pipeline), \
			ORR_SIZE_OF(struct orr_stage), ORR_SIZE_OF(struct orr_edge), \
			ORR_SIZE_OF(struct orr_placed), ORR_SIZE_OF(struct orr_tied) \
	}
#define ORR_N_SIZES 10
struct orr_plugin {
	int version; /* ORR_SCHEDULE_VERSION; the rest has this layout from version 8 on */
	struct orr_size sizes[ORR_N_SIZES];
	const struct orr_schedule *schedule;
};
#define ORR_PLUGIN(name) \
	extern __attribute__((visibility("default"))) const struct orr_plugin orr_plugin; \
	const struct orr_plugin orr_plugin = {ORR_SCHEDULE_VERSION, ORR_SIZES, &(name)}

ORR_END
