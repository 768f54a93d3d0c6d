/* The contrastive loss, by tiles of the scores of a minibatch: ../contrastive.h. A row of a tile is
 * a block's, a column is a thread's. */
#include "../contrastive.h"
#include "rows.h"

__device__ static inline float factor_of(const float *t)
{
	return (float)exp((double)*t);
}

static void normalise(struct orr_device *d, int64_t n_rows, int64_t n_columns, int64_t first,
		      const float *t, const float *scores, const struct orr_largest *rows,
		      const struct orr_largest *columns, float *)
{
	const struct orr_largest row_sums = {rows->most + first, rows->sum + first};
	const struct orr_largest so_far = *columns;

	orr_each_block(d, "contrastive", n_rows, [=] __device__(int64_t r) {
		const float *row = scores + r * n_columns;
		float factor = factor_of(t), top = -INFINITY;
		double all = 0;

		for (int64_t i = threadIdx.x; i < n_columns; i += ORR_BLOCK)
			top = fmaxf(top, factor * row[i]);
		top = row_fold<ORR_BLOCK>(top, [](float a, float b) { return fmaxf(a, b); });
		for (int64_t i = threadIdx.x; i < n_columns; i += ORR_BLOCK)
			all += (double)expf(factor * row[i] - top);
		all = row_sum<ORR_BLOCK>(all);
		if (threadIdx.x)
			return;
		row_sums.most[r] = top;
		row_sums.sum[r] = all;
	});
	orr_each(d, "contrastive", n_columns, [=] __device__(int64_t i) {
		float factor = factor_of(t), before = first ? so_far.most[i] : -INFINITY;
		float top = before;
		double all;

		for (int64_t r = 0; r < n_rows; r++)
			top = fmaxf(top, factor * scores[r * n_columns + i]);
		all = first ? so_far.sum[i] * (double)expf(before - top) : 0;
		for (int64_t r = 0; r < n_rows; r++)
			all += (double)expf(factor * scores[r * n_columns + i] - top);
		so_far.most[i] = top;
		so_far.sum[i] = all;
	});
}

static void slopes(struct orr_device *d, int64_t n_rows, int64_t n_columns, int64_t first,
		   const float *t, float *scores, const struct orr_largest *all_rows,
		   const struct orr_largest *all_columns, float *, struct orr_contrast *seen,
		   bool again)
{
	const struct orr_largest rows = *all_rows, columns = *all_columns;

	orr_each_block(d, "contrastive backward", n_rows, [=] __device__(int64_t r) {
		float factor = factor_of(t), *row = scores + r * n_columns;
		float most = rows.most[first + r];
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
			return;
		loss = 0.5 * (log(sum) - ((double)(factor * raw) - (double)most));
		if (again)
			seen[r].loss += loss;
		else
			seen[r] = {loss, larger == 0 ? 1.0 : 0.0, slope};
	});
}

/* One block: metrics are in the host's memory, and no other block writes them. */
static void count(struct orr_device *d, int64_t n, const struct orr_contrast *seen, float *slope,
		  struct orr_metrics *metrics)
{
	orr_each_block(d, "metrics", 1, [=] __device__(int64_t) {
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
		if (metrics)
			*metrics = {loss, hits, (double)n};
	});
}

const struct orr_contrastive_kernels orr_contrastive_cuda = {ORR_CONTRASTIVE_KERNELS(ORR_KERNEL)};
