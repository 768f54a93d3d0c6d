/* What goes element by element: each byte moves once, 16 at a time. */
#include "halves.h"

#define ORR_FUNCTORS(NAME, KEPT, FORWARD, BACKWARD) \
	struct of_##NAME { \
		__device__ float operator()(float x, float) const { return orr_##NAME##_of(x); } \
	}; \
	struct slope_##NAME { \
		__device__ float operator()(float kept, float dy) const \
		{ \
			return orr_##NAME##_slope(kept, dy); \
		} \
	};
ORR_ELEMENTWISE(ORR_FUNCTORS)
struct times {
	float factor;
	__device__ float operator()(float x, float) const { return factor * x; }
};
struct plus {
	__device__ float operator()(float a, float b) const { return a + b; }
};
struct product {
	__device__ float operator()(float a, float b) const { return a * b; }
};

/* V floats from `at` on; without b its place is taken by zeros. y may be a or b. */
template <int V, bool B, class F>
__device__ inline void one(F f, int64_t at, const float *a, const float *b, float *y)
{
	float u[V], v[V] = {};

	orr_load<V>(u, a + at);
	if constexpr (B)
		orr_load<V>(v, b + at);
	for (int k = 0; k < V; k++)
		u[k] = f(u[k], v[k]);
	orr_store<V>(y + at, u);
}

template <bool B, class F>
__global__ void __launch_bounds__(ORR_BLOCK)
	each(struct orr_span span, F f, const float *a, const float *b, float *y)
{
	int64_t stride = (int64_t)gridDim.x * ORR_BLOCK;

	for (int64_t i = (int64_t)blockIdx.x * ORR_BLOCK + threadIdx.x; i < span.items; i += stride)
		if (i < span.quads)
			one<4, B>(f, orr_span_at(span, i), a, b, y);
		else
			one<1, B>(f, orr_span_at(span, i), a, b, y);
}

template <bool B, class F>
static void start(struct orr_device *d, const char *name, int64_t count, F f, const float *a,
		  const float *b, float *y)
{
	uintptr_t first = orr_address(y), apart = first ^ orr_address(a);
	struct orr_span span =
		orr_span_of(count, first, B ? apart | (first ^ orr_address(b)) : apart);
	const auto kernel = each<B, F>;

	if (!count)
		return;
	ORR_LAUNCH(kernel, orr_blocks(span.items, ORR_BLOCK), ORR_BLOCK, 0, d->cuda->stream, span,
		   f, a, b, y);
	orr_cuda_ok(d, cudaGetLastError(), name);
}

/* Activations: as floats or as bfloat16. */
template <bool B, class F>
static void start_activations(struct orr_device *d, const char *name, int64_t count, F f,
			      const float *a, const float *b, float *y)
{
	if (d->halves)
		orr_each_half<B>(d, name, count, f, a, b, y);
	else
		start<B>(d, name, count, f, a, b, y);
}

void orr_cuda_copy(struct orr_device *d, int64_t count, const float *x, float *y)
{
	size_t size = d->halves ? sizeof(uint16_t) : sizeof(float);

	orr_cuda_ok(d,
		    cudaMemcpyAsync(y, x, (size_t)count * size, cudaMemcpyDeviceToDevice,
				    d->cuda->stream),
		    "copy");
}

void orr_cuda_zero(struct orr_device *d, int64_t count, float *y)
{
	orr_cuda_ok(d, cudaMemsetAsync(y, 0, (size_t)count * sizeof(*y), d->cuda->stream), "zero");
}

void orr_cuda_scale(struct orr_device *d, int64_t count, float factor, const float *x, float *y)
{
	start<false>(d, "scale", count, times{factor}, x, x, y);
}

void orr_cuda_sum(struct orr_device *d, int64_t count, const float *a, const float *b, float *y)
{
	start_activations<true>(d, "sum", count, plus{}, a, b, y);
}

void orr_cuda_sum_halves(struct orr_device *d, int64_t count, const void *a, const void *b, void *y)
{
	orr_each_half<true>(d, "sum of halves", count, plus{}, a, b, y);
}

void orr_cuda_multiply(struct orr_device *d, int64_t count, const float *a, const float *b,
		       float *y)
{
	start<true>(d, "multiply", count, product{}, a, b, y);
}

void orr_cuda_map(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *x,
		  float *y)
{
	switch (f) {
#define ORR_CASE(NAME, KEPT, FORWARD, BACKWARD) \
	case ORR_ELEMENTWISE_##NAME: \
		start_activations<false>(d, #NAME, count, of_##NAME{}, x, x, y); \
		break;
		ORR_ELEMENTWISE(ORR_CASE)
#undef ORR_CASE
	}
}

void orr_cuda_map_back(struct orr_device *d, enum orr_elementwise f, int64_t count,
		       const float *kept, const float *dy, float *dx)
{
	switch (f) {
#define ORR_CASE(NAME, KEPT, FORWARD, BACKWARD) \
	case ORR_ELEMENTWISE_##NAME: \
		start_activations<true>(d, #NAME " backward", count, slope_##NAME{}, kept, dy, \
					dx); \
		break;
		ORR_ELEMENTWISE(ORR_CASE)
#undef ORR_CASE
	}
}

template <int V>
__device__ inline void note_wild(const float *x, int64_t i, int64_t at, long long *first)
{
	float v[V];

	orr_load<V>(v, x + i);
	for (int k = 0; k < V; k++)
		if (orr_is_wild(v[k]))
			atomicMin(first, (long long)(at + i + k));
}

/* Where there is none, which is nearly always, nothing is written. */
__global__ void __launch_bounds__(ORR_BLOCK)
	find_wild(struct orr_span span, const float *x, int64_t at, long long *first)
{
	int64_t stride = (int64_t)gridDim.x * ORR_BLOCK;

	for (int64_t i = (int64_t)blockIdx.x * ORR_BLOCK + threadIdx.x; i < span.items; i += stride)
		if (i < span.quads)
			note_wild<4>(x, orr_span_at(span, i), at, first);
		else
			note_wild<1>(x, orr_span_at(span, i), at, first);
}

void orr_cuda_find_wild(struct orr_device *d, int64_t count, const float *x, int64_t at,
			int64_t *first)
{
	struct orr_span span = orr_span_of(count, orr_address(x), 0);

	static_assert(sizeof(long long) == sizeof(*first), "as atomicMin takes it");
	if (!count)
		return;
	ORR_LAUNCH(find_wild, orr_blocks(span.items, ORR_BLOCK), ORR_BLOCK, 0, d->cuda->stream,
		   span, x, at, reinterpret_cast<long long *>(first));
	orr_cuda_ok(d, cudaGetLastError(), "find what is wild");
}
