/* The kernels on a CPU core as a table. */
#include "device.h"
#include "sequence.h"

#include <stdlib.h>

#include "contrastive.h"
#include "experts.h"
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

const struct orr_kernels orr_kernels_cpu = {
	.name = "cpu",
	.halves = true,
	.unfolded = 1 << 18, /* they stay in a cache */
	.workspace_bytes = orr_linear_bytes,
	.elements = &orr_elements_cpu,
	.linear = &orr_linear_cpu,
	.norms = &orr_norms_cpu,
	.column_norms = &orr_column_norms_cpu,
	.images = &orr_images_cpu,
	.losses = &orr_losses_cpu,
	.contrastive = &orr_contrastive_cpu,
	.rows = &orr_rows_cpu,
	.sequence = &orr_sequence_cpu,
	.attention = &orr_attention_cpu,
	.experts = &orr_experts_cpu,
	.optimizer = &orr_optimizer_cpu,
	.allocate = allocate,
	.release = free,
	.put = put,
};
