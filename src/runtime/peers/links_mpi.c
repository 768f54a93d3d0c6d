#include "links.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/clock.h"
#include "base/sort.h"
#include "orrery/run.h"

/* There and back, so often; of the small message, which takes no time, more often. */
#define N_SMALL 101
#define N_LARGE 11
#define N_WARM_UP 3
#define LARGE_BYTES (4 << 20)

/* Half the median time there and back. Both ends call it; asks: this one begins. */
static int64_t half_way(char *bytes, int n_bytes, int other, bool asks, int n_rounds, MPI_Comm comm)
{
	int64_t times[N_SMALL];

	for (int i = -N_WARM_UP; i < n_rounds; i++) {
		int64_t start = orr_ns_now(CLOCK_MONOTONIC_RAW);

		if (asks)
			MPI_Send(bytes, n_bytes, MPI_BYTE, other, 0, comm);
		MPI_Recv(bytes, n_bytes, MPI_BYTE, other, 0, comm, MPI_STATUS_IGNORE);
		if (!asks)
			MPI_Send(bytes, n_bytes, MPI_BYTE, other, 0, comm);
		if (i >= 0)
			times[i] = orr_ns_now(CLOCK_MONOTONIC_RAW) - start;
	}
	qsort(times, (size_t)n_rounds, sizeof(*times), orr_compare_numbers);
	return times[n_rounds / 2] / 2;
}

static struct orr_link measure(char *bytes, int a, int b, MPI_Comm comm)
{
	bool asks = orr_ranks_rank() == a;
	int other = asks ? b : a;
	struct orr_link link = {.a = a, .b = b};
	int64_t large;

	link.latency_ns = half_way(bytes, 1, other, asks, N_SMALL, comm);
	large = half_way(bytes, LARGE_BYTES, other, asks, N_LARGE, comm) - link.latency_ns;
	link.bandwidth_bytes_per_s = LARGE_BYTES / (1e-9 * (double)(large > 0 ? large : 1));
	return link;
}

/* Every pair on its own; the others wait asleep. The smaller rank of a pair tells rank 0. */
static int measure_all(struct orr_links *out, char *bytes, MPI_Comm comm, struct orr_error *err)
{
	int rank = orr_ranks_rank(), code = 0;

	for (int a = 0; a < out->n_ranks; a++)
		for (int b = a + 1; b < out->n_ranks; b++) {
			struct orr_link link = {0};

			if (rank == a || rank == b)
				link = measure(bytes, a, b, comm);
			if (a && rank == a)
				code = orr_ranks_send(0, ORR_RANKS_FIRST_TAG, &link, sizeof(link),
						      err);
			else if (a && !rank)
				code = orr_ranks_receive(a, ORR_RANKS_FIRST_TAG, &link,
							 sizeof(link), err);
			if ((code = orr_ranks_agree(code, err)))
				return code;
			if (!rank)
				out->links[out->n_links++] = link;
		}
	return 0;
}

static int name_hosts(struct orr_links *out, struct orr_error *err)
{
	char name[ORR_HOST_NAME] = "";
	int code = 0;

	gethostname(name, sizeof(name) - 1);
	if (orr_ranks_rank())
		return orr_ranks_send(0, ORR_RANKS_FIRST_TAG, name, sizeof(name), err);
	memcpy(out->hosts[0], name, sizeof(name));
	for (int k = 1; k < out->n_ranks && !code; k++)
		code = orr_ranks_receive(k, ORR_RANKS_FIRST_TAG, out->hosts[k], sizeof(name), err);
	return code;
}

int orr_links_measure(struct orr_links *out, struct orr_error *err)
{
	int n = orr_ranks_count(), code = 0;
	char *bytes;
	MPI_Comm comm;

	*out = (struct orr_links){.n_ranks = n};
	if (n < 2)
		return orr_fail(err, ORR_E_INPUT,
				"links are between ranks, and this is one: start several, one a "
				"host, with mpirun");
	bytes = calloc(1, LARGE_BYTES);
	out->links = calloc((size_t)n * (size_t)(n - 1) / 2, sizeof(*out->links));
	out->hosts = calloc((size_t)n, sizeof(*out->hosts));
	if (!bytes || !out->links || !out->hosts)
		code = orr_no_memory(err, "links");
	if ((code = orr_ranks_agree(code, err)))
		goto out;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm); /* the heartbeat's messages stay apart */
	if (!(code = measure_all(out, bytes, comm, err)))
		code = name_hosts(out, err);
	MPI_Comm_free(&comm);
out:
	free(bytes);
	if (code)
		orr_links_fini(out);
	return code;
}

void orr_links_fini(struct orr_links *links)
{
	free(links->links);
	free(links->hosts);
	*links = (struct orr_links){0};
}
