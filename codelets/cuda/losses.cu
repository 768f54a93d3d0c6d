/* Losses, row by row, and what they see of the rows. A row is added up in float, of what its
 * threads have by a tree; the rows in double, which is one addition a row. Where two large numbers
 * would leave a small one, the small one is added up instead: what is left of the probability. */
#include "../shapes.h"
#include "../sequence.h"
#include "rows.h"

size_t orr_cuda_rows_bytes(int64_t n)
{
	return orr_cuda_aligned(n, sizeof(struct orr_metrics));
}

/* What each row adds to the metrics. */
static struct orr_metrics *seen_of(const struct orr_device *d)
{
	return reinterpret_cast<struct orr_metrics *>(orr_cuda_workspace(d));
}

/* All of the rows' to the metrics. One block: they are in the host's memory, and no other block
 * writes them. */
static void count_rows(struct orr_device *d, int64_t n, struct orr_metrics *metrics)
{
	const struct orr_metrics *seen = seen_of(d);

	if (!metrics)
		return;
	orr_each_block(d, "metrics", 1, [=] __device__(int64_t) {
		struct orr_metrics all = {0, 0, 0};

		for (int64_t r = threadIdx.x; r < n; r += ORR_BLOCK)
			orr_metrics_add(&all, &seen[r]);
		all.loss = row_sum<ORR_BLOCK>(all.loss);
		all.correct = row_sum<ORR_BLOCK>(all.correct);
		all.classified = row_sum<ORR_BLOCK>(all.classified);
		if (!threadIdx.x)
			*metrics = all;
	});
}

/* The share of a row in its sample: of those that are not ignored. */
template <class R>
__device__ inline float share_of(R t, const struct orr_classes &k, const float *classes)
{
	int counted = 0;

	for (int64_t i = t.x(); i < k.rows; i += R::T)
		counted += classes[i] == k.ignored ? 0 : 1;
	return 1.0f / (float)t.sum(counted);
}

/* What a class is to have of the probability where it is none of the row's, and where it is; and
 * what that lacks of all. */
struct targets {
	float rest, whole, lack;
};

static struct targets targets_of(const struct orr_classes *k)
{
	double rest = k->smoothing / (double)k->width, lack = k->smoothing - rest;

	return {(float)rest, (float)(1.0 - lack), (float)lack};
}

/* Without room for a row its exponentials are computed twice: the slope may lie where the scores
 * do, and in bfloat16. */
static void softmax_cross_entropy(struct orr_device *d, int64_t n, const struct orr_classes *of,
				  const float *scores, const float *classes, float *slope,
				  struct orr_metrics *metrics)
{
	const struct orr_classes k = *of;
	const struct targets target = targets_of(of);
	struct orr_metrics *seen = seen_of(d);

	by_typed_row(
		d, "softmax_cross_entropy", n * k.rows, k.width, whole(k.width),
		orr_address(scores, slope),
		[=] __device__(auto t, auto, auto a, int64_t r, float *room) {
			const kept_row<decltype(a)> row = {room, orr_as(a, scores) + r * k.width};
			float own = classes[r];
			bool ignored = own == k.ignored;
			bool is_class = own >= 0.0f && own < (float)k.width && own == floorf(own);
			int64_t at = is_class ? (int64_t)own : 0;
			float share = share_of(t, k, classes + r / k.rows * k.rows), sum, others;
			/* before the slope is, which may lie there, too */
			float right = orr_get(row.row + at);
			best top = {-INFINITY, k.width};
			struct pair sums = {0, 0}; /* exponentials but the largest, which is 1; and
						      what the scores of other classes lack of it */
			auto exponential = [&](int64_t i, float v) {
				float e = expf(v - top.score);

				if (target.rest > 0 && i != at)
					sums.b += v - top.score;
				sums.a += i == top.at ? e - 1.0f : e;
				return e;
			};

			t.keep(k.width, row, [&](int64_t i, float v) {
				top = better(top, best{orr_score(v, i), i});
			});
			top = row_fold<t.T>(top, better);
			if (room)
				t.map(k.width, room, room, exponential);
			else
				t.each(k.width, row.row, exponential);
			sums = t.sum(sums);
			sum = 1.0f + sums.a;
			if (!t.x()) {
				float loss = log1pf(sums.a) - target.whole * (right - top.score) -
					     target.rest * sums.b;

				seen[r].loss = ignored ? 0.0f : is_class ? share * loss : NAN;
				seen[r].classified = ignored ? 0 : 1;
				seen[r].correct = is_class && !ignored && top.at == at ? 1 : 0;
			}
			others = top.at == at ? sums.a : sum - expf(right - top.score);
			t.map(k.width, row, orr_as(a, slope) + r * k.width,
			      [&](int64_t i, float v) {
				      float e = room ? v : expf(v - top.score);

				      e = i == at ? (target.lack * e - target.whole * others) / sum
						  : e / sum - target.rest;
				      return ignored ? 0.0f : is_class ? e * share : NAN;
			      });
		});
	count_rows(d, n * k.rows, metrics);
}

