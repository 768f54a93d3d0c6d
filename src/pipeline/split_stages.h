#pragma once
/* Stages of a graph that was split (rewrite.h), and of the graph before. */
#include "orrery/orrery.h"

struct orr_graph;
struct orr_machine;
struct orr_pipeline;

/* Cut g as *whole, of the graph before, is cut: a stage for each worker of a group and each number
 * of exchanges before it. *whole is *out's from here on, and costs what a group takes and what the
 * fullest of its workers keeps; NULL after an error. */
int orr_split_partition(struct orr_pipeline **out, const struct orr_graph *g,
			const struct orr_machine *machine, struct orr_pipeline *whole,
			int64_t samples, struct orr_error *err);
