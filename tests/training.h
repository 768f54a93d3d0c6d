#pragma once
/* A small model on its way from text to a run. Any failure fails the test. */
#include <stdint.h>

#include "orrery/graph.h"
#include "orrery/open.h"
#include "runtime/run/hooks.h"

#define N_ROWS 97
#define N_COLUMNS 24
#define CLASS_COLUMN 20
#define N_STEPS 16

/* Two encoders, a skip over the trunk, a stage without parameters, two losses. */
extern const char training_model[];

struct training {
	const char *frozen; /* operators that are (frozen.h); NULL: none */
	struct orr_graph *graph;
	struct orr_pipeline *pipeline;
	struct orr_choice choice;
	struct orr_jobs *jobs;
	struct orr_dataset data;
	struct orr_run_options options;
	struct orr_run_hooks hooks;
	struct orr_run *run;
	struct orr_error err;
};

/* Everything before the run; options may be changed after. t is zero, but for its choice
 * and what is frozen. */
void training_prepare(struct training *t, const char *text, const struct orr_schedule *schedule,
		      int n_workers, int n_microbatches);
/* The same, for a schedule that need not serve it: its code, and t->err says why. */
int training_try(struct training *t, const char *text, const struct orr_schedule *schedule,
		 int n_workers, int n_microbatches, const char *recompute);
/* The model above under a schedule by its name. */
void training_init(struct training *t, const char *schedule, int n_workers, int n_microbatches);
void training_start(struct training *t);
void training_fini(struct training *t);

/* What every step left; training_check_step fills it, and checks the step's timeline. */
struct training_record {
	const struct training *t;
	const char *name;
	int64_t n;
	double losses[N_STEPS];
};
void training_check_step(void *record, const struct orr_step *step);

struct suite_test;
/* A test program of which each rank runs the same tests: the value of main. The first writes what
 * training_write() is given to the file at path. */
int training_on_ranks(const char *name, const struct suite_test *tests, int n_tests,
		      const char *path);
void training_write(const struct training *t, const float *parameters);

/* A copy of the run's parameters. */
float *training_parameters(struct training *t);
/* Start, train N_STEPS steps and return a copy of the parameters. record may be NULL. */
float *training_run(struct training *t, const char *name, struct training_record *record);
