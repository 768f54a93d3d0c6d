/* A product as cuBLASLt is told of it. */
#include "product.h"

cublasComputeType_t orr_product_sums_type(const struct orr_device *d)
{
	return d->precision == ORR_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
						  : CUBLAS_COMPUTE_32F;
}

cudaDataType_t orr_product_type(const struct orr_device *d)
{
	return d->precision == ORR_PRECISION_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

cudaDataType_t orr_product_result_type(const struct problem *p)
{
	return p->halves ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasStatus_t layout(cublasLtMatrixLayoutOpaque_t *l, const struct orr_device *d,
			     const struct matrix *m)
{
	return cublasLtMatrixLayoutInit(l, orr_product_type(d), (uint64_t)m->columns,
					(uint64_t)m->rows, m->stride);
}

cublasStatus_t orr_product_describe(struct described *l, const struct orr_device *d,
				    const struct problem *p)
{
	int32_t a = p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	int32_t b = p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	uint32_t epilogue = p->bias   ? CUBLASLT_EPILOGUE_BIAS
			    : p->sums ? CUBLASLT_EPILOGUE_BGRADB
				      : CUBLASLT_EPILOGUE_DEFAULT;
	const void *vector = p->bias ? p->bias : p->sums;
	const struct {
		cublasLtMatmulDescAttributes_t name;
		const void *value;
		size_t size;
	} said[] = {
		{CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof(a)},
		{CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof(b)},
		{CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)},
		{CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof(vector)},
	};
	cublasStatus_t code =
		cublasLtMatmulDescInit(&l->product, orr_product_sums_type(d), CUDA_R_32F);

	for (int i = 0; i < (vector ? 4 : 3) && !code; i++)
		code = cublasLtMatmulDescSetAttribute(&l->product, said[i].name, said[i].value,
						      said[i].size);
	if (code || (code = layout(&l->a, d, &p->a)) || (code = layout(&l->b, d, &p->b)))
		return code;
	return cublasLtMatrixLayoutInit(&l->c, orr_product_result_type(p), (uint64_t)p->columns,
					(uint64_t)p->rows, p->columns);
}

cublasStatus_t orr_product_run(struct orr_device *d, struct described *l, const struct problem *p,
			       const cublasLtMatmulAlgo_t *algo)
{
	const float one = 1, beta = p->add ? 1 : 0;

	return cublasLtMatmul(d->cuda->lt, &l->product, &one, p->a.at, &l->a, p->b.at, &l->b, &beta,
			      p->c, &l->c, p->c, &l->c, algo, d->workspace, ORR_BLAS_BYTES,
			      d->cuda->stream);
}
