/* What is kept as bfloat16: to floats and back. */
#include "halves.h"

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
		float v[V] = {}, sum[V];
		bool there = V > 1 || at < count;

		if (there)
			orr_load<V>(v, x + at);
		if (there && add) {
			orr_load<V>(sum, y + at);
			for (int k = 0; k < V; k++)
				v[k] = sum[k] + orr_bf16_float(orr_bf16_of(v[k]));
		}
		orr_store<V>(y + at, v);
	}
};

void orr_cuda_widen(struct orr_device *d, int64_t count, const void *x, float *y)
{
	start_halves(d, "widen", count, count, widened{static_cast<const uint16_t *>(x), y},
		     orr_address(x) | orr_address(y));
}

void orr_cuda_narrow(struct orr_device *d, int64_t count, int64_t end, const float *x, bool add,
		     void *y)
{
	start_halves(d, "narrow", count, end, narrowed{x, static_cast<uint16_t *>(y), count, add},
		     orr_address(x) | orr_address(y));
}
