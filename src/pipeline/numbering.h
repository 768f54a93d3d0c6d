#pragma once
/* The numbers of stages, one order for all that prints or reads them: topological, and where that
 * leaves a choice, the order in which the graph (and so `orrery show`) lists the first operator of
 * each that computes. Inputs have no say: they go to the first stage that reads them. Pinned stages
 * (stage=) keep the numbers of their file. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_graph;

struct orr_arrays;

/* Who reads what the parts of a graph make, once a tensor: of[first[p]] up to of[first[p + 1]] read
 * part p. */
struct orr_readers {
	int *of, *first;
};

/* part_of: of every operator, -1: none. In the memory of `all`, which says whether there was. */
void orr_readers_find(struct orr_readers *readers, struct orr_arrays *all,
		      const struct orr_graph *g, const int *part_of, int n_parts);

/* Number the stages of stage_of anew: [n_operators], -1 for an input that has no stage yet. Every
 * stage has an operator that computes, and their graph has no cycle. */
int orr_number_stages(const struct orr_graph *g, int *stage_of, int n_stages,
		      struct orr_error *err);

/* Does the file pin stages? */
bool orr_graph_has_pins(const struct orr_graph *g);
/* Operators that are no inputs. */
int orr_graph_n_computed(const struct orr_graph *g);

ORR_END
