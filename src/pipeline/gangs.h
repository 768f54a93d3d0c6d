#ifndef ORR_PARTITION_GANGS_H
#define ORR_PARTITION_GANGS_H
/* Where operators say that their stages are, and which stages gather a minibatch. */
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

struct orr_graph;

/* Fills gang and gather of the stages; sets of workers stay the graph's. Refuses operators of one
 * stage that say different things, and names that nothing in the graph has. */
int orr_partition_gangs(struct orr_stage *stages, const struct orr_graph *g, const int *stage_of,
			struct orr_error *err);
#endif
