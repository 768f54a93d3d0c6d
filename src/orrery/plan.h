#pragma once
/* A plan: a graph cut into stages, the workers of each, the order of every worker's jobs, and the
 * simulator's prediction. */
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "orrery.h"
#include "machine.h"
#include "pipeline.h"
#include "schedule.h"
#include "try.h"

ORR_BEGIN

struct orr_graph;
struct orr_table;

struct orr_plan_options {
	struct orr_levels levels;
	const struct orr_cluster
		*cluster; /* (optional) workers that differ, borrowed; as many as the levels
			     have; memory_bytes is then the largest of theirs */
	bool activations; /* count the transfers between stages */
	bool added;       /* add a worker's transfer time to its computing time, as older planners
			     do; else they overlap, as simulated */
	bool straight;    /* no replicas */
	bool unpin;       /* ignore the file's pins */
	bool pieces;      /* also stages that share a worker without being neighbours */
	bool by_makespan; /* choose the plan with the shortest simulated step among several, some
			     with fewer stages, instead of the fastest slowest stage */
	int64_t memory_bytes;         /* of a worker; 0: no limit */
	struct orr_numerics numerics; /* what a parameter costs in memory */
	int n_microbatches;
	int64_t samples;              /* of a microbatch */
	double flops_per_s;           /* for operators without costs; > 0 */
	struct orr_observer observer; /* of orr_plan_search() */
	bool (*enough)(void); /* (optional) called once there is a plan; true: try no others */
	const struct orr_graph *split; /* private: of orr_split_plan_create() */
};

/* How stages run: CHAIN: each also waits for the stage before it; DAG: side by side, each waits
 * only for the stages that it reads; PIECES: as DAG, with several stages per worker, which need not
 * be neighbours. */
enum orr_world { ORR_WORLD_CHAIN, ORR_WORLD_DAG, ORR_WORLD_PIECES };
#define ORR_N_WORLDS 3

/* The simulated figures of a plan in one of them. */
struct orr_plan_world {
	bool fits;
	int n_stages;
	double slowest_s;
	int64_t makespan_ns, memory_bytes; /* of the worker that needs most */
	int64_t stash_bytes;               /* of the worker that stashes most */
	int peak_stash;
};

/* Costs of one stage, per microbatch. Edges between two stages of one worker cost nothing. */
struct orr_plan_cost {
	double compute_s;       /* shared by the replicas; with the stage's part of the update */
	double communication_s; /* in addition: the all-reduce, and the excess of the busiest link's
				   time over the worker's */
	double link_s;          /* time of the busiest direction of a link */
};

/* Seconds per microbatch of the busiest worker: the largest sum of computing and communication; m
 * microbatches take at least m times that. */
struct orr_plan_slowest {
	double overlapped_s, added_s; /* without and with orr_plan_options.added */
	double least_s;               /* lower bound for these options, from the work alone */
	bool fastest; /* proven: with these options no cut into stages, each on its own workers,
			 has less */
	double pieces_bound_s; /* lower bound for placements of operators, one worker each; 0: not
				  asked for */
	bool proven;           /* the pieces' busiest worker reaches it, transfers included */
};

/* Figures of orr_plan_search(). */
struct orr_plan_sought {
	int64_t from_ns; /* the initial makespan; 0: there was no search */
	int restarts;
	/* of operators on any workers; 0: there was no such search */
	int64_t anywhere_ns; /* lower bound of the step, for all placements with one worker each */
	int n_placements;    /* the most that one restart tried */
	bool all_placements; /* these were all */
};

struct orr_plan {
	const struct orr_graph *graph; /* borrowed */
	struct orr_pipeline *pipeline;
	/* [n_stages] */
	int *first, *replicas; /* microbatch b is on worker workers[first + b mod replicas]; of
				  workers that differ, see orr_machine_turns() */
	int *workers;
	struct orr_plan_cost *costs; /* [n_stages] */
	double slowest_s;            /* one of the next, as the options count */
	struct orr_plan_slowest slowest;
	double one_worker_s; /* everything on one worker, per microbatch */
	int in_flight; /* NOAM [Narayanan19]: the most microbatches in flight per replica of a first
			  stage */
	int64_t wanted_bytes; /* the memory that in_flight needs to keep all workers busy; 0: it
				 does */
	bool pinned;          /* the file pins the stages */
	bool coarse;          /* neighbours were joined first: too many cuts */
	bool flattened;       /* and branches put one after the other */
	struct orr_plan_options options;
	struct orr_table *table;
	struct orr_try tried; /* the table, on the machine */
	struct orr_plan_sought sought;
	enum orr_world world; /* the best of these that the options allow */
	struct orr_plan_world worlds[ORR_N_WORLDS];
};

/* Keeps stages that the file pins (stage=), unless `unpin`. Refuses a graph without costs or FLOP;
 * if nothing fits, the message says how much memory is missing, on which worker, and what would
 * fit. Deterministic. *out borrows g. */
int orr_plan_create(struct orr_plan **out, const struct orr_graph *g,
		    const struct orr_plan_options *options, struct orr_error *err);
void orr_plan_destroy(struct orr_plan *plan); /* NULL is fine */

/* One split that was tried. */
struct orr_split_try {
	char splits[256]; /* as orr_open_options has them */
	int n_groups, n_stages;
	int64_t makespan_ns, memory_bytes; /* simulated on the workers; of the fullest */
};

/* A plan of a split graph, for groups of workers, and its step on the workers. */
struct orr_split_plan {
	char *splits;            /* owned; "": those of the file */
	struct orr_graph *graph; /* owned; its `whole` is borrowed; NULL: no split was best, and
				    plan is everything */
	struct orr_graph *costs; /* private: the operators at what a group takes */
	int n_groups;
	struct orr_plan *plan; /* owned: its workers are groups */
	struct orr_pipeline *pipeline;
	struct orr_try tried;        /* on the workers */
	struct orr_split_try *tries; /* owned */
	int n_tries;
};

/* The plan with the shortest step of g, split by `splits`, see orr_open_options. "any": tries to
 * split each encoder, and the operators outside encoders, among 1 (no split), 2, 4, .. workers of
 * one node (levels.workers[0]); if there are too many combinations, it changes encoders one by one
 * from the best equal split of all. *out borrows g. */
int orr_split_plan_create(struct orr_split_plan **out, struct orr_graph *g, const char *splits,
			  const struct orr_plan_options *options, struct orr_error *err);
void orr_split_plan_destroy(struct orr_split_plan *plan); /* NULL is fine */
/* As orr_plan_json(), for the plan of the groups, with the split and the workers' step. */
json_t *orr_split_plan_json(const struct orr_split_plan *plan, bool embed, struct orr_error *err);

/* Search (search.h) for a shorter order of the plan's stages on their workers, within the memory of
 * its options or, without a limit, of its fullest worker; the lower bound is then that of such
 * orders. With pieces, search also over placements of operators on any workers, in the memory of
 * the options. Then repeat from `restarts` other seeds, and from further ones until `seconds` have
 * passed (0: no further ones). The same number of restarts always finds the same plan, a larger one
 * never a longer step. Refuses stages with replicas, unless with pieces. */
int orr_plan_search(struct orr_plan *plan, int restarts, int64_t seconds, struct orr_error *err);

/* embed: include the graph's text, if its costs are not in its file. New reference; NULL, with err,
 * without memory. */
json_t *orr_plan_json(const struct orr_plan *plan, bool embed, struct orr_error *err);

ORR_END
