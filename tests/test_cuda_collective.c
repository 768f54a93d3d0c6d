/* NCCL on the devices at hand: with one, a group of one gives back what it was given; with several,
 * the sum. Whole numbers add up exactly in any order. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../codelets/cuda/collective.h"
#include "../codelets/cuda/device.h"

#define MOST 8
#define CHECK(call) \
	do { \
		cudaError_t code_ = (call); \
		if (code_ != cudaSuccess) { \
			printf("%s: %s\n", #call, cudaGetErrorString(code_)); \
			return 1; \
		} \
	} while (0)

struct member {
	struct orr_nccl *group;
	int i;
	int64_t n;
	const char *failure;
	pthread_t thread;
	cudaStream_t stream;
	float *floats;
};

static float value(int i, int64_t k)
{
	return (float)((k * 7 + i * 3) % 1000 - 500);
}

static int start(struct member *m, int i, int64_t n, const float *host)
{
	CHECK(cudaSetDevice(i));
	CHECK(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&m->floats, (size_t)n * sizeof(float)));
	CHECK(cudaMemcpy(m->floats, host, (size_t)n * sizeof(float), cudaMemcpyHostToDevice));
	return 0;
}

/* A thread a device, as in a run. */
static void *sum(void *user)
{
	struct member *m = user;

	m->failure =
		cudaSetDevice(m->i) == cudaSuccess
			? orr_nccl_start(m->group, m->i, ORR_NCCL_SUM, m->floats, m->n, m->stream)
			: "the device is not there";
	return NULL;
}

static int compare(struct member *m, int i, int n_devices, int64_t n, float *host)
{
	CHECK(cudaSetDevice(i));
	CHECK(cudaStreamSynchronize(m->stream));
	CHECK(cudaMemcpy(host, m->floats, (size_t)n * sizeof(float), cudaMemcpyDeviceToHost));
	for (int64_t k = 0; k < n; k++) {
		float sum = 0;

		for (int j = 0; j < n_devices; j++)
			sum += value(j, k);
		if (host[k] != sum) {
			printf("device %d, %lld of %lld floats: %g, expected %g\n", i, (long long)k,
			       (long long)n, (double)host[k], (double)sum);
			return 1;
		}
	}
	CHECK(cudaFree(m->floats));
	CHECK(cudaStreamDestroy(m->stream));
	return 0;
}

static int try(struct orr_nccl *group, int n_devices, int64_t n)
{
	struct member members[MOST];
	float *host = malloc((size_t)n * sizeof(*host));
	int code = !host;

	for (int i = 0; i < n_devices && !code; i++) {
		for (int64_t k = 0; k < n; k++)
			host[k] = value(i, k);
		code = start(&members[i], i, n, host);
	}
	for (int i = 0; i < n_devices && !code; i++) {
		members[i].group = group;
		members[i].i = i;
		members[i].n = n;
		code = pthread_create(&members[i].thread, NULL, sum, &members[i]);
	}
	for (int i = 0; i < n_devices && !code; i++) {
		pthread_join(members[i].thread, NULL);
		if (members[i].failure) {
			printf("NCCL: %s\n", members[i].failure);
			code = 1;
		}
	}
	for (int i = 0; i < n_devices && !code; i++)
		code = compare(&members[i], i, n_devices, n, host);
	free(host);
	return code;
}

int main(void)
{
	static const int64_t sizes[] = {1, 7, 1009, 1 << 20};
	struct orr_nccl *group;
	struct orr_nccl_id id;
	char why[160];
	int n_devices = orr_cuda_devices(why, sizeof(why)), devices[MOST] = {0}, code = 0;

	if (!n_devices) {
		printf("SKIP: found no CUDA device: %s\n", why);
		return 77;
	}
	n_devices = n_devices < MOST ? n_devices : MOST;
	for (int i = 0; i < n_devices; i++)
		devices[i] = i;
	if (orr_nccl_name(&id, why, sizeof(why)) ||
	    orr_nccl_create(&group, &id, n_devices, devices, devices, n_devices, why,
			    sizeof(why))) {
		printf("%s\n", why);
		return 1;
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !code; i++)
		code = try(group, n_devices, sizes[i]);
	if (!code && orr_nccl_failure(group)) {
		printf("%s\n", orr_nccl_failure(group));
		code = 1;
	}
	orr_nccl_destroy(group);
	printf("%d device%s: %s\n", n_devices, n_devices == 1 ? "" : "s",
	       code ? "failed" : "passed");
	return code;
}
