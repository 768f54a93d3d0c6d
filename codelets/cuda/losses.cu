/* Losses, row by row, and what they see of the rows. A row is added up in float, of what its
 * threads have by a tree; the rows in double, which is one addition a row. Where two large numbers
 * would leave a small one, the small one is added up instead: what is left of the probability. */
#include "../shapes.h"
#include "../sequence.h"
#include "rows.h"

/* What a row adds to the metrics: of a loss of classes, whether it counts and is right. */
struct seen {
	float loss;
	int32_t counted, correct;
};

size_t orr_cuda_rows_bytes(int64_t n)
{
	return orr_cuda_aligned(n, sizeof(struct seen));
}

/* The share of a row in its sample: of those that are not ignored. */
template <int T> __device__ inline float share_of(const struct orr_classes &k, const float *classes)
{
	int counted = 0;

	for (int64_t i = place<T>::x(); i < k.rows; i += T)
		counted += classes[i] == k.ignored ? 0 : 1;
	return 1.0f / (float)row_sum<T>(counted);
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
template <int T, int V, class A>
__global__ void __launch_bounds__(ORR_BLOCK)
	cross_entropy(int64_t n, const __grid_constant__ struct orr_classes k,
		      const struct targets target, int64_t room, const A *scores,
		      const float *classes, A *slope, struct seen *seen)
{
	ORR_SHARED_FLOATS(shared);
	float *kept = room ? shared + room * place<T>::y() : NULL;
	const int64_t width = k.width;

	each_row<T>(n, [=](int64_t r) {
		const A *row = scores + r * width;
		A *to = slope + r * width;
		float own = classes[r];
		bool ignored = own == k.ignored;
		bool is_class = own >= 0.0f && own < (float)width && own == floorf(own);
		int64_t at = is_class ? (int64_t)own : 0;
		float share = share_of<T>(k, classes + r / k.rows * k.rows), sum, others;
		float right; /* before the slope is, which may lie there, too */
		best top = {-INFINITY, width};
		struct pair sums = {0, 0}; /* exponentials but the largest, which is 1; and what
					      the scores of other classes lack of it */

		orr_load<1>(&right, row + at);
		each_of<T, V>(width, row, [&](int64_t i, float *v) {
			if (kept)
				orr_store<V>(kept + i, v);
			for (int j = 0; j < V; j++)
				top = better(top, best{orr_score(v[j], i + j), i + j});
		});
		top = row_best<T>(top);
		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			again<V>(v, kept, row, i);
			for (int j = 0; j < V; j++) {
				if (target.rest > 0 && i + j != at)
					sums.b += v[j] - top.score;
				v[j] = expf(v[j] - top.score);
				sums.a += i + j == top.at ? v[j] - 1.0f : v[j];
			}
			if (kept)
				orr_store<V>(kept + i, v);
		});
		sums = row_sum<T>(sums);
		sum = 1.0f + sums.a;
		if (!place<T>::x()) {
			float loss = log1pf(sums.a) - target.whole * (right - top.score) -
				     target.rest * sums.b;

			seen[r].loss = ignored ? 0.0f : is_class ? share * loss : NAN;
			seen[r].counted = ignored ? 0 : 1;
			seen[r].correct = is_class && !ignored && top.at == at ? 1 : 0;
		}
		others = top.at == at ? sums.a : sum - expf(right - top.score);
		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			again<V>(v, kept, row, i);
			for (int j = 0; j < V; j++) {
				v[j] = kept ? v[j] : expf(v[j] - top.score);
				v[j] = i + j == at
					       ? (target.lack * v[j] - target.whole * others) / sum
					       : v[j] / sum - target.rest;
				v[j] = ignored ? 0.0f : is_class ? v[j] * share : NAN;
			}
			orr_store<V>(to + i, v);
		});
	});
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	squares(int64_t n, int64_t width, const float *prediction, const float *target,
		float *slope, struct seen *seen)
{
	each_row<T>(n, [=](int64_t r) {
		const float *row = prediction + r * width, *wanted = target + r * width;
		float sum = 0;

		each_of<T, V>(width, row, wanted, [&](int64_t i, float *v, float *t) {
			for (int k = 0; k < V; k++) {
				float difference = v[k] - t[k];

				sum += difference * difference;
				v[k] = 2.0f * difference / (float)width;
			}
			orr_store<V>(slope + r * width + i, v);
		});
		sum = row_sum<T>(sum);
		if (!place<T>::x())
			seen[r] = {sum / (float)width, 0, 0};
	});
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	binary_entropy(int64_t n, int64_t width, const float *scores, const float *target,
		       float *slope, struct seen *seen)
{
	each_row<T>(n, [=](int64_t r) {
		const float *row = scores + r * width, *wanted = target + r * width;
		float sum = 0;
		int correct = 0;

		each_of<T, V>(width, row, wanted, [&](int64_t i, float *v, float *g) {
			for (int k = 0; k < V; k++) {
				float x = v[k], t = g[k], e = expf(-fabsf(x)), far = e / (1.0f + e);

				sum += (x > 0 ? x * (1.0f - t) : -x * t) + log1pf(e);
				correct += (x > 0) == (t > 0.5f) ? 1 : 0;
				v[k] = (x > 0 ? (1.0f - t) - far : far - t) / (float)width;
			}
			orr_store<V>(slope + r * width + i, v);
		});
		sum = row_sum<T>(sum);
		correct = row_sum<T>(correct);
		if (!place<T>::x())
			seen[r] = {sum / (float)width, (int32_t)width, correct};
	});
}

/* One block: metrics are in the host's memory, and no other block writes them. */
__global__ void __launch_bounds__(ORR_BLOCK)
	count(int64_t n, const struct seen *seen, struct orr_metrics *metrics)
{
	double loss = 0;
	int64_t counted = 0, correct = 0;

	for (int64_t r = threadIdx.x; r < n; r += ORR_BLOCK) {
		loss += (double)seen[r].loss;
		counted += seen[r].counted;
		correct += seen[r].correct;
	}
	loss = row_sum<ORR_BLOCK>(loss);
	counted = row_sum<ORR_BLOCK>(counted);
	correct = row_sum<ORR_BLOCK>(correct);
	if (threadIdx.x)
		return;
	metrics->loss = loss;
	metrics->correct = correct;
	metrics->classified = counted;
}

static struct seen *seen_of(const struct orr_device *d)
{
	return reinterpret_cast<struct seen *>(orr_cuda_workspace(d));
}

static void count_rows(struct orr_device *d, int64_t n, struct orr_metrics *metrics)
{
	if (!metrics)
		return;
	ORR_LAUNCH(count, 1, ORR_BLOCK, 0, d->cuda->stream, n, seen_of(d), metrics);
	orr_cuda_ok(d, cudaGetLastError(), "metrics");
}

static void start_softmax_cross_entropy(struct orr_device *d, int64_t n,
					const struct orr_classes *k, const float *scores,
					const float *classes, float *slope,
					struct orr_metrics *metrics)
{
	int64_t rows = n * k->rows, width = k->width;
	struct shape s = shape_of(rows, width, whole(width));

	uintptr_t all = orr_address(scores) | orr_address(slope);

	if (d->halves)
		START_AS(d, "softmax_cross_entropy", s, all, width, cross_entropy, uint16_t, rows,
			 *k, targets_of(k), s.kept, orr_halves_of(scores), classes,
			 orr_halves_of(slope), seen_of(d));
	else
		START_AS(d, "softmax_cross_entropy", s, all, width, cross_entropy, float, rows, *k,
			 targets_of(k), s.kept, scores, classes, slope, seen_of(d));
	count_rows(d, rows, metrics);
}

static void start_mse(struct orr_device *d, int64_t n, int64_t width, const float *prediction,
		      const float *target, float *slope, struct orr_metrics *metrics)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "mse", s, orr_address(prediction) | orr_address(target) | orr_address(slope),
	      width, squares, n, width, prediction, target, slope, seen_of(d));
	count_rows(d, n, metrics);
}

