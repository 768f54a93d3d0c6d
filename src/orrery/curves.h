#ifndef ORR_CURVES_H
#define ORR_CURVES_H
/* How the loss of several trainings went, side by side in one drawing. */
#include <stdint.h>
#include <stdio.h>
#include "error.h"

struct orr_curve {
	char *name; /* owned: the file's, without folder and ending */
	int64_t n;
	double *samples; /* owned; seen since the start of training, ascending */
	double *loss;    /* owned; not finite where training diverged */
};

/* A file of losses: the headings "step,samples,loss", then a line for every step. Both count from
 * the start of training, the step at hand included. */
int orr_curve_begin(FILE *file, struct orr_error *err);
int orr_curve_write(FILE *file, int64_t step, int64_t samples, double loss, struct orr_error *err);
/* Read one. Errors name file and line. */
int orr_curve_read(struct orr_curve *curve, const char *path, struct orr_error *err);
void orr_curve_fini(struct orr_curve *curve);

/* At most ORR_MOST_CURVES of them as SVG: loss against samples, each point the mean over a
 * hundredth of the drawing. Who goes far above where all of them start is cut off there. */
#define ORR_MOST_CURVES 8
int orr_curves_svg(FILE *file, const struct orr_curve *curves, int n, const char *title,
		   struct orr_error *err);
#endif
