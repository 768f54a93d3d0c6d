#pragma once
/* The legend. These letters, and no others, are used short everywhere:
 *
 *   s  stage, in [0, n_stages)                S stages, numbered topologically
 *   b  microbatch, in [0, n_microbatches)     B microbatches make a minibatch
 *   d  pass: forward, backward, weight gradient
 *   w  worker, in [0, n_workers)              computes jobs one at a time
 *   j  job (s, b, d) as one number, see jobs.h
 *
 * A job prints as 2F0: stage 2, forward, microbatch 0.
 * Times are int64_t nanoseconds and sizes int64_t bytes, so that sums are exact; the end of a name
 * says which (_ns, _bytes). In a study with unit costs one unit is one second: 1,000,000,000 ns. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Declarations between ORR_BEGIN and ORR_END are exported by the shared library, which is compiled
 * with hidden visibility, and have C linkage in C++. */
#ifdef __cplusplus
#define ORR_BEGIN \
	_Pragma("GCC visibility push(default)") extern "C" \
	{
#define ORR_END \
	} \
	_Pragma("GCC visibility pop")
#else
#define ORR_BEGIN _Pragma("GCC visibility push(default)")
#define ORR_END _Pragma("GCC visibility pop")
#endif

ORR_BEGIN

#define ORR_UNIT_NS INT64_C(1000000000)

enum orr_pass {
	ORR_PASS_F, /* forward */
	ORR_PASS_B, /* backward: all of it, or the input gradient alone where W is a job of its own
		     */
	ORR_PASS_W  /* weight gradient, only in schedules that split the backward */
};
#define ORR_N_PASSES 3

/* 'F', 'B' or 'W'. */
static inline char orr_pass_letter(enum orr_pass d)
{
	return "FBW"[d];
}

/* Version and parts of the running library: "0.1.0 (StarPU 1.3.10, no MPI, no CUDA)". */
const char *orr_version(void);

/* A function that fails returns a negative code and leaves a one-line message: where, and what to
 * change. The library never prints and never exits. */
enum orr_code {
	ORR_OK = 0,
	ORR_E_NOMEM = -1,       /* no memory */
	ORR_E_INPUT = -2,       /* a file, an option or a schedule is wrong: exit code 2 */
	ORR_E_IO = -3,          /* a file could not be read or written */
	ORR_E_UNSUPPORTED = -4, /* this build, or this schedule, cannot do that */
	ORR_E_RUNTIME = -5,     /* the run failed: exit code 1 */
	ORR_E_DIVERGED = -6 /* training diverged: a loss, a gradient or a parameter is not finite;
			       exit code 1 */
};

/* Quantities that the caller may change are named in brackets: "0 workers: give at least 1
 * ([workers])". A program can replace these by its own names, as the command does by options. */
struct orr_error {
	char msg[512];
};

/* Write the message (err may be NULL) and return code, so that a caller can `return orr_fail(...)`.
 */
int orr_fail(struct orr_error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Precision of matrix products; sums, parameters, their gradients and the optimizer's state are
 * float32. BF16 rounds the inputs of a product to bfloat16 (to nearest, ties to even) and
 * accumulates in float32, the same on every device; a graph of this precision
 * (orr_graph_set_precision) has activations, stash and edges in bfloat16, too, where PyTorch's
 * autocast has. TF32 lets a CUDA device read 10 bits of the mantissa; a CPU core computes it as
 * FP32. */
enum orr_precision { ORR_PRECISION_FP32, ORR_PRECISION_TF32, ORR_PRECISION_BF16 };
#define ORR_N_PRECISIONS 3

/* MOMENTUM is SGD with momentum, SGD the same without. NONE computes gradients and leaves the
 * parameters unchanged. */
enum orr_optimizer {
	ORR_OPTIMIZER_ADAMW,
	ORR_OPTIMIZER_ADAM,
	ORR_OPTIMIZER_MOMENTUM,
	ORR_OPTIMIZER_SGD,
	ORR_OPTIMIZER_NONE
};
#define ORR_N_OPTIMIZERS 5

/* Floats of optimizer state per parameter. */
static inline int orr_optimizer_floats(enum orr_optimizer optimizer)
{
	switch (optimizer) {
	case ORR_OPTIMIZER_ADAMW:
	case ORR_OPTIMIZER_ADAM:
		return 2;
	case ORR_OPTIMIZER_MOMENTUM:
		return 1;
	case ORR_OPTIMIZER_SGD:
	case ORR_OPTIMIZER_NONE:
		break;
	}
	return 0;
}

struct orr_numerics {
	enum orr_optimizer optimizer;
	enum orr_precision precision;
	/* Each of a stage's k replicas keeps the optimizer's state of 1/k of the parameters: it
	 * receives the sum of their gradients, updates them, and sends them to the others. */
	bool shard_optimizer;
};

/* "adamw", "fp32". Parsing refuses other words; `what`, a key or an option, begins the message. */
const char *orr_optimizer_name(enum orr_optimizer optimizer);
const char *orr_precision_name(enum orr_precision precision);
int orr_optimizer_parse(enum orr_optimizer *optimizer, const char *text, const char *what,
			struct orr_error *err);
int orr_precision_parse(enum orr_precision *precision, const char *text, const char *what,
			struct orr_error *err);

/* AUTO: CUDA devices if there are any, else CPU cores. */
enum orr_hardware { ORR_HARDWARE_AUTO, ORR_HARDWARE_CPU, ORR_HARDWARE_CUDA };

/* The hardware and precision of a graph's measured costs, as in profiled="cuda, bf16". */
struct orr_profiled {
	enum orr_hardware hardware; /* AUTO: unknown */
	enum orr_precision precision;
};

/* The same for a run; a CPU core computes TF32 as FP32. */
struct orr_profiled orr_profiled_of(enum orr_hardware hardware, enum orr_precision precision);

/* Refuses text other than a device and a precision; `what` begins the message. */
int orr_profiled_parse(struct orr_profiled *profiled, const char *text, const char *what,
		       struct orr_error *err);
/* "cuda, bf16", until the thread asks for 64 more texts. */
const char *orr_profiled_text(const struct orr_profiled *profiled);

/* The type of the numbers in a file of tensors, little-endian. */
enum orr_element {
	ORR_ELEMENT_F32,
	ORR_ELEMENT_F16,
	ORR_ELEMENT_BF16,
	ORR_ELEMENT_F64,
	ORR_ELEMENT_I8,
	ORR_ELEMENT_I16,
	ORR_ELEMENT_I32,
	ORR_ELEMENT_I64,
	ORR_ELEMENT_U8,
	ORR_ELEMENT_U16,
	ORR_ELEMENT_U32,
	ORR_ELEMENT_U64,
	ORR_ELEMENT_BOOL
};

ORR_END
