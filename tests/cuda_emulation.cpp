/* Kernels as fibers, and of cuBLAS the calls that codelets/cuda makes, by plain loops. It refuses
 * what the real one need not take. */
#include "cuda_emulation.h"

#include <algorithm>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>
#include <vector>

#include "../codelets/elements.h"

uint3 threadIdx, blockIdx;
dim3 gridDim, blockDim;
double emulation_lanes[32][32];

/* ---- kernels ---- */

enum state { RUNS, AT_WARP, AT_BLOCK, ENDED };

/* Where a fiber, or who runs them, goes on. swapcontext asks the kernel each time, and with
 * AddressSanitizer clears what it knows of a stack; so here, where it is written down, only what a
 * function must keep is exchanged. */
#ifdef __x86_64__
struct place {
	void *stack; /* its registers lie there, and on them where it goes on */
};

extern "C" void emulation_change(void **from, void *to);
asm(R"(
	.text
	.type emulation_change, @function
emulation_change:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, (%rdi)
	mov %rsi, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
	.size emulation_change, .-emulation_change
)");

static void change(place &from, place &to)
{
	emulation_change(&from.stack, to.stack);
}

/* It begins with a call of run, which does not return. */
static void begin(place &place, std::vector<char> &stack, void (*run)())
{
	uintptr_t end = reinterpret_cast<uintptr_t>(stack.data() + stack.size()) / 16 * 16;
	void **top = reinterpret_cast<void **>(end) - 8;

	std::fill(top, top + 8, nullptr);
	top[6] = reinterpret_cast<void *>(run); /* behind six registers */
	place.stack = top;
}
#else
struct place {
	ucontext_t context;
};

static void change(place &from, place &to)
{
	swapcontext(&from.context, &to.context);
}

static void begin(place &place, std::vector<char> &stack, void (*run)())
{
	getcontext(&place.context);
	place.context.uc_stack.ss_sp = stack.data();
	place.context.uc_stack.ss_size = stack.size();
	place.context.uc_link = NULL;
	makecontext(&place.context, run, 0);
}
#endif

/* Made once; runs a thread of every block. */
struct fiber {
	struct place place;
	std::vector<char> stack; /* empty: not made yet */
	uint3 index;
	enum state state;
};

static std::vector<fiber> fibers(1024);
static place scheduler;
static unsigned current;
static const std::function<void()> *running;
static float *block_shared;

float *emulation_shared()
{
	return block_shared;
}

static void leave(enum state state)
{
	fibers[current].state = state;
	change(fibers[current].place, scheduler);
}

static void run_fiber()
{
	for (;;) {
		(*running)();
		leave(ENDED);
	}
}

void emulation_meet(bool warp)
{
	leave(warp ? AT_WARP : AT_BLOCK);
}

/* Run thread t until it waits or ends. */
static void enter(unsigned t)
{
	fiber &f = fibers[t];

	if (f.stack.empty()) {
		f.stack.resize(1 << 16);
		begin(f.place, f.stack, run_fiber);
	}
	current = t;
	threadIdx = f.index;
	change(scheduler, f.place);
}

/* All threads of [begin, end) that have not ended wait for each other: let them go on. */
static bool release(unsigned begin, unsigned end, enum state where)
{
	bool any = false;

	for (unsigned t = begin; t < end; t++) {
		if (fibers[t].state != where && fibers[t].state != ENDED)
			return false;
		any = any || fibers[t].state == where;
	}
	for (unsigned t = begin; any && t < end; t++)
		if (fibers[t].state == where)
			fibers[t].state = RUNS;
	return any;
}

static void run_block(unsigned n)
{
	for (unsigned t = 0; t < n; t++) {
		fibers[t].index = {t % blockDim.x, t / blockDim.x % blockDim.y,
				   t / blockDim.x / blockDim.y};
		fibers[t].state = RUNS;
	}
	for (;;) {
		bool goes_on = false, ended = true;

		for (unsigned t = 0; t < n; t++)
			if (fibers[t].state == RUNS)
				enter(t);
		for (unsigned t = 0; t < n; t += 32)
			goes_on |= release(t, t + 32 < n ? t + 32 : n, AT_WARP);
		goes_on |= release(0, n, AT_BLOCK);
		for (unsigned t = 0; t < n; t++)
			ended = ended && fibers[t].state == ENDED;
		if (ended)
			return;
		if (!goes_on)
			emulation_fail("threads wait at different barriers");
	}
}

