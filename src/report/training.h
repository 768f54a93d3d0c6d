#pragma once
/* What train says at its end: text for people, and the JSON object of `train --json`. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "orrery/figures.h"
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;
struct orr_timeline;
struct orr_try;

/* On the test rows, while the model trained. */
struct orr_evaluation {
	int64_t step; /* 0: none */
	double loss, accuracy;
};

/* What a rank came to in all steps. */
struct orr_training_rank {
	struct orr_rank_numbers { /* nothing but int64_t */
		struct orr_traffic traffic;
		int64_t data_bytes; /* of the values of the dataset that it holds */
		int64_t peak_bytes; /* resident, see orr_run_peak_bytes() */
	} measured;
	int64_t predicted_bytes; /* the peak, as simulated */
};

/* Copies in memory, all that were whole. */
struct orr_training_copies {
	int64_t n, n_bytes;
	int64_t ns, waited_ns; /* from begin to end, and without training */
};

/* Borrowed, but for what is said to be owned, which orr_training_fini() frees. */
struct orr_training {
	int64_t steps, first;     /* first: those before a checkpoint; at most steps */
	int64_t skipped;          /* steps whose update was left out */
	struct orr_scores scores; /* on the test rows */
	double step_seconds;      /* median */
	int step_samples;
	const struct orr_jobs *jobs;
	const struct orr_try *predicted;
	/* NULL: the checkpoint had all the steps that were asked for, or more, or the pipeline was
	 * drained before its first round was whole; the next lines are not used then */
	const struct orr_timeline *measured;
	struct orr_figures *figures; /* of measured, by orr_training_init(); owned */
	int64_t job_ns;              /* the median of its jobs, by orr_training_init() */
	int n_ranks, n_moved;
	struct orr_training_rank *ranks; /* [n_ranks]; owned */
	struct orr_mapping *places;      /* [n_workers]; owned */
	struct orr_moved moved[64];      /* [n_moved]: between the memories of rank 0 */
	const char *engine;              /* orr_run_version() */
	const char *defined_by;          /* a line: where the figures are explained */

	struct orr_run_versions *versions; /* [n_stages] without a flush, else NULL; owned */
	int n_evaluations;                 /* -1: they were not asked for */
	const struct orr_evaluation *evaluations;
	struct orr_evaluation best; /* of them */
	const char *best_folder;    /* its checkpoint; NULL: it has none */
	struct orr_training_copies copies;
};

/* Check the measured timeline, if there is one, and find its figures. */
int orr_training_init(struct orr_training *r, struct orr_error *err);
void orr_training_fini(struct orr_training *r);
/* columns, colour: of the two timelines, see diagram.h. */
int orr_training_write(FILE *file, const struct orr_training *r, int columns, bool colour,
		       struct orr_error *err);
/* Times in seconds: the keys of orr_report_json() for the measured timeline, and what training came
 * to. New reference; NULL with err filled. */
json_t *orr_training_json(const struct orr_training *r, struct orr_error *err);

ORR_END