static void start_bce(struct orr_device *d, int64_t n, int64_t width, const float *scores,
		      const float *target, float *slope, struct orr_metrics *metrics)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "bce", s, orr_address(scores) | orr_address(target) | orr_address(slope), width,
	      binary_entropy, n, width, scores, target, slope, seen_of(d));
	count_rows(d, n, metrics);
}

/* ---- of classes in parts ---- */

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	class_part(int64_t n, int64_t first, int64_t width, const float *scores,
		   const float *classes, struct orr_class_part *y, float *exponentials, float *at)
{
	each_row<T>(n, [=](int64_t r) {
		const float *row = scores + r * width;
		float *to = exponentials + r * width;
		best top = {-INFINITY, width};
		struct pair sums = {0, 0}; /* of exponentials, and of what they are of */

		each_of<T, V>(width, row, [&](int64_t i, float *v) {
			for (int j = 0; j < V; j++)
				top = better(top, best{orr_score(v[j], i + j), i + j});
		});
		top = row_best<T>(top);
		each_of<T, V>(width, row, [&](int64_t i, float *v) {
			for (int j = 0; j < V; j++) {
				sums.b += v[j] - top.score;
				v[j] = orr_exp_of(v[j] - top.score);
				sums.a += v[j];
			}
			orr_store<V>(to + i, v);
		});
		sums = row_sum<T>(sums);
		if (!place<T>::x()) {
			int64_t own = orr_class_at(first, width, classes[r]);

			at[r] = (float)own;
			y[r].largest = top.score;
			y[r].place = (float)(first + top.at);
			y[r].count = (float)width;
			y[r].sum = sums.a;
			y[r].own = own < 0 ? 0.0f : row[own];
			y[r].total = sums.b;
		}
	});
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	class_part_input(int64_t n, int64_t width, const float *exponentials, const float *at,
			 const struct orr_class_part *dy, float *dx)
{
	each_row<T>(n, [=](int64_t r) {
		int64_t own = (int64_t)at[r];

		each_of<T, V>(width, exponentials + r * width, [&](int64_t i, float *v) {
			for (int j = 0; j < V; j++) {
				v[j] = dy[r].sum * v[j] + dy[r].total;
				v[j] += i + j == own ? dy[r].own : 0.0f;
			}
			orr_store<V>(dx + r * width + i, v);
		});
	});
}

static void start_class_part(struct orr_device *d, int64_t n, int64_t first, int64_t width,
			     const float *scores, const float *classes, float *y,
			     float *exponentials, float *at)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "softmax_part", s, orr_address(scores) | orr_address(exponentials), width,
	      class_part, n, first, width, scores, classes,
	      reinterpret_cast<struct orr_class_part *>(y), exponentials, at);
}

