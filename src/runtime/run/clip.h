#pragma once
/* The norm of a step's gradients: of all that are trained, those that are shared counted once. The
 * squares of every tensor are summed by the first owner of its stage, and the tensors in the order
 * of the graph on every rank, so that neither schedule nor cut nor place shows in its bits. And the
 * parameters that weight decay leaves alone: biases and what norms learn; and running means. */
#include "codelets/arguments.h"
#include "runtime/tasks/data.h"

struct orr_clip {
	const struct orr_work *work; /* borrowed */
	double limit;                /* 0: the norm is not wanted */
	struct orr_extent *tensors;  /* [n] of stage s from first[s] up to first[s + 1] */
	int *first, *place;          /* [n_stages + 1]; [n] a tensor's number in the graph, */
	int n, most;                 /* less than most: not all numbers have one */
	double *squares, *all;       /* [n] by stage, in pinned memory; [most] by number, else 0 */
	struct orr_exempt *spared;   /* of stage s from first_spared[s] up to first_spared[s + 1] */
	int *first_spared;           /* [n_stages + 1] */
};

/* none: all decay but running means. */
void orr_clip_init(struct orr_clip *clip, struct orr_data *data, double limit, bool none);

/* Those of stage s that weight decay leaves alone. */
const struct orr_exempt *orr_clip_spared(const struct orr_clip *clip, int s, int *n);
/* Has stage s tensors in the norm, and its first owner here? */
bool orr_clip_counts(const struct orr_clip *clip, int s);
/* What a task that sums the squares of stage s has to know. */
void orr_clip_count(const struct orr_clip *clip, int s, struct orr_codelet_arg *arg);
/* Collective, once all those tasks have ended: the norm, and the factor of the gradients. */
int orr_clip_judge(struct orr_clip *clip, double *norm, double *scale, struct orr_error *err);
