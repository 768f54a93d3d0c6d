#pragma once
/* The same kernel on a core and on a CUDA device. Any failure fails the test. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include "../codelets/device.h"

#define CHECK_CUDA(call) \
	ck_assert_msg((call) == cudaSuccess, "%s: %s", #call, \
		      cudaGetErrorString(cudaGetLastError()))

struct orr_metrics;
struct suite_test;

/* cuBLAS takes its time to start: once for a precision. */
extern struct orr_device cpu, cuda;
extern cudaStream_t stream;
extern size_t cuda_bytes; /* of the device's workspace */

/* n, in and out: what the test asks for; both workspaces then have no byte more. */
void start(enum orr_precision precision, int64_t n, int64_t in, int64_t out);
void work_in(size_t bytes); /* the device, in memory that is as large */
void stop(void);            /* and frees the tensors */
void stop_device(void);     /* the tensors stay */
void fini_devices(void);
/* suite_run() in one process, to which a device belongs; 77 where there is no device. */
int run_on_devices(const char *name, const struct suite_test *tests, int n_tests);

/* A tensor on both; on the device it starts `shift` floats after a multiple of 256 bytes. */
struct tensor {
	float *on_cpu, *on_cuda, *base;
	int64_t n;
};
struct tensor *empty(int64_t n, int64_t shift); /* not a number */
struct tensor *filled(int64_t n, int64_t shift, uint64_t seed);
float *fetch(const struct tensor *t); /* from the device; the caller's */
/* They differ by `most` of the norm, and nothing was written behind the end. */
void check_close(const struct tensor *t, double most, const char *what);
void check_metrics(const struct orr_metrics *seen, const struct orr_metrics *right);
void free_tensors(void);

/* Of the reference's norm. A bfloat16 product adds up in float32 on both, of the same factors. */
double tolerance(enum orr_precision precision);
