#ifndef ORR_TRAINED_H
#define ORR_TRAINED_H
/* The report of a training, as text or as JSON. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "hardware.h"
#include "orrery/run.h"

struct across_rank;
struct evaluations;
struct orr_figures;
struct orr_jobs;
struct orr_run_versions;
struct orr_timeline;
struct orr_try;
struct output_options;

struct trained {
	int64_t steps, first;     /* first: those before a checkpoint */
	struct orr_scores scores; /* on the test rows */
	double step_seconds;      /* median */
	int64_t skipped;          /* steps whose update was left out */
	int step_samples;
	const char *workers; /* "one a core": the reason for their number; NULL: it was given */
	const struct orr_jobs *jobs;
	struct orr_run_versions *versions; /* without a flush; owned */
	const struct orr_try *predicted;
	const struct orr_timeline *measured;
	int n_ranks;
	struct across_rank *ranks; /* [n_ranks]; owned */
	struct hardware hardware;
	const struct evaluations *evaluations; /* borrowed */
	json_t *losses;                        /* of the steps, for the page; borrowed, or NULL */
	const struct output_options *output;
};

/* With both timelines, which go to the files that the options name, too. */
int trained_print(const struct trained *r, struct orr_error *err);
/* Without a timeline: the checkpoint had all the steps that were asked for, or more, or the
 * pipeline was drained before its first round was whole. */
int trained_print_short(const struct trained *r, struct orr_error *err);
void trained_fini(struct trained *r);
#endif
