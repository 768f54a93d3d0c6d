#include "heartbeat.h"

#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/clock.h"

#define TICK_NS 50000000 /* the thread looks around so often */
#define BEAT_NS INT64_C(500000000)
#define SILENCE_S 15 /* of a rank that hangs */
#define FIRST_S 25   /* of one that has not begun: as long as its start may take */
#define SAID_LAST_NS INT64_C(150000000) /* what a rank said before it died may come so late */
#define GONE_NS INT64_C(900000000)      /* mpirun waits for a second; the living beat meanwhile */

enum { BEAT_OVER = -1 }; /* as a beat's `failed`: all ranks are about to end, and why was said */

/* What a rank says to rank 0, or rank 0 to a rank. */
struct beat {
	int failed; /* the exit status, or 0 */
	char message[sizeof(((struct orr_error *)0)->msg)];
};

static struct {
	int rank, n_ranks;
	MPI_Comm comm; /* of this thread alone */
	pthread_t thread;
	void (*say)(const char *message);
	atomic_bool stops, fails;
	struct beat failure; /* set before fails */
	MPI_Request *sends;  /* [n_ranks] the last beat to each */
	int64_t *heard_ns;   /* [n_ranks] 0: not yet */
	int64_t begun_ns, beaten_ns, looked_ns;
	atomic_llong woken_ns; /* 0: not, or it was looked into */
	bool over;
	struct sigaction old_action;
} heart;

/* Why all ranks end; the others need not say it, too. */
static void say_last(const char *message)
{
	static const struct beat over = {.failed = BEAT_OVER};
	MPI_Request request;

	heart.over = true;
	if (heart.say)
		heart.say(message);
	for (int k = 0; k < heart.n_ranks; k++)
		if (k != heart.rank)
			MPI_Isend(&over, sizeof(over), MPI_BYTE, k, 0, heart.comm, &request);
}

static _Noreturn void end_all(int status, const char *message)
{
	say_last(message);
	usleep(200000); /* for mpirun to pass it on */
	MPI_Abort(MPI_COMM_WORLD, status);
	_exit(status);
}

static _Noreturn void end_failed(int k, const struct beat *beat)
{
	char text[sizeof(beat->message) + 32];

	snprintf(text, sizeof(text), "rank %d: %s", k, beat->message);
	end_all(beat->failed, text);
}

static void listen(void)
{
	int there;
	MPI_Status status;

	while (!MPI_Iprobe(MPI_ANY_SOURCE, 0, heart.comm, &there, &status) && there) {
		struct beat beat;

		MPI_Recv(&beat, sizeof(beat), MPI_BYTE, status.MPI_SOURCE, 0, heart.comm,
			 MPI_STATUS_IGNORE);
		heart.heard_ns[status.MPI_SOURCE] = orr_ns_now(CLOCK_MONOTONIC);
		if (beat.failed == BEAT_OVER)
			heart.over = true;
		else if (beat.failed)
			end_failed(status.MPI_SOURCE, &beat);
	}
}

/* All say something to rank 0, and rank 0 to all. */
static bool listens_to(int k)
{
	return k != heart.rank && (!k || !heart.rank);
}

/* To every rank that has taken the beat before. */
static void beat(void)
{
	static struct beat alive;

	for (int k = 0; k < heart.n_ranks; k++) {
		int done = 1;

		if (!listens_to(k))
			continue;
		if (heart.sends[k] != MPI_REQUEST_NULL)
			MPI_Test(&heart.sends[k], &done, MPI_STATUS_IGNORE);
		if (done)
			MPI_Isend(&alive, sizeof(alive), MPI_BYTE, k, 0, heart.comm,
				  &heart.sends[k]);
	}
}

/* Who was away itself, as when the whole machine was suspended, has not listened in that time. */
static void forgive(int64_t now)
{
	int64_t away_ns = heart.looked_ns ? now - heart.looked_ns - BEAT_NS : 0;

	if (away_ns > 0)
		heart.begun_ns += away_ns;
	for (int k = 0; k < heart.n_ranks && away_ns > 0; k++)
		if (heart.heard_ns[k])
			heart.heard_ns[k] += away_ns;
	heart.looked_ns = now;
}

static void look_for_silence(int64_t now)
{
	for (int k = 0; k < heart.n_ranks; k++) {
		/* Where rank 0 is silent, one of the others speaks, and ends the rest before they
		 * do. */
		int64_t limit_s = (heart.heard_ns[k] ? SILENCE_S : FIRST_S) +
				  (heart.rank < 3 ? heart.rank : 3) * 4;
		int64_t silent_ns = now - (heart.heard_ns[k] ? heart.heard_ns[k] : heart.begun_ns);
		char text[160];

		if (!listens_to(k) || silent_ns < limit_s * 1000000000)
			continue;
		snprintf(text, sizeof(text),
			 "rank %d hangs, or cannot be reached: it has said nothing for %lld s; all "
			 "ranks end",
			 k, (long long)silent_ns / 1000000000);
		end_all(1, text);
	}
}

