#pragma once
/* Stages on workers that were found one way or another. Private to the planner. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"

struct orr_graph;
struct orr_hierarchy;
struct orr_ideals;
struct orr_levels;
struct orr_machine;
struct orr_pipeline;
struct orr_plan;
struct orr_plan_options;
struct orr_table;
struct orr_try;

struct orr_plan_draft {
	int n_stages;
	int *stage_of; /* [n_operators] -1: an input */
	int *replicas;
	int *workers;          /* of every stage's replicas, stage after stage */
	bool pieces;           /* a worker may have several stages; else each has its own */
	struct orr_arrays all; /* these */
};

/* Orders in which the stages of a cut may take workers that differ. */
struct orr_plan_orders {
	int n, *list; /* [n * n_workers] */
	bool all;     /* every other order is one of these but for workers that are alike */
	struct orr_arrays arrays; /* the list; free them */
};

int orr_plan_orders_find(struct orr_plan_orders *found, const struct orr_machine *machine,
			 struct orr_error *err);

/* (placements.c) Stages on any workers: the placement whose shortest order is shortest. */
struct orr_places {
	const struct orr_pipeline *p; /* its step is set; one owner a stage */
	int64_t memory_bytes;         /* of a worker, for everything; 0: no limit */
	int64_t known_ns; /* a step that is known: look for a shorter one alone; 0: none is */
	const int *from;  /* (optional) [n_stages] a placement to start from */
	int64_t seed;     /* from 1 on: another one looks elsewhere */
};

struct orr_places_found {
	int64_t makespan_ns; /* 0: nothing fits, or nothing is shorter than what is known */
	int64_t bound_ns;    /* no order on any placement of these stages is shorter */
	int n_tried;         /* placements */
	bool all;            /* every one of them: tried, or shown to be no shorter */
};

/* Fill worker[n_stages] and n of every job, numbered as in orr_placed with 3 passes. Small problems
 * have all placements tried, others are searched from several of them by moving and swapping
 * stages; those that look best are searched for longer. */
int orr_places_search(int *worker, int64_t *n, struct orr_places_found *found,
		      const struct orr_places *places, struct orr_error *err);

/* Refuse a graph of which some operators alone are measured, and jobs that a plan cannot have. */
int orr_plan_check_costs(const struct orr_graph *g, struct orr_error *err);
int orr_plan_check_jobs(const struct orr_graph *g, struct orr_error *err);

/* With one worker a stage, numbered along the stages, and room for so many in all. */
int orr_plan_draft_init(struct orr_plan_draft *d, const struct orr_graph *g, int n_stages,
			int n_workers, struct orr_error *err);
void orr_plan_draft_fini(struct orr_plan_draft *d);
/* What the dynamic program found; order: (optional) of the workers, see hierarchy.h. */
int orr_plan_draft_from(struct orr_plan_draft *d, const struct orr_graph *g,
			const struct orr_ideals *x, const struct orr_hierarchy *h,
			const struct orr_levels *levels, const int *order, struct orr_error *err);
/* Every branch cut by itself, one worker a stage. */
int orr_plan_draft_cut(struct orr_plan_draft *d, const struct orr_graph *g,
		       const struct orr_machine *machine, int64_t samples, int n_stages,
		       struct orr_error *err);
/* One worker a stage: those that differ take the stages by their work, the fastest the largest; as
 * they are numbered, otherwise. */
int orr_plan_draft_spread(struct orr_plan_draft *d, const struct orr_graph *g,
			  const struct orr_machine *machine, int64_t samples,
			  struct orr_error *err);
/* Operators on the workers that share the work best, neighbours or not [Beaumont21, section 6]: a
 * stage is a run of operators of one worker, so a worker can have several. Each worker's memory
 * holds in_flight microbatches; 0: those of which the fullest worker holds least, with one
 * microbatch in flight, whatever the limit. n_stages 0: nothing fits. *bound_s: no allocation has a
 * worker that is less busy than that, whatever transfers add. */
int orr_plan_draft_pieces(struct orr_plan_draft *d, const struct orr_graph *g,
			  const struct orr_plan_options *o, const struct orr_machine *machine,
			  int in_flight, double *bound_s, struct orr_error *err);
/* The stages that the file pins (stage=), one worker each; more stages than workers share them as
 * evenly as can be. n_stages 0: it pins none. */
int orr_plan_draft_pins(struct orr_plan_draft *d, const struct orr_graph *g,
			const struct orr_plan_options *o, const struct orr_machine *machine,
			struct orr_error *err);
/* Operators without a stage are free (ideals.h): each goes to its first reader, as inputs do. */
void orr_plan_draft_place_free(struct orr_plan_draft *d, const struct orr_graph *g);

/* The machine that a plan is simulated on. */
struct orr_machine orr_plan_machine(const struct orr_plan_options *o);
/* A graph in these stages, with the step of the options. */
int orr_plan_pipeline(struct orr_pipeline **out, const struct orr_graph *g, const int *stage_of,
		      int n_stages, const struct orr_plan_options *o, struct orr_error *err);
/* Simulate a table; after an error, too, orr_try_fini() frees what there is. */
int orr_plan_try(struct orr_try *tried, const struct orr_pipeline *p, const struct orr_table *table,
		 struct orr_error *err);
/* The plan of a draft in one world (enum orr_world): side by side, or in a chain, where every stage
 * also waits for
 * the one before, and the makespan is the chain's; its order runs on the real stages as it is,
 * which hold as much then. tight: hold no more than there is memory for. */
int orr_plan_realise(struct orr_plan **out, const struct orr_graph *g,
		     const struct orr_plan_options *o, const struct orr_plan_draft *d, int world,
		     bool tight, struct orr_error *err);
/* Number the stages of a plan that is made as numbering.h says, and simulate it again; those that
 * the file pins keep their numbers. */
int orr_plan_number(struct orr_plan *plan, struct orr_error *err);
/* How the plan runs in the world of this number, as it was tried. */
void orr_plan_note(struct orr_plan *plan, int number);
/* No placement has a less busy worker than the plan's pieces. */
bool orr_plan_is_proven(const struct orr_plan *plan);
/* Fill costs, slowest_s and one_worker_s of a plan whose stages have their workers. */
int orr_plan_cost(struct orr_plan *plan, const struct orr_machine *machine, struct orr_error *err);