static void start_class_part_input(struct orr_device *d, int64_t n, int64_t width,
				   const float *exponentials, const float *at, const float *dy,
				   float *dx)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "softmax_part backward", s, orr_address(exponentials) | orr_address(dx), width,
	      class_part_input, n, width, exponentials, at,
	      reinterpret_cast<const struct orr_class_part *>(dy), dx);
}

/* A warp a row, of which one thread goes through the parts: they are few, and joined in double. */
__global__ void __launch_bounds__(ORR_BLOCK)
	class_parts_entropy(int64_t n, const __grid_constant__ struct orr_classes k,
			    int64_t n_parts, const struct orr_class_part *from,
			    const float *classes, struct orr_class_part *slope, struct seen *seen)
{
	each_row<32>(n, [=](int64_t r) {
		double share = (double)share_of<32>(k, classes + r / k.rows * k.rows), loss;
		struct orr_class_part *to = slope + r * n_parts;
		bool ignored = classes[r] == k.ignored;
		int64_t own = orr_class_at(0, k.width, classes[r]), at;

		if (place<32>::x())
			return;
		loss = orr_class_parts_loss(&k, n_parts, from + r * n_parts, share, to, &at);
		seen[r].loss = ignored ? 0.0f : own < 0 ? NAN : (float)loss;
		seen[r].counted = ignored ? 0 : 1;
		seen[r].correct = !ignored && own >= 0 && at == own ? 1 : 0;
		for (int64_t i = 0; i < n_parts && (ignored || own < 0); i++) {
			float all = ignored ? 0.0f : NAN;

			to[i] = orr_class_part{all, all, all, all, all, all};
		}
	});
}

