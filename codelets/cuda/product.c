/* Matrix products. cuBLASLt computes them, and on the way adds the bias, or adds up the bias's
 * gradient; the algorithm is chosen once for a shape, whether a gradient is written or added, so
 * that both have the same bits. Its relu is not used, since it need not let NaN through, nor its
 * gelu, which is the tanh form. */
#include "product.h"

#include <limits.h>

/* Every operand at a multiple of 16 bytes, which fast algorithms want? */
static bool is_aligned(const struct problem *p)
{
	return ((uintptr_t)p->a.at | (uintptr_t)p->b.at | (uintptr_t)p->c | (uintptr_t)p->bias |
		(uintptr_t)p->sums) %
		       16 ==
	       0;
}

/* What tells products of the same shape apart: what is transposed, what is added on the way, and
 * what lies how. */
static int kind_of(const struct orr_device *d, const struct problem *p, bool aligned)
{
	return 1 | p->a.transposed << 1 | p->b.transposed << 2 | !!p->bias << 3 | !!p->sums << 4 |
	       aligned << 5 | d->halves << 6;
}

/* The table's entry for a product, which is new if its kind is 0; where the table is full, the
 * first one's place. */
static struct orr_product *look_up(struct orr_device *d, const struct problem *p, int kind)
{
	uint64_t hash = ((uint64_t)p->rows * UINT64_C(0x9e3779b97f4a7c15)) ^
			((uint64_t)p->columns * UINT64_C(0xbf58476d1ce4e5b9)) ^
			((uint64_t)p->inner * UINT64_C(0x94d049bb133111eb)) ^
			((uint64_t)kind << 32);
	struct orr_product *products = d->cuda->products, *entry;
	size_t first = (size_t)(hash >> 32) % ORR_PRODUCTS, tries = 0;

	do {
		entry = &products[(first + tries) % ORR_PRODUCTS];
		if (entry->kind == kind && entry->rows == p->rows && entry->columns == p->columns &&
		    entry->inner == p->inner)
			return entry;
	} while (entry->kind && ++tries < ORR_PRODUCTS);
	if (tries == ORR_PRODUCTS)
		entry = &products[first];
	*entry = (struct orr_product){.rows = p->rows, .columns = p->columns, .inner = p->inner};
	return entry;
}

/* How a problem is computed: chosen now where it is new; measured, where there is time to, else
 * cuBLASLt's first choice, which has the same bits. */
static struct orr_product *algorithm_of(struct orr_device *d, const struct problem *p,
					const struct described *l)
{
	bool aligned = is_aligned(p);
	int kind = kind_of(d, p, aligned);
	struct orr_product *entry = look_up(d, p, kind);
	cublasLtMatmulAlgo_t algos[ORR_ALGORITHMS];
	int count, best;

	if (entry->kind)
		return entry;
	entry->kind = kind;
	count = orr_product_ask(d, l, p, aligned, ORR_ALGORITHMS, algos);
	best = count > 0 && d->cuda->prepares ? orr_product_measure(d, p, count, algos) : 0;
	entry->found = count > 0 && (best >= 0 || !p->sums);
	if (entry->found)
		entry->algo = algos[best > 0 ? best : 0];
	return entry;
}

/* By cuBLAS itself, for shapes that cuBLASLt does not take. */
static void multiply_plainly(struct orr_device *d, const struct problem *p)
{
	bool after = p->bias && !p->halves, before = p->bias && p->halves; /* to round once */
	const float one = 1, beta = p->add || before ? 1 : 0;
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
	if (before &&
	    orr_cuda_ok(d,
			cudaMemsetAsync(p->c, 0, (size_t)(p->rows * p->columns) * sizeof(uint16_t),
					d->cuda->stream),
			"zero"))
		orr_cuda_add_bias(d, p->rows, p->columns, true, p->bias, p->c);
	code = cublasGemmEx(blas, p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
			    p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)p->columns,
			    (int)p->rows, (int)p->inner, &one, p->a.at, orr_product_type(d),
			    (int)p->a.stride, p->b.at, orr_product_type(d), (int)p->b.stride, &beta,
			    p->c, orr_product_result_type(p), (int)p->columns,
			    orr_product_sums_type(d), CUBLAS_GEMM_DEFAULT);
	if (orr_cuda_blas_ok(d, code, "product") && after)
		orr_cuda_add_bias(d, p->rows, p->columns, false, p->bias, p->c);
}

