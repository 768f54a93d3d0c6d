#include "both_devices.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "small_model.h"
#include "suite.h"
#include "../codelets/cuda/stream.h"
#include "../codelets/program.h"

struct orr_device cpu, cuda;
cudaStream_t stream;
size_t cuda_bytes;
static struct orr_device started[3];

void start(enum orr_precision precision, int64_t n, int64_t in, int64_t out)
{
	char why[200];
	size_t bytes;

	cpu = orr_device_cpu(precision);
	bytes = cpu.kernels->workspace_bytes(precision, n, in, out);
	cpu.workspace = bytes ? malloc(bytes) : NULL;
	if (!stream)
		CHECK_CUDA(cudaStreamCreate(&stream));
	if (!started[precision].cuda)
		ck_assert_msg(!orr_cuda_stream_init(&started[precision], precision, stream, why,
						    sizeof(why)),
			      "%s", why);
	cuda = started[precision];
	cuda_bytes = cuda.kernels->workspace_bytes(precision, n, in, out);
	CHECK_CUDA(cudaMalloc(&cuda.workspace, cuda_bytes));
}

void work_in(size_t bytes)
{
	CHECK_CUDA(cudaFree(cuda.workspace));
	CHECK_CUDA(cudaMalloc(&cuda.workspace, bytes));
}

void stop_device(void)
{
	ck_assert_msg(!cuda.failure, "%s", cuda.failure);
	CHECK_CUDA(cudaStreamSynchronize(stream));
	CHECK_CUDA(cudaFree(cuda.workspace));
	free(cpu.workspace);
}

#define MOST_TENSORS 20
static struct tensor tensors[MOST_TENSORS];
static int n_tensors;

struct tensor *empty(int64_t n, int64_t shift)
{
	struct tensor *t = &tensors[n_tensors++];

	ck_assert_int_le(n_tensors, MOST_TENSORS);
	t->n = n;
	t->on_cpu = malloc((size_t)(n + 1) * sizeof(float));
	CHECK_CUDA(cudaMalloc((void **)&t->base, (size_t)(n + shift + 1) * sizeof(float)));
	t->on_cuda = t->base + shift;
	for (int64_t i = 0; i < n; i++)
		t->on_cpu[i] = NAN;
	t->on_cpu[n] = 12345;
	CHECK_CUDA(cudaMemcpy(t->on_cuda, t->on_cpu, (size_t)(n + 1) * sizeof(float),
			      cudaMemcpyHostToDevice));
	return t;
}

struct tensor *filled(int64_t n, int64_t shift, uint64_t seed)
{
	struct tensor *t = empty(n, shift);

	for (int64_t i = 0; i < n; i++)
		t->on_cpu[i] = (float)small_random(&seed);
	CHECK_CUDA(cudaMemcpy(t->on_cuda, t->on_cpu, (size_t)n * sizeof(float),
			      cudaMemcpyHostToDevice));
	return t;
}

float *fetch(const struct tensor *t)
{
	float *x = malloc((size_t)(t->n + 1) * sizeof(*x));

	CHECK_CUDA(cudaStreamSynchronize(stream));
	CHECK_CUDA(
		cudaMemcpy(x, t->on_cuda, (size_t)(t->n + 1) * sizeof(*x), cudaMemcpyDeviceToHost));
	return x;
}

void check_close(const struct tensor *t, double most, const char *what)
{
	float *x = fetch(t);
	double difference = 0, norm = 0;

	for (int64_t i = 0; i < t->n; i++) {
		double d = (double)x[i] - (double)t->on_cpu[i];

		if (isnan(x[i]) && isnan(t->on_cpu[i]))
			continue;
		difference += d * d;
		norm += (double)t->on_cpu[i] * (double)t->on_cpu[i];
	}
	ck_assert_msg(sqrt(difference) <= most * sqrt(norm) + 1e-30,
		      "%s: ||difference|| is %g of ||reference|| %g (%lld floats)", what,
		      sqrt(difference), sqrt(norm), (long long)t->n);
	ck_assert_msg(x[t->n] > 12344 && x[t->n] < 12346, "%s: written behind its end", what);
	free(x);
}

void check_metrics(const struct orr_metrics *seen, const struct orr_metrics *right)
{
	CHECK_CUDA(cudaStreamSynchronize(stream));
	ck_assert_msg(fabs(seen->loss - right->loss) <=
				      1e-9 * fabs(right->loss) + 1e-6 * fabs(right->loss) ||
			      (isnan(seen->loss) && isnan(right->loss)),
		      "loss %.9g, should be %.9g", seen->loss, right->loss);
	ck_assert_double_eq(seen->correct, right->correct);
	ck_assert_double_eq(seen->classified, right->classified);
}

void free_tensors(void)
{
	for (; n_tensors > 0; n_tensors--) {
		free(tensors[n_tensors - 1].on_cpu);
		CHECK_CUDA(cudaFree(tensors[n_tensors - 1].base));
	}
}

void stop(void)
{
	stop_device(); /* what has started may read them until then */
	free_tensors();
}

double tolerance(enum orr_precision precision)
{
	return precision == ORR_PRECISION_TF32   ? 1e-2
	       : precision == ORR_PRECISION_BF16 ? 1e-4
						 : 1e-5;
}

void fini_devices(void)
{
	for (int i = 0; i < 3; i++)
		orr_cuda_stream_fini(&started[i]);
	if (stream)
		(void)cudaStreamDestroy(stream);
	stream = NULL;
}

int run_on_devices(const char *name, const struct suite_test *tests, int n_tests)
{
	int failed, n = 0;

	if (cudaGetDeviceCount(&n) != cudaSuccess || !n) {
		printf("SKIP: no CUDA device\n");
		return 77;
	}
	setenv("CK_FORK", "no", 1);
	failed = suite_run(name, tests, n_tests);
	fini_devices();
	return failed;
}
