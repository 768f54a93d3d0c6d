#pragma once
/* From the stage of every operator to a pipeline. */
#include "orrery/orrery.h"

struct orr_graph;
struct orr_machine;
struct orr_pipeline;

/* Every stage that reads an input has its data; it counts as its first reader's. */
void orr_stages_place_inputs(const struct orr_graph *g, int *stage_of);
/* stage_of, without that of inputs, is *out's from here on, or freed. */
int orr_stages_of(struct orr_pipeline **out, const struct orr_graph *g,
		  const struct orr_machine *machine, int *stage_of, int n_stages, int64_t samples,
		  struct orr_error *err);
