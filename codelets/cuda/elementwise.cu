/* What goes element by element: each byte moves once, 16 at a time. */
#include "launch.h"

/* y = f(a, b), in float32; y may be a or b. HAS_B: it reads b, else zeros take its place. A, B, Y:
 * float, or uint16_t of bfloat16. */
template <bool HAS_B, class F, class A, class B, class Y>
static void orr_each_value(struct orr_device *d, const char *name, int64_t count, const A *a,
			   const B *b, Y *y, F f)
{
	constexpr int W = sizeof(A) + sizeof(B) + sizeof(Y) == 3 * sizeof(float) ? 4 : ORR_EIGHT;

	orr_each_item<W>(d, name, count, count,
			 orr_address(a) | (HAS_B ? orr_address(b) : 0) | orr_address(y),
			 [=] __device__(auto n, int64_t at) {
				 float u[n.value], v[n.value] = {};

				 orr_load<n.value>(u, a + at);
				 if (HAS_B)
					 orr_load<n.value>(v, b + at);
				 for (int k = 0; k < n.value; k++)
					 u[k] = f(u[k], v[k]);
				 orr_store<n.value>(y + at, u);
			 });
}

/* Activations: as floats or as bfloat16. */
template <bool B, class F>
static void start(struct orr_device *d, const char *name, int64_t count, const float *a,
		  const float *b, float *y, F f)
{
	orr_typed(d->halves, [=](auto n) {
		orr_each_value<B>(d, name, count, orr_as(n, a), orr_as(n, b), orr_as(n, y), f);
	});
}

static void copy(struct orr_device *d, int64_t count, const float *x, float *y)
{
	size_t size = d->halves ? sizeof(uint16_t) : sizeof(float);

	orr_cuda_ok(d,
		    cudaMemcpyAsync(y, x, (size_t)count * size, cudaMemcpyDeviceToDevice,
				    d->cuda->stream),
		    "copy");
}

static void zero(struct orr_device *d, int64_t count, float *y)
{
	orr_cuda_ok(d, cudaMemsetAsync(y, 0, (size_t)count * sizeof(*y), d->cuda->stream), "zero");
}

static void scale(struct orr_device *d, int64_t count, float factor, const float *x, float *y)
{
	start<false>(d, "scale", count, x, x, y,
		     [=] __device__(float v, float) { return factor * v; });
}

static void sum(struct orr_device *d, int64_t count, const float *a, const float *b, float *y)
{
	start<true>(d, "sum", count, a, b, y, [] __device__(float u, float v) { return u + v; });
}

static void sum_relu(struct orr_device *d, int64_t count, const float *a, const float *b, float *y)
{
	start<true>(d, "sum, relu", count, a, b, y,
		    [] __device__(float u, float v) { return orr_relu_of(u + v); });
}

static void sum_mixed(struct orr_device *d, int64_t count, const float *a, const void *b, float *y)
{
	orr_each_value<true>(d, "sum of floats and halves", count, a,
			     static_cast<const uint16_t *>(b), y,
			     [] __device__(float u, float v) { return u + v; });
}

static void multiply(struct orr_device *d, int64_t count, const float *a, const float *b, float *y)
{
	orr_each_value<true>(d, "multiply", count, a, b, y,
			     [] __device__(float u, float v) { return u * v; });
}

static void map(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *x,
		float *y)
{
	switch (f) {
#define ORR_CASE(NAME, KEPT, FORWARD, BACKWARD) \
	case ORR_ELEMENTWISE_##NAME: \
		start<false>(d, #NAME, count, x, x, y, \
			     [] __device__(float v, float) { return orr_##NAME##_of(v); }); \
		break;
		ORR_ELEMENTWISE(ORR_CASE)
#undef ORR_CASE
	}
}

static void map_back(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *kept,
		     const float *dy, float *dx)
{
	switch (f) {
#define ORR_CASE(NAME, KEPT, FORWARD, BACKWARD) \
	case ORR_ELEMENTWISE_##NAME: \
		start<true>(d, #NAME " backward", count, kept, dy, dx, \
			    [] __device__(float u, float v) { return orr_##NAME##_slope(u, v); }); \
		break;
		ORR_ELEMENTWISE(ORR_CASE)
#undef ORR_CASE
	}
}

/* Where there is none, which is nearly always, nothing is written. */
static void find_wild(struct orr_device *d, int64_t count, const float *x, int64_t at,
		      int64_t *first)
{
	long long *least = reinterpret_cast<long long *>(first);

	static_assert(sizeof(*least) == sizeof(*first), "as atomicMin takes it");
	orr_each_item<4>(d, "find what is wild", count, count, orr_address(x),
			 [=] __device__(auto n, int64_t i) {
				 float v[n.value];

				 orr_load<n.value>(v, x + i);
				 for (int k = 0; k < n.value; k++)
					 if (orr_is_wild(v[k]))
						 atomicMin(least, (long long)(at + i + k));
			 });
}

/* ---- what is kept as bfloat16: to floats and back ---- */

static void widen(struct orr_device *d, int64_t count, const void *x, float *y)
{
	const uint16_t *from = static_cast<const uint16_t *>(x);

	orr_each_value<false>(d, "widen", count, from, from, y,
			      [] __device__(float v, float) { return v; });
}

static void narrow(struct orr_device *d, int64_t count, int64_t end, const float *x, bool add,
		   void *y)
{
	uint16_t *to = static_cast<uint16_t *>(y);

	if (add)
		orr_each_value<true>(d, "narrow", count, x, to, to,
				     [] __device__(float v, float sum) {
					     return sum + orr_bf16_float(orr_bf16_of(v));
				     });
	else
		orr_each_value<false>(d, "narrow", count, x, x, to,
				      [] __device__(float v, float) { return v; });
	if (end > count)
		orr_cuda_ok(d,
			    cudaMemsetAsync(to + count, 0, (size_t)(end - count) * sizeof(*to),
					    d->cuda->stream),
			    "narrow");
}

/* ---- of a trial of a product: random operands, and whether two results have the same bits ---- */

/* In [-1, 1), by the place alone. */
__device__ inline float drawn(int64_t i, unsigned seed)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;

	x = (x ^ x >> 16) * 0x45d9f3bu;
	x = (x ^ x >> 16) * 0x45d9f3bu;
	return (float)(int32_t)(x ^ x >> 16) * 0x1p-31f;
}

template <class T> static void fill(struct orr_device *d, int64_t count, unsigned seed, T *to)
{
	orr_each(d, "random operands", count,
		 [=] __device__(int64_t i) { orr_put(to + i, drawn(i, seed)); });
}

void orr_cuda_fill(struct orr_device *d, int64_t count, unsigned seed, bool halves, void *to)
{
	orr_typed(halves, [=](auto a) { fill(d, count, seed, orr_as(a, to)); });
}

void orr_cuda_find_difference(struct orr_device *d, int64_t count, const float *a, const float *b,
			      int64_t *first)
{
	const uint32_t *x = reinterpret_cast<const uint32_t *>(a);
	const uint32_t *y = reinterpret_cast<const uint32_t *>(b);
	long long *least = reinterpret_cast<long long *>(first);

	orr_each(d, "difference", count, [=] __device__(int64_t i) {
		if (x[i] != y[i])
			atomicMin(least, (long long)i);
	});
}

const struct orr_element_kernels orr_elements_cuda = {ORR_ELEMENT_KERNELS(ORR_KERNEL)};
