/* Matrix products. cuBLASLt computes them, and adds the bias on the way; the algorithm is chosen
 * once for a shape, whether a gradient is written or added, so that both have the same bits. Its
 * relu is not used, since it need not let NaN through, nor its gelu, which is the tanh form.
 *
 * cuBLAS counts by columns: a matrix here of r rows and c columns is one there of c rows and r
 * columns, so that y = x w^T becomes y' = w'^T x'. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "geometry.h"
#include "private.h"

enum pass { PASS_FREE, PASS_FORWARD, PASS_INPUT, PASS_WEIGHT };

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
	int64_t rows, columns, inner;
	bool add;
	bool halves; /* c is bfloat16, too */
};

static cublasComputeType_t compute_type(const struct orr_device *d)
{
	return d->precision == ORR_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
						  : CUBLAS_COMPUTE_32F;
}

static cudaDataType_t type_of(const struct orr_device *d)
{
	return d->precision == ORR_PRECISION_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cudaDataType_t result_type(const struct problem *p)
{
	return p->halves ? CUDA_R_16BF : CUDA_R_32F;
}

/* What cuBLASLt is told of a problem. */
struct described {
	cublasLtMatmulDescOpaque_t product;
	cublasLtMatrixLayoutOpaque_t a, b, c;
};

static cublasStatus_t layout(cublasLtMatrixLayoutOpaque_t *l, const struct orr_device *d,
			     const struct matrix *m)
{
	return cublasLtMatrixLayoutInit(l, type_of(d), (uint64_t)m->columns, (uint64_t)m->rows,
					m->stride);
}

static cublasStatus_t describe(struct described *l, const struct orr_device *d,
			       const struct problem *p)
{
	int32_t a = p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	int32_t b = p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	uint32_t epilogue = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
	cublasLtMatmulDesc_t product = &l->product;
	cublasStatus_t code = cublasLtMatmulDescInit(product, compute_type(d), CUDA_R_32F);

	if (code ||
	    (code = cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &a,
						   sizeof(a))) ||
	    (code = cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSB, &b,
						   sizeof(b))) ||
	    (code = cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE,
						   &epilogue, sizeof(epilogue))) ||
	    (p->bias &&
	     (code = cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
						    &p->bias, sizeof(p->bias)))) ||
	    (code = layout(&l->a, d, &p->a)) || (code = layout(&l->b, d, &p->b)))
		return code;
	return cublasLtMatrixLayoutInit(&l->c, result_type(p), (uint64_t)p->columns,
					(uint64_t)p->rows, p->columns);
}

/* Every operand at a multiple of 16 bytes, which fast algorithms want? */
static bool is_aligned(const struct problem *p)
{
	return ((uintptr_t)p->a.at | (uintptr_t)p->b.at | (uintptr_t)p->c | (uintptr_t)p->bias) %
		       16 ==
	       0;
}

/* The same algorithm each time: cuBLASLt's first choice among those that add up in a fixed order.
 */
static bool choose(struct orr_device *d, struct described l, bool aligned, bool has_bias,
		   cublasLtMatmulAlgo_t *algo)
{
	uint32_t bytes = aligned ? 16 : 4;
	uint32_t a_bytes = type_of(d) == CUDA_R_16BF ? 16 : bytes; /* our own copies */
	uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	size_t most = ORR_BLAS_BYTES;
	cublasLtMatmulPreferenceOpaque_t preference;
	cublasLtMatmulHeuristicResult_t result;
	const struct {
		cublasLtMatmulPreferenceAttributes_t name;
		const void *value;
		size_t size;
	} wishes[] = {
		{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)},
		{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a_bytes, sizeof(a_bytes)},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a_bytes, sizeof(a_bytes)},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &bytes, sizeof(bytes)},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &bytes, sizeof(bytes)},
	};
	/* the algorithm is asked for the least that its operands share */
	const float *bias = (const float *)(uintptr_t)bytes;
	int n = 0;

	if (cublasLtMatmulPreferenceInit(&preference) ||
	    (has_bias &&
	     cublasLtMatmulDescSetAttribute(&l.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
					    sizeof(bias))))
		return false;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
		if (cublasLtMatmulPreferenceSetAttribute(&preference, wishes[i].name,
							 wishes[i].value, wishes[i].size))
			return false;
	if (cublasLtMatmulAlgoGetHeuristic(d->cuda->lt, &l.product, &l.a, &l.b, &l.c, &l.c,
					   &preference, 1, &result, &n) ||
	    n < 1 || result.state)
		return false;
	*algo = result.algo;
	return true;
}

