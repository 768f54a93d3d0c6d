#pragma once
/* The emulated CUDA device as tests see it: what it counted, in which order it runs what is queued,
 * and what is to fail. cuda_emulation.h says what it is. */
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Since the start, or the last reset. */
struct emulated_counts {
	int64_t launches; /* of kernels of our own */
	int64_t products; /* of cuBLAS and cuBLASLt */
	int64_t copies, sets;
	int64_t graphs; /* launched, whatever is in them */
	int64_t copied_bytes, set_bytes;
	int64_t product_bytes; /* of the operands of products, each read or written once */
	int64_t looks;         /* of kernels that have run: reads by __ldg */
};
struct emulated_counts emulated_counts(void);
void emulated_reset_counts(void);
/* A kernel's name and where it is launched, in the order of names. */
void emulated_each_kernel(void (*tell)(const char *name, int64_t n, void *data), void *data);

/* Count alone, and run nothing: memory may then be larger than this machine's. Every shape has an
 * algorithm of cuBLASLt's. */
void emulated_count_only(bool only);

/* What lies in several streams runs in an order drawn from this; 1 at the start. */
void emulated_seed(uint64_t seed);

/* Failures to come: the n-th cudaMalloc from now on, 1 the next; an operation that runs n
 * operations from now, whose error is told by all calls that come later. 0: none. */
void emulated_fail_malloc(int n);
void emulated_fail_run(int n);
/* No stream records what is started on it. */
void emulated_fail_capture(bool fails);

#ifdef __cplusplus
}
#endif
