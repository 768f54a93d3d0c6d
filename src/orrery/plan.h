#ifndef ORR_PLAN_H
#define ORR_PLAN_H
/* A plan: a graph cut into stages, the workers of each, and the order of every worker's jobs, with
 * what the simulator predicts for it. */
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "numerics.h"
#include "error.h"
#include "machine.h"
#include "pipeline.h"
#include "schedule.h"
#include "try.h"

ORR_BEGIN

struct orr_graph;
struct orr_table;
struct orr_star_point;

struct orr_plan_options {
	struct orr_levels levels;
	const struct orr_cluster *cluster; /* (optional) workers that differ, borrowed: as many as
					      the levels have; memory_bytes is then their largest */
	bool activations;                  /* count what is sent between stages */
	bool added;       /* to what a worker computes comes the time of what it sends and reads, as
			     older planners count; else links are busy beside it, as simulated */
	bool straight;    /* no replicas */
	bool unpin;       /* cut anew where the file pins stages */
	bool pieces;      /* also stages that share a worker without being neighbours */
	bool by_makespan; /* of the plans that are tried, fewer stages too, the one with the
			     shortest simulated step, instead of the fastest slowest stage */
	int64_t memory_bytes;         /* of a worker; 0: no limit */
	struct orr_numerics numerics; /* what a parameter costs in memory (parameter_cost.h) */
	int n_microbatches;
	int64_t samples;              /* of a microbatch */
	double flops_per_s;           /* for operators without costs */
	struct orr_observer observer; /* of orr_plan_search() */
};

/* A way to run it, as the simulator sees it. Side by side: a stage waits for the stages that it
 * reads. One after the other: as in a chain, it waits for the stage before it as well. */
struct orr_plan_world {
	bool fits;
	int n_stages;
	double slowest_s;
	int64_t makespan_ns, memory_bytes; /* of the worker that needs most */
	int64_t stash_bytes;               /* likewise */
	int peak_stash;
};

/* Of one stage, per microbatch of the step. What lies between two stages of one worker costs
 * nothing. */
struct orr_plan_cost {
	double compute_s;       /* shared by the replicas; with the stage's part of the update */
	double communication_s; /* beyond that: the all-reduce, and what the busiest link takes
				   longer than the worker */
	double link_s;          /* how long the busiest direction of a link is busy */
};

struct orr_plan {
	const struct orr_graph *graph; /* borrowed */
	struct orr_pipeline *pipeline;
	/* [n_stages] */
	int *first, *replicas; /* microbatch b is on worker workers[first + b mod replicas]; of
				  workers that differ, see orr_machine_turns() */
	int *workers;
	struct orr_plan_cost *costs; /* [n_stages] */
	double slowest_s; /* of a worker, the largest sum of computing and communication: m
			     microbatches take no less than m times that */
	double overlapped_s, added_s; /* the same, counted the one way and the other: slowest_s is
					 that of the options */
	double least_s; /* no plan with these options has a smaller one, by the work alone */
	bool fastest; /* proven: with these options no cut into stages, each on workers of its own,
			 has a smaller one */
	double one_worker_s; /* everything on one worker, per microbatch */
	int in_flight; /* NOAM [Narayanan19]: microbatches in flight per replica of a first stage;
			  most of them */
	int64_t wanted_bytes;   /* the memory at which in_flight would keep all workers busy; 0: it
				   does */
	bool pinned;            /* the file says what the stages are */
	bool coarse, flattened; /* see ideals.h */
	struct orr_plan_options options;
	struct orr_table *table;
	struct orr_try tried;     /* the table, on the machine */
	int64_t searched_from_ns; /* the makespan that orr_plan_search began with; 0: none was made
				   */
	int restarts;             /* of that search */
	/* of the search on any workers; 0: there was none */
	int64_t anywhere_ns; /* no placement of the operators, one worker each, has a shorter step
			      */
	int n_placements;    /* that it tried, at most in one restart */
	bool all_placements; /* every one of them */
	bool side_by_side;   /* which of the two is better, and both: */
	struct orr_plan_world chain, dag;
	bool in_pieces; /* neither: a worker has several stages, which need not be neighbours */
	double pieces_bound_s; /* no placement of the operators, one worker each, has a less busy
				  worker; 0: not asked for */
	bool proven; /* and the pieces' busiest worker, with what transfers add, has no more */
	struct orr_plan_world pieces; /* where the options ask for them */
};

/* Where the file pins stages (stage=), those, unless the options say otherwise. Refuses a graph
 * without costs or FLOP; where nothing fits, says what is short, by how much, on which worker, and
 * what would fit. Deterministic. *out borrows g. */
int orr_plan_create(struct orr_plan **out, const struct orr_graph *g,
		    const struct orr_plan_options *options, struct orr_error *err);
void orr_plan_destroy(struct orr_plan *plan); /* NULL is fine */

/* One way to split that was tried. */
struct orr_split_try {
	char splits[256]; /* see rewrite.h */
	int n_groups, n_stages;
	int64_t makespan_ns, memory_bytes; /* simulated on the workers; of the fullest */
};

