#include "hardware.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/max.h"
#include "codelets/cuda/collective.h"
#include "codelets/cuda/device.h"
#include "codelets/matmul.h"
#include "codelets/vector.h"
#include "calibrate.h"
#include "host.h"

/* That this process may use. */
static int count_cores(void)
{
	cpu_set_t cores;

	return sched_getaffinity(0, sizeof(cores), &cores) ? 1 : CPU_COUNT(&cores);
}

int orr_hardware_cores(void)
{
	return (int)smaller(count_cores(), STARPU_MAXCPUS);
}

/* The process is bound to some of the host's cores, by mpirun for example. */
static bool is_bound(void)
{
	return count_cores() < sysconf(_SC_NPROCESSORS_ONLN);
}

int orr_run_devices(char *why, size_t size)
{
#ifdef STARPU_SIMGRID /* of them StarPU takes those that its platform file has */
	(void)why, (void)size;
	return STARPU_MAXCUDADEVS;
#else
	return orr_cuda_devices(why, size);
#endif
}

bool orr_run_core(struct orr_core *core)
{
	orr_matmul_library(core->library, sizeof(core->library));
	core->products = orr_matmul_instructions(&core->slow);
	core->loops = orr_vector_instructions();
	core->bf16 = orr_matmul_has_bf16();
	return true;
}

/* NULL: unknown. */
static const char *bus_of(int device, char text[16])
{
	return orr_cuda_bus(device, text, 16) ? NULL : text;
}

/* Ranks that mpirun has started on this host, and which of them this is. */
static int count_local(int *rank)
{
	const char *size = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
	const char *at = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
	int n = size ? atoi(size) : 1;

	*rank = at ? atoi(at) : 0;
	return n > 1 && *rank >= 0 && *rank < n ? n : 1;
}

/* One for each worker that this rank has, as far as there are cores. Ranks on one host that mpirun
 * has not bound to cores of their own share them. */
static int count_cpus(int n_own, int n_local)
{
	int n_cores = count_cores();

	if (n_local > 1 && !is_bound())
		n_cores = n_cores > n_local ? n_cores / n_local : 1;
	return (int)smaller(n_own, smaller(n_cores, STARPU_MAXCPUS));
}

static void set_number(const char *name, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	setenv(name, text, 1);
}

#define LIMIT "STARPU_LIMIT_CUDA_MEM"

static struct {
	bool set;
	char before[64]; /* empty: there was none */
} limit;

void orr_hardware_limit(int64_t bytes, int n_own, int n_devices)
{
	int64_t most = (n_own + n_devices - 1) / n_devices;
	const char *before = getenv(LIMIT);

	if (bytes <= 0)
		return;
	snprintf(limit.before, sizeof(limit.before), "%s", before ? before : "");
	limit.set = true;
	set_number(LIMIT, (bytes >> 20) * most > 0 ? (bytes >> 20) * most : 1);
}

void orr_hardware_started(void)
{
	if (limit.set && *limit.before)
		setenv(LIMIT, limit.before, 1);
	else if (limit.set)
		unsetenv(LIMIT);
	limit.set = false;
}

/* This rank's devices, and where several ranks share a host, its cores. */
static int take_share(struct starpu_conf *conf, int n_devices, int rank, int n_local, int n_workers,
		      struct orr_error *err)
{
	hwloc_topology_t topology = orr_host_load(n_devices > 0);
	char text[STARPU_MAXCUDADEVS + 1][16];
	const char *bus[STARPU_MAXCUDADEVS + 1] = {NULL};
	struct orr_host_share share;
	int code;

	if (!topology)
		return orr_fail(err, ORR_E_RUNTIME, "hwloc does not know this host");
	for (int i = 0; i < n_devices; i++)
		bus[i] = bus_of(orr_cuda_device(i), text[i]);
	code = orr_share_init(&share, topology, bus, n_devices, rank, n_local, err);
	hwloc_topology_destroy(topology);
	if (code)
		return code;
	if (n_devices) {
		conf->use_explicit_workers_cuda_gpuid = 1;
		conf->ncuda = share.n_devices < conf->ncuda ? share.n_devices : conf->ncuda;
		for (int i = 0; i < STARPU_NMAXWORKERS; i++)
			conf->workers_cuda_gpuid[i] =
				(unsigned)orr_cuda_device(share.devices[i % share.n_devices]);
	}
	if (n_local > 1 && !is_bound() && n_workers <= share.n_pus &&
	    !getenv("STARPU_WORKERS_CPUID")) {
		conf->use_explicit_workers_bindid = 1;
		for (int i = 0; i < STARPU_NMAXWORKERS; i++)
			conf->workers_bindid[i] = (unsigned)share.pus[i % share.n_pus];
	}
	orr_share_fini(&share);
	return 0;
}

int orr_hardware_choose(enum orr_hardware wanted, int streams, int64_t memory_bytes, int n_own,
			bool *reserves, bool of_cores, struct starpu_conf *conf,
			struct orr_error *err)
{
	char why[160] = "";
	int n_devices = wanted == ORR_HARDWARE_CPU ? 0 : orr_run_devices(why, sizeof(why));
	int rank, n_local = count_local(&rank), code = 0;

