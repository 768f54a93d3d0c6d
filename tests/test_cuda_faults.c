/* What the emulated device finds, each planted and left out: a host pointer given to a kernel, a
 * wait between streams that is missing, a buffer freed early. And what becomes of errors: a call's
 * own, that of a kernel that ran, and one that somebody else has dealt with. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulated.h"
#include "suite.h"
#include "../codelets/cuda/stream.h"
#include "../codelets/device.h"

#define N 100
#define PREFIX "emulated CUDA: "
#define BYTES (N * sizeof(float))

static struct orr_device device;
static cudaStream_t stream, other;
static float *a, *b, *c; /* on the device */
static float *pinned;

static void setup(void)
{
	char why[200];
	size_t bytes;

	ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_int_eq(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_msg(!orr_cuda_stream_init(&device, ORR_PRECISION_FP32, stream, why, sizeof(why)),
		      "%s", why);
	bytes = device.kernels->workspace_bytes(ORR_PRECISION_FP32, N, N, N);
	ck_assert(!cudaMalloc(&device.workspace, bytes) && !cudaMalloc((void **)&a, BYTES) &&
		  !cudaMalloc((void **)&b, BYTES) && !cudaMalloc((void **)&c, BYTES) &&
		  !cudaHostAlloc((void **)&pinned, BYTES, cudaHostAllocDefault));
	for (int i = 0; i < N; i++)
		pinned[i] = (float)i;
	ck_assert_int_eq(cudaMemcpy(a, pinned, BYTES, cudaMemcpyHostToDevice), cudaSuccess);
	ck_assert_int_eq(cudaMemcpy(b, pinned, BYTES, cudaMemcpyHostToDevice), cudaSuccess);
}

static void teardown(void)
{
	(void)cudaStreamSynchronize(stream);
	orr_cuda_stream_fini(&device);
	(void)cudaStreamDestroy(stream);
	(void)cudaStreamDestroy(other);
	(void)cudaFree(device.workspace);
	(void)cudaFree(a);
	(void)cudaFree(b);
	(void)cudaFree(c);
	(void)cudaFreeHost(pinned);
}

/* ---- faults, which end the process ---- */

/* What the emulation says on f's way out; empty: it went through. */
static const char *last_words(void (*f)(bool planted), bool planted)
{
	static char text[4000]; /* a sanitizer has a word of its own */
	size_t n = 0;
	ssize_t more;
	int ends[2], status;
	const char *says;
	pid_t child;

	ck_assert_int_eq(pipe(ends), 0);
	child = fork();
	if (!child) {
		(void)dup2(ends[1], STDERR_FILENO);
		f(planted);
		_exit(cudaStreamSynchronize(stream) != cudaSuccess || device.failure);
	}
	close(ends[1]);
	while ((more = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)more;
	text[n] = '\0';
	close(ends[0]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	says = strstr(text, PREFIX);
	ck_assert_msg(WIFEXITED(status) ? !says && !WEXITSTATUS(status)
					: WTERMSIG(status) == SIGABRT && says,
		      "status %x, and says '%s'", (unsigned)status, text);
	return says ? says + strlen(PREFIX) : "";
}

static void add_from_host(bool planted)
{
	static float on_host[N];

	device.kernels->elements->sum(&device, N, a, planted ? on_host : b, c);
}

static void multiply_by_host(bool planted)
{
	float on_stack[6] = {1, 2, 3, 4, 5, 6};

	device.kernels->linear->forward(&device, 2, 3, 2, a, planted ? on_stack : b, NULL, NULL, c);
}

/* The pointer lies in a structure. */
static void step_by_host(bool planted)
{
	static float on_host[N];
	const float *const gradients[] = {planted ? on_host : b};
	const struct orr_rule rule = {.optimizer = ORR_OPTIMIZER_SGD, .learning_rate = 1};

	device.kernels->optimizer->step(&device, &rule, 1, N, a, NULL, gradients, 1, false);
}

static void copy_from_host(bool planted)
{
	float *on_host = malloc(BYTES);

	device.kernels->elements->copy(&device, N, planted ? on_host : b, c);
	free(on_host);
}

static void copy_too_much(bool planted)
{
	device.kernels->elements->copy(&device, N + planted, a, c);
}

#ifndef __SANITIZE_ADDRESS__
static void read_on_host(bool planted)
{
	volatile float *at = planted ? a : pinned;

	(void)at[7];
}
#endif

static void free_early(bool planted)
{
	device.kernels->elements->sum(&device, N, a, b, c);
	if (!planted)
		ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
	(void)cudaFree(b);
}

static void use_freed(bool planted)
{
	if (planted)
		(void)cudaFreeHost(pinned);
	device.kernels->elements->copy(&device, N, pinned, c);
}

/* The kernel of a sum; its argument 1 is what is done with each item, with all pointers. */
#define SUM_OF \
	"sum(orr_device*, int64_t, const float*, const float*, float*)::<lambda(float, float)>"
#define SUM \
	"orr_each <I = long int; F = orr_item<4, orr_each_value<true, " SUM_OF \
	", float, float, float>(orr_device*, const char*, int64_t, const float*, const float*, " \
	"float*, " SUM_OF ")::<lambda(auto:2, int64_t)> >>"

static const struct {
	void (*f)(bool planted);
	const char *says;
} faults[] = {
	{add_from_host, SUM ", argument 1: neither the device's memory nor pinned\n"},
	{multiply_by_host, "cublasLtMatmul, argument 0: neither the device's memory nor pinned\n"},
	{step_by_host,
	 "orr_each <I = long int; F = orr_item<4, start<sgd>(orr_device*, int64_t, sgd, "
	 "const blocks&, float*, uintptr_t)::<lambda(auto:2, int64_t)> >>, argument 1: neither the "
	 "device's memory nor pinned\n"},
	{copy_from_host, "cudaMemcpyAsync, argument 1: neither the device's memory nor pinned\n"},
	{copy_too_much, "cudaMemcpyAsync, argument 0: neither the device's memory nor pinned\n"},
	{free_early, SUM ", argument 1: freed before this ran\n"},
	{use_freed, "cudaMemcpyAsync, argument 1: freed before this was started\n"},
#ifndef __SANITIZE_ADDRESS__ /* which says so itself */
	{read_on_host, "the host touches memory of the device, byte 28 of 400\n"},
#endif
};

START_TEST(a_fault_ends_the_test_with_the_kernel_and_the_argument)
{
	setup();
	ck_assert_str_eq(last_words(faults[_i].f, true), faults[_i].says);
	ck_assert_str_eq(last_words(faults[_i].f, false), "");
	teardown();
}
END_TEST

/* ---- waits ---- */

/* c = a + b on one stream, which is copied on another. Are they the sums? */
static bool copies_the_sums(bool waits, uint64_t seed)
{
	cudaEvent_t done;
	bool right = true;

	emulated_seed(seed);
	memset(pinned, 0, BYTES);
	ck_assert(!cudaMemsetAsync(c, 0, BYTES, stream) && !cudaStreamSynchronize(stream) &&
		  !cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
	device.kernels->elements->sum(&device, N, a, b, c);
	ck_assert_int_eq(cudaEventRecord(done, stream), cudaSuccess);
	if (waits)
		ck_assert_int_eq(cudaStreamWaitEvent(other, done, 0), cudaSuccess);
	ck_assert(!cudaMemcpyAsync(pinned, c, BYTES, cudaMemcpyDeviceToHost, other) &&
		  !cudaStreamSynchronize(other) && !cudaStreamSynchronize(stream) &&
		  !cudaEventDestroy(done));
	for (int i = 0; i < N; i++)
		right = right && fabsf(pinned[i] - 2 * (float)i) < 1e-6f;
	return right;
}

START_TEST(a_wait_between_streams_that_is_missing_shows_in_what_is_computed)
{
	int wrong[2] = {0, 0};

	setup();
	for (int waits = 0; waits < 2; waits++)
		for (uint64_t seed = 1; seed <= 64; seed++)
			wrong[waits] += !copies_the_sums(waits, seed);
	ck_assert_int_gt(wrong[0], 8);
	ck_assert_int_lt(wrong[0], 64);
	ck_assert_int_eq(wrong[1], 0);
	teardown();
}
END_TEST

START_TEST(what_is_started_runs_when_somebody_waits_for_it)
{
	cudaEvent_t done;

	setup();
	ck_assert_int_eq(cudaEventCreate(&done), cudaSuccess);
	device.kernels->elements->copy(&device, N, a, pinned);
	ck_assert_int_eq(cudaEventRecord(done, stream), cudaSuccess);
	pinned[5] = -1; /* is written over later */
	ck_assert_int_eq(cudaEventSynchronize(done), cudaSuccess);
	ck_assert_float_eq_tol(pinned[5], 5, 1e-6f);
	device.kernels->elements->zero(&device, N, pinned);
	while (cudaStreamQuery(stream) == cudaErrorNotReady)
		;
	ck_assert_float_eq_tol(pinned[5], 0, 1e-6f);
	ck_assert_int_eq(cudaEventDestroy(done), cudaSuccess);
	teardown();
}
END_TEST

/* ---- errors ---- */

/* StarPU frees what it can, and tries again. */
START_TEST(an_allocation_that_others_dealt_with_is_not_ours)
{
	void *room = NULL;

	setup();
	for (int begins = 0; begins < 2; begins++) {
		emulated_fail_malloc(2);
		ck_assert_int_eq(cudaMalloc(&room, 16), cudaSuccess);
		ck_assert_int_eq(cudaFree(room), cudaSuccess);
		ck_assert_int_eq(cudaMalloc(&room, 16), cudaErrorMemoryAllocation);
		ck_assert_int_eq(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
		if (begins)
			device.kernels->begin(&device);
		device.kernels->elements->sum(&device, N, a, b, c);
		if (begins)
			ck_assert_ptr_null(device.failure);
		else /* which says that the test can fail */
			ck_assert_str_eq(device.failure, "CUDA, sum: out of memory");
		ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
		ck_assert(!device.lost);
		device.failure = NULL;
	}
	teardown();
}
END_TEST

/* So does StarPU ask whether a task has ended, in the thread that starts the next. */
START_TEST(what_is_not_ready_is_no_error_of_the_next_task)
{
	cudaEvent_t done;

	setup();
	emulated_seed(5);
	ck_assert_int_eq(cudaEventCreate(&done), cudaSuccess);
	for (int begins = 0; begins < 2; begins++) {
		for (int i = 0; i < 8; i++)
			device.kernels->elements->sum(&device, N, a, b, c);
		ck_assert_int_eq(cudaEventRecord(done, stream), cudaSuccess);
		ck_assert_int_eq(cudaEventQuery(done), cudaErrorNotReady);
		if (begins)
			device.kernels->begin(&device);
		device.kernels->elements->sum(&device, N, a, b, c);
		ck_assert_int_eq(device.failure == NULL, begins);
		device.failure = NULL;
	}
	ck_assert_int_eq(cudaEventDestroy(done), cudaSuccess);
	teardown();
}
END_TEST

START_TEST(a_kernel_that_cannot_be_started_is_told_once)
{
	setup();
	device.kernels->linear->round(&device, NULL, 0);
	ck_assert_str_eq(device.failure, "CUDA, round: invalid configuration argument");
	ck_assert(!device.lost);
	device.failure = NULL;
	device.kernels->begin(&device);
	device.kernels->elements->sum(&device, N, a, b, c);
	ck_assert_ptr_null(device.failure);
	teardown();
}
END_TEST

START_TEST(the_error_of_a_kernel_that_ran_is_told_by_the_next_task)
{
	setup();
	emulated_fail_run(2);
	for (int i = 0; i < 3; i++)
		device.kernels->elements->sum(&device, N, a, b, c);
	ck_assert_ptr_null(device.failure);
	while (!device.failure)
		device.kernels->begin(&device);
	ck_assert_str_eq(device.failure, "CUDA, the start of a task, or a kernel before it: an "
					 "illegal memory access was encountered");
	ck_assert(device.lost);
	ck_assert_int_eq(cudaGetLastError(), cudaErrorIllegalAddress); /* and so does every call */
	ck_assert_int_eq(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
	ck_assert_int_eq(cudaGetLastError(), cudaErrorIllegalAddress);
	teardown();
}
END_TEST

START_TEST(the_error_of_a_kernel_that_ran_is_told_by_the_next_one_that_starts)
{
	setup();
	emulated_fail_run(1);
	device.kernels->elements->sum(&device, N, a, b, c);
	ck_assert_int_eq(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
	device.kernels->elements->zero(&device, N, c);
	ck_assert_str_eq(device.failure, "CUDA, zero, or a kernel before it: an illegal memory "
					 "access was encountered");
	ck_assert(device.lost);
	teardown();
}
END_TEST

/* ---- counts ---- */

static void find_kernel(const char *name, int64_t n, void *found)
{
	if (strcmp(name, SUM) == 0)
		*(int64_t *)found = n;
}

START_TEST(what_is_started_is_counted)
{
	struct emulated_counts seen;
	int64_t n = 0;

	setup();
	emulated_reset_counts();
	for (int i = 0; i < 3; i++)
		device.kernels->elements->sum(&device, N, a, b, c);
	device.kernels->elements->copy(&device, 50, a, c);
	device.kernels->elements->zero(&device, 10, c);
	device.kernels->linear->forward(&device, 4, 3, 5, a, b, NULL, NULL, c);
	device.kernels->linear->weight(&device, 4, 3, 5, a, b, a, c, NULL);
	seen = emulated_counts();
	ck_assert_int_eq(seen.launches, 3);
	ck_assert_int_eq(seen.copies, 1);
	ck_assert_int_eq(seen.copied_bytes, 200);
	ck_assert_int_eq(seen.sets, 1);
	ck_assert_int_eq(seen.set_bytes, 40);
	ck_assert_int_eq(seen.products, 2);
	/* the second adds to what is there */
	ck_assert_int_eq(seen.product_bytes,
			 4 * (4 * 3 + 5 * 3 + 4 * 5) + 4 * (4 * 3 + 4 * 5 + 2 * 5 * 3));
	emulated_each_kernel(find_kernel, &n);
	ck_assert_int_eq(n, 3);
	teardown();
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(a_fault_ends_the_test_with_the_kernel_and_the_argument, N_OF(faults)),
		ONCE(a_wait_between_streams_that_is_missing_shows_in_what_is_computed),
		ONCE(what_is_started_runs_when_somebody_waits_for_it),
		ONCE(an_allocation_that_others_dealt_with_is_not_ours),
		ONCE(what_is_not_ready_is_no_error_of_the_next_task),
		ONCE(a_kernel_that_cannot_be_started_is_told_once),
		ONCE(the_error_of_a_kernel_that_ran_is_told_by_the_next_task),
		ONCE(the_error_of_a_kernel_that_ran_is_told_by_the_next_one_that_starts),
		ONCE(what_is_started_is_counted),
	};

	setenv("CK_FORK", "yes", 1); /* a device that is lost is lost to its process */
	return suite_run("cuda-faults", tests, N_OF(tests));
}
