/* Messages go both ways at once between two ranks: a short one comes while a long one is on its way
 * to the rank that sends it. Nothing here takes a time; what counts is which of the two ends first.
 * As Open MPI comes, the short one is always the last; as Orrery sets it, a few per cent of the
 * long one have come before, on a busy machine a few more. Usage: mpirun -n 2 test_mpi_duplex, over
 * TCP. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/run.h"

/* so that its last bytes are far from being sent when its first ones come, however busy the machine
 */
#define LONG_BYTES ((size_t)1 << 28)
#define SHORT_BYTES ((size_t)1 << 20) /* more than fits into what announces it */

static void say(const char *message)
{
	fprintf(stderr, "%s\n", message);
}

static void wait_for(MPI_Request *request)
{
	MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* Rank 0: the long one goes, and then the short one is asked for. */
static void send_long(char *bytes, char *answer)
{
	MPI_Request coming, going;

	MPI_Irecv(answer, SHORT_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &coming);
	MPI_Isend(bytes, LONG_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &going);
	wait_for(&coming);
	wait_for(&going);
}

/* Rank 1: when the first half megabyte of the long one is there, the short one goes. Has it gone
 * before the last of the long one has come? -1: the long one came at once. It looks at its
 * connections now and then, as if they were slow: rank 0, which could write for ever to one that
 * takes all at once, listens when a connection is full. */
static int answer_long(char *bytes, const char *answer)
{
	const volatile char *early = bytes + (SHORT_BYTES >> 1), *last = bytes + LONG_BYTES - 1;
	MPI_Request coming, going;
	int done = 0, overtakes;

	MPI_Irecv(bytes, LONG_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &coming);
	while (!*early)
		MPI_Test(&coming, &done, MPI_STATUS_IGNORE);
	MPI_Issend(answer, SHORT_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &going);
	for (int gone = 0; !gone; MPI_Test(&going, &gone, MPI_STATUS_IGNORE))
		usleep(100);
	overtakes = done ? -1 : !*last;
	wait_for(&coming);
	return overtakes;
}

int main(void)
{
	struct orr_error err;
	char *bytes = malloc(LONG_BYTES), *answer = malloc(SHORT_BYTES);
	int overtakes = 1;

	if (!bytes || !answer || orr_ranks_start(say, &err) || orr_ranks_count() != 2) {
		fprintf(stderr, "two ranks do not start\n");
		return 1;
	}
	memset(bytes, orr_ranks_rank() ? 0 : 1, LONG_BYTES);
	memset(answer, 1, SHORT_BYTES);
	if (orr_ranks_rank())
		overtakes = answer_long(bytes, answer);
	else
		send_long(bytes, answer);
	orr_ranks_stop();
	free(bytes);
	free(answer);
	if (overtakes == 1)
		return 0;
	printf("FAILED: %s\n", overtakes
				       ? "the long message came at once"
				       : "the short message came after the whole of the long one");
	return 1;
}
