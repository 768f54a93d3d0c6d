#ifndef ORR_LINKS_H
#define ORR_LINKS_H
/* What a message between two ranks takes, measured by sending it there and back. One of two files:
 * links_mpi.c, or links_none.c where StarPU's MPI was not found. */
#include <stdint.h>
#include "error.h"

/* Between rank a and a larger rank b; MPI's own times, without those of the threads that start a
 * transfer and take it. */
struct orr_link {
	int a, b;
	int64_t latency_ns;           /* of a message of one byte */
	double bandwidth_bytes_per_s; /* of a large one, over and above its latency */
};

#define ORR_HOST_NAME 64
struct orr_links {
	struct orr_link *links; /* [n_links] ascending by a, then b */
	int n_links, n_ranks;
	char (*hosts)[ORR_HOST_NAME]; /* [n_ranks] */
};

/* All ranks call it. Pair after pair, so that no two share a wire; medians. *out is filled in on
 * rank 0 alone. ORR_E_INPUT: there is one rank. */
int orr_links_measure(struct orr_links *out, struct orr_error *err);
void orr_links_fini(struct orr_links *links);
#endif
