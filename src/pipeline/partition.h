#pragma once
/* From operators to stages: which operator belongs to which stage, and what each stage costs. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_graph;
struct orr_machine;
struct orr_pipeline;

/* Cut g into stages. The file's pins decide where there are any (then all but inputs must be
 * pinned); otherwise n_stages > 0 asks for that many connected stages of balanced cost along a
 * topological order, and n_stages 0 takes every study operator as a stage of its own, or one stage
 * a worker. Every stage that reads an input has its data, and no stage
 * sends it: in stage_of it is its first reader's. Stages without pins are
 * numbered topologically, in the order of their first operators. samples: of one microbatch, for
 * sizes and for operators without measured costs. *out borrows g, and has a copy of the machine.
 * Of a graph that was split (rewrite.h) the one before is cut, into a stage a group of workers, and
 * each stage into what every worker of its group does between two exchanges (struct orr_split). */
int orr_partition(struct orr_pipeline **out, const struct orr_graph *g,
		  const struct orr_machine *machine, int n_stages, int64_t samples,
		  struct orr_error *err);

/* The same with the stage of every operator given, and that of inputs not read; of a graph that was
 * split, of every operator of the one before. Refuses an edge that goes back and a stage without
 * operators. */
int orr_partition_as(struct orr_pipeline **out, const struct orr_graph *g,
		     const struct orr_machine *machine, const int *stage_of, int n_stages,
		     int64_t samples, struct orr_error *err);

/* The same with every operator that computes a stage of its own. */
int orr_partition_apart(struct orr_pipeline **out, const struct orr_graph *g,
			const struct orr_machine *machine, int64_t samples, struct orr_error *err);

/* The most workers that an operator of g is split among; 1 where none is. */
int orr_partition_widest(const struct orr_graph *g);

/* Refuse times of the machine in units where durations have none, and the other way round: a unit
 * is a second to the engine, and to no other reader. units: the latency was a plain number; a
 * cluster knows. */
int orr_partition_check_times(const struct orr_graph *g, const struct orr_machine *machine,
			      bool units, struct orr_error *err);

ORR_END
