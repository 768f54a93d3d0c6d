#include "heartbeat.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/clock.h"
#include "base/grow.h"

/* MPI is there once in a process. */
static struct {
	int rank, n_ranks;
	MPI_Comm comm; /* of this file alone */
} ranks = {.n_ranks = 1};

/* What this thread has started to send. */
static _Thread_local struct {
	MPI_Request *list;
	int n, room;
} sends;

int orr_ranks_count(void)
{
	return ranks.n_ranks;
}

int orr_ranks_rank(void)
{
	return ranks.rank;
}

/* ---- the start, which waits for every rank, before there are heartbeats ---- */

/* For all of them to come; a second more for each rank, so that one speaks. Counted in looks
 * around, which come late where the machine is busy or was suspended, as what they wait for. */
#define START_S 25
#define LOOKS_A_S 100

static struct {
	pthread_t thread;
	atomic_bool over;
	int rank;
	void (*say)(const char *message);
} launch;

static void *watch_start(void *unused)
{
	int looks = (START_S + (launch.rank < 4 ? launch.rank : 4)) * LOOKS_A_S;
	char text[160];

	(void)unused;
	for (; looks && !atomic_load(&launch.over); looks--)
		usleep(1000000 / LOOKS_A_S);
	if (atomic_load(&launch.over))
		return NULL;
	snprintf(text, sizeof(text),
		 "rank %d has waited %d s for the others to start: one of them hangs, or cannot be "
		 "reached; all ranks end",
		 launch.rank, START_S);
	if (launch.say)
		launch.say(text);
	_exit(1); /* whereupon mpirun ends the others; MPI itself is not there yet */
}

static int watch_begin(void (*say)(const char *message), struct orr_error *err)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");

	launch.rank = rank ? atoi(rank) : 0;
	launch.say = say;
	if (pthread_create(&launch.thread, NULL, watch_start, NULL))
		return orr_fail(err, ORR_E_RUNTIME, "ranks: no thread to watch the start");
	return 0;
}

static void watch_end(void)
{
	atomic_store(&launch.over, true);
	pthread_join(launch.thread, NULL);
}

/* What Open MPI is told unless the user has told it otherwise. Why links of TCP are told so much:
 * README.md, "Both ways at once". */
static const struct {
	const char *name, *value;
} settings[] = {
	/* It would yield in every look for a message, of which StarPU's thread takes one after
	 * another: look_mpi.c. */
	{"OMPI_MCA_mpi_yield_when_idle", "0"},
	/* A crash is the program's to report, or the system's: Open MPI's handlers come before
	 * others. */
	{"OMPI_MCA_opal_signal", ""},
	/* Two connections between two ranks. The second has twice the latency of the first, so that
	 * Open MPI sends all that is short over the first one alone; with the first one's bandwidth
	 * as low as this, all else goes over the second one. */
	{"OMPI_MCA_btl_tcp_links", "2"},
	{"OMPI_MCA_btl_tcp_bandwidth", "1"},
	/* Without put: what it asks for would wait behind data, on the second connection. */
	{"OMPI_MCA_btl_tcp_flags", "send,inplace,need-ack,need-csum,hetero-rdma"},
	/* What announces a long message takes none of its data along. */
	{"OMPI_MCA_btl_tcp_rndv_eager_limit", "1024"},
	/* Pieces of a message, 128 kB each, that are queued before the next message's: else two
	 * messages share the link, and the first one comes as late as the second. */
	{"OMPI_MCA_pml_ob1_send_pipeline_depth", "1024"},
};

/* Until request is done. MPI's own waiting takes a core from those that compute. */
static void wait_for(MPI_Request *request)
{
	for (int done = 0; !done && !MPI_Test(request, &done, MPI_STATUS_IGNORE);)
		;
}

/* Open MPI connects two ranks when one first sends to the other, both times. Where both begin at
 * once, one may take the other's first connection for its own second one, and then what asks for
 * data waits behind data. So the lower rank begins, with a message that is long enough for both. */
#define LONG_BYTES (1 << 17)

static int connect_all(struct orr_error *err)
{
	char *bytes = calloc(1, LONG_BYTES);
	MPI_Request request;

	if (!bytes)
		return orr_no_memory(err, "ranks");
	for (int other = 0; other < ranks.n_ranks; other++) {
		if (ranks.rank == other)
			continue;
		if (ranks.rank < other)
			MPI_Isend(bytes, LONG_BYTES, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
		else
			MPI_Irecv(bytes, LONG_BYTES, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
		wait_for(&request);
	}
	free(bytes);
	return 0;
}

int orr_ranks_start(void (*say)(const char *message), struct orr_error *err)
{
	const char *size = getenv("OMPI_COMM_WORLD_SIZE");
	MPI_Request request;
	int provided, code;

	if (ranks.n_ranks > 1 || !size || atoi(size) < 2)
		return 0;
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		setenv(settings[i].name, settings[i].value, 0);
	if ((code = watch_begin(say, err)))
		return code;
	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided))
		return orr_fail(err, ORR_E_RUNTIME, "MPI does not start");
	if (provided < MPI_THREAD_MULTIPLE)
		return orr_fail(err, ORR_E_UNSUPPORTED,
				"this MPI cannot be called by several threads at once "
				"(MPI_THREAD_MULTIPLE); install one that can");
	MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks.n_ranks);
	if (!(code = connect_all(err))) {
		MPI_Comm_idup(MPI_COMM_WORLD, &ranks.comm, &request);
		wait_for(&request);
		code = orr_heartbeat_start(say, err);
	}
	if (code)
		MPI_Abort(MPI_COMM_WORLD, 1);
	watch_end();
	return code;
}