static void wake(int number)
{
	(void)number;
	atomic_store(&heart.woken_ns, orr_ns_now(CLOCK_MONOTONIC));
}

/* Where a rank has died, mpirun wakes the others, in case they are stopped, and ends them a second
 * later; meanwhile all who live say something. On other hosts they may have ended already: of those
 * that are silent the one that fell silent first is the one, or others within a beat of it. */
static void look_for_dead(int64_t now)
{
	int64_t woken = atomic_load(&heart.woken_ns), first = woken + SAID_LAST_NS;
	char names[64] = "", text[160];

	if (!woken || now - woken < GONE_NS)
		return;
	atomic_store(&heart.woken_ns, 0);
	for (int k = 0; k < heart.n_ranks; k++)
		if (listens_to(k) && heart.heard_ns[k] < first)
			first = heart.heard_ns[k];
	for (int k = 0; k < heart.n_ranks; k++)
		if (listens_to(k) && heart.heard_ns[k] < woken + SAID_LAST_NS &&
		    heart.heard_ns[k] <= first + BEAT_NS + SAID_LAST_NS)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%d",
				 *names ? " or " : "", k);
	if (!*names || heart.over || heart.rank > 1) /* one of them speaks */
		return;
	snprintf(text, sizeof(text),
		 "rank %s is gone: mpirun ends the others, and it has said nothing since", names);
	say_last(text);
}

static void *live(void *unused)
{
	struct timespec pause = {0, TICK_NS};

	(void)unused;
	while (!atomic_load(&heart.stops)) {
		int64_t now;

		listen();
		now = orr_ns_now(CLOCK_MONOTONIC);
		if (atomic_load(&heart.fails)) {
			if (!heart.rank)
				end_failed(0, &heart.failure);
			MPI_Send(&heart.failure, sizeof(heart.failure), MPI_BYTE, 0, 0, heart.comm);
			atomic_store(&heart.fails, false);
		}
		if (now - heart.beaten_ns >= BEAT_NS) {
			heart.beaten_ns = now;
			beat();
		}
		look_for_dead(now);
		forgive(now);
		look_for_silence(now);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

int orr_heartbeat_start(void (*say)(const char *message), struct orr_error *err)
{
	struct sigaction action = {.sa_handler = wake, .sa_flags = SA_RESTART | SA_ONSTACK};
	MPI_Request request;

	MPI_Comm_rank(MPI_COMM_WORLD, &heart.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &heart.n_ranks);
	MPI_Comm_idup(MPI_COMM_WORLD, &heart.comm, &request);
	for (int done = 0; !done && !MPI_Test(&request, &done, MPI_STATUS_IGNORE);)
		;
	heart.say = say;
	heart.sends = calloc((size_t)heart.n_ranks, sizeof(*heart.sends));
	heart.heard_ns = calloc((size_t)heart.n_ranks, sizeof(*heart.heard_ns));
	if (!heart.sends || !heart.heard_ns)
		return orr_no_memory(err, "ranks");
	for (int k = 0; k < heart.n_ranks; k++)
		heart.sends[k] = MPI_REQUEST_NULL;
	heart.begun_ns = orr_ns_now(CLOCK_MONOTONIC);
	sigaction(SIGCONT, &action, &heart.old_action);
	if (pthread_create(&heart.thread, NULL, live, NULL))
		return orr_fail(err, ORR_E_RUNTIME, "ranks: no thread for the heartbeat");
	return 0;
}

/* The others have come this far too. */
void orr_heartbeat_stop(void)
{
	MPI_Request request;

	atomic_store(&heart.stops, true);
	pthread_join(heart.thread, NULL);
	sigaction(SIGCONT, &heart.old_action, NULL);
	/* No rank sends any more; receive what is under way, so that every beat ends. */
	MPI_Ibarrier(heart.comm, &request);
	for (int done = 0; !done;) {
		usleep(1000);
		MPI_Test(&request, &done, MPI_STATUS_IGNORE);
		listen();
	}
	for (int k = 0; k < heart.n_ranks; k++)
		if (heart.sends[k] != MPI_REQUEST_NULL)
			MPI_Wait(&heart.sends[k], MPI_STATUS_IGNORE);
	listen();
	MPI_Comm_free(&heart.comm);
	free(heart.sends);
	free(heart.heard_ns);
}

void orr_heartbeat_fail(int status, const char *message)
{
	snprintf(heart.failure.message, sizeof(heart.failure.message), "%s", message);
	heart.failure.failed = status;
	atomic_store(&heart.fails, true);
	sleep(5); /* rank 0 ends us */
	end_failed(heart.rank, &heart.failure);
}
