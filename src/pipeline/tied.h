#pragma once
/* Parameters that operators share, and so stages. */
#include "orrery/orrery.h"

struct orr_graph;
struct orr_stage;
struct orr_tied;

/* The sets that the cut stage_of leaves in several stages, those of the same stages as one; to be
 * freed with free(). Of operators that share parameters inside a stage, which has them once, the
 * first alone is charged to it: parameters and update of the others are taken off again. */
int orr_tied_find(struct orr_tied **out, int *n_tied, struct orr_stage *stages,
		  const struct orr_graph *g, const int *stage_of, struct orr_error *err);
