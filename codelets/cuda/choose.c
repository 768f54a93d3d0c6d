/* What cuBLASLt is told of a product, and which of its algorithms computes it.
 *
 * The algorithms are asked for those that add up in a
 * fixed order, so that the same input gives the same bits each time. Which is the fastest a clock
 * says, and that is not the same each time: so only those are in the choice that have the bits of
 * the first, on random operands on the device itself, and that add a product to what is there with
 * the bits of one that is computed apart and then added. A product that was not measured is the
 * first's, and where there is no memory to measure in, all are. */
#include "product.h"

#include "../operator.h"

#include <math.h>
#include <string.h>

#define RUNS 3 /* that are timed */

/* ---- described ---- */

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

/* ---- asked for ---- */

int orr_product_ask(struct orr_device *d, const struct described *l, const struct problem *p,
		    bool aligned, int most, cublasLtMatmulAlgo_t *algos)
{
	uint32_t bytes = aligned ? 16 : 4;
	bool copies = orr_product_type(d) == CUDA_R_16BF && !d->halves;
	uint32_t a_bytes = copies ? 16 : bytes;
	uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	size_t workspace = ORR_BLAS_BYTES;
	struct described asked = *l;
	cublasLtMatmulPreferenceOpaque_t preference;
	cublasLtMatmulHeuristicResult_t results[ORR_ALGORITHMS];
	const struct {
		cublasLtMatmulPreferenceAttributes_t name;
		const void *value;
		size_t size;
	} wishes[] = {
		{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)},
		{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a_bytes, sizeof(a_bytes)},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a_bytes, sizeof(a_bytes)},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &bytes, sizeof(bytes)},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &bytes, sizeof(bytes)},
	};
	/* the algorithm is asked for the least that its operands share */
	const float *vector = (const float *)(uintptr_t)bytes;
	int n = 0, found = 0;

	if (cublasLtMatmulPreferenceInit(&preference) ||
	    ((p->bias || p->sums) &&
	     cublasLtMatmulDescSetAttribute(&asked.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
					    &vector, sizeof(vector))))
		return 0;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
		if (cublasLtMatmulPreferenceSetAttribute(&preference, wishes[i].name,
							 wishes[i].value, wishes[i].size))
			return 0;
	if (cublasLtMatmulAlgoGetHeuristic(d->cuda->lt, &asked.product, &asked.a, &asked.b,
					   &asked.c, &asked.c, &preference, most, results, &n))
		return 0;
	for (int i = 0; i < n; i++)
		if (!results[i].state && results[i].workspaceSize <= workspace)
			algos[found++] = results[i].algo;
	return found;
}

/* ---- measured ---- */

/* Operands in memory that is ours, and what comes out right. */
struct trial {
	struct orr_device *device;
	struct problem problem;
	struct described described;
	char *memory;
	int64_t floats;                       /* in whose place c is */
	float *right, *before, *after, *sums; /* c; what it is added to; and then; sums of rows */
	int64_t *difference;                  /* on the device */
	cudaEvent_t begin, end;
};

static void trial_fini(struct trial *t)
{
	(void)cudaStreamSynchronize(t->device->cuda->stream); /* what uses the memory */
	if (t->begin)
		cudaEventDestroy(t->begin);
	if (t->end)
		cudaEventDestroy(t->end);
	cudaFree(t->memory);
}

/* The next `bytes` of a trial's memory; where there is none yet, of where nothing is read. */
static void *take(const struct trial *t, size_t *used, size_t bytes)
{
	char *at = (t->memory ? t->memory : (char *)t->device->workspace) + *used;

	*used += (bytes + 255) / 256 * 256;
	return at;
}

static size_t lay_out(struct trial *t)
{
	size_t used = 0, size = orr_product_type(t->device) == CUDA_R_16BF ? 2 : sizeof(float);
	size_t c = (size_t)t->floats * sizeof(float), row, column;
	struct problem *p = &t->problem;

	row = (size_t)p->columns * sizeof(float), column = (size_t)p->rows * sizeof(float);
	p->a.at = take(t, &used, (size_t)(p->a.rows * p->a.stride) * size);
	p->b.at = take(t, &used, (size_t)(p->b.rows * p->b.stride) * size);
	p->c = take(t, &used, c);
	t->right = take(t, &used, c);
	t->before = take(t, &used, c);
	t->after = take(t, &used, c);
	t->difference = take(t, &used, sizeof(*t->difference));
	if (p->bias)
		p->bias = take(t, &used, row);
	if (p->sums) {
		p->sums = take(t, &used, column);
		t->sums = take(t, &used, column);
	}
	return used;
}

