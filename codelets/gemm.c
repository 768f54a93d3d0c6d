#include "kernels.h"

#include <assert.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

/* oneDNN is built with OpenMP, or with none. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);
#pragma weak omp_get_max_threads
#pragma weak omp_set_num_threads

/* c [rows][columns] = a b, with inner columns of a; 'T': given transposed. On one thread: workers
 * already keep every core busy, and a product split over a varying number of threads would not give
 * the same bits twice. */
static void product(char a_form, char b_form, int64_t rows, int64_t columns, int64_t inner,
		    const float *a, const float *b, float *c)
{
	int64_t a_row = a_form == 'N' ? inner : rows, b_row = b_form == 'N' ? columns : inner;
	int n_threads = omp_get_max_threads ? omp_get_max_threads() : 1;
	dnnl_status_t status;

	if (n_threads > 1)
		omp_set_num_threads(1);
	status = dnnl_sgemm(a_form, b_form, rows, columns, inner, 1.0f, a, a_row, b, b_row, 0.0f, c,
			    columns);
	if (n_threads > 1)
		omp_set_num_threads(n_threads);
	assert(status == dnnl_success);
	(void)status;
}

void orr_linear_forward(int64_t n, int64_t in, int64_t out, const float *x, const float *w,
			const float *bias, float *y)
{
	product('N', 'T', n, out, in, x, w, y);
	for (int64_t r = 0; r < n; r++)
		orr_add(out, bias, y + r * out);
}

void orr_linear_input(int64_t n, int64_t in, int64_t out, const float *dy, const float *w,
		      float *dx)
{
	product('N', 'N', n, in, out, dy, w, dx);
}

void orr_linear_weight(int64_t n, int64_t in, int64_t out, const float *x, const float *dy,
		       float *dw)
{
	product('T', 'N', out, in, n, dy, x, dw);
}

void orr_linear_bias(int64_t n, int64_t out, const float *dy, float *dbias)
{
	memcpy(dbias, dy, (size_t)out * sizeof(*dbias));
	for (int64_t r = 1; r < n; r++)
		orr_add(out, dy + r * out, dbias);
}