static void start_class_parts_entropy(struct orr_device *d, int64_t n, const struct orr_classes *k,
				      int64_t n_parts, const float *seen, const float *classes,
				      float *slope, struct orr_metrics *metrics)
{
	int64_t rows = n * k->rows;
	struct shape s = shape_of(rows, 1, 0);

	ORR_LAUNCH(class_parts_entropy, s.grid, ORR_BLOCK, 0, d->cuda->stream, rows, *k, n_parts,
		   reinterpret_cast<const struct orr_class_part *>(seen), classes,
		   reinterpret_cast<struct orr_class_part *>(slope), seen_of(d));
	orr_cuda_ok(d, cudaGetLastError(), "softmax_cross_entropy_parts");
	count_rows(d, rows, metrics);
}

/* ---- of choices of experts ---- */

/* Probabilities to slopes. */
__global__ void __launch_bounds__(ORR_BLOCK)
	balance_slopes(const __grid_constant__ struct orr_routing r, const struct orr_routed *route,
		       const float *shares, float *slope, struct seen *seen)
{
	float scale = (float)r.experts / (float)r.rows;

	each_row<32>(r.n * r.rows, [=](int64_t i) {
		const float *own = shares + i / r.rows * r.experts;
		float *p = slope + i * r.experts, along = 0;
		int served = 0;

		each_of<32, 1>(r.experts, [&](int64_t e) { along = fmaf(own[e], p[e], along); });
		along = row_sum<32>(along);
		each_of<32, 1>(r.experts, [&](int64_t e) { p[e] *= scale * (own[e] - along); });
		for (int64_t j = 0; j < r.top; j++)
			served += route[i * r.top + j].place >= 0 ? 1 : 0;
		if (!place<32>::x())
			seen[i] = {scale * along, (int32_t)r.top, served};
	});
}

/* The shares of experts, by sample and expert, and then the slopes. */
void orr_cuda_balance(struct orr_device *d, const struct orr_routing *routing, const float *scores,
		      const float *route, float *slope, float *shares, struct orr_metrics *metrics)
{
	const struct orr_routing r = *routing;
	int64_t rows = r.n * r.rows;
	struct shape s = shape_of(rows, 1, 0);
	const struct orr_routed *from = reinterpret_cast<const struct orr_routed *>(route);

	orr_rows_cuda.softmax_forward(d, rows, r.experts, scores, slope);
	orr_each(d, "balance", r.n * r.experts, [=] __device__(int64_t i) {
		const struct orr_routed *row = from + i / r.experts * r.rows * r.top;
		float sum = 0;

		for (int64_t k = 0; k < r.rows; k++, row += r.top)
			sum += orr_routing_share(&r, i % r.experts, row);
		shares[i] = sum;
	});
	ORR_LAUNCH(balance_slopes, s.grid, ORR_BLOCK, 0, d->cuda->stream, r, from, shares, slope,
		   seen_of(d));
	orr_cuda_ok(d, cudaGetLastError(), "balance");
	count_rows(d, rows, metrics);
}

const struct orr_loss_kernels orr_losses_cuda = {
	.softmax_cross_entropy = start_softmax_cross_entropy,
	.mse = start_mse,
	.bce = start_bce,
	.class_part = start_class_part,
	.class_part_input = start_class_part_input,
	.class_parts_entropy = start_class_parts_entropy,
};
