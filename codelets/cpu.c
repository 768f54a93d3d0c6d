/* The kernels on a CPU core as a table. */
#include "device.h"
#include "sequence.h"

#include <stdlib.h>

#include "contrastive.h"
#include "loops.h"

struct orr_device orr_device_cpu(enum orr_precision precision)
{
	return (struct orr_device){.kernels = &orr_kernels_cpu, .precision = precision};
}

static void *allocate(size_t bytes)
{
	return aligned_alloc(256, (bytes / 256 + 1) * 256);
}

static void put(struct orr_device *d, int64_t count, const float *from, float *to)
{
	orr_elements_cpu.copy(d, count, from, to);
}

#define ORR_TABLE(NAME, KIND) .NAME = &orr_##NAME##_cpu,
const struct orr_kernels orr_kernels_cpu = {.halves = true,
					    .unfolded = 1 << 18, /* they stay in a cache */
					    .workspace_bytes = orr_linear_bytes,
					    .allocate = allocate,
					    .release = free,
					    .put = put,
					    ORR_KERNEL_TABLES(ORR_TABLE)};