/* The table's entry for a shape; where the table is full, the first one's place. */
static struct orr_product *look_up(struct orr_device *d, const struct described *l, enum pass pass,
				   int64_t n, int64_t in, int64_t out, const struct problem *p,
				   bool aligned)
{
	uint64_t hash = ((uint64_t)n * UINT64_C(0x9e3779b97f4a7c15)) ^
			((uint64_t)in * UINT64_C(0xbf58476d1ce4e5b9)) ^
			((uint64_t)out * UINT64_C(0x94d049bb133111eb)) ^ ((uint64_t)pass << 33) ^
			((uint64_t)aligned << 32) ^ ((uint64_t)p->halves << 36);
	struct orr_product *products = d->cuda->products, *entry;
	size_t first = (size_t)(hash >> 32) % ORR_PRODUCTS, tries = 0;

	do {
		entry = &products[(first + tries) % ORR_PRODUCTS];
		if (entry->pass == (int)pass && entry->n == n && entry->in == in &&
		    entry->out == out && entry->aligned == aligned && entry->halves == p->halves)
			return entry;
	} while (entry->pass && ++tries < ORR_PRODUCTS);
	if (tries == ORR_PRODUCTS)
		entry = &products[first];
	*entry = (struct orr_product){n, in, out, (int)pass, aligned, p->halves, false, {{0}}};
	entry->found = choose(d, *l, aligned, pass == PASS_FORWARD, &entry->algo);
	return entry;
}

/* By cuBLAS itself, for shapes that cuBLASLt does not take. */
static void multiply_plainly(struct orr_device *d, const struct problem *p)
{
	const float one = 1, beta = p->add ? 1 : 0;
	cublasHandle_t blas = d->cuda->blas;
	cublasStatus_t code;

	if (p->rows > INT_MAX || p->columns > INT_MAX || p->inner > INT_MAX ||
	    p->a.stride > INT_MAX || p->b.stride > INT_MAX) {
		orr_cuda_blas_ok(d, CUBLAS_STATUS_INVALID_VALUE, "a product of 2^31 rows or more");
		return;
	}
	if ((code = cublasSetStream(blas, d->cuda->stream)) ||
	    (code = cublasSetWorkspace(blas, d->workspace, ORR_BLAS_BYTES)))
		orr_cuda_blas_ok(d, code, "stream");
	code = cublasGemmEx(blas, p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
			    p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)p->columns,
			    (int)p->rows, (int)p->inner, &one, p->a.at, type_of(d),
			    (int)p->a.stride, p->b.at, type_of(d), (int)p->b.stride, &beta, p->c,
			    result_type(p), (int)p->columns, compute_type(d), CUBLAS_GEMM_DEFAULT);
	if (orr_cuda_blas_ok(d, code, "product") && p->bias)
		orr_cuda_add_bias(d, p->rows, p->columns, p->halves, p->bias, p->c);
}

static void multiply(struct orr_device *d, enum pass pass, int64_t n, int64_t in, int64_t out,
		     const struct problem *p)
{
	const float one = 1, beta = p->add ? 1 : 0;
	struct described l;
	const struct orr_product *entry;

	if (d->failure || !orr_cuda_blas_ok(d, describe(&l, d, p), "description"))
		return;
	entry = look_up(d, &l, pass, n, in, out, p, is_aligned(p));
	if (!entry->found) {
		multiply_plainly(d, p);
		return;
	}
	orr_cuda_blas_ok(d,
			 cublasLtMatmul(d->cuda->lt, &l.product, &one, p->a.at, &l.a, p->b.at, &l.b,
					&beta, p->c, &l.c, p->c, &l.c, &entry->algo, d->workspace,
					ORR_BLAS_BYTES, d->cuda->stream),
			 "product");
}

/* ---- what is multiplied ---- */

size_t orr_cuda_product_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out)
{
	if (precision != ORR_PRECISION_BF16)
		return 0;
	return orr_cuda_aligned(n * orr_rounded_columns(in), sizeof(uint16_t)) +
	       orr_cuda_aligned(n * orr_rounded_columns(out), sizeof(uint16_t)) +
	       orr_cuda_aligned(out * orr_rounded_columns(in), sizeof(uint16_t)) +
	       orr_cuda_aligned(orr_rounded_columns(out), sizeof(uint16_t));
}

/* The matrix as products read it: in BF16 a copy at *space, which moves on, or, if there is one,
 * the copy that is kept. */
