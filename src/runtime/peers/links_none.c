#include "links.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* A build without StarPU's MPI: one rank. */
int orr_links_measure(struct orr_links *out, struct orr_error *err)
{
	*out = (struct orr_links){0};
	return orr_fail(err, ORR_E_UNSUPPORTED,
			"links are between ranks, and this build has one: StarPU's MPI (starpumpi) "
			"was not found when it was configured; install it and build again");
}

void orr_links_fini(struct orr_links *links)
{
}
