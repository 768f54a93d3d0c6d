#pragma once
/* Latency and bandwidth between ranks, measured by sending messages there and back. */
#include "orrery/orrery.h"

ORR_BEGIN

/* Between ranks a < b. MPI's own times, without those of the threads that start a transfer. */
struct orr_link {
	int a, b;
	int64_t latency_ns;           /* of a message of one byte */
	double bandwidth_bytes_per_s; /* of a large message, its latency subtracted */
};

#define ORR_HOST_NAME 64
struct orr_links {
	struct orr_link *links; /* [n_links] ascending by a, then b */
	int n_links, n_ranks;
	char (*hosts)[ORR_HOST_NAME]; /* [n_ranks] */
};

/* Collective: medians, one pair of ranks after the other, so that no two share a wire. *out is
 * filled on rank 0 alone. ORR_E_INPUT: there is one rank. ORR_E_UNSUPPORTED: built without MPI. */
int orr_links_measure(struct orr_links *out, struct orr_error *err);
void orr_links_fini(struct orr_links *links);

ORR_END
