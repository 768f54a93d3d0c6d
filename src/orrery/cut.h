#ifndef ORR_CUT_H
#define ORR_CUT_H
/* Cutting operators into connected stages of balanced cost, along one topological order. */
#include <stdint.h>
#include "error.h"

ORR_BEGIN

struct orr_graph;
struct orr_machine;

/* Write the stage of every operator but inputs (-1 for those). The order follows each branch to its
 * end before the next, so that branches are cut apart. n_stages 0: one a worker (4 where workers
 * are not given either), or as many fewer as makes connected stages possible. The largest stage's
 * cost is the least that this order allows. */
int orr_cut(const struct orr_graph *g, const struct orr_machine *machine, int64_t samples,
	    int n_stages, int *stage_of, int *n_chosen, struct orr_error *err);

ORR_END
#endif