/* Of a sample the mean of its numbers' losses, f(&x, target, &correct), which makes x its slope. */
template <class F>
static void mean_loss(struct orr_device *d, const char *name, int64_t n, int64_t width,
		      double counted, const float *x, const float *target, float *slope,
		      struct orr_metrics *metrics, F f)
{
	struct orr_metrics *seen = seen_of(d);

	by_row(d, name, n, width, orr_address(x, target, slope), [=] __device__(auto t, int64_t r) {
		int64_t first = r * width;
		float sum = 0;
		int correct = 0;

		t.map(width, x + first, target + first, slope + first,
		      [&](int64_t, float v, float wanted) {
			      sum += f(&v, wanted, &correct);
			      return v / (float)width;
		      });
		sum = t.sum(sum);
		correct = t.sum(correct);
		if (!t.x())
			seen[r] = {sum / (float)width, (double)correct, counted};
	});
	count_rows(d, n, metrics);
}

static void mse(struct orr_device *d, int64_t n, int64_t width, const float *prediction,
		const float *target, float *slope, struct orr_metrics *metrics)
{
	mean_loss(d, "mse", n, width, 0, prediction, target, slope, metrics,
		  [] __device__(float *x, float t, int *) {
			  float difference = *x - t;

			  *x = 2.0f * difference;
			  return difference * difference;
		  });
}

static void bce(struct orr_device *d, int64_t n, int64_t width, const float *scores,
		const float *target, float *slope, struct orr_metrics *metrics)
{
	mean_loss(d, "bce", n, width, (double)width, scores, target, slope, metrics,
		  [] __device__(float *score, float t, int *correct) {
			  float x = *score, e = expf(-fabsf(x)), far = e / (1.0f + e);

			  *correct += (x > 0) == (t > 0.5f) ? 1 : 0;
			  *score = x > 0 ? (1.0f - t) - far : far - t;
			  return (x > 0 ? x * (1.0f - t) : -x * t) + log1pf(e);
		  });
}

/* ---- of classes in parts ---- */

static void class_part(struct orr_device *d, int64_t n, int64_t first, int64_t width,
		       const float *scores, const float *classes, float *y, float *exponentials,
		       float *at)
{
	struct orr_class_part *part = reinterpret_cast<struct orr_class_part *>(y);

	by_row(d, "softmax_part", n, width, orr_address(scores, exponentials),
	       [=] __device__(auto t, int64_t r) {
		       const float *row = scores + r * width;
		       best top = {-INFINITY, width};
		       struct pair sums = {0, 0}; /* of exponentials, and of what they are of */

		       t.each(width, row, [&](int64_t i, float v) {
			       top = better(top, best{orr_score(v, i), i});
		       });
		       top = row_fold<t.T>(top, better);
		       t.map(width, row, exponentials + r * width, [&](int64_t, float v) {
			       float e = orr_exp_of(v - top.score);

			       sums += {e, v - top.score};
			       return e;
		       });
		       sums = t.sum(sums);
		       if (!t.x()) {
			       int64_t own = orr_class_at(first, width, classes[r]);

			       at[r] = (float)own;
			       part[r] = {top.score, (float)(first + top.at),   (float)width,
					  sums.a,    own < 0 ? 0.0f : row[own], sums.b};
		       }
	       });
}

