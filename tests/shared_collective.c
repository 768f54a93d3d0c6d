/* In the place of codelets/cuda/collective.c: members on CPU cores of processes of one host meet in
 * shared memory. As with NCCL each of them waits for all others, in the worker that it keeps, so
 * that an order that is not the same everywhere hangs. The sum has the order of optimizer.h. */
#include "shared_collective.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../codelets/cuda/collective.h"
#include "../codelets/optimizer.h"

#define MOST 8     /* members */
#define PIECE 1024 /* floats that are added at a time */

void (*shared_collective_begins)(void);
int shared_collective_lost;
bool shared_collective_tells;
atomic_int shared_collective_n_sums, shared_collective_n_aborted;

struct meeting {
	pthread_mutex_t mutex;
	pthread_cond_t all_came;
	int n_came, turn;
	bool aborted;
	float blocks[MOST][PIECE];
};

struct orr_nccl {
	int n;
	atomic_bool lost, aborted;
	char failure[64];
	struct meeting *meeting;
};

/* False: the group has been aborted. */
static bool come(struct meeting *m, int n_more, int n)
{
	bool met;

	int turn;

	pthread_mutex_lock(&m->mutex);
	turn = m->turn;
	m->n_came += n_more;
	if (m->n_came == n) {
		m->n_came = 0;
		m->turn++;
		pthread_cond_broadcast(&m->all_came);
	}
	while (turn == m->turn && !m->aborted)
		pthread_cond_wait(&m->all_came, &m->mutex);
	met = turn != m->turn;
	pthread_mutex_unlock(&m->mutex);
	return met;
}

bool orr_nccl_is_built(void)
{
	return true;
}

static struct meeting *map(const char *name, int flags)
{
	int file = shm_open(name, flags, 0600);
	void *at = MAP_FAILED;

	if (file >= 0 && (!(flags & O_CREAT) || !ftruncate(file, sizeof(struct meeting))))
		at = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file,
			  0);
	if (file >= 0)
		close(file);
	return at == MAP_FAILED ? NULL : at;
}

int orr_nccl_name(struct orr_nccl_id *id, char *why, size_t size)
{
	static int n;
	struct meeting *m;
	pthread_mutexattr_t of_mutex;
	pthread_condattr_t of_cond;

	snprintf(id->bytes, sizeof(id->bytes), "/orrery-%d-%d", (int)getpid(), n++);
	if (!(m = map(id->bytes, O_CREAT | O_EXCL | O_RDWR))) {
		snprintf(why, size, "%s: %s", id->bytes, strerror(errno));
		return -1;
	}
	pthread_mutexattr_init(&of_mutex);
	pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&m->mutex, &of_mutex);
	pthread_condattr_init(&of_cond);
	pthread_condattr_setpshared(&of_cond, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&m->all_came, &of_cond);
	munmap(m, sizeof(*m));
	return 0;
}

int orr_nccl_create(struct orr_nccl **out, const struct orr_nccl_id *id, int n, const int *members,
		    const int *devices, int n_own, char *why, size_t size)
{
	struct orr_nccl *group = calloc(1, sizeof(*group));

	(void)members, (void)devices;
	if (!group || n > MOST || !(group->meeting = map(id->bytes, O_RDWR))) {
		snprintf(why, size, "%d members at %s: %s", n, id->bytes, strerror(errno));
		free(group);
		return -1;
	}
	group->n = n;
	(void)come(group->meeting, n_own, n);
	shm_unlink(id->bytes); /* all have it; the first one does it */
	*out = group;
	return 0;
}

void orr_nccl_destroy(struct orr_nccl *group)
{
	if (group)
		munmap(group->meeting, sizeof(*group->meeting));
	free(group);
}

/* A member that is lost waits for the abort: NCCL's would in its stream. */
static bool is_lost(struct orr_nccl *group)
{
	const struct timespec pause = {0, 1000000};

	if (atomic_fetch_add(&shared_collective_n_sums, 1) + 1 != shared_collective_lost)
		return false;
	atomic_store(&group->lost, true);
	while (!atomic_load(&group->aborted))
		nanosleep(&pause, NULL);
	return true;
}

static const char *sum_all(struct orr_nccl *group, int i, float *floats, int64_t n)
{
	struct meeting *m = group->meeting;
	int r = group->n;

	if (shared_collective_begins)
		shared_collective_begins();
	if (is_lost(group))
		return "aborted";
	for (int64_t begin = 0; begin < n; begin += PIECE) {
		int64_t count = n - begin < PIECE ? n - begin : PIECE;

		memcpy(m->blocks[i], floats + begin, (size_t)count * sizeof(float));
		if (!come(m, 1, r))
			return "aborted";
		for (int64_t k = 0; k < count; k++) {
			int c = 0;

			while (begin + k >= orr_rule_chunk(n, r, c + 1))
				c++;
			floats[begin + k] = m->blocks[(c + 1) % r][k];
			for (int b = 1; b < r; b++)
				floats[begin + k] += m->blocks[(c + 1 + b) % r][k];
		}
		if (!come(m, 1, r))
			return "aborted";
	}
	return NULL;
}

/* What is not the member's own is left as a mess, as NCCL may. */
static const char *sum_part(struct orr_nccl *group, int i, float *floats, int64_t n)
{
	int64_t begin = orr_rule_chunk(n, group->n, i), end = orr_rule_chunk(n, group->n, i + 1);
	const char *failure = sum_all(group, i, floats, n);

	for (int64_t k = 0; k < n; k++)
		if (k < begin || k >= end)
			floats[k] = -1e30f;
	return failure;
}

static const char *gather(struct orr_nccl *group, int i, float *floats, int64_t n)
{
	struct meeting *m = group->meeting;

	for (int c = 0; c < group->n; c++) {
		int64_t end = orr_rule_chunk(n, group->n, c + 1), count;

		for (int64_t at = orr_rule_chunk(n, group->n, c); at < end; at += count) {
			count = end - at < PIECE ? end - at : PIECE;
			if (i == c)
				memcpy(m->blocks[c], floats + at, (size_t)count * sizeof(float));
			if (!come(m, 1, group->n))
				return "aborted";
			memcpy(floats + at, m->blocks[c], (size_t)count * sizeof(float));
			if (!come(m, 1, group->n))
				return "aborted";
		}
	}
	return NULL;
}

const char *orr_nccl_start(struct orr_nccl *group, int i, enum orr_nccl_what what, float *floats,
			   int64_t n, void *stream)
{
	(void)stream;
	return what == ORR_NCCL_SUM        ? sum_all(group, i, floats, n)
	       : what == ORR_NCCL_SUM_PART ? sum_part(group, i, floats, n)
					   : gather(group, i, floats, n);
}

const char *orr_nccl_failure(struct orr_nccl *group)
{
	if (!shared_collective_tells || !atomic_load(&group->lost))
		return NULL;
	snprintf(group->failure, sizeof(group->failure), "NCCL, after its start: a member is lost");
	return group->failure;
}

/* Of all processes: NCCL's members elsewhere see it in time. */
void orr_nccl_abort(struct orr_nccl *group)
{
	struct meeting *m = group->meeting;

	atomic_store(&group->aborted, true);
	atomic_fetch_add(&shared_collective_n_aborted, 1);
	pthread_mutex_lock(&m->mutex);
	m->aborted = true;
	pthread_cond_broadcast(&m->all_came);
	pthread_mutex_unlock(&m->mutex);
}