	if (wanted == ORR_HARDWARE_CUDA && n_devices <= 0)
		return orr_fail(err, ORR_E_INPUT, "no CUDA device: %s", why);
	n_devices = n_devices < STARPU_MAXCUDADEVS ? n_devices : STARPU_MAXCUDADEVS;
	if (is_bound()) /* else StarPU 1.3 takes the host's first cores, in every rank the same */
		setenv("STARPU_WORKERS_GETBIND", "1", 0);
	orr_calibrate_apart(rank, n_local);
	conf->nopencl = 0;
	conf->ncuda = 0;
	conf->ncpus = count_cpus(n_own, n_local);
	if (n_devices > 0) {
		/* A worker has a device, or a stream of one; cores only drive them. */
		conf->ncpus = 0;
		conf->ncuda = n_own < n_devices ? n_own : n_devices;
		*reserves = *reserves && orr_nccl_is_built();
		set_number("STARPU_NWORKER_PER_CUDA", (streams > 0 ? streams : 1) + *reserves);
		orr_hardware_limit(memory_bytes, n_own, conf->ncuda);
	}
	*reserves = *reserves && (n_devices > 0 || of_cores);
	conf->ncpus *= *reserves ? 2 : 1;
	if (n_devices > 0 || n_local > 1)
		code = take_share(conf, n_devices > 0 ? n_devices : 0, rank, n_local,
				  n_devices > 0 ? conf->ncuda : conf->ncpus, err);
	/* pinned memory belongs to the device that is current where it is taken: this thread's */
	if (!code && n_devices > 0)
		orr_cuda_use((int)conf->workers_cuda_gpuid[0]);
	return code;
}

bool orr_hardware_identity(int id, int rank, bool cores, unsigned char identity[16])
{
	int place[4] = {rank, id, 0, 0};
	bool is_device = starpu_worker_get_type(id) == STARPU_CUDA_WORKER;

	if (is_device)
		place[1] = starpu_worker_get_devid(id);
	if (is_device && !orr_cuda_uuid(place[1], identity))
		return true;
	memcpy(identity, place, sizeof(place));
	return is_device || cores;
}

/* ---- for the report ---- */

/* Simulated devices are nowhere. */
static hwloc_obj_t place_of(int id)
{
#ifdef STARPU_SIMGRID
	(void)id;
	return NULL;
#else
	return starpu_worker_get_hwloc_obj(id);
#endif
}

/* host: where StarPU knows less of it, and counts from its first core there; else NULL. */
static int core_of(int id, hwloc_topology_t host, int *numa)
{
	hwloc_obj_t core = place_of(id), there;

	*numa = -1;
	if (!core)
		return -1;
	there = host && core->cpuset ? hwloc_get_pu_obj_by_os_index(
					       host, (unsigned)hwloc_bitmap_first(core->cpuset))
				     : NULL;
	core = there ? there : core;
	if (core->nodeset)
		*numa = hwloc_bitmap_first(core->nodeset);
	while (core->type != HWLOC_OBJ_CORE && core->parent)
		core = core->parent;
	return core->type == HWLOC_OBJ_CORE ? (int)core->logical_index : -1;
}

static void describe(struct orr_mapping *place, hwloc_topology_t host)
{
	char bus[16];

	*place = (struct orr_mapping){
		.w = place->w, .rank = place->rank, .id = place->id, .device = -1};
	starpu_worker_get_name(place->id, place->name, sizeof(place->name));
	place->core = core_of(place->id, host, &place->numa);
	if (starpu_worker_get_type(place->id) != STARPU_CUDA_WORKER)
		return;
	place->device = starpu_worker_get_devid(place->id);
	if (bus_of(place->device, bus)) {
		snprintf(place->bus, sizeof(place->bus), "%s", bus);
		place->numa = host ? orr_host_numa_of(host, bus) : -1;
	}
}

void orr_hardware_describe(struct orr_mapping *places, int n)
{
	bool devices = starpu_cuda_worker_get_count() > 0;
	hwloc_topology_t host = devices || is_bound() ? orr_host_load(devices) : NULL;

	for (int i = 0; i < n; i++)
		if (places[i].id >= 0)
			describe(&places[i], host);
	if (host)
		hwloc_topology_destroy(host);
}

void orr_hardware_count(struct orr_copies *copies, bool add)
{
	for (int i = 0; i < starpu_bus_get_count(); i++) {
		struct starpu_profiling_bus_info info;
		int from = starpu_bus_get_src(i), to = starpu_bus_get_dst(i);

		if (from < 0 || to < 0 || from >= STARPU_MAXNODES || to >= STARPU_MAXNODES ||
		    starpu_bus_get_profiling_info(i, &info) || !add)
			continue;
		copies->moved[from][to].bytes += info.transferred_bytes;
		copies->moved[from][to].n += info.transfer_count;
	}
}
