#pragma once
/* From the stage of every operator to a pipeline, and the parts of that. Private to this room. */
#include "orrery/orrery.h"

struct orr_edge;
struct orr_fanout;
struct orr_graph;
struct orr_machine;
struct orr_pipeline;
struct orr_stage;
struct orr_tied;

/* Every stage that reads an input has its data; it counts as its first reader's. */
void orr_stages_place_inputs(const struct orr_graph *g, int *stage_of);
/* stage_of, without that of inputs, is *out's from here on, or freed. */
int orr_stages_of(struct orr_pipeline **out, const struct orr_graph *g,
		  const struct orr_machine *machine, int *stage_of, int n_stages, int64_t samples,
		  struct orr_error *err);

/* Cut g, which was split (rewrite.h), as *whole, of the graph before, is cut: a stage for each
 * worker of a group and each number of exchanges before it. *whole is *out's from here on, and
 * costs what a group takes and what the fullest of its workers keeps; NULL after an error. */
int orr_split_partition(struct orr_pipeline **out, const struct orr_graph *g,
			const struct orr_machine *machine, struct orr_pipeline *whole,
			int64_t samples, struct orr_error *err);

/* Outputs that several stages read: of reads of tensors, tensor[e] by edges[e].to, each stage's
 * once and ascending by stage; from -1 is data, which no stage makes. *out is to be freed with
 * free(). */
int orr_outputs_find(struct orr_fanout **out, int *n_outputs, const struct orr_edge *edges,
		     const int *tensor, int n, struct orr_error *err);

/* The sets of parameters that operators share which the cut stage_of leaves in several stages,
 * those of the same stages as one; to be freed with free(). Of operators that share parameters
 * inside a stage, which has them once, the first alone is charged to it: parameters and update of
 * the others are taken off again. */
int orr_tied_find(struct orr_tied **out, int *n_tied, struct orr_stage *stages,
		  const struct orr_graph *g, const int *stage_of, struct orr_error *err);