/* What the first algorithm computes is right. */
static bool trial_init(struct trial *t, const cublasLtMatmulAlgo_t *first)
{
	struct orr_device *d = t->device;
	struct problem *p = &t->problem;
	bool halves = orr_product_type(d) == CUDA_R_16BF;

	if (cudaMalloc((void **)&t->memory, lay_out(t))) {
		(void)cudaGetLastError(); /* not to be blamed on a later call */
		return false;
	}
	if (cudaEventCreate(&t->begin) || cudaEventCreate(&t->end))
		return false;
	(void)lay_out(t);
	orr_cuda_fill(d, p->a.rows * p->a.stride, 1, halves, (void *)(uintptr_t)p->a.at);
	orr_cuda_fill(d, p->b.rows * p->b.stride, 2, halves, (void *)(uintptr_t)p->b.at);
	orr_cuda_fill(d, t->floats, 3, false, t->before);
	if (p->bias)
		orr_cuda_fill(d, p->columns, 4, p->halves, (void *)(uintptr_t)p->bias);
	if (orr_product_describe(&t->described, d, p) ||
	    orr_product_run(d, &t->described, p, first))
		return false;
	orr_elements_cuda.copy(d, t->floats, p->c, t->right);
	if (!p->halves) /* nothing is added to activations */
		orr_elements_cuda.sum(d, t->floats, t->before, p->c, t->after);
	if (p->sums)
		orr_elements_cuda.copy(d, p->rows, p->sums, t->sums);
	return !d->failure;
}

static bool is_right(struct trial *t, const cublasLtMatmulAlgo_t *algo)
{
	struct orr_device *d = t->device;
	struct problem added = t->problem;
	const struct problem *p = &t->problem;
	bool adds = !p->bias && !p->halves;
	int64_t none, seen;

	added.add = true;
	memset(&none, 0x7f, sizeof(none));
	orr_elements_cuda.copy(d, t->floats, t->before, p->c);
	if (cudaMemsetAsync(t->difference, 0x7f, sizeof(none), d->cuda->stream) ||
	    orr_product_run(d, &t->described, p, algo))
		return false;
	orr_cuda_find_difference(d, t->floats, p->c, t->right, t->difference);
	if (p->sums)
		orr_cuda_find_difference(d, p->rows, p->sums, t->sums, t->difference);
	orr_elements_cuda.copy(d, t->floats, t->before, p->c);
	if (adds && orr_product_run(d, &t->described, &added, algo))
		return false;
	if (adds)
		orr_cuda_find_difference(d, t->floats, p->c, t->after, t->difference);
	return !cudaMemcpyAsync(&seen, t->difference, sizeof(seen), cudaMemcpyDeviceToHost,
				d->cuda->stream) &&
	       !cudaStreamSynchronize(d->cuda->stream) && seen == none;
}

/* Infinite where it fails. */
static float time_of(struct trial *t, const cublasLtMatmulAlgo_t *algo)
{
	cudaStream_t stream = t->device->cuda->stream;
	float ms = 0;

	if (cudaEventRecord(t->begin, stream))
		return INFINITY;
	for (int i = 0; i < RUNS; i++)
		if (orr_product_run(t->device, &t->described, &t->problem, algo))
			return INFINITY;
	if (cudaEventRecord(t->end, stream) || cudaEventSynchronize(t->end) ||
	    cudaEventElapsedTime(&ms, t->begin, t->end))
		return INFINITY;
	return ms;
}

int orr_product_measure(struct orr_device *d, const struct problem *p, int n,
			const cublasLtMatmulAlgo_t *algos)
{
	struct trial t = {.device = d,
			  .problem = *p,
			  .floats = orr_stored_floats(p->rows * p->columns, p->halves)};
	bool halves = d->halves, ran = false, any = false;
	float least = INFINITY;
	int best = 0;

	if (d->failure)
		return 0;
	d->halves = false; /* what is copied and added here goes by floats */
	for (int i = 0; i < n && (i || (ran = trial_init(&t, &algos[0]))); i++) {
		bool right = is_right(&t, &algos[i]);
		float ms = right ? time_of(&t, &algos[i]) : INFINITY;

		any = any || right;
		if (ms < least)
			best = i;
		least = ms < least ? ms : least;
		(void)cudaGetLastError(); /* of one that does not run: it is out of the choice */
	}
	trial_fini(&t);
	d->halves = halves;
	return ran && !any ? -1 : best;
}