bool emulation_fits(dim3 grid, dim3 block, size_t shared)
{
	unsigned n = block.x * block.y * block.z;

	return grid.x && grid.y && n && n <= 1024 && grid.y <= 65535 && grid.z == 1 &&
	       shared <= 49152;
}

void emulation_run(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel)
{
	unsigned n = block.x * block.y * block.z;

	gridDim = grid;
	blockDim = block;
	running = &kernel;
	block_shared = static_cast<float *>(std::aligned_alloc(32, (shared + 31) / 32 * 32 + 32));
	for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
		for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
			for (size_t i = 0; i < shared / sizeof(float); i++)
				block_shared[i] = NAN;
			run_block(n);
		}
	std::free(block_shared);
}

/* ---- cuBLAS ---- */

extern "C" {

const char *cublasGetStatusString(cublasStatus_t code)
{
	return code ? "emulated failure" : "success";
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	*handle = reinterpret_cast<cublasHandle_t>(1);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t)
{
	return CUBLAS_STATUS_SUCCESS;
}

static cudaStream_t blas_stream; /* of all handles: it is set before each product */

cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t stream)
{
	blas_stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *workspace, size_t)
{
	return reinterpret_cast<uintptr_t>(workspace) % 256 ? CUBLAS_STATUS_INVALID_VALUE
							    : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
	*handle = reinterpret_cast<cublasLtHandle_t>(1);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t)
{
	return CUBLAS_STATUS_SUCCESS;
}
}

/* A matrix by columns, as cuBLAS has it. */
struct operand {
	const void *at;
	cudaDataType type;
	uint64_t rows, columns;
	int64_t stride;
	bool transposed;
};

static double element(const operand &m, uint64_t r, uint64_t c)
{
	uint64_t i = m.transposed ? c + r * (uint64_t)m.stride : r + c * (uint64_t)m.stride;

	return m.type == CUDA_R_16BF ? orr_bf16_float(static_cast<const uint16_t *>(m.at)[i])
				     : static_cast<const float *>(m.at)[i];
}

/* Element i of a result, or of what is added to it. */
static float result(cudaDataType type, const void *at, uint64_t i)
{
	return type == CUDA_R_16BF ? orr_bf16_float(static_cast<const uint16_t *>(at)[i])
				   : static_cast<const float *>(at)[i];
}

/* off: the next number in place of v */
static void put_result(cudaDataType type, void *at, uint64_t i, float v, bool off)
{
	if (type == CUDA_R_16BF)
		static_cast<uint16_t *>(at)[i] = (uint16_t)(orr_bf16_of(v) + off);
	else
		static_cast<float *>(at)[i] = off ? std::nextafterf(v, INFINITY) : v;
}

/* Of each column of b. */
static void sum_columns(const operand &b, float *sums)
{
	uint64_t inner = b.transposed ? b.columns : b.rows,
		 columns = b.transposed ? b.rows : b.columns;

	for (uint64_t j = 0; j < columns; j++) {
		double sum = 0;

		for (uint64_t k = 0; k < inner; k++)
			sum += element(b, k, j);
		sums[j] = (float)sum;
	}
}

static int64_t bytes_of(const operand &m)
{
	return (int64_t)(m.rows * m.columns) * (m.type == CUDA_R_16BF ? 2 : 4);
}

/* What is done beside a product. */
struct beside {
	const void *bias;
	float *sums; /* of the columns of b */
	bool off;    /* the next float is taken in place of each */
};

/* A product as it is defined: added up in double, rounded once, then bias and c are added. */
static void multiply(const operand &a, const operand &b, const beside &also, float beta, void *c,
		     const operand &d)
{
	uint64_t inner = a.transposed ? a.rows : a.columns;

	for (uint64_t j = 0; j < d.columns; j++)
		for (uint64_t i = 0; i < d.rows; i++) {
			uint64_t to = i + j * (uint64_t)d.stride;
			double sum = 0;
			float v;

			for (uint64_t k = 0; k < inner; k++)
				sum += element(a, i, k) * element(b, k, j);
			v = (float)sum + (also.bias ? result(d.type, also.bias, i) : 0);
			v += beta != 0 ? beta * result(d.type, c, to) : 0;
			put_result(d.type, c, to, v, also.off);
		}
	if (also.sums)
		sum_columns(b, also.sums);
}

