/* The contrastive loss, by tiles of the scores of a minibatch: ../contrastive.h. A row of a tile is
 * a block's, a column is a thread's. */
#include "../contrastive.h"
#include "rows.h"

__device__ static inline float factor_of(const float *t)
{
	return (float)exp((double)*t);
}

/* The same in all threads of a block. */
__device__ static inline float largest(float v)
{
	__shared__ float warps[ORR_BLOCK / 32];

	for (int offset = 16; offset; offset /= 2)
		v = fmaxf(v, __shfl_xor_sync(ORR_ALL_LANES, v, offset));
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		warps[threadIdx.x / 32] = v;
	__syncthreads();
	v = warps[0];
	for (int k = 1; k < ORR_BLOCK / 32; k++)
		v = fmaxf(v, warps[k]);
	return v;
}

__global__ void __launch_bounds__(ORR_BLOCK)
	normalise_rows(int64_t n_rows, int64_t n_columns, const float *t, const float *scores,
		       float *most, double *sum)
{
	float factor = factor_of(t);

	for (int64_t r = blockIdx.x; r < n_rows; r += gridDim.x) {
		const float *row = scores + r * n_columns;
		float top = -INFINITY;
		double all = 0;

		for (int64_t i = threadIdx.x; i < n_columns; i += ORR_BLOCK)
			top = fmaxf(top, factor * row[i]);
		top = largest(top);
		for (int64_t i = threadIdx.x; i < n_columns; i += ORR_BLOCK)
			all += (double)expf(factor * row[i] - top);
		all = row_sum<ORR_BLOCK>(all);
		if (threadIdx.x)
			continue;
		most[r] = top;
		sum[r] = all;
	}
}

static void start_contrastive_normalise(struct orr_device *d, int64_t n_rows, int64_t n_columns,
					int64_t first, const float *t, const float *scores,
					const struct orr_largest *rows,
					const struct orr_largest *columns, float *)
{
	float *most = columns->most;
	double *sum = columns->sum;

	ORR_LAUNCH(normalise_rows, orr_blocks(n_rows, 1), ORR_BLOCK, 0, d->cuda->stream, n_rows,
		   n_columns, t, scores, rows->most + first, rows->sum + first);
	orr_each(d, "contrastive", n_columns, [=] __device__(int64_t i) {
		float factor = factor_of(t), before = first ? most[i] : -INFINITY, top = before;
		double all;

		for (int64_t r = 0; r < n_rows; r++)
			top = fmaxf(top, factor * scores[r * n_columns + i]);
		all = first ? sum[i] * (double)expf(before - top) : 0;
		for (int64_t r = 0; r < n_rows; r++)
			all += (double)expf(factor * scores[r * n_columns + i] - top);
		most[i] = top;
		sum[i] = all;
	});
	orr_cuda_ok(d, cudaGetLastError(), "contrastive");
}

__global__ void __launch_bounds__(ORR_BLOCK)
	slopes(int64_t n_rows, int64_t n_columns, int64_t first, const float *t, float *scores,
	       struct orr_largest rows, struct orr_largest columns, struct orr_contrast *seen,
	       bool again)
{
	float factor = factor_of(t);

	for (int64_t r = blockIdx.x; r < n_rows; r += gridDim.x) {
		float *row = scores + r * n_columns, most = rows.most[first + r];
		double sum = rows.sum[first + r], slope = 0, larger = 0, loss;
		int64_t own = first + r;
		float raw = row[own];

		__syncthreads(); /* all have read raw, which is written over */
		for (int64_t i = threadIdx.x; i < n_columns; i += ORR_BLOCK) {
			float score = factor * row[i];
			double off = i == own, along;

			larger += !(i == own || row[i] < raw || (i > own && row[i] == raw));
			along = ((double)expf(score - most) - off * sum) / sum +
				((double)expf(score - columns.most[i]) - off * columns.sum[i]) /
					columns.sum[i];
			along = (double)(factor * (float)(0.5 * along));
			slope += along * (double)row[i];
			row[i] = (float)along;
		}
		slope = row_sum<ORR_BLOCK>(slope);
		larger = row_sum<ORR_BLOCK>(larger);
		if (threadIdx.x)
			continue;
		loss = 0.5 * (log(sum) - ((double)(factor * raw) - (double)most));
		if (again)
			seen[r].loss += loss;
		else
			seen[r] = {loss, larger == 0 ? 1.0 : 0.0, slope};
	}
}

static void start_contrastive_slopes(struct orr_device *d, int64_t n_rows, int64_t n_columns,
				     int64_t first, const float *t, float *scores,
				     const struct orr_largest *rows,
				     const struct orr_largest *columns, float *,
				     struct orr_contrast *seen, bool again)
{
	ORR_LAUNCH(slopes, orr_blocks(n_rows, 1), ORR_BLOCK, 0, d->cuda->stream, n_rows, n_columns,
		   first, t, scores, *rows, *columns, seen, again);
	orr_cuda_ok(d, cudaGetLastError(), "contrastive backward");
}

/* One block: metrics are in the host's memory, and no other block writes them. */
__global__ void __launch_bounds__(ORR_BLOCK)
	count(int64_t n, const struct orr_contrast *seen, float *slope, struct orr_metrics *metrics)
{
	double loss = 0, hits = 0, along = 0;

	for (int64_t r = threadIdx.x; r < n; r += ORR_BLOCK) {
		loss += seen[r].loss;
		hits += seen[r].hit;
		along += seen[r].slope;
	}
	loss = row_sum<ORR_BLOCK>(loss);
	hits = row_sum<ORR_BLOCK>(hits);
	along = row_sum<ORR_BLOCK>(along);
	if (threadIdx.x)
		return;
	*slope = (float)along;
	if (!metrics)
		return;
	metrics->loss = loss;
	metrics->correct = (int64_t)hits;
	metrics->classified = n;
}

static void start_contrastive_count(struct orr_device *d, int64_t n,
				    const struct orr_contrast *seen, float *slope,
				    struct orr_metrics *metrics)
{
	ORR_LAUNCH(count, 1, ORR_BLOCK, 0, d->cuda->stream, n, seen, slope, metrics);
	orr_cuda_ok(d, cudaGetLastError(), "metrics");
}

const struct orr_contrastive_kernels orr_contrastive_cuda = {
	.normalise = start_contrastive_normalise,
	.slopes = start_contrastive_slopes,
	.count = start_contrastive_count,
};
