/* In the place of codelets/cuda/collective.c: members on CPU cores of processes of one host meet in
 * shared memory. As with NCCL each of them waits for all others, in the worker that it keeps, so
 * that an order that is not the same everywhere hangs. The sum has the order of orr_rule_step. */
#include "shared_collective.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../codelets/cuda/collective.h"
#include "../codelets/optimizer.h"
#include "../codelets/reduce.h"

#define MOST 8     /* members */
#define PIECE 1024 /* floats that are added at a time */

void (*shared_collective_begins)(void);

struct meeting {
	pthread_mutex_t mutex;
	pthread_cond_t all_came;
	int n_came, turn;
	float blocks[MOST][PIECE];
};

struct orr_nccl {
	int n;
	struct meeting *meeting;
};

static void come(struct meeting *m, int n_more, int n)
{
	int turn;

	pthread_mutex_lock(&m->mutex);
	turn = m->turn;
	m->n_came += n_more;
	if (m->n_came == n) {
		m->n_came = 0;
		m->turn++;
		pthread_cond_broadcast(&m->all_came);
	}
	while (turn == m->turn)
		pthread_cond_wait(&m->all_came, &m->mutex);
	pthread_mutex_unlock(&m->mutex);
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
	come(group->meeting, n_own, n);
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

const char *orr_nccl_sum(struct orr_nccl *group, int i, const float *from, float *to, int64_t n,
			 void *stream)
{
	struct meeting *m = group->meeting;
	int r = group->n;

	(void)stream;
	if (shared_collective_begins)
		shared_collective_begins();
	for (int64_t begin = 0; begin < n; begin += PIECE) {
		int64_t count = n - begin < PIECE ? n - begin : PIECE;

		memcpy(m->blocks[i], from + begin, (size_t)count * sizeof(float));
		come(m, 1, r);
		for (int64_t k = 0; k < count; k++) {
			int c = 0;

			while (begin + k >= orr_rule_chunk(n, r, c + 1))
				c++;
			to[begin + k] = m->blocks[(c + 1) % r][k];
			for (int b = 1; b < r; b++)
				to[begin + k] += m->blocks[(c + 1 + b) % r][k];
		}
		come(m, 1, r);
	}
	return NULL;
}

const char *orr_nccl_sum_part(struct orr_nccl *group, int i, const float *from, float *to,
			      int64_t n, void *stream)
{
	int64_t begin = orr_rule_chunk(n, group->n, i);
	float *all = malloc((size_t)n * sizeof(*all));
	const char *failure = all ? orr_nccl_sum(group, i, from, all, n, stream) : "no memory";

	if (!failure)
		memcpy(to, all + begin,
		       (size_t)(orr_rule_chunk(n, group->n, i + 1) - begin) * sizeof(float));
	free(all);
	return failure;
}

const char *orr_nccl_gather(struct orr_nccl *group, int i, float *floats, int64_t n, void *stream)
{
	struct meeting *m = group->meeting;

	(void)stream;
	for (int c = 0; c < group->n; c++) {
		int64_t end = orr_rule_chunk(n, group->n, c + 1), count;

		for (int64_t at = orr_rule_chunk(n, group->n, c); at < end; at += count) {
			count = end - at < PIECE ? end - at : PIECE;
			if (i == c)
				memcpy(m->blocks[c], floats + at, (size_t)count * sizeof(float));
			come(m, 1, group->n);
			memcpy(floats + at, m->blocks[c], (size_t)count * sizeof(float));
			come(m, 1, group->n);
		}
	}
	return NULL;
}

const char *orr_reduce_cuda(const struct orr_codelet_arg *arg, const float *from, float *to)
{
	return (arg->sharded ? orr_nccl_sum_part : orr_nccl_sum)(arg->group, arg->member, from, to,
								 arg->n_floats, NULL);
}

const char *orr_gather_cuda(const struct orr_codelet_arg *arg, float *parameters)
{
	return orr_nccl_gather(arg->group, arg->member, parameters, arg->n_floats, NULL);
}
