#pragma once
/* What every rank of a training has sent, received and held, as rank 0 reports it. */
#include "orrery/orrery.h"

struct orr_dataset;
struct orr_run;
struct orr_run_options;
struct orr_timeline;
struct orr_training_rank;
struct session;

/* Of every rank, on every rank: [n_ranks], the caller's to free. */
int across_gather(struct orr_training_rank **out, struct orr_run *run,
		  const struct orr_dataset *data, struct session *s);
/* From the predicted timeline; options as for the run. */
int across_predict(struct orr_training_rank *ranks, int n_ranks, const struct orr_timeline *t,
		   const struct orr_run_options *options, struct orr_error *err);
