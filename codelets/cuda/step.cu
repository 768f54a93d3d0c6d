/* Updates: parameters, state and gradients are each read and written once. */
#include "launch.h"

/* The gradient: the sum of these, from the first to the last. */
#define MOST_BLOCKS 256
struct blocks {
	int n;
	const float *at[MOST_BLOCKS];
};

template <int V> __device__ inline void gradient(float *sum, const struct blocks &from, int64_t at)
{
	orr_load<V>(sum, from.at[0] + at);
	for (int b = 1; b < from.n; b++) {
		float v[V];

		orr_load<V>(v, from.at[b] + at);
		for (int k = 0; k < V; k++)
			sum[k] += v[k];
	}
}

struct sgd {
	struct orr_sgd rule;

	template <int V> __device__ void step(const float *g, float *p, int64_t at) const
	{
		(void)at;
		for (int k = 0; k < V; k++)
			orr_sgd_element(&rule, g[k], &p[k]);
	}
};

struct momentum {
	struct orr_sgd rule;
	float *velocity;

	template <int V> __device__ void step(const float *g, float *p, int64_t at) const
	{
		float v[V];

		orr_load<V>(v, velocity + at);
		for (int k = 0; k < V; k++)
			orr_momentum_element(&rule, g[k], &p[k], &v[k]);
		orr_store<V>(velocity + at, v);
	}
};

struct adam {
	struct orr_adam rule;
	float *first, *second;

	template <int V> __device__ void step(const float *g, float *p, int64_t at) const
	{
		float u[V], v[V];

		orr_load<V>(u, first + at);
		orr_load<V>(v, second + at);
		for (int k = 0; k < V; k++)
			orr_adam_element(&rule, g[k], &p[k], &u[k], &v[k]);
		orr_store<V>(first + at, u);
		orr_store<V>(second + at, v);
	}
};

template <int V, class R>
__device__ inline void one(const R &rule, const struct blocks &from, float *parameters, int64_t at)
{
	float g[V], p[V];

	gradient<V>(g, from, at);
	orr_load<V>(p, parameters + at);
	rule.template step<V>(g, p, at);
	orr_store<V>(parameters + at, p);
}

template <class R>
__global__ void __launch_bounds__(ORR_BLOCK)
	step(const __grid_constant__ struct orr_span span, const __grid_constant__ R rule,
	     const __grid_constant__ struct blocks from, float *parameters)
{
	int64_t stride = (int64_t)gridDim.x * ORR_BLOCK;

	for (int64_t i = (int64_t)blockIdx.x * ORR_BLOCK + threadIdx.x; i < span.items; i += stride)
		if (i < span.quads)
			one<4>(rule, from, parameters, orr_span_at(span, i));
		else
			one<1>(rule, from, parameters, orr_span_at(span, i));
}

template <class R>
static void start(struct orr_device *d, int64_t count, R rule, const struct blocks &from,
		  float *parameters, uintptr_t apart)
{
	uintptr_t first = orr_address(parameters);
	const auto kernel = step<R>;
	struct orr_span span;

	for (int b = 0; b < from.n; b++)
		apart |= first ^ orr_address(from.at[b]);
	span = orr_span_of(count, first, apart);
	ORR_LAUNCH(kernel, orr_blocks(span.items, ORR_BLOCK), ORR_BLOCK, 0, d->cuda->stream, span,
		   rule, from, parameters);
	orr_cuda_ok(d, cudaGetLastError(), "update");
}

/* count parameters at p; their state is at `first`, and n floats after it in a second block, if the
 * optimizer has any. */
static void step_chunk(struct orr_device *d, const struct orr_rule *rule, int64_t number,
		       int64_t count, const struct blocks &from, float *p, float *first, int64_t n)
{
	uintptr_t apart = orr_address(p) ^ orr_address(first);
	float *second = first + n;

	switch (rule->optimizer) {
	case ORR_OPTIMIZER_ADAMW:
	case ORR_OPTIMIZER_ADAM:
		start(d, count, adam{orr_rule_adam(rule, number), first, second}, from, p,
		      apart | (orr_address(p) ^ orr_address(second)));
		break;
	case ORR_OPTIMIZER_MOMENTUM:
		start(d, count, momentum{orr_rule_sgd(rule), first}, from, p, apart);
		break;
	case ORR_OPTIMIZER_SGD:
		start(d, count, sgd{orr_rule_sgd(rule)}, from, p, 0);
		break;
	case ORR_OPTIMIZER_NONE:
		break;
	}
}

/* Chunk by chunk, since each adds the blocks in an order of its own (orr_rule_step). */
void orr_cuda_step(struct orr_device *d, const struct orr_rule *rule, int64_t number, int64_t n,
		   float *parameters, float *state, const float *const *blocks, int n_blocks,
		   bool summed)
{
	if (n_blocks > MOST_BLOCKS && !summed) {
		orr_cuda_ok(d, cudaErrorInvalidValue, "update of more than 256 replicas");
		return;
	}
	for (int c = 0; c < n_blocks; c++) {
		int64_t begin = orr_rule_chunk(n, n_blocks, c);
		int64_t count = orr_rule_chunk(n, n_blocks, c + 1) - begin;
		struct blocks from = {1, {}};

		if (!count)
			continue;
		from.n = summed ? 1 : n_blocks;
		for (int b = 0; b < from.n; b++)
			from.at[b] = summed ? blocks[c] : blocks[(c + 1 + b) % n_blocks] + begin;
		step_chunk(d, rule, number, count, from, parameters + begin, state + begin, n);
	}
}
