#include "messages.h"

#include <starpu_mpi.h>
#include "runtime/tasks/compat.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct count {
	atomic_llong n, bytes;
};

/* Of this process, since StarPU's last start; the last kind is ORR_RANKS_ORDER. */
static struct {
	struct count sent[ORR_TRANSFER_KINDS + 1], received[ORR_TRANSFER_KINDS + 1];
	atomic_llong n_pending;
} counts;

static int (*received_hook)(starpu_data_handle_t handle, struct orr_error *err);

/* A message under way. */
struct parcel {
	struct count *count;
	long long bytes;
};

/* ---- messages ---- */

int orr_ranks_init_starpu(struct starpu_conf *conf,
			  int (*received)(starpu_data_handle_t handle, struct orr_error *err))
{
	received_hook = received;
	memset(&counts, 0, sizeof(counts));
	return orr_ranks_count() == 1 ? starpu_init(conf)
				      : starpu_mpi_init_conf(NULL, NULL, 0, MPI_COMM_WORLD, conf);
}

void orr_ranks_shutdown_starpu(void)
{
	if (orr_ranks_count() == 1)
		starpu_shutdown();
	else
		starpu_mpi_shutdown();
}

static void note(void *user)
{
	struct parcel *parcel = user;

	atomic_fetch_add(&parcel->count->n, 1);
	atomic_fetch_add(&parcel->count->bytes, parcel->bytes);
	atomic_fetch_sub(&counts.n_pending, 1);
	free(parcel);
}

static int start(const struct orr_message *m, bool sends, struct parcel *parcel)
{
	if (!sends)
		return orr_receive_detached(m->handle, m->other, m->tag, m->priority, note, parcel);
	return (m->waits ? starpu_mpi_issend_detached_prio : starpu_mpi_isend_detached_prio)(
		m->handle, m->other, m->tag, m->priority, MPI_COMM_WORLD, note, parcel);
}

static int pass(const struct orr_message *m, bool sends, struct orr_error *err)
{
	struct parcel *parcel = malloc(sizeof(*parcel));

	if (!parcel)
		return orr_no_memory(err, "run");
	*parcel = (struct parcel){sends ? &counts.sent[m->kind] : &counts.received[m->kind],
				  (long long)starpu_data_get_size(m->handle)};
	atomic_fetch_add(&counts.n_pending, 1);
	if (start(m, sends, parcel)) {
		atomic_fetch_sub(&counts.n_pending, 1);
		free(parcel);
		return orr_fail(err, ORR_E_RUNTIME,
				"run: StarPU's MPI has not started a message to or from rank %d",
				m->other);
	}
	return !sends && received_hook ? received_hook(m->handle, err) : 0;
}

void orr_message_pass(const struct orr_work *work, struct orr_message m, bool sends)
{
	struct orr_fault *fault = work->fault;

	if (!fault->code)
		fault->code = pass(&m, sends, &fault->err);
}

void orr_run_traffic(struct orr_run *run, struct orr_traffic *traffic)
{
	(void)run; /* counted since StarPU's start */
	while (atomic_load(&counts.n_pending) > 0)
		usleep(1000);
	for (int k = 0; k < ORR_TRANSFER_KINDS; k++) {
		traffic->sent[k] = atomic_load(&counts.sent[k].n);
		traffic->sent_bytes[k] = atomic_load(&counts.sent[k].bytes);
		traffic->received[k] = atomic_load(&counts.received[k].n);
		traffic->received_bytes[k] = atomic_load(&counts.received[k].bytes);
	}
}
