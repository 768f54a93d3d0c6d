#ifndef ORR_ACROSS_H
#define ORR_ACROSS_H
/* What every rank of a training has sent, received and held, as rank 0 reports it. */
#include <jansson.h>
#include "orrery/orrery.h"
#include "simulate/footprint.h"
#include "orrery/figures.h"

struct orr_dataset;
struct orr_run;
struct orr_run_options;
struct orr_timeline;
struct session;

/* What a rank came to in all steps. */
struct across_rank {
	struct across_numbers {
		struct orr_traffic traffic;
		int64_t data_bytes; /* of the values of the dataset that it holds */
		int64_t peak_bytes; /* resident, see orr_run_peak_bytes */
	} measured;
	struct orr_footprint predicted; /* the predicted peak, by across_predict */
};

/* Of every rank, on every rank: [n_ranks], the caller's to free. */
int across_gather(struct across_rank **out, struct orr_run *run, const struct orr_dataset *data,
		  struct session *s);
/* From the predicted timeline; options as for the run. */
int across_predict(struct across_rank *ranks, int n_ranks, const struct orr_timeline *t,
		   const struct orr_run_options *options, struct orr_error *err);
/* An array with an object for each rank; NULL: no memory. */
json_t *across_json(const struct across_rank *ranks, int n_ranks);
/* Two lines for people. */
void across_print(const struct across_rank *ranks, int n_ranks, int64_t n_steps);
#endif
