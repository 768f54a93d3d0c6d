#pragma once
/* A minibatch through the programs of a cut graph, stage after stage in this thread. Every buffer
 * holds NaN before a program writes it, has no float more than it asks for, and is freed as soon as
 * it may be: in-edges after F, out-edges' gradients after B. */
#include <stdbool.h>
#include <stdint.h>
#include "../codelets/device.h"
#include "../codelets/program.h"

struct orr_pipeline;

struct staged_options {
	int64_t n;          /* samples, cut into */
	int n_microbatches; /* of equal size */
	bool split;         /* B and W apart */
	bool recompute;     /* F keeps its inputs, B runs F again */
	enum orr_precision precision;
	bool partials; /* every microbatch overwrites a gradient of its own; they are added after */
	const struct orr_kernels *kernels; /* NULL: the device's */
};

/* What programs run on, with no workspace yet: staged_cpu.c, or an emulated CUDA device,
 * staged_emulated.c. */
struct orr_device staged_device(enum orr_precision precision);
void staged_device_fini(struct orr_device *device);
/* Memory that it and this thread reach; and until what was started has run. */
void *staged_allocate(size_t alignment, size_t size);
void staged_free(void *memory);
void staged_wait(struct orr_device *device);

/* values: row r of the minibatch is row r of values. parameters and gradient are in the order of
 * the operators, whatever the cut, and a gradient that is not computed stays as it is; metrics are
 * summed over the stages and microbatches. */
void staged_step(const struct orr_pipeline *p, const struct staged_options *options,
		 const float *values, int64_t n_columns, const float *parameters, float *gradient,
		 struct orr_metrics *metrics);

/* Initial parameters in the order of the operators. */
void staged_init(const struct orr_pipeline *p, uint64_t seed, float *parameters);