void orr_ranks_stop(void)
{
	MPI_Request request;

	if (ranks.n_ranks == 1)
		return;
	MPI_Ibarrier(ranks.comm, &request);
	wait_for(&request);
	orr_heartbeat_stop();
	MPI_Comm_free(&ranks.comm);
	MPI_Finalize();
	ranks.rank = 0;
	ranks.n_ranks = 1;
}

int orr_ranks_agree(int code, struct orr_error *err)
{
	struct {
		int code;
		struct orr_error err;
	} mine = {.code = code}, *all;
	MPI_Request request;

	if (ranks.n_ranks == 1)
		return code;
	if (err)
		mine.err = *err;
	all = calloc((size_t)ranks.n_ranks, sizeof(*all));
	if (!all)
		orr_ranks_fail(1, "no memory to agree with the other ranks");
	MPI_Iallgather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, ranks.comm,
		       &request);
	wait_for(&request);
	for (int k = ranks.n_ranks - 1; k >= 0; k--)
		if (all[k].code) {
			code = all[k].code;
			orr_fail(err, code, "%s", all[k].err.msg);
		}
	free(all);
	return code;
}

int orr_ranks_sum(double *numbers, int n, struct orr_error *err)
{
	MPI_Request request;

	if (ranks.n_ranks == 1)
		return 0;
	if (MPI_Iallreduce(MPI_IN_PLACE, numbers, n, MPI_DOUBLE, MPI_SUM, ranks.comm, &request))
		return orr_fail(err, ORR_E_RUNTIME, "ranks: MPI does not add up");
	wait_for(&request);
	return 0;
}

/* ---- messages; MPI counts them in an int ---- */

#define PIECE ((size_t)1 << 30)

int orr_ranks_start_send(int to, int tag, const void *bytes, size_t n, struct orr_error *err)
{
	for (size_t at = 0; at < n; at += PIECE) {
		size_t piece = n - at < PIECE ? n - at : PIECE;

		if (!orr_grow(&sends.list, sends.n, &sends.room, sizeof(*sends.list)))
			return orr_no_memory(err, "ranks");
		if (MPI_Isend((const char *)bytes + at, (int)piece, MPI_BYTE, to, tag, ranks.comm,
			      &sends.list[sends.n]))
			return orr_fail(err, ORR_E_RUNTIME, "ranks: MPI does not send to rank %d",
					to);
		sends.n++;
	}
	return 0;
}

void orr_ranks_sent(void)
{
	while (sends.n > 0)
		wait_for(&sends.list[--sends.n]);
	free(sends.list);
	sends.list = NULL;
	sends.room = 0;
}

int orr_ranks_send(int to, int tag, const void *bytes, size_t n, struct orr_error *err)
{
	int code = orr_ranks_start_send(to, tag, bytes, n, err);

	if (!code)
		orr_ranks_sent();
	return code;
}

int orr_ranks_receive(int from, int tag, void *bytes, size_t n, struct orr_error *err)
{
	for (size_t at = 0; at < n; at += PIECE) {
		size_t piece = n - at < PIECE ? n - at : PIECE;
		MPI_Request request;

		if (MPI_Irecv((char *)bytes + at, (int)piece, MPI_BYTE,
			      from == ORR_RANKS_ANY ? MPI_ANY_SOURCE : from, tag, ranks.comm,
			      &request))
			return orr_fail(err, ORR_E_RUNTIME,
					"ranks: MPI does not receive from rank %d", from);
		wait_for(&request);
	}
	return 0;
}

/* ---- clocks ---- */

#define N_ROUNDS 16

/* The fastest of some questions and answers says most: the other clock was read in its middle, give
 * or take the half of it. Answers are not waited for by MPI_Recv, which keeps the core from the
 * rank that is to answer. */
static int64_t ask_clock(int k)
{
	int64_t best = INT64_MAX, offset = 0;

	for (int i = 0; i < N_ROUNDS; i++) {
		int64_t start = orr_ns_now(CLOCK_MONOTONIC_RAW), there, end;

		MPI_Send(&start, sizeof(start), MPI_BYTE, k, ORR_RANKS_CLOCK, ranks.comm);
		(void)orr_ranks_receive(k, ORR_RANKS_CLOCK, &there, sizeof(there), NULL);
		end = orr_ns_now(CLOCK_MONOTONIC_RAW);
		if (end - start >= best)
			continue;
		best = end - start;
		offset = start + best / 2 - there;
	}
	return llabs(offset) <= best / 2 ? 0 : offset;
}

int orr_ranks_clock(int64_t *offset_ns, struct orr_error *err)
{
	int code;

	*offset_ns = 0;
	if (ranks.n_ranks == 1)
		return 0;
	if ((code = orr_ranks_agree(0, err)))
		return code;
	for (int k = 1; k < ranks.n_ranks && !ranks.rank; k++) {
		int64_t offset = ask_clock(k);

		MPI_Send(&offset, sizeof(offset), MPI_BYTE, k, ORR_RANKS_CLOCK, ranks.comm);
	}
	for (int i = 0; i < N_ROUNDS && ranks.rank; i++) {
		int64_t question, answer;

		(void)orr_ranks_receive(0, ORR_RANKS_CLOCK, &question, sizeof(question), NULL);
		answer = orr_ns_now(CLOCK_MONOTONIC_RAW);
		MPI_Send(&answer, sizeof(answer), MPI_BYTE, 0, ORR_RANKS_CLOCK, ranks.comm);
	}
	return ranks.rank
		       ? orr_ranks_receive(0, ORR_RANKS_CLOCK, offset_ns, sizeof(*offset_ns), err)
		       : 0;
}

void orr_ranks_fail(int status, const char *message)
{
	if (ranks.n_ranks > 1)
		orr_heartbeat_fail(status, message);
}
