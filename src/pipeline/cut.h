#pragma once
/* Cutting operators into connected stages of balanced cost, along one topological order. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_graph;
struct orr_machine;

/* Write the stage of every operator but inputs (-1 for those). The order follows each branch to its
 * end before the next, so that branches are cut apart. n_stages 0: one per worker (4 if the machine
 * does not say how many), or the next smaller number that allows connected stages. The cost of the
 * largest stage is the minimum for this order. */
int orr_cut(const struct orr_graph *g, const struct orr_machine *machine, int64_t samples,
	    int n_stages, int *stage_of, int *n_chosen, struct orr_error *err);

ORR_END
