#pragma once
/* The tensors of a model, whether its graph was split or not: those of the unsplit graph
 * (orr_graph_whole). An operator of a graph that was split has parts of them, or copies; one of any
 * other graph has its own. */
#include "codelets/operator.h"
#include "orrery/graph.h"

/* Parameter i of operator k is, or is a part of, this one of its origin: they have one name. -1: it
 * has no parameter i. */
int orr_whole_parameter(const struct orr_graph *g, int k, int i);
/* How it lies in that one. */
struct orr_pieces orr_whole_pieces(const struct orr_graph *g, int k, int i);

/* Operators by their origins. */
struct orr_whole {
	const struct orr_graph *graph; /* borrowed */
	int *first;                    /* [of the unsplit graph] or -1 */
	int *next;                     /* [n_operators] of the same origin, ascending; or -1 */
	int most;                      /* operators of one origin */
};

/* A part: parameter i of operator k. */
struct orr_whole_part {
	int k, i;
};

int orr_whole_init(struct orr_whole *whole, const struct orr_graph *g, struct orr_error *err);
void orr_whole_fini(struct orr_whole *whole); /* zeros are fine */
/* The parts that together are parameter j of operator o of the unsplit graph, in the order in which
 * they lie there; of copies the first. parts: room for `most`. How many; 0: some is nowhere. */
int orr_whole_parts(const struct orr_whole *whole, int o, int j, struct orr_whole_part *parts);
