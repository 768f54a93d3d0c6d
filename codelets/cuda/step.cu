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

	template <int V> __device__ void step(const float *g, float *p, int64_t) const
	{
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

template <class R>
static void start(struct orr_device *d, int64_t count, R rule, const struct blocks &blocks,
		  float *parameters, uintptr_t together)
{
	const struct blocks from = blocks;

	together |= orr_address(parameters);
	for (int b = 0; b < from.n; b++)
		together |= orr_address(from.at[b]);
	orr_each_item<4>(d, "update", count, count, together, [=] __device__(auto n, int64_t at) {
		float g[n.value], p[n.value];

		gradient<n.value>(g, from, at);
		orr_load<n.value>(p, parameters + at);
		rule.template step<n.value>(g, p, at);
		orr_store<n.value>(parameters + at, p);
	});
}

/* count parameters at p; their state is at `first`, and n floats after it in a second block, if the
 * optimizer has any. */
static void step_chunk(struct orr_device *d, const struct orr_rule *rule, int64_t number,
		       int64_t count, const struct blocks &from, float *p, float *first, int64_t n)
{
	float *second = first + n;

	switch (rule->optimizer) {
	case ORR_OPTIMIZER_ADAMW:
	case ORR_OPTIMIZER_ADAM:
		start(d, count, adam{orr_rule_adam(rule, number), first, second}, from, p,
		      orr_address(first, second));
		break;
	case ORR_OPTIMIZER_MOMENTUM:
		start(d, count, momentum{orr_rule_sgd(rule), first}, from, p, orr_address(first));
		break;
	case ORR_OPTIMIZER_SGD:
		start(d, count, sgd{orr_rule_sgd(rule)}, from, p, 0);
		break;
	case ORR_OPTIMIZER_NONE:
		break;
	}
}

/* The blocks whose sum is chunk c, in its order (optimizer.h), from i on; the chunk begins at
 * `begin`. */
static struct blocks blocks_of(int64_t begin, int64_t i, const float *const *blocks, int n_blocks,
			       bool summed, int c)
{
	struct blocks from = {summed ? 1 : n_blocks, {}};

	for (int b = 0; b < from.n; b++)
		from.at[b] = summed ? blocks[c] + (i - begin) : blocks[(c + 1 + b) % n_blocks] + i;
	return from;
}

static bool fit(struct orr_device *d, int n_blocks, bool summed)
{
	if (summed || n_blocks <= MOST_BLOCKS)
		return true;
	orr_cuda_ok(d, cudaErrorInvalidValue, "update of more than 256 replicas");
	return false;
}

static void step(struct orr_device *d, const struct orr_rule *rule, int64_t number, int64_t n,
		 float *parameters, float *state, const float *const *blocks, int n_blocks,
		 bool summed)
{
	const struct orr_extent part = orr_rule_part(rule, n);
	struct orr_rule bare = *rule;

	bare.weight_decay = 0;
	if (!fit(d, n_blocks, summed))
		return;
	for (int c = 0; c < n_blocks; c++) {
		int64_t begin = orr_rule_chunk(n, n_blocks, c), next;
		int64_t end = orr_rule_chunk(n, n_blocks, c + 1);

		end = end < part.end ? end : part.end;
		for (int64_t i = begin > part.first ? begin : part.first; i < end; i = next) {
			const struct orr_exempt *exempt;
			struct blocks from = blocks_of(begin, i, blocks, n_blocks, summed, c);

			next = orr_rule_border(rule, i, end, &exempt);
			if (exempt && exempt->momentum > 0)
				start(d, next - i, sgd{orr_rule_average(rule, exempt->momentum)},
				      from, parameters + i, 0);
			else
				step_chunk(d, exempt ? &bare : rule, number, next - i, from,
					   parameters + i, state + (i - part.first),
					   part.end - part.first);
		}
	}
}

/* ---- the norm of a gradient ---- */

/* A slice of count floats from `at` on: every thread adds up its own, and the first those. */
__global__ void __launch_bounds__(ORR_BLOCK)
	square_slices(int64_t at, int64_t count, const __grid_constant__ struct blocks from,
		      double *partial)
{
	__shared__ double sums[ORR_BLOCK];
	int64_t stride = (int64_t)gridDim.x * ORR_BLOCK;
	double sum = 0;

	for (int64_t i = (int64_t)blockIdx.x * ORR_BLOCK + threadIdx.x; i < count; i += stride) {
		float g[1];

		gradient<1>(g, from, at + i);
		sum += (double)g[0] * (double)g[0];
	}
	sums[threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.x)
		return;
	for (int k = 1; k < ORR_BLOCK; k++)
		sum += sums[k];
	partial[blockIdx.x] = sum;
}

/* What chunk c, from `begin` on, has of a tensor. */
static void add_squares(struct orr_device *d, int64_t begin, int64_t end, struct blocks from,
			const struct orr_extent *tensor, double *sum)
{
	int64_t at = tensor->first > begin ? tensor->first : begin;
	int64_t count = (tensor->end < end ? tensor->end : end) - at;
	int64_t slices = orr_ceil(count, ORR_BLOCK);
	unsigned grid = (unsigned)(slices < ORR_SLICES ? slices : ORR_SLICES);
	double *partial = d->cuda->partial;
	bool first = at == tensor->first;

	if (count <= 0)
		return;
	orr_launch(d, "norm", square_slices, grid, ORR_BLOCK, 0, at - begin, count, from, partial);
	orr_each(d, "norm", 1, [=] __device__(int) {
		double all = first ? 0 : *sum;

		for (unsigned k = 0; k < grid; k++)
			all += partial[k];
		*sum = all;
	});
}

static void squares(struct orr_device *d, int64_t n, const float *const *blocks, int n_blocks,
		    bool summed, const struct orr_extent *tensors, int n_tensors, double *sums)
{
	if (!fit(d, n_blocks, summed))
		return;
	for (int c = 0; c < n_blocks; c++) {
		int64_t begin = orr_rule_chunk(n, n_blocks, c);
		int64_t end = orr_rule_chunk(n, n_blocks, c + 1);

		for (int t = 0; t < n_tensors && begin < end; t++)
			add_squares(d, begin, end,
				    blocks_of(begin, begin, blocks, n_blocks, summed, c),
				    &tensors[t], &sums[t]);
	}
}

const struct orr_optimizer_kernels orr_optimizer_cuda = {ORR_OPTIMIZER_KERNELS(ORR_KERNEL)};
