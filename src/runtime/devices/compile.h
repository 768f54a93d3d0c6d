#pragma once
/* From a stage's operators to the program that computes it. */
#include "orrery/orrery.h"
#include "codelets/program.h"

struct orr_dataset;
struct orr_graph;
struct orr_pipeline;

/* *out is owned by the caller and needs p and its graph no longer. Refuses study operators. */
int orr_program_create(struct orr_program **out, const struct orr_pipeline *p, int s,
		       struct orr_error *err);
void orr_program_destroy(struct orr_program *program); /* NULL is fine */

/* Input i of o holds whole numbers from 0 to this, not included; 0: any numbers. */
struct orr_operator;
int64_t orr_program_n_ids(const struct orr_operator *o, int i);

/* Does g fit data? Every column is there, and the classes of every softmax_cross_entropy are
 * whole numbers below the number of its scores. The runtime must ask before it gathers data. */
int orr_program_check_data(const struct orr_graph *g, const struct orr_dataset *data,
			   struct orr_error *err);
