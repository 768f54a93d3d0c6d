#include "links.h"
#include "orrery/run.h"

#include <stdlib.h>
#include "base/absent.h"

/* A build without StarPU's MPI: one rank. */
int orr_ranks_start(void (*say)(const char *message), struct orr_error *err)
{
	const char *size = getenv("OMPI_COMM_WORLD_SIZE");

	if (size && atoi(size) > 1)
		return orr_fail(err, ORR_E_UNSUPPORTED,
				"mpirun has started %s ranks and this build cannot train across "
				"them: StarPU's MPI (starpumpi) was not found when it was "
				"configured; install it and build again",
				size);
	return 0;
}

ORR_ABSENT(void, , orr_ranks_stop, void)
ORR_ABSENT(int, 1, orr_ranks_count, void)
ORR_ABSENT(int, 0, orr_ranks_rank, void)
ORR_ABSENT(int, code, orr_ranks_agree, int code, struct orr_error *err)
ORR_ABSENT(int, 0, orr_ranks_sum, double *numbers, int n, struct orr_error *err)

static int alone(struct orr_error *err)
{
	return orr_fail(err, ORR_E_UNSUPPORTED, "ranks: there is no other rank");
}

ORR_ABSENT(int, alone(err), orr_ranks_send, int to, int tag, const void *bytes, size_t n,
	   struct orr_error *err)
ORR_ABSENT(int, alone(err), orr_ranks_start_send, int to, int tag, const void *bytes, size_t n,
	   struct orr_error *err)
ORR_ABSENT(void, , orr_ranks_sent, void)
ORR_ABSENT(int, alone(err), orr_ranks_receive, int from, int tag, void *bytes, size_t n,
	   struct orr_error *err)
ORR_ABSENT(int, (int)(*offset_ns = 0), orr_ranks_clock, int64_t *offset_ns, struct orr_error *err)
ORR_ABSENT(void, , orr_ranks_fail, int status, const char *message)

int orr_links_measure(struct orr_links *out, struct orr_error *err)
{
	*out = (struct orr_links){0};
	return orr_fail(err, ORR_E_UNSUPPORTED,
			"links are between ranks, and this build has one: StarPU's MPI (starpumpi) "
			"was not found when it was configured; install it and build again");
}

ORR_ABSENT(void, , orr_links_fini, struct orr_links *links)
