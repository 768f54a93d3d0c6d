#include "host.h"

#include <stdlib.h>

hwloc_topology_t orr_host_load(bool devices)
{
	hwloc_topology_t topology;

	if (hwloc_topology_init(&topology))
		return NULL;
	if (devices)
		hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (hwloc_topology_load(topology)) {
		hwloc_topology_destroy(topology);
		return NULL;
	}
	return topology;
}

/* The cores that a device hangs on: of a package, of a NUMA node, or of the host. */
static hwloc_obj_t home_of(hwloc_topology_t topology, const char *bus)
{
	hwloc_obj_t device = bus ? hwloc_get_pcidev_by_busidstring(topology, bus) : NULL;
	hwloc_obj_t home = device ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;

	return home && home->cpuset && !hwloc_bitmap_iszero(home->cpuset)
		       ? home
		       : hwloc_get_root_obj(topology);
}

int orr_host_numa_of(hwloc_topology_t topology, const char *bus)
{
	hwloc_obj_t home = home_of(topology, bus), numa;

	if (home == hwloc_get_root_obj(topology) &&
	    hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) > 1)
		return -1;
	numa = hwloc_get_numanode_obj_by_os_index(topology,
						  (unsigned)hwloc_bitmap_first(home->nodeset));
	return numa ? (int)numa->logical_index : -1;
}

/* The devices in the order of their NUMA nodes, those with an unknown node last. */
static void sort_devices(int *order, hwloc_topology_t topology, const char *const *bus, int n)
{
	for (int i = 0; i < n; i++) {
		unsigned node = (unsigned)orr_host_numa_of(topology, bus[i]);
		int at = i;

		for (; at > 0 && (unsigned)orr_host_numa_of(topology, bus[order[at - 1]]) > node;
		     at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

/* Rank r's devices are order[*first] to order[*end - 1]. */
static void deal(int r, int n_ranks, int n_devices, int *first, int *end)
{
	*first = (int)((int64_t)r * n_devices / n_ranks);
	*end = (int)((int64_t)(r + 1) * n_devices / n_ranks);
	if (*end == *first && n_devices)
		*end = *first + 1;
}

static int take_cores(struct orr_host_share *share, hwloc_topology_t topology, hwloc_obj_t home,
		      int at, int n_sharing, struct orr_error *err)
{
	int n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, home->cpuset, HWLOC_OBJ_CORE);
	hwloc_obj_type_t type = n > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
	int first, end;

	if (n <= 0)
		n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, home->cpuset, type);
	deal(at, n_sharing, n, &first, &end);
	if (!(share->pus = calloc((size_t)(end - first) + 1, sizeof(int))))
		return orr_fail(err, ORR_E_NOMEM, "no memory for %d cores", n);
	for (int i = first; i < end; i++) {
		hwloc_obj_t core = hwloc_get_obj_inside_cpuset_by_type(topology, home->cpuset, type,
								       (unsigned)i);
		hwloc_obj_t pu = hwloc_get_obj_inside_cpuset_by_type(topology, core->cpuset,
								     HWLOC_OBJ_PU, 0);

		share->pus[share->n_pus++] = (int)pu->logical_index;
	}
	return 0;
}

int orr_share_init(struct orr_host_share *share, hwloc_topology_t topology, const char *const *bus,
		   int n_devices, int rank, int n_ranks, struct orr_error *err)
{
	int *order = calloc((size_t)n_devices + 1, sizeof(*order));
	int first, end, at = 0, n_sharing = 0, code;
	hwloc_obj_t home;

	*share = (struct orr_host_share){0};
	if (!order || !(share->devices = calloc((size_t)n_devices + 1, sizeof(int)))) {
		code = orr_fail(err, ORR_E_NOMEM, "no memory for %d devices", n_devices);
		goto out;
	}
	sort_devices(order, topology, bus, n_devices);
	deal(rank, n_ranks, n_devices, &first, &end);
	for (int i = first; i < end; i++)
		share->devices[share->n_devices++] = order[i];
	home = home_of(topology, n_devices ? bus[order[first]] : NULL);
	for (int r = 0; r < n_ranks; r++) {
		deal(r, n_ranks, n_devices, &first, &end);
		if (hwloc_bitmap_isequal(
			    home->cpuset,
			    home_of(topology, n_devices ? bus[order[first]] : NULL)->cpuset)) {
			at += r < rank;
			n_sharing++;
		}
	}
	code = take_cores(share, topology, home, at, n_sharing, err);
out:
	free(order);
	if (code)
		orr_share_fini(share);
	return code;
}

void orr_share_fini(struct orr_host_share *share)
{
	free(share->devices);
	free(share->pus);
	*share = (struct orr_host_share){0};
}
