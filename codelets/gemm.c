#include "kernels.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <string.h>

/* Only OpenBLAS has it; another CBLAS is taken as it is. */
void openblas_set_num_threads(int n);
#pragma weak openblas_set_num_threads

void orr_gemm_init(void)
{
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
}

/* c [rows][columns] = a b, with inner columns of a; either may be given transposed */
static void product(enum CBLAS_TRANSPOSE a_form, enum CBLAS_TRANSPOSE b_form, int64_t rows,
		    int64_t columns, int64_t inner, const float *a, const float *b, float *c)
{
	int64_t a_row = a_form == CblasNoTrans ? inner : rows;
	int64_t b_row = b_form == CblasNoTrans ? columns : inner;

	assert(rows <= INT_MAX && columns <= INT_MAX && inner <= INT_MAX);
	cblas_sgemm(CblasRowMajor, a_form, b_form, (int)rows, (int)columns, (int)inner, 1.0f, a,
		    (int)a_row, b, (int)b_row, 0.0f, c, (int)columns);
}

void orr_linear_forward(int64_t n, int64_t in, int64_t out, const float *x, const float *w,
			const float *bias, float *y)
{
	product(CblasNoTrans, CblasTrans, n, out, in, x, w, y);
	for (int64_t r = 0; r < n; r++)
		orr_add(out, bias, y + r * out);
}

void orr_linear_input(int64_t n, int64_t in, int64_t out, const float *dy, const float *w,
		      float *dx)
{
	product(CblasNoTrans, CblasNoTrans, n, in, out, dy, w, dx);
}

void orr_linear_weight(int64_t n, int64_t in, int64_t out, const float *x, const float *dy,
		       float *dw)
{
	product(CblasTrans, CblasNoTrans, out, in, n, dy, x, dw);
}

void orr_linear_bias(int64_t n, int64_t out, const float *dy, float *dbias)
{
	memcpy(dbias, dy, (size_t)out * sizeof(*dbias));
	for (int64_t r = 1; r < n; r++)
		orr_add(out, dy + r * out, dbias);
}
