#include "gemm.h"

#include <assert.h>
#include <oneapi/dnnl/dnnl.h>

/* oneDNN is built with OpenMP, or with none. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);
#pragma weak omp_get_max_threads
#pragma weak omp_set_num_threads

int orr_gemm_begin(void)
{
	int n_threads = omp_get_max_threads ? omp_get_max_threads() : 1;

	if (n_threads > 1)
		omp_set_num_threads(1);
	return n_threads;
}

void orr_gemm_end(int n_threads)
{
	if (n_threads > 1)
		omp_set_num_threads(n_threads);
}

void orr_gemm(char a_form, char b_form, int64_t rows, int64_t columns, int64_t inner, float alpha,
	      const float *a, int64_t a_row, const float *b, int64_t b_row, float beta, float *c,
	      int64_t c_row)
{
	int n_threads = orr_gemm_begin();
	dnnl_status_t status = dnnl_sgemm(a_form, b_form, rows, columns, inner, alpha, a, a_row, b,
					  b_row, beta, c, c_row);

	orr_gemm_end(n_threads);
	assert(status == dnnl_success);
	(void)status;
}
