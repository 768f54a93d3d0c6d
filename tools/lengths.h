#ifndef ORR_TOOLS_LENGTHS_H
#define ORR_TOOLS_LENGTHS_H
/* --lengths: of the microbatches of a step. */
#include "orrery/error.h"
#include "orrery/graph.h"

/* Give g the lengths of a list, "512,1024,...", or of a file with a number a line. */
int lengths_set(struct orr_graph *g, const char *text, struct orr_error *err);
#endif
