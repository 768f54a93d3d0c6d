#pragma once
/* (private to codelets/cuda) A matrix product as product.c makes it; choose.c tells cuBLASLt of
 * it and chooses how.
 *
 * cuBLAS counts by columns: a matrix here of r rows and c columns is one there of c rows and r
 * columns, so that y = x w^T becomes y' = w'^T x'. */
#include "private.h"

/* One operand as it lies in memory. */
struct matrix {
	const void *at;
	int64_t rows, columns; /* here */
	int64_t stride;        /* from one row to the next */
	bool transposed;       /* there */
};

/* c = b a, or c += b a: a is what cuBLAS takes first. */
struct problem {
	struct matrix a, b;
	void *c;
	const void *bias; /* to each row of c, in numbers like its own; or NULL */
	float *sums;      /* of each row of b as it is multiplied, written over; or NULL */
	int64_t rows, columns, inner;
	bool add;
	bool halves; /* c is bfloat16, too */
};

/* What cuBLASLt is told of a problem. */
struct described {
	cublasLtMatmulDescOpaque_t product;
	cublasLtMatrixLayoutOpaque_t a, b, c;
};

/* ---- choose.c ---- */
cudaDataType_t orr_product_type(const struct orr_device *d); /* of its operands */
cudaDataType_t orr_product_result_type(const struct problem *p);
cublasComputeType_t orr_product_sums_type(const struct orr_device *d); /* in which it adds up */
cublasStatus_t orr_product_describe(struct described *l, const struct orr_device *d,
				    const struct problem *p);
cublasStatus_t orr_product_run(struct orr_device *d, struct described *l, const struct problem *p,
			       const cublasLtMatmulAlgo_t *algo);

#define ORR_ALGORITHMS 16
/* cuBLASLt's algorithms for it, up to `most`, the best first by its own guess. Returns how many. */
int orr_product_ask(struct orr_device *d, const struct described *l, const struct problem *p,
		    bool aligned, int most, cublasLtMatmulAlgo_t *algos);
/* The fastest of n, as measured on operands of its own, with the bits of the first; -1: the first
 * does not run, or does not add with the bits of what is added afterwards. */
int orr_product_measure(struct orr_device *d, const struct problem *p, int n,
			const cublasLtMatmulAlgo_t *algos);
