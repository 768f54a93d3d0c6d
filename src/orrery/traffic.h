#ifndef ORR_TRAFFIC_H
#define ORR_TRAFFIC_H
/* Traffic of a run between ranks, by kind; and the rank of each worker. */
#include <stdint.h>
#include "error.h"
#include "transfer.h"

ORR_BEGIN

/* Of one rank. */
struct orr_traffic {
	int64_t sent[ORR_TRANSFER_KINDS], sent_bytes[ORR_TRANSFER_KINDS];
	int64_t received[ORR_TRANSFER_KINDS], received_bytes[ORR_TRANSFER_KINDS];
};

/* Assign consecutive blocks of workers to ranks: of equal size (the first ranks have one worker
 * more if they do not divide), or as text says, "2,1,1"; at least one each. rank_of holds
 * n_workers. */
int orr_ranks_of_workers(int *rank_of, int n_workers, int n_ranks, const char *text,
			 struct orr_error *err);

ORR_END
#endif