/* False: not with sums, for this shape; nothing is computed. */
static bool multiply(struct orr_device *d, const struct problem *p)
{
	struct described l;
	struct orr_product *entry;
	cublasStatus_t code;

	if (d->failure || !orr_cuda_blas_ok(d, orr_product_describe(&l, d, p), "description"))
		return true;
	entry = algorithm_of(d, p, &l);
	if (d->cuda->prepares)
		return entry->found || !p->sums;
	code = entry->found ? orr_product_run(d, &l, p, &entry->algo) : CUBLAS_STATUS_SUCCESS;
	if (p->sums && code == CUBLAS_STATUS_NOT_SUPPORTED)
		entry->found = false;
	else if (entry->found)
		orr_cuda_blas_ok(d, code, "product");
	else if (!p->sums)
		multiply_plainly(d, p);
	return entry->found || !p->sums;
}

/* ---- what is multiplied ---- */

size_t orr_cuda_product_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out)
{
	size_t sums = orr_cuda_aligned(out, sizeof(float));

	if (precision != ORR_PRECISION_BF16)
		return sums;
	return sums + orr_cuda_aligned(n * orr_rounded_columns(in), sizeof(uint16_t)) +
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
		if (!d->cuda->prepares)
			orr_cuda_round(d, &(struct orr_rounding){x, *space, rows, columns}, 1);
		m.at = *space;
		*space += orr_cuda_aligned(rows * m.stride, sizeof(uint16_t));
	}
	return m;
}

/* Activations: bfloat16 comes in rows as long as those that are rounded. */
static struct matrix activations(struct orr_device *d, const float *x, int64_t rows,
				 int64_t columns, bool transposed, char **space)
{
	return operand(d, x, d->halves ? x : NULL, rows, columns, transposed, space);
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
	orr_elements_cuda.narrow(d, out, out, bias, false, to);
	*space += orr_cuda_aligned(out, sizeof(uint16_t));
	return to;
}

static void forward(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		    const float *w, const void *rounded, const float *bias, float *y)
{
	char *space = orr_cuda_workspace(d);
	struct problem p = {.c = y, .rows = n, .columns = out, .inner = in, .halves = d->halves};

	p.bias = bias_of(d, bias, rounded, in, out, &space);
	p.a = operand(d, w, rounded, out, in, true, &space);
	p.b = activations(d, x, n, in, false, &space);
	(void)multiply(d, &p);
}

static void input(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *dy,
		  const float *w, const void *rounded, float *dx)
{
	char *space = orr_cuda_workspace(d);
	struct problem p = {.c = dx, .rows = n, .columns = in, .inner = out, .halves = d->halves};

	p.a = operand(d, w, rounded, out, in, false, &space);
	p.b = activations(d, dy, n, out, false, &space);
	(void)multiply(d, &p);
}

/* dbias as a sum that cuBLASLt makes on the way, where it does for this shape. That is written
 * apart where it is added, and where its place is less aligned than that of a sum to be added would
 * be.
 */
static bool weight_with_sums(struct orr_device *d, struct problem p, float *room, float *dbias)
{
	bool apart = p.add || (uintptr_t)dbias % 16, halves = d->halves;

	p.sums = apart ? room : dbias;
	if (!multiply(d, &p))
		return false;
	d->halves = false; /* these are no activations */
	if (p.add)
		orr_elements_cuda.sum(d, p.rows, dbias, room, dbias);
	else if (apart)
		orr_elements_cuda.copy(d, p.rows, room, dbias);
	d->halves = halves;
	return true;
}

static void weight(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		   const float *dy, float *apart, float *dw, float *dbias)
{
	char *space = orr_cuda_workspace(d);
	struct problem p = {.c = dw, .rows = out, .columns = in, .inner = n, .add = apart};

	p.a = activations(d, x, n, in, false, &space);
	p.b = activations(d, dy, n, out, true, &space);
	if (dbias && weight_with_sums(d, p, (float *)(void *)space, dbias))
		return;
	(void)multiply(d, &p);
	if (dbias && !d->cuda->prepares)
		orr_cuda_column_sums(d, n, out, dy, NULL, apart, NULL, dbias);
}

/* Choose the algorithms, for tensors at multiples of 16 bytes, where nearly all of them are: by the
 * products themselves, of a place like others, which is not touched. */
static void prepare(struct orr_device *d, int64_t n, int64_t in, int64_t out, bool bias)
{
	float *at = d->workspace, *vector = bias ? at : NULL;

	d->cuda->prepares = true;
	forward(d, n, in, out, at, at, at, vector, at);
	input(d, n, in, out, at, at, at, at);
	weight(d, n, in, out, at, at, NULL, at, vector);
	d->cuda->prepares = false;
}

const struct orr_linear_kernels orr_linear_cuda = {
	.prepare = prepare,
	.round = orr_cuda_round,
	.forward = forward,
	.input = input,
	.weight = weight,
};
