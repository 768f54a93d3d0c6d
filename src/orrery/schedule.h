#ifndef ORR_SCHEDULE_H
#define ORR_SCHEDULE_H
/* A schedule is a plain struct of pure functions. Built-in ones and plug-ins are written alike; see
 * schedules/1f1b.c for one to copy. A pure function returns the same for the same arguments, so
 * that every process can evaluate it alone and agree. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "orrery.h"
#include "pipeline.h"

enum orr_order {
	ORR_ORDER_STRICT, /* a worker runs its jobs in the order of n and waits for the next one */
	ORR_ORDER_GREEDY  /* a free worker takes, of its jobs that are ready, the one of lowest n
			     [Rahimi25] */
};

/* A parameter, NAME:key=value. Values are integers; functions read them from `data`, which is an
 * array of int64_t in the order of this list. */
#define ORR_LIST \
	INT64_MIN /* as otherwise, of the last parameter: a list, key=2-1-1; not given, it is \
		     empty */
#define ORR_MOST_LISTED 64 /* values in a list; a 0 after them where they are fewer */
#define ORR_COUNT_OR_SIZE \
	INT64_MIN /* as low: from 0 on, or a size with a unit, kept as minus so many bytes */
/* What a parameter counts, and so which of its values can change the order of a step. */
enum orr_parameter_kind {
	ORR_PARAMETER_CHOICE,       /* a word or a number that counts nothing of these */
	ORR_PARAMETER_MICROBATCHES, /* more than a step has change nothing */
	ORR_PARAMETER_WORKERS,
	ORR_PARAMETER_STASHES, /* the stage stashes that a worker may hold */
	ORR_PARAMETER_PERIOD   /* of 1F1B*: units in a study, else microseconds */
};
struct orr_parameter {
	const char *key, *summary;
	int64_t low, high; /* the range that is accepted */
	int64_t otherwise; /* the value when it is not given */
	enum orr_parameter_kind kind;
};

struct orr_schedule {
	const char *name;    /* "1f1b" */
	const char *summary; /* one line for `orrery schedules` */
	const char *paper;   /* (optional) where it comes from */
	enum orr_order order;
	bool split_backward; /* B is the input gradient and W a job of its own */
	bool stream; /* no flush: see stream.h for what n is then; parameters have versions */
	const struct orr_parameter *parameters; /* (optional) ends with a NULL key; at most 8 */
	/* (optional) per parameter, the words for its values from low on, "depth|breadth"; NULL:
	 * numbers */
	const char *const *words;

	/* (optional) refuse what this schedule cannot serve, in one line: fill err->msg, return
	 * ORR_E_INPUT */
	int (*check)(const struct orr_pipeline *p, const void *data, struct orr_error *err);
	/* w_compute(s,b,d), in [0, n_workers) */
	int (*compute)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data);
	/* (optional) w_weights(s,b,d); NULL means w_compute */
	int (*weights)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data);
	/* n(s,b,d), distinct on each worker, lower first */
	int64_t (*priority)(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			    const void *data);
	/* (instead of priority) where n is no closed form: write n of every job at once, n[i] with
	 * i = (b * n_stages + s) * n_passes + d and n_passes 3 with split_backward, else 2.
	 * Deterministic; on failure fill err->msg and return an orr_code */
	int (*lay_out)(const struct orr_pipeline *p, const void *data, int64_t *n,
		       struct orr_error *err);
	/* (instead of compute and priority) where placement and order are found together: the
	 * worker of every stage, worker[n_stages], n as lay_out writes it, and a makespan that no
	 * order on these workers that the schedule may give can beat, or 0: one above the makespan
	 * of the order itself is refused. Deterministic */
	int (*place)(const struct orr_pipeline *p, const void *data, int *worker, int64_t *n,
		     int64_t *bound_ns, struct orr_error *err);
	/* (optional) most microbatches of stage s between F and the end of their backward; 0: no
	 * cap */
	int (*in_flight)(const struct orr_pipeline *p, int s, const void *data);
	/* (optional) does B of stage s run F again, so that until then its stash is its input
	 * alone? The stages that the user asks for (p->stages[s].recompute) do so under every
	 * schedule */
	bool (*recompute)(const struct orr_pipeline *p, int s, const void *data);
	const void *data; /* what the functions get: parameters, or tables found by a planner */
};

/* A plug-in is a shared module that defines ORR_PLUGIN with one schedule, and nothing else of ours.
 */
#define ORR_SCHEDULE_VERSION 7
struct orr_plugin {
	int version; /* ORR_SCHEDULE_VERSION at the time it was compiled */
	size_t size; /* sizeof(struct orr_schedule) likewise */
	const struct orr_schedule *schedule;
};
#define ORR_PLUGIN(name) \
	extern const struct orr_plugin orr_plugin; \
	const struct orr_plugin orr_plugin = {ORR_SCHEDULE_VERSION, sizeof(struct orr_schedule), \
					      &(name)}
#endif
