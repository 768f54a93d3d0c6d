#pragma once
/* A host as hwloc sees it, and which of its cores and devices belong to which of the ranks that run
 * there. Pure: it asks the topology that it is given and nothing else, so that ranks that see the
 * same host agree without a word. */
#include <hwloc.h>
#include <stdbool.h>
#include "orrery/orrery.h"

/* What one of the ranks on a host has. Both arrays are owned. */
struct orr_host_share {
	int n_devices, n_pus;
	int *devices; /* places in bus */
	int *pus;     /* hwloc's logical numbers, the first processing unit of each core */
};

/* Of rank `rank` of n_ranks on this host. bus[i]: the PCI address of device i, "0000:17:00.0"; NULL
 * or one that the topology lacks: its place is unknown.
 *
 * Devices are dealt in the order of their NUMA nodes, as evenly as can be, neighbours to
 * neighbours; fewer devices than ranks are shared by neighbours. The cores of a rank are those that
 * its first device hangs on, without a device those of the host, split evenly among the ranks that
 * would have the same: never none. */
int orr_share_init(struct orr_host_share *share, hwloc_topology_t topology, const char *const *bus,
		   int n_devices, int rank, int n_ranks, struct orr_error *err);
void orr_share_fini(struct orr_host_share *share);

/* hwloc's logical number of the NUMA node that a PCI device hangs on; -1: unknown. */
int orr_host_numa_of(hwloc_topology_t topology, const char *bus);

/* The host that this process runs on; devices: with those of PCI, which takes long on virtual
 * machines. NULL: hwloc cannot. */
hwloc_topology_t orr_host_load(bool devices);
