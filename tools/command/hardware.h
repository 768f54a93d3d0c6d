#pragma once
/* The hardware of a run's workers. */
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
