#ifndef ORR_TRAFFIC_H
#define ORR_TRAFFIC_H
/* The bytes that a run sends between ranks, by kind, and which rank has which worker. */
#include <stdint.h>
#include "error.h"

ORR_BEGIN

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

ORR_END
#endif
