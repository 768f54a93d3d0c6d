#ifndef ORR_TOOLS_HARDWARE_H
#define ORR_TOOLS_HARDWARE_H
/* The hardware of a run's workers: its options, and the report. */
#include <argp.h>
#include <jansson.h>
#include "orrery/run.h"

/* --device and --streams; a child of a command's own argp, whose input is struct orr_run_options.
 */
extern const struct argp hardware_argp;

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
/* Adds "mapping" and "moved" to the report; not 0: no memory. */
int hardware_json(const struct hardware *h, json_t *report);
#endif