static void class_part_input(struct orr_device *d, int64_t n, int64_t width,
			     const float *exponentials, const float *at, const float *dy, float *dx)
{
	const struct orr_class_part *slopes = reinterpret_cast<const struct orr_class_part *>(dy);

	by_row(d, "softmax_part backward", n, width, orr_address(exponentials, dx),
	       [=] __device__(auto t, int64_t r) {
		       int64_t own = (int64_t)at[r];

		       t.map(width, exponentials + r * width, dx + r * width,
			     [&](int64_t i, float v) {
				     return slopes[r].sum * v + slopes[r].total +
					    (i == own ? slopes[r].own : 0.0f);
			     });
	       });
}

/* A warp a row, of which one thread goes through the parts: they are few, and joined in double. */
static void class_parts_entropy(struct orr_device *d, int64_t n, const struct orr_classes *of,
				int64_t n_parts, const float *parts, const float *classes,
				float *slope, struct orr_metrics *metrics)
{
	const struct orr_classes k = *of;
	const struct orr_class_part *from = reinterpret_cast<const struct orr_class_part *>(parts);
	struct orr_class_part *slopes = reinterpret_cast<struct orr_class_part *>(slope);
	struct orr_metrics *seen = seen_of(d);

	by_warp(d, "softmax_cross_entropy_parts", n * k.rows, [=] __device__(auto t, int64_t r) {
		double share = (double)share_of(t, k, classes + r / k.rows * k.rows), loss;
		struct orr_class_part *to = slopes + r * n_parts;
		bool ignored = classes[r] == k.ignored;
		int64_t own = orr_class_at(0, k.width, classes[r]), at;

		if (t.x())
			return;
		loss = orr_class_parts_loss(&k, n_parts, from + r * n_parts, share, to, &at);
		seen[r].loss = ignored ? 0.0f : own < 0 ? NAN : (float)loss;
		seen[r].classified = ignored ? 0 : 1;
		seen[r].correct = !ignored && own >= 0 && at == own ? 1 : 0;
		for (int64_t i = 0; i < n_parts && (ignored || own < 0); i++) {
			float all = ignored ? 0.0f : NAN;

			to[i] = orr_class_part{all, all, all, all, all, all};
		}
	});
	count_rows(d, n * k.rows, metrics);
}

/* ---- of choices of experts ---- */

/* The shares of experts, by sample and expert, and then the slopes. */
static void balance(struct orr_device *d, const struct orr_routing *routing, const float *scores,
		    const float *route, float *slope, float *shares, struct orr_metrics *metrics)
{
	const struct orr_routing r = *routing;
	int64_t rows = r.n * r.rows;
	const struct orr_routed *from = orr_routed_of(route);
	struct orr_metrics *seen = seen_of(d);

	orr_rows_cuda.softmax_forward(d, rows, r.experts, scores, slope);
	orr_each(d, "balance", r.n * r.experts, [=] __device__(int64_t i) {
		const struct orr_routed *row = from + i / r.experts * r.rows * r.top;
		float sum = 0;

		for (int64_t k = 0; k < r.rows; k++, row += r.top)
			sum += orr_routing_share(&r, i % r.experts, row);
		shares[i] = sum;
	});
	by_warp(d, "balance", rows, [=] __device__(auto t, int64_t i) {
		float scale = (float)r.experts / (float)r.rows, along = 0;
		const float *own = shares + i / r.rows * r.experts;
		float *p = slope + i * r.experts;
		int served = 0;

		t.each(r.experts, [&](int64_t e) { along = fmaf(own[e], p[e], along); });
		along = t.sum(along);
		t.each(r.experts, [&](int64_t e) { p[e] *= scale * (own[e] - along); });
		for (int64_t j = 0; j < r.top; j++)
			served += from[i * r.top + j].place >= 0 ? 1 : 0;
		if (!t.x())
			seen[i] = {scale * along, (double)served, (double)r.top};
	});
	count_rows(d, rows, metrics);
}

const struct orr_loss_kernels orr_losses_cuda = {ORR_LOSS_KERNELS(ORR_KERNEL)};