/* False: they do not fit each other. */
static bool start(cudaStream_t stream, const char *name, operand a, operand b, beside also,
		  float beta, void *c, operand d)
{
	uint64_t rows = a.transposed ? a.columns : a.rows,
		 inner = a.transposed ? a.rows : a.columns;
	uint64_t columns = b.transposed ? b.rows : b.columns;

	if (inner != (b.transposed ? b.columns : b.rows) || rows != d.rows ||
	    columns != d.columns || a.stride < (int64_t)a.rows || b.stride < (int64_t)b.rows ||
	    d.stride < (int64_t)d.rows || a.type != b.type ||
	    (d.type != CUDA_R_32F && d.type != a.type))
		return false;
	if (!emulation_queue(stream,
			     {name,
			      {{a.at, 0}, {b.at, 1}, {c, 2}, {also.bias, 3}, {also.sums, 3}},
			      [=]() { multiply(a, b, also, beta, c, d); }}))
		return false;
	emulation_count_product(bytes_of(a) + bytes_of(b) + (beta != 0 ? 2 : 1) * bytes_of(d));
	return true;
}

/* What lies in the opaque structures. */
struct product {
	cublasComputeType_t type;
	int32_t a, b;
	uint32_t epilogue;
	void *vector; /* bias, or sums */
};
struct layout {
	cudaDataType type;
	uint64_t rows, columns;
	int64_t stride;
};
struct preference {
	size_t workspace;
	uint32_t schemes, a, b, c, d;
};
struct algorithm {
	uint64_t rows, columns, inner;
	uint32_t a, c, vector, epilogue;
	uint32_t known, number, cost;
};

/* Algorithm 2 is the fastest, but has other bits, as all have whose operands are less aligned than
 * to 16 bytes; 1 is the next, and 0 what is guessed to be best.
 */
int emulation_algorithm = -1; /* the last one that ran */

template <class T, class O> static T *inside(O *opaque)
{
	static_assert(sizeof(T) <= sizeof(*opaque), "it fits");
	return reinterpret_cast<T *>(opaque);
}

static uint32_t alignment_of(const void *p)
{
	uintptr_t bits = reinterpret_cast<uintptr_t>(p) | 256;

	return (uint32_t)(bits & -bits);
}

