#ifndef ORR_TOOLS_HARDWARE_H
#define ORR_TOOLS_HARDWARE_H
/* The hardware of a run's workers: which it is, and the report. */
#include <jansson.h>
#include "orrery/run.h"
#include "runtime/devices/devices.h"

/* How many CUDA devices will serve the workers; 0: CPU cores. */
int hardware_find(const struct orr_run_options *o, int *n_devices, struct orr_error *err);
/* The workers that they are by themselves, in this process: streams of devices, or cores; says why
 * there are so many. */
int hardware_workers(const struct orr_run_options *o, const char **why);

/* A build for devices that found none, and was not told to use CPU cores, says so on standard
 * error. */
void hardware_tell(const struct orr_run_options *o);

/* The mapping of workers, and the data moved between memories. */
#define HARDWARE_MOVED 64
struct hardware {
	int n_workers, n_moved;
	struct orr_mapping *places;             /* owned */
	struct orr_moved moved[HARDWARE_MOVED]; /* of rank 0 */
};
/* All ranks call it, after training; whole on rank 0. */
int hardware_init(struct hardware *h, struct orr_run *run, int n_workers, struct orr_error *err);
void hardware_fini(struct hardware *h);
/* A line for each core or device, and one for the data moved. */
void hardware_print(const struct hardware *h, bool several_ranks);
/* For the keys "mapping" and "moved" of the report. NULL: no memory. */
json_t *hardware_mapping_json(const struct hardware *h);
json_t *hardware_moved_json(const struct hardware *h);
#endif
