#ifndef ORR_TRAFFIC_H
#define ORR_TRAFFIC_H
/* What one step sends between ranks, by kind: derived from the jobs and from which rank has which
 * worker. Pure; a run counts what it really sent, and the two agree to the byte where the batch is
 * a multiple of the microbatches; of a stash in number alone, since a stage's program shares
 * tensors among its operators, which the graph's sizes count for each. */
#include <stdint.h>
#include "error.h"

ORR_BEGIN

struct orr_jobs;

enum orr_traffic_kind {
	ORR_TRAFFIC_ACTIVATION,
	ORR_TRAFFIC_GRADIENT,
	ORR_TRAFFIC_STASH,
	ORR_TRAFFIC_PARAMETER,
	ORR_TRAFFIC_WEIGHT_GRADIENT,
	ORR_TRAFFIC_ALL_REDUCE,
};
#define ORR_TRAFFIC_KINDS 6
const char *orr_traffic_name(enum orr_traffic_kind kind); /* "activation" */

/* Of one rank. */
struct orr_traffic {
	int64_t sent[ORR_TRAFFIC_KINDS], sent_bytes[ORR_TRAFFIC_KINDS];
	int64_t received[ORR_TRAFFIC_KINDS], received_bytes[ORR_TRAFFIC_KINDS];
};

/* Which rank has which worker: blocks of neighbours, even ones (the first ones a worker more where
 * they do not divide), or as text says, "2,1,1". rank_of holds n_workers. Every rank has one at
 * least. */
int orr_ranks_of_workers(int *rank_of, int n_workers, int n_ranks, const char *text,
			 struct orr_error *err);

/* One step; fills traffic[n_ranks], which is overwritten. The replicas of a stage that are on more
 * than one rank all-reduce in a ring, in the order of jobs->owners: the gradient is cut into a
 * chunk for each; chunk c is summed from owner c+1 on round to owner c, and goes round again to all
 * of them. */
int orr_traffic_derive(struct orr_traffic *traffic, const struct orr_jobs *jobs, const int *rank_of,
		       int n_ranks, struct orr_error *err);

ORR_END
#endif
