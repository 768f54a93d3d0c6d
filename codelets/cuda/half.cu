/* What is kept as bfloat16: to floats and back, and added; four values a thread where they lie at
 * multiples of 16 bytes as floats. */
#include "launch.h"

struct widened {
	const uint16_t *x;
	float *y;

	template <int V> __device__ void operator()(int64_t at) const
	{
		float v[V];

		orr_load<V>(v, x + at);
		orr_store<V>(y + at, v);
	}
};

struct narrowed {
	const float *x;
	uint16_t *y;
	int64_t count; /* zeros from there on */
	bool add;

	template <int V> __device__ void operator()(int64_t at) const
	{
		float v[V] = {}, sum[V] = {};

		if (V == 4 || at < count)
			orr_load<V>(v, x + at);
		if (add && (V == 4 || at < count)) {
			orr_load<V>(sum, y + at);
			for (int k = 0; k < V; k++)
				v[k] = sum[k] + orr_bf16_float(orr_bf16_of(v[k]));
		}
		orr_store<V>(y + at, v);
	}
};

struct summed {
	const uint16_t *a, *b;
	uint16_t *y;

	template <int V> __device__ void operator()(int64_t at) const
	{
		float u[V], v[V];

		orr_load<V>(u, a + at);
		orr_load<V>(v, b + at);
		for (int k = 0; k < V; k++)
			u[k] += v[k];
		orr_store<V>(y + at, u);
	}
};

/* The first `quads` times four values four by four, then the rest up to `count`. */
template <class F>
__global__ void __launch_bounds__(ORR_BLOCK) each_half(int64_t quads, int64_t count, F f)
{
	int64_t stride = (int64_t)gridDim.x * ORR_BLOCK, items = quads + (count - 4 * quads);

	for (int64_t i = (int64_t)blockIdx.x * ORR_BLOCK + threadIdx.x; i < items; i += stride)
		if (i < quads)
			f.template operator()<4>(4 * i);
		else
			f.template operator()<1>(3 * quads + i);
}

/* halves, floats: the addresses of those that it reads and writes, or-ed */
template <class F>
static void start(struct orr_device *d, const char *name, int64_t whole, int64_t count, F f,
		  uintptr_t halves, uintptr_t floats)
{
	int64_t quads = halves % 8 == 0 && floats % 16 == 0 ? whole / 4 : 0;
	const auto kernel = each_half<F>;

	if (!count)
		return;
	ORR_LAUNCH(kernel, orr_blocks(count - 3 * quads, ORR_BLOCK), ORR_BLOCK, 0, d->cuda->stream,
		   quads, count, f);
	orr_cuda_ok(d, cudaGetLastError(), name);
}

void orr_cuda_widen(struct orr_device *d, int64_t count, const void *x, float *y)
{
	start(d, "widen", count, count, widened{static_cast<const uint16_t *>(x), y},
	      orr_address(x), orr_address(y));
}

void orr_cuda_narrow(struct orr_device *d, int64_t count, int64_t end, const float *x, bool add,
		     void *y)
{
	start(d, "narrow", count, end, narrowed{x, static_cast<uint16_t *>(y), count, add},
	      orr_address(y), orr_address(x));
}

void orr_cuda_sum_halves(struct orr_device *d, int64_t count, const void *a, const void *b, void *y)
{
	start(d, "sum of halves", count, count,
	      summed{static_cast<const uint16_t *>(a), static_cast<const uint16_t *>(b),
		     static_cast<uint16_t *>(y)},
	      orr_address(a) | orr_address(b) | orr_address(y), 0);
}
