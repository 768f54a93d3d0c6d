#pragma once
/* Rewrites: from a graph to a graph, after reading and before partition. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_graph;

/* Split operators among t workers each: products by columns and rows, attention by heads, tables by
 * vocabulary, and what lies between by rows [Narayanan21, Korthikanti23]; what the workers exchange
 * becomes operators as well (struct orr_operator, collective). splits: "trunk=2,image=4" of
 * encoders and operators by name, "2" of all; ":copied" behind a number copies what would be split
 * by rows; NULL: what the file says (split=). *out owns g, as `whole`; where nothing is split it is
 * g. Names and initial values stay those of g's operators: "fc1/0" is part 0 of fc1. Refuses
 * names that there are not, and study operators, of which only costs are known; then g is the
 * caller's still. */
int orr_graph_split(struct orr_graph **out, struct orr_graph *g, const char *splits,
		    struct orr_error *err);
/* Frees split and gives back the graph before. */
struct orr_graph *orr_graph_unsplit(struct orr_graph *split);

ORR_END
