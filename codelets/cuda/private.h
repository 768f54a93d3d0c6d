#pragma once
/* (private to codelets/cuda) What its files share. */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The workspace: what cuBLAS wants on Hopper, then the kernels' own. */
#define ORR_BLAS_BYTES ((size_t)32 << 20)

/* A product of a shape and how cuBLASLt computes it. */
struct orr_product {
	int64_t rows, columns, inner;
	int kind;   /* what else it is, see product.c; 0: the entry is free */
	bool found; /* else by cublasGemmEx */
	cublasLtMatmulAlgo_t algo;
};
#define ORR_PRODUCTS 1024
#define ORR_TICKETS (ORR_MOST_BLOCKS + ORR_MOST_STRIPS / ORR_GROUP + 1)

struct orr_cuda {
	cudaStream_t stream;
	cublasLtHandle_t lt;
	cublasHandle_t blas;
	char message[200];
	bool prepares; /* products are chosen, by measuring, and not computed */
	struct orr_product products[ORR_PRODUCTS]; /* a hash table */
	double *partial;                           /* [ORR_SLICES] on the device: of squares() */
	unsigned *tickets; /* [ORR_TICKETS] there: which blocks have ended, 0 between launches */
	struct orr_graphs *graphs; /* kernel_graph.c */
};

/* (failure.c) Note the first failure; true: there is none. */
bool orr_cuda_ok(struct orr_device *d, cudaError_t code, const char *what);
bool orr_cuda_blas_ok(struct orr_device *d, cublasStatus_t code, const char *what);
void orr_cuda_begin(struct orr_device *d);

static inline char *orr_cuda_workspace(const struct orr_device *d)
{
	return (char *)d->workspace + ORR_BLAS_BYTES;
}

static inline size_t orr_cuda_aligned(int64_t count, size_t size)
{
	return ((size_t)count * size + 255) / 256 * 256;
}

/* ---- kernel_graph.c ---- */
struct orr_graphs *orr_cuda_graphs_create(void); /* NULL: no memory, or no stream */
void orr_cuda_graphs_destroy(struct orr_graphs *graphs);
void orr_cuda_replay(struct orr_device *d, const struct orr_key *key,
		     void (*start)(struct orr_device *d, void *task), void *task);

/* ---- what kernels need of each other's files; the rest is in their tables ---- */
/* product.c */
size_t orr_cuda_product_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out);

/* elementwise.cu */
/* to: floats, or bfloat16 */
void orr_cuda_fill(struct orr_device *d, int64_t count, unsigned seed, bool halves, void *to);
/* *first, on the device, becomes the least i where the bits of a[i] and b[i] differ, if that is
 * less than what it is */
void orr_cuda_find_difference(struct orr_device *d, int64_t count, const float *a, const float *b,
			      int64_t *first);

/* matrix.cu */
void orr_cuda_round(struct orr_device *d, const struct orr_rounding *pieces, int n_pieces);
/* y += bias, to every row */
void orr_cuda_add_bias(struct orr_device *d, int64_t n, int64_t width, bool halves,
		       const void *bias, void *y);
/* sum[i] is that of column i of dy, gain[i] that of dy times normal (either may be NULL); added to
 * what is there, or over it. Needs orr_cuda_sums_bytes of the workspace. */
void orr_cuda_column_sums(struct orr_device *d, int64_t n, int64_t width, const float *dy,
			  const float *normal, bool add, float *gain, float *sum);
size_t orr_cuda_sums_bytes(int64_t n, int64_t width);

/* losses.cu */
size_t orr_cuda_rows_bytes(int64_t n);

/* step.cu: the number of slices of a sum of squares. */
#define ORR_SLICES 128

#ifdef __cplusplus
}
#endif
