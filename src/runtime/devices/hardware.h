#pragma once
/* The CPU cores or CUDA devices of this rank: which of them StarPU takes, and what it does with
 * them. */
#include <starpu.h>
#include "devices.h"
#include "orrery/orrery.h"

/* CPU cores that this process may use and this StarPU can. */
int orr_hardware_cores(void);

/* Say in conf, and in the environment variables that StarPU reads, which cores and devices it takes
 * for n_own workers of the schedule, each with that many streams (0: one) and bytes of a device.
 * *reserves: is there something that NCCL may add up? Then every device has a stream more
 * (of_cores, for tests: and every core a worker more); false: none has. */
int orr_hardware_choose(enum orr_hardware wanted, int streams, int64_t memory_bytes, int n_own,
			bool *reserves, bool of_cores, struct starpu_conf *conf,
			struct orr_error *err);

/* StarPU has read these variables: those that would bind a later run are as before. */
void orr_hardware_started(void);
/* (orr_hardware_choose and tests) StarPU's limit is of a device, in MiB; ours is of a worker. */
void orr_hardware_limit(int64_t bytes, int n_own, int n_devices);

/* Of the device behind StarPU's worker id, or with `cores` also of a core: equal on any rank where
 * it is the same one. False: it is no device. */
bool orr_hardware_identity(int id, int rank, bool cores, unsigned char identity[16]);

/* Fill in places[i] from its w, rank and id; an id of -1 is left alone. */
void orr_hardware_describe(struct orr_mapping *places, int n);

/* Copies between memories, by StarPU's numbers. */
struct orr_copies {
	struct {
		int64_t n, bytes;
	} moved[STARPU_MAXNODES][STARPU_MAXNODES]; /* from, to */
};
/* The copies since the last call: add them up, or forget them. */
void orr_hardware_count(struct orr_copies *copies, bool add);

/* (resident.c) Memory of this process that is really there, as Linux says. */
int64_t orr_resident_bytes(void); /* now; -1: not known */
int64_t orr_resident_peak(void);  /* the most since the last orr_resident_reset */
void orr_resident_reset(void);    /* does nothing where it is not allowed */
