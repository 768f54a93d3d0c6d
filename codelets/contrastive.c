#include "contrastive.h"

#include <math.h>
#include <stdbool.h>

#include "elements.h"
#include "device.h"
#include "loops.h"
#include "vector.h"

/* In single precision, as scores are. */
static float factor_of(float t)
{
	return (float)exp((double)t);
}

static void normalise_row(int64_t n, float factor, const float *scores, float *room, float *most,
			  double *sum)
{
	*most = factor * scores[orr_row_best(n, scores)];
	orr_row_exps(n, factor, *most, scores, room);
	*sum = 0;
	for (int64_t i = 0; i < n; i++)
		*sum += (double)room[i];
}

ORR_VECTOR
static void take_larger(int64_t n, float factor, const float *scores, float *most)
{
	for (int64_t i = 0; i < n; i++) {
		float score = factor * scores[i];

		most[i] = score > most[i] ? score : most[i];
	}
}

ORR_VECTOR
static void change_most(int64_t n, const float *most, float *before, double *sum)
{
	for (int64_t i = 0; i < n; i++) {
		sum[i] *= (double)orr_exp_of(before[i] - most[i]);
		before[i] = most[i];
	}
}

ORR_VECTOR
static void add_exps(int64_t n, float factor, const float *scores, const float *most, double *sum)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += (double)orr_exp_of(factor * scores[i] - most[i]);
}

static void normalise(struct orr_device *d, int64_t n_rows, int64_t n_columns, int64_t first,
		      const float *t, const float *scores, const struct orr_largest *rows,
		      const struct orr_largest *columns, float *room)
{
	float factor = factor_of(*t);

	for (int64_t r = 0; r < n_rows; r++)
		normalise_row(n_columns, factor, scores + r * n_columns, room,
			      &rows->most[first + r], &rows->sum[first + r]);
	for (int64_t i = 0; i < n_columns; i++) {
		if (!first) {
			columns->most[i] = -INFINITY;
			columns->sum[i] = 0;
		}
		room[i] = columns->most[i];
	}
	for (int64_t r = 0; r < n_rows; r++)
		take_larger(n_columns, factor, scores + r * n_columns, room);
	change_most(n_columns, room, columns->most, columns->sum);
	for (int64_t r = 0; r < n_rows; r++)
		add_exps(n_columns, factor, scores + r * n_columns, columns->most, columns->sum);
}

/* Shares of its row and of its column, halved, times factor; scores are copied to room. */
ORR_VECTOR
static void slope_row(int64_t n, float factor, float most, double sum, const float *mosts,
		      const double *sums, float *scores, float *room)
{
	for (int64_t i = 0; i < n; i++) {
		float score = factor * scores[i];
		double share = (double)orr_exp_of(score - most) / sum +
			       (double)orr_exp_of(score - mosts[i]) / sums[i];

		room[i] = scores[i];
		scores[i] = factor * (float)(0.5 * share);
	}
}

static void slopes(struct orr_device *d, int64_t n_rows, int64_t n_columns, int64_t first,
		   const float *t, float *scores, const struct orr_largest *rows,
		   const struct orr_largest *columns, float *room, struct orr_contrast *seen,
		   bool again)
{
	float factor = factor_of(*t);

	for (int64_t r = 0; r < n_rows; r++, scores += n_columns) {
		int64_t own = first + r;
		float score = factor * scores[own], most = rows->most[own],
		      column_most = columns->most[own];
		double sum = rows->sum[own], column_sum = columns->sum[own], slope = 0;
		double loss = 0.5 * (log(sum) - ((double)score - (double)most));

		slope_row(n_columns, factor, most, sum, columns->most, columns->sum, scores, room);
		/* shares - 1 in double: near 1 a float keeps nothing of it */
		scores[own] =
			factor *
			(float)(0.5 * (((double)orr_exp_of(score - most) - sum) / sum +
				       ((double)orr_exp_of(score - column_most) - column_sum) /
					       column_sum));
		if (again) {
			seen[r].loss += loss;
			continue;
		}
		for (int64_t i = 0; i < n_columns; i++)
			slope += (double)scores[i] * (double)room[i];
		seen[r] = (struct orr_contrast){loss, orr_row_best(n_columns, room) == own, slope};
	}
}

static void count(struct orr_device *d, int64_t n, const struct orr_contrast *seen, float *slope,
		  struct orr_metrics *metrics)
{
	struct orr_metrics all = {.classified = (double)n};
	double along = 0;

	for (int64_t r = 0; r < n; r++) {
		all.loss += seen[r].loss;
		all.correct += seen[r].hit > 0;
		along += seen[r].slope;
	}
	*slope = (float)along;
	if (metrics)
		*metrics = all;
}

const struct orr_contrastive_kernels orr_contrastive_cpu = {ORR_CONTRASTIVE_KERNELS(ORR_KERNEL)};
