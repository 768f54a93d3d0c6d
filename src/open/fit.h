#pragma once
/* The constants of a machine from steps that were measured: those with which the simulated steps
 * are nearest to them, by the squares of what they are off, each as a share of its step.
 *
 * A step is as long as its critical path, on which each constant stands a number of times: seconds
 * of work, jobs, bytes, messages. So the constants follow from a system of linear equations; with
 * them other jobs may be on the path, and it is solved again. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_opened;

enum orr_constant {
	ORR_CONSTANT_WORK,     /* what work takes, as a multiple of what the graph says */
	ORR_CONSTANT_OVERHEAD, /* s a job or an update */
	ORR_CONSTANT_BYTE,     /* s a byte */
	ORR_CONSTANT_LATENCY   /* s a transfer */
};
#define ORR_CONSTANTS 4
const char *orr_constant_name(int c); /* "compute", "overhead", .. */

struct orr_measured_step {
	const char *name;          /* borrowed; of messages */
	struct orr_opened *opened; /* borrowed; up to its pipeline, on a machine that is ignored */
	double seconds;
	bool apart; /* not fitted to */
	/* filled in */
	double simulated_s;
	double left_out_s; /* simulated with what the others say; where they say too little 0 */
	double count[ORR_CONSTANTS]; /* of each constant on the critical path */
};

struct orr_fit {
	bool asked[ORR_CONSTANTS]; /* to be fitted; if they cannot be told apart that is an error */
	double value[ORR_CONSTANTS]; /* in: of those that are not fitted; out: of all */
	double error[ORR_CONSTANTS]; /* out: standard error, from what is off; NAN: not fitted, or
					as many steps as constants */
	int n_fitted;                /* out: steps */
};

/* With nothing asked, of all four those that the steps tell apart. One constant after the other
 * joins
 * the fit, so more of them are never further off than fewer. The values are at least 0, and that of
 * work more. */
int orr_fit(struct orr_fit *fit, struct orr_measured_step *steps, int n, struct orr_error *err);
/* A machine file of n workers with these constants; the caller's to free. NULL: no memory. */
char *orr_fit_machine(const struct orr_fit *fit, int n_workers);

ORR_END
