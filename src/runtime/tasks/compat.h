#pragma once
/* What differs between the versions of StarPU, and nothing else. */
#include <stdbool.h>
#include <starpu.h>

#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
#define ORR_POLICY_OF_THIS_VERSION
/* (starpu_mpi.h) 1.3 has priorities for what is sent alone. */
#define orr_receive_detached(handle, other, tag, priority, callback, arg) \
	starpu_mpi_irecv_detached(handle, other, tag, MPI_COMM_WORLD, callback, arg)
#else
#define orr_receive_detached(handle, other, tag, priority, callback, arg) \
	starpu_mpi_irecv_detached_prio(handle, other, tag, priority, MPI_COMM_WORLD, callback, arg)
/* 1.4 wants to know that the policy asks for data early by itself. */
#define ORR_POLICY_OF_THIS_VERSION .prefetches = 1,
#endif

/* Free the copy of handle at a memory that is not its home. False: not now, something uses it. 1.3
 * has no such call: it frees copies by itself when memory is short, those first that were read
 * longest ago. */
static inline bool orr_give_back(starpu_data_handle_t handle, unsigned node)
{
#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
	(void)handle, (void)node;
	return true;
#else
	int allocated, valid, requested;

	starpu_data_query_status(handle, (int)node, &allocated, &valid, &requested);
	return !allocated || !starpu_data_evict_from_node(handle, node);
#endif
}