/* A plan of a split graph: of groups of workers, and what they are as workers. */
struct orr_split_plan {
	char *splits;            /* owned; "": as the file says */
	struct orr_graph *graph; /* owned; its `whole` is borrowed; NULL: not to split was best,
				    and plan is all there is */
	struct orr_graph *costs; /* private: the operators at what a group takes */
	int n_groups;
	struct orr_plan *plan; /* owned: its workers are groups */
	struct orr_pipeline *pipeline;
	struct orr_try tried;        /* on the workers */
	struct orr_split_try *tries; /* owned */
	int n_tries;
};

/* The plan with the shortest step of a graph that is split so (rewrite.h); "any": of all ways to
 * split encoders, and what is in none, among 1, 2, 4, .. workers of one node (levels.workers[0]),
 * and not to; where they are many, from the best in which all are split alike, one encoder after
 * the other. *out borrows g. */
int orr_split_plan_create(struct orr_split_plan **out, struct orr_graph *g, const char *splits,
			  const struct orr_plan_options *options, struct orr_error *err);
void orr_split_plan_destroy(struct orr_split_plan *plan); /* NULL is fine */
/* As orr_plan_json(), of the plan of its groups, with the split and the step of the workers. */
json_t *orr_split_plan_json(const struct orr_split_plan *plan, bool embed, struct orr_error *err);

/* Look for a shorter order of the plan's stages where they are, in the memory of its options, or
 * else in no more than its fullest worker has; see search.h. Its lower bound is then of such
 * orders. With pieces, then for operators on any workers, in the memory of its options, or else in
 * any. And again from other seeds: so many restarts, and then more of them until `seconds` have
 * passed (0: no more). As many restarts find the same in every run, and more of them nothing that
 * is longer. Refuses stages with replicas, unless with pieces. */
int orr_plan_search(struct orr_plan *plan, int restarts, int64_t seconds, struct orr_error *err);

/* What the stages of a straight plan on a chain with free links would hold at longer periods
 * [Beaumont21]: orr_star_points() of periodic.h, which has no transfers. Another plan has none of
 * them. *points is the caller's to free, NULL where *n is 0. */
int orr_plan_periods(const struct orr_plan *plan, struct orr_star_point **points, int *n,
		     struct orr_error *err);

/* With the graph's own text where it came with costs from outside (embed). New reference;
 * NULL with err filled when there is no memory. */
json_t *orr_plan_json(const struct orr_plan *plan, bool embed, struct orr_error *err);

/* A plan as its file says it. */
struct orr_plan_file {
	char *path, *graph, *text; /* owned; text: the graph itself, or NULL: read it */
	char fingerprint[24];
	json_t *stages;           /* owned */
	json_t *microbatch_costs; /* owned, as it stands there; NULL: microbatches are alike */
	char *splits;             /* owned: see rewrite.h; then its workers are groups; or NULL */
	int n_workers;            /* that these are; else those of the table */
	int n_stages;
	int64_t samples; /* of a microbatch */
	double bandwidth_bytes_per_s;
	struct orr_numerics numerics; /* that it was made for */
	struct orr_levels levels;     /* n 0: links are alike */
	char *machine, *machine_text; /* owned: of a machine file, and all of it; or NULL */
	struct orr_table *table;      /* owned */
	/* what `simulate` says besides: */
	int batch; /* samples of a minibatch; 0: samples times microbatches */
	int64_t latency_ns;
	double flops_per_s; /* 0: not said */
	enum orr_sync sync; /* asynchronous schedules, as is: */
	int accumulate;     /* 0: it flushes */
	int64_t bound_ns;   /* see orr_plan_file_prove() */
	char bound_of[24];
};
/* Is it a file that begins as a plan does, as one object of JSON? Models and schedules do not. */
bool orr_plan_is(const char *path);
int orr_plan_file_read(struct orr_plan_file **out, const char *path, struct orr_error *err);
void orr_plan_file_destroy(struct orr_plan_file *file); /* NULL is fine */
/* The stage of every operator of g, -1 for inputs. Refuses a graph that is not the one that was
 * planned. */
int orr_plan_file_stages(const struct orr_plan_file *file, const struct orr_graph *g, int *stage_of,
			 struct orr_error *err);
/* No order that the schedule could give was shorter than a bound that the file has: the table says
 * so from here on, if it was proved for such a pipeline as p. */
void orr_plan_file_prove(struct orr_plan_file *file, const struct orr_pipeline *p);
/* The worker of every microbatch of every stage, see orr_jobs_create_at(); the caller's to free. */
int orr_plan_file_homes(int **out, const struct orr_plan_file *file, int n_microbatches,
			struct orr_error *err);
/* How many workers the plan gives stage s. */
int orr_plan_file_replicas(const struct orr_plan_file *file, int s);
/* Parts of a plan's JSON. The graph as DOT, in a string: a new reference, NULL where there is no
 * memory. */
json_t *orr_graph_text_json(const struct orr_graph *g, struct orr_error *err);
/* Set where links or workers differ; 0, or -1: no memory. */
int orr_machine_json(json_t *plan, const struct orr_machine *machine);
/* "microbatch_costs" of a plan's JSON, where p's microbatches differ; not 0: there is no memory.
 * And back: into a pipeline of the plan's stages whose step is set; microbatches beyond the plan's
 * are its first ones again. Refuses costs that are not those of such a pipeline. */
int orr_microbatches_json(json_t *plan, const struct orr_pipeline *p);
int orr_plan_file_microbatches(const struct orr_plan_file *file, struct orr_pipeline *p,
			       struct orr_error *err);

ORR_END
#endif
