#ifndef ORR_SCHEDULE_H
#define ORR_SCHEDULE_H
/* A schedule is a plain struct of functions. Built-in ones and plug-ins are written alike.
 *
 * Functions are pure: for the same arguments they return the same, so that every process evaluates
 * a schedule alone and all agree. They borrow the pipeline and keep nothing of it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "orrery.h"
#include "pipeline.h"

enum orr_order {
	ORR_ORDER_STRICT, /* a worker runs its jobs in the order of n and waits for the next one */
	ORR_ORDER_GREEDY, /* a free worker takes, of its jobs that are ready, the one of lowest n
			     [Rahimi25] */
	ORR_ORDER_BOUNDED /* greedy, in the memory of the strict order: no worker ever holds more
			     stashes, or more bytes of them, than the strict order makes it hold */
};

/* ---- parameters, NAME:key=value,key=value ---- */

/* How a value is written, and what it means: the search reads from it which values can change the
 * order of a step. */
enum orr_parameter_kind {
	ORR_PARAMETER_INTEGER,
	ORR_PARAMETER_MICROBATCHES, /* an integer; beyond the microbatches of a step all are equal
				     */
	ORR_PARAMETER_WORKERS,      /* an integer; beyond the number of workers all are equal */
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
	/* The range that is accepted (bytes, ns; of a list: for each number; WORD: not read) and
	 * the value when none is given (WORD: its number; LIST: not read, it is then empty). */
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

/* Who is told how a search goes on: tell, if any, of every better order and its bound, in the
 * thread that searches. */
struct orr_observer {
	void (*tell)(void *user, int64_t best_ns, int64_t bound_ns);
	void *user;
};

/* A whole step, job by job: job (b * n_stages + s) * n_passes + d, n_passes 3 with split_backward,
 * else 2. */
struct orr_placed {
	int *worker;      /* [n_jobs] w_compute */
	int64_t *n;       /* [n_jobs] */
	int64_t bound_ns; /* a makespan that no order within the schedule's limits can beat; 0: none
			     is known. One above the makespan of this very order is refused */
	int64_t span_bound_ns; /* the same of the span, see figures.h, where the schedule seeks the
				  shortest one; else 0 */
	struct orr_observer observer; /* given: for a place() that searches */
};

/* Required: name, and compute and priority, or place for what they leave open. A function that
 * fails writes one line with orr_fail() and returns its code. */
struct orr_schedule {
	const char *name;    /* "1f1b" */
	const char *summary; /* one line for `orrery schedules` */
	const char *paper;   /* (optional) its source */
	enum orr_order order;
	bool split_backward; /* B is the input gradient and W a job of its own */
	bool asynchronous;   /* no flush: async.h says what n is then; parameters have versions */
	const struct orr_parameter *parameters; /* (optional) ends with a NULL key */
	const void *data; /* (optional) the schedule's own; with parameters the library passes their
			     values instead, an array of struct orr_value in the same order */

	/* (optional) Can this schedule serve the pipeline? Called first; a refusal says what to
	 * change: orr_fail(err, ORR_E_INPUT, "mine: %d stages ...: set [workers]"). */
	int (*check)(const struct orr_pipeline *p, const void *data, struct orr_error *err);

	/* w_compute(s,b,d): the worker that runs the job, in [0, n_workers). */
	int (*compute)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data);

	/* (optional) w_weights(s,b,d): the worker that owns the parameters which the job reads.
	 * Where it is not the one that runs the job, they are fetched for it and dropped
	 * afterwards; several owners of a stage all-reduce its gradient. NULL: the worker that runs
	 * the job. */
	int (*weights)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data);

	/* n(s,b,d): the job's place in the order of its worker. Lower runs first; no two jobs of a
	 * worker have the same n. */
	int64_t (*priority)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			    const void *data);

	/* (optional) The whole step at once, for what has no closed form. *out comes filled in by
	 * compute and priority, with -1 and 0 where those are NULL, and is taken as place leaves
	 * it. Not for an asynchronous schedule. */
	int (*place)(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		     struct orr_error *err);

	/* (optional) The most microbatches of stage s between the start of F and the end of their
	 * backward, 0: any number. F of one microbatch more waits. */
	int (*in_flight)(const struct orr_pipeline *p, int s, const void *data);

	/* (optional) Does B of stage s run F again, so that until then its stash is its input
	 * alone? Stages for which the user asks for it (p->stages[s].recompute) do in any case. */
	bool (*recompute)(const struct orr_pipeline *p, int s, const void *data);

	/* (optional) The caller's, in its copy of the schedule: passed on to place. */
	struct orr_observer observer;
};

/* ---- plug-ins ---- */

/* A plug-in is a shared module, one schedule followed by ORR_PLUGIN(schedule). It may call every
 * function of the public headers. The macro records what the plug-in was compiled against: one that
 * sees these structs otherwise than the program that loads it is refused. */
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
#endif