static struct matrix operand(struct orr_device *d, const float *x, const void *kept, int64_t rows,
			     int64_t columns, bool transposed, char **space)
{
	struct matrix m = {x, rows, columns, columns, transposed};

	if (d->precision != ORR_PRECISION_BF16)
		return m;
	m.stride = orr_rounded_columns(columns);
	m.at = kept;
	if (!kept) {
		orr_cuda_round(d, &(struct orr_rounding){x, *space, rows, columns}, 1);
		m.at = *space;
		*space += orr_cuda_aligned(rows * m.stride, sizeof(uint16_t));
	}
	return m;
}

/* Activations as products read them: in BF16, unless they are bfloat16, a copy at *space, which
 * moves on. */
static struct matrix activations(struct orr_device *d, const float *x, int64_t rows,
				 int64_t columns, bool transposed, char **space)
{
	struct matrix m = {x, rows, columns, columns, transposed};

	if (d->halves)
		return m;
	return operand(d, x, NULL, rows, columns, transposed, space);
}

/* What y's columns are added, in numbers like its own: rounded behind the weights that are kept. */
static const void *bias_of(struct orr_device *d, const float *bias, const void *rounded, int64_t in,
			   int64_t out, char **space)
{
	void *to = *space;

	if (!bias || !d->halves)
		return bias;
	if (rounded)
		return (const uint16_t *)rounded + out * orr_rounded_columns(in);
	orr_cuda_narrow(d, out, out, bias, false, to);
	*space += orr_cuda_aligned(out, sizeof(uint16_t));
	return to;
}
void orr_cuda_linear_forward(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			     const float *x, const float *w, const void *rounded, const float *bias,
			     float *y)
{
	char *space = orr_cuda_workspace(d);
	struct problem p = {.c = y, .rows = n, .columns = out, .inner = in, .halves = d->halves};

	p.bias = bias_of(d, bias, rounded, in, out, &space);
	p.a = operand(d, w, rounded, out, in, true, &space);
	p.b = activations(d, x, n, in, false, &space);
	multiply(d, PASS_FORWARD, n, in, out, &p);
}

void orr_cuda_linear_input(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			   const float *dy, const float *w, const void *rounded, float *dx)
{
	char *space = orr_cuda_workspace(d);
	struct problem p = {.c = dx, .rows = n, .columns = in, .inner = out, .halves = d->halves};

	p.a = operand(d, w, rounded, out, in, false, &space);
	p.b = activations(d, dy, n, out, false, &space);
	multiply(d, PASS_INPUT, n, in, out, &p);
}

void orr_cuda_linear_weight(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			    const float *x, const float *dy, float *apart, float *dw, float *dbias)
{
	char *space = orr_cuda_workspace(d);
	struct problem p = {.c = dw, .rows = out, .columns = in, .inner = n, .add = apart};

	p.a = activations(d, x, n, in, false, &space);
	p.b = activations(d, dy, n, out, true, &space);
	multiply(d, PASS_WEIGHT, n, in, out, &p);
	if (dbias)
		orr_cuda_column_sums(d, n, out, dy, NULL, apart, NULL, dbias);
}

/* Choose the algorithms, for tensors at multiples of 16 bytes, where nearly all of them are. */
void orr_cuda_prepare(struct orr_device *d, int64_t n, int64_t in, int64_t out)
{
	bool rounds = d->precision == ORR_PRECISION_BF16;
	int64_t in_stride = rounds ? orr_rounded_columns(in) : in;
	int64_t out_stride = rounds ? orr_rounded_columns(out) : out;
	char *at = d->workspace; /* not touched: a place like others */
	struct matrix w = {at, out, in, in_stride, false}, x = {at, n, in, in_stride, false};
	struct matrix dy = {at, n, out, out_stride, false}, turned_w = w, turned_dy = dy;
	struct problem problems[] = {
		{w, x, at, at, n, out, in, false, d->halves},
		{w, dy, at, NULL, n, in, out, false, d->halves},
		{x, dy, at, NULL, out, in, n, false, false},
	};

	turned_w.transposed = turned_dy.transposed = true;
	problems[0].a = turned_w;
	problems[2].b = turned_dy;
	for (int i = 0; i < 3; i++) {
		struct described l;

		if (orr_cuda_blas_ok(d, describe(&l, d, &problems[i]), "description"))
			look_up(d, &l, (enum pass)(PASS_FORWARD + i), n, in, out, &problems[i],
				true);
	}
}