extern "C" {

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t,
					       cublasComputeType_t type, cudaDataType_t scale)
{
	*inside<product>(desc) = {type, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL};
	return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
					      cublasLtMatmulDescAttributes_t name,
					      const void *value, size_t size)
{
	product *p = inside<product>(desc);

	switch (name) {
	case CUBLASLT_MATMUL_DESC_TRANSA:
		std::memcpy(&p->a, value, size);
		return size == sizeof(p->a) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
	case CUBLASLT_MATMUL_DESC_TRANSB:
		std::memcpy(&p->b, value, size);
		return size == sizeof(p->b) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
	case CUBLASLT_MATMUL_DESC_EPILOGUE:
		std::memcpy(&p->epilogue, value, size);
		return size == sizeof(p->epilogue) ? CUBLAS_STATUS_SUCCESS
						   : CUBLAS_STATUS_INVALID_VALUE;
	case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
		std::memcpy(&p->vector, value, size);
		return size == sizeof(p->vector) ? CUBLAS_STATUS_SUCCESS
						 : CUBLAS_STATUS_INVALID_VALUE;
	default:
		return CUBLAS_STATUS_NOT_SUPPORTED;
	}
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t,
						 cudaDataType type, uint64_t rows, uint64_t columns,
						 int64_t stride)
{
	*inside<layout>(l) = {type, rows, columns, stride};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t)
{
	*inside<preference>(p) = {0, CUBLASLT_REDUCTION_SCHEME_MASK, 256, 256, 256, 256};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference_,
						    cublasLtMatmulPreferenceAttributes_t name,
						    const void *value, size_t size)
{
	preference *p = inside<preference>(preference_);
	uint32_t *to = name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK   ? &p->schemes
		       : name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ? &p->a
		       : name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES ? &p->b
		       : name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES ? &p->c
									    : &p->d;

	if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
		std::memcpy(&p->workspace, value, sizeof(p->workspace));
		return size == sizeof(p->workspace) ? CUBLAS_STATUS_SUCCESS
						    : CUBLAS_STATUS_INVALID_VALUE;
	}
	std::memcpy(to, value, sizeof(*to));
	return size == sizeof(*to) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* Every third shape has no algorithm, where they are not just counted. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
					      cublasLtMatrixLayout_t a_, cublasLtMatrixLayout_t b_,
					      cublasLtMatrixLayout_t c_, cublasLtMatrixLayout_t,
					      cublasLtMatmulPreference_t preference_, int most,
					      cublasLtMatmulHeuristicResult_t *results, int *n)
{
	const product *p = inside<product>(desc);
	const layout *a = inside<layout>(a_), *c = inside<layout>(c_);
	const preference *wish = inside<preference>(preference_);
	uint64_t inner = p->a == CUBLAS_OP_T ? a->rows : a->columns;
	algorithm chosen = {c->rows,
			    c->columns,
			    inner,
			    wish->a < wish->b ? wish->a : wish->b,
			    wish->c < wish->d ? wish->c : wish->d,
			    alignment_of(p->vector),
			    p->epilogue,
			    0x0fc0de,
			    0,
			    1};

	(void)b_;
	*n = 0;
	if (most < 1 || wish->schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE ||
	    wish->schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (emulation_runs() && (c->rows + c->columns + inner) % 3 == 0)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	for (; *n < most && *n < 3; ++*n) {
		chosen.number = (uint32_t)*n;
		chosen.cost = most > 1 ? 3 - chosen.number : 1;
		*inside<algorithm>(&results[*n].algo) = chosen;
		results[*n].workspaceSize = 0;
		results[*n].state = CUBLAS_STATUS_SUCCESS;
	}
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
			      const void *A, cublasLtMatrixLayout_t a_, const void *B,
			      cublasLtMatrixLayout_t b_, const void *beta, const void *C,
			      cublasLtMatrixLayout_t c_, void *D, cublasLtMatrixLayout_t d_,
			      const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
	const product *p = inside<product>(desc);
	const layout *a = inside<layout>(a_), *b = inside<layout>(b_), *d = inside<layout>(d_);
	const algorithm *chosen = reinterpret_cast<const algorithm *>(algo);
	bool has_bias = p->epilogue == CUBLASLT_EPILOGUE_BIAS;
	bool has_sums = p->epilogue == CUBLASLT_EPILOGUE_BGRADB;

	if (chosen->known != 0x0fc0de || chosen->rows != d->rows || chosen->columns != d->columns ||
	    chosen->inner != (p->a == CUBLAS_OP_T ? a->rows : a->columns) ||
	    alignment_of(A) < chosen->a || alignment_of(B) < chosen->a ||
	    alignment_of(D) < chosen->c || chosen->epilogue != p->epilogue ||
	    ((has_bias || has_sums) && alignment_of(p->vector) < chosen->vector) || C != D ||
	    c_ != d_ || *static_cast<const float *>(alpha) != 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	for (uint32_t i = 1; i < chosen->cost; i++) /* time goes by with every operation */
		emulation_queue(stream, {"cublasLtMatmul", {}, []() {}});
	emulation_algorithm = (int)chosen->number;
	return start(stream, "cublasLtMatmul",
		     {A, a->type, a->rows, a->columns, a->stride, p->a == CUBLAS_OP_T},
		     {B, b->type, b->rows, b->columns, b->stride, p->b == CUBLAS_OP_T},
		     {has_bias ? p->vector : NULL,
		      has_sums ? static_cast<float *>(p->vector) : NULL,
		      chosen->number == 2 || chosen->c < 16},
		     *static_cast<const float *>(beta), D,
		     {D, d->type, d->rows, d->columns, d->stride, false})
		       ? CUBLAS_STATUS_SUCCESS
		       : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb,
			    int m, int n, int k, const void *alpha, const void *A,
			    cudaDataType a_type, int lda, const void *B, cudaDataType b_type,
			    int ldb, const void *beta, void *C, cudaDataType c_type, int ldc,
			    cublasComputeType_t, cublasGemmAlgo_t)
{
	bool a = transa == CUBLAS_OP_T, b = transb == CUBLAS_OP_T;

	if (*static_cast<const float *>(alpha) != 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	return start(blas_stream, "cublasGemmEx",
		     {A, a_type, (uint64_t)(a ? k : m), (uint64_t)(a ? m : k), lda, a},
		     {B, b_type, (uint64_t)(b ? n : k), (uint64_t)(b ? k : n), ldb, b}, {},
		     *static_cast<const float *>(beta), C,
		     {C, c_type, (uint64_t)m, (uint64_t)n, ldc, false})
		       ? CUBLAS_STATUS_SUCCESS
		       : CUBLAS_STATUS_INVALID_VALUE;
}
}
