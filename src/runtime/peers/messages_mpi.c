#include "messages.h"

#include <starpu_mpi.h>
#include "runtime/tasks/compat.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of this process, since StarPU's last start. */
static struct {
	atomic_llong sent[ORR_TRANSFER_KINDS], sent_bytes[ORR_TRANSFER_KINDS];
	atomic_llong received[ORR_TRANSFER_KINDS], received_bytes[ORR_TRANSFER_KINDS];
	atomic_llong n_pending;
} counts;

static int (*received_hook)(starpu_data_handle_t handle, struct orr_error *err);

/* A message under way. */
struct parcel {
	atomic_llong *n, *n_bytes; /* what counts it; NULL: nothing */
	long long bytes;
};

/* ---- messages ---- */

void orr_ranks_on_receive(int (*received)(starpu_data_handle_t handle, struct orr_error *err))
{
	received_hook = received;
}

int orr_ranks_init_starpu(struct starpu_conf *conf)
{
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

	if (parcel->n) {
		atomic_fetch_add(parcel->n, 1);
		atomic_fetch_add(parcel->n_bytes, parcel->bytes);
	}
	atomic_fetch_sub(&counts.n_pending, 1);
	free(parcel);
}

static struct parcel *parcel_create(const struct orr_message *m, atomic_llong *n,
				    atomic_llong *n_bytes)
{
	bool counts_it = m->kind < ORR_TRANSFER_KINDS;
	struct parcel *parcel = calloc(1, sizeof(*parcel));

	if (!parcel)
		return NULL;
	parcel->n = counts_it ? &n[m->kind] : NULL;
	parcel->n_bytes = counts_it ? &n_bytes[m->kind] : NULL;
	parcel->bytes = (long long)starpu_data_get_size(m->handle);
	atomic_fetch_add(&counts.n_pending, 1);
	return parcel;
}

static int refuse(struct parcel *parcel, const struct orr_message *m, struct orr_error *err)
{
	if (parcel)
		atomic_fetch_sub(&counts.n_pending, 1);
	free(parcel);
	return orr_fail(err, parcel ? ORR_E_RUNTIME : ORR_E_NOMEM,
			"run: StarPU's MPI has not started a message to or from rank %d", m->other);
}

int orr_ranks_send_data(const struct orr_message *m, struct orr_error *err)
{
	struct parcel *parcel = parcel_create(m, counts.sent, counts.sent_bytes);

	if (!parcel ||
	    (m->waits ? starpu_mpi_issend_detached_prio : starpu_mpi_isend_detached_prio)(
		    m->handle, m->other, m->tag, m->priority, MPI_COMM_WORLD, note, parcel))
		return refuse(parcel, m, err);
	return 0;
}

int orr_ranks_receive_data(const struct orr_message *m, struct orr_error *err)
{
	struct parcel *parcel = parcel_create(m, counts.received, counts.received_bytes);

	if (!parcel || orr_receive_detached(m->handle, m->other, m->tag, m->priority, note, parcel))
		return refuse(parcel, m, err);
	return received_hook ? received_hook(m->handle, err) : 0;
}

void orr_ranks_count_data(struct orr_traffic *traffic)
{
	while (atomic_load(&counts.n_pending) > 0)
		usleep(1000);
	for (int k = 0; k < ORR_TRANSFER_KINDS; k++) {
		traffic->sent[k] = atomic_load(&counts.sent[k]);
		traffic->sent_bytes[k] = atomic_load(&counts.sent_bytes[k]);
		traffic->received[k] = atomic_load(&counts.received[k]);
		traffic->received_bytes[k] = atomic_load(&counts.received_bytes[k]);
	}
}
