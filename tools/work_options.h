#ifndef ORR_WORK_OPTIONS_H
#define ORR_WORK_OPTIONS_H
/* The options of model, machine and schedule. */
#include <argp.h>
#include <stdbool.h>
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "orrery/try.h"

struct work_options {
	const char *source;                           /* the graph, or a plan, which names it */
	bool no_source;                               /* there need be none */
	const char *schedule;                         /* NULL: none */
	const char *recompute;                        /* which stages; NULL: not given */
	const char *workers, *bandwidths, *latencies; /* as given; NULL: not */
	struct orr_levels levels;     /* of these; one of all workers where they have none */
	struct orr_machine machine;   /* n_workers 0: not given */
	const char *machine_file;     /* that has workers and links instead; NULL: not given */
	bool latency_units;           /* its latency was a plain number */
	int n_microbatches;           /* 0: not given */
	const char *splits;           /* see rewrite.h; NULL: what the graph says */
	int n_stages;                 /* 0: not given */
	int batch;                    /* samples in a minibatch */
	const char *lengths;          /* of microbatches: a list or a file; NULL: all alike */
	const char *microbatch_costs; /* a file; NULL: none */
	struct orr_numerics numerics; /* of training: memory of a parameter */
	enum orr_run_order order;     /* in which the schedule is run */
	enum orr_sync sync;           /* asynchronous schedules, as is: */
	int accumulate;               /* microbatches on each replica in an update */
	const char *versions;         /* the option of these two that was given; NULL: none */
	double timeout_s;             /* of a plug-in, see plugin.h */
	struct orr_study_costs costs;
	struct {
		bool schedule, flops, batch, optimizer, precision, shard_optimizer, costs;
	} given; /* by options; else they are the defaults, and a plan may say otherwise */
};

/* Parses GRAPH and the shared options; a child of a command's own argp, whose input it takes as its
 * own: state->child_inputs[0] must be a struct work_options. */
extern const struct argp work_argp;
/* The same, for a command that has no use for some of them: their long names, each followed by a
 * space. They are not in its --help; where one is given, it is the command that says so. Of one
 * command in a process. */
struct argp work_argp_without(const char *names);
struct work_options work_options_default(void);
#endif
