#ifndef ORR_SPLIT_H
#define ORR_SPLIT_H
/* Stages of a graph that was split (rewrite.h), and of the graph before. */
#include <stdint.h>
#include "orrery/error.h"

struct orr_graph;
struct orr_machine;
struct orr_pipeline;
struct orr_split;

/* Cut g as *whole, of the graph before, is cut: a stage for each worker of a group and each number
 * of exchanges before it. *whole is *out's from here on, and costs what a group takes and what the
 * fullest of its workers keeps; NULL after an error. */
int orr_split_partition(struct orr_pipeline **out, const struct orr_graph *g,
			const struct orr_machine *machine, struct orr_pipeline *whole,
			int64_t samples, struct orr_error *err);
void orr_split_destroy(struct orr_split *split); /* NULL is fine */

/* For orr_pipeline_set_step() and orr_pipeline_set_recompute() of p, whose graph was split. */
int orr_split_set_step(struct orr_pipeline *p, int n_workers, int n_microbatches,
		       struct orr_error *err);
int orr_split_set_recompute(struct orr_pipeline *p, const char *text, struct orr_error *err);
#endif
