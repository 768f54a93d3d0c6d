#pragma once
/* What show, simulate and plan say: text for people, and the JSON object of --json. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_figures;
struct orr_graph;
struct orr_plan;
struct orr_split_plan;
struct orr_timeline;

/* A table of the figures with their units, one row per worker, and the list of stages; at its end
 * a line, defined_by, on where the figures are explained (NULL: none). */
int orr_report_write(FILE *file, const struct orr_timeline *t, const struct orr_figures *f,
		     const char *defined_by, struct orr_error *err);
/* The keys: schedule, model, unit, stages (see stages.h), workers, microbatches, ... New reference.
 * Times in seconds, or in units in a study. NULL with err filled when there is no memory. */
json_t *orr_report_json(const struct orr_timeline *t, const struct orr_figures *f,
			struct orr_error *err);
/* Figures of that report as CSV: a line for each worker, with those of the step in every one. */
int orr_report_csv(FILE *file, const json_t *report, struct orr_error *err);
/* As a plan: what `simulate -o` writes, and what simulate and train read back to the same timeline,
 * whatever the schedule. It is the report, and what it takes to run it again. t is of a pipeline
 * that came from a graph; batch: samples of a minibatch, samples: of a microbatch; embed: with the
 * graph's own text, where its costs came from outside. New reference; NULL with err filled when
 * there is no memory. */
json_t *orr_replay_json(const struct orr_timeline *t, const struct orr_figures *f, int batch,
			int64_t samples, bool embed, struct orr_error *err);

/* A model before it is scheduled. Sums over all operators and over each encoder, and a row an
 * operator. */
int orr_graph_report_write(FILE *file, const struct orr_graph *g, struct orr_error *err);
/* New reference; NULL with err filled. */
json_t *orr_graph_report_json(const struct orr_graph *g, struct orr_error *err);

/* A plan. Stages, step and bounds, what was tried, advice. split: of a plan of groups, else NULL.
 * name_options puts options in the place of the quantities of a line (orrery/orrery.h), in place:
 * the line gets no longer. Times in the graph's unit. Fails for want of memory; whether the file
 * took everything is the caller's to ask. */
int orr_planned_write(FILE *file, const struct orr_plan *plan, const struct orr_split_plan *split,
		      char *(*name_options)(char *line), struct orr_error *err);
/* orr_plan_json() or, with a split, orr_split_plan_json(), and the keys not_tested (untested.h) and
 * advice, lines as in the text. New reference; NULL with err filled when there is no memory. */
json_t *orr_planned_json(const struct orr_plan *plan, const struct orr_split_plan *split,
			 bool embed, char *(*name_options)(char *line), struct orr_error *err);

ORR_END
