#include "kernels.h"

#include <math.h>
#include <string.h>

#include "elements.h"
#include "device.h"
#include "loops.h"
#include "sequence.h"
#include "shapes.h"
#include "vector.h"

/* p - target in double: near 1 a float keeps nothing of it. e: sum times p, and then the slope. */
ORR_VECTOR static void class_slopes(int64_t width, double target, double sum, double share,
				    float *e)
{
	for (int64_t i = 0; i < width; i++)
		e[i] = (float)(((double)e[i] - target * sum) / sum * share);
}

/* One row, made stable by taking the largest score off all of them; share: of the row in its
 * sample. Its class, which is one, has the target `whole`, the others `rest`. The slope may lie
 * where the scores do. */
static double cross_entropy(const struct orr_classes *k, const float *scores, int64_t own,
			    double share, float *slope, struct orr_metrics *seen)
{
	double rest = k->smoothing / (double)k->width, whole = 1.0 - k->smoothing + rest;
	int64_t best = orr_row_best(k->width, scores);
	double top = (double)scores[best], right = (double)scores[own], sum = 0, others = 0;
	float hit;

	for (int64_t i = 0; i < k->width && rest > 0; i++)
		others += i == own ? 0.0 : (double)scores[i] - top;
	orr_row_exps(k->width, 1, (float)top, scores, slope);
	for (int64_t i = 0; i < k->width; i++)
		sum += (double)slope[i];
	hit = slope[own];
	class_slopes(k->width, rest, sum, share, slope);
	slope[own] = (float)(((double)hit - whole * sum) / sum * share);
	seen->correct += best == own;
	return share * (log(sum) - whole * (right - top) - rest * others);
}

/* A row whose class is `class`. */
static double row_entropy(const struct orr_classes *k, const float *scores, float class,
			  double share, float *slope, struct orr_metrics *seen)
{
	if (class >= k->ignored && class <= k->ignored) {
		memset(slope, 0, (size_t)k->width * sizeof(*slope));
		return 0;
	}
	if (class >= 0.0f && class < (float)k->width && class == floorf(class))
		return cross_entropy(k, scores, (int64_t) class, share, slope, seen);
	for (int64_t i = 0; i < k->width; i++)
		slope[i] = NAN;
	return NAN;
}

/* A sample, whose scores begin at value `at` of all. */
static double sample_entropy(struct orr_device *d, const struct orr_classes *k, int64_t at,
			     const float *scores, const float *classes, float *slope,
			     struct orr_metrics *seen)
{
	double loss = 0, counted = 0, share;

	for (int64_t r = 0; r < k->rows; r++)
		counted += !(classes[r] >= k->ignored && classes[r] <= k->ignored);
	seen->classified += counted;
	share = 1.0 / counted;
	for (int64_t r = 0; r < k->rows; r++, at += k->width) {
		const float *row = orr_floats_at(d->halves, scores, at, k->width, d->workspace);
		float *to = orr_floats_to(d->halves, slope, at, d->workspace);

		loss += row_entropy(k, row, classes[r], share, to, seen);
		orr_floats_keep(d->halves, slope, at, k->width, to);
	}
	return loss;
}

static void softmax_cross_entropy(struct orr_device *d, int64_t n, const struct orr_classes *k,
				  const float *scores, const float *classes, float *slope,
				  struct orr_metrics *metrics)
{
	struct orr_metrics seen = {0};

	for (int64_t s = 0; s < n; s++)
		seen.loss += sample_entropy(d, k, s * k->rows * k->width, scores,
					    classes + s * k->rows, slope, &seen);
	if (metrics)
		*metrics = seen;
}

/* ---- of classes in parts ---- */

static void class_part(struct orr_device *d, int64_t n, int64_t first, int64_t width,
		       const float *scores, const float *classes, float *y, float *exponentials,
		       float *at)
{
	struct orr_class_part *to = (struct orr_class_part *)y;

	for (int64_t r = 0; r < n; r++, scores += width, exponentials += width) {
		int64_t best = orr_row_best(width, scores),
			own = orr_class_at(first, width, classes[r]);
		double sum = 0, total = 0;

		orr_row_exps(width, 1, scores[best], scores, exponentials);
		for (int64_t i = 0; i < width; i++) {
			sum += (double)exponentials[i];
			total += (double)scores[i] - (double)scores[best];
		}
		at[r] = (float)own;
		to[r] = (struct orr_class_part){
			scores[best], (float)(first + best),        (float)width,
			(float)sum,   own < 0 ? 0.0f : scores[own], (float)total};
	}
}

static void class_part_input(struct orr_device *d, int64_t n, int64_t width,
			     const float *exponentials, const float *at, const float *dy, float *dx)
{
	const struct orr_class_part *slopes = (const struct orr_class_part *)dy;

	for (int64_t r = 0; r < n; r++, exponentials += width, dx += width) {
		for (int64_t i = 0; i < width; i++)
			dx[i] = slopes[r].sum * exponentials[i] + slopes[r].total;
		if (at[r] >= 0)
			dx[(int64_t)at[r]] += slopes[r].own;
	}
}

static void class_parts_entropy(struct orr_device *d, int64_t n, const struct orr_classes *k,
				int64_t n_parts, const float *seen, const float *classes,
				float *slope, struct orr_metrics *metrics)
{
	const struct orr_class_part *from = (const struct orr_class_part *)seen;
	struct orr_class_part *to = (struct orr_class_part *)slope;
	struct orr_metrics all = {0};
	int64_t counted = 0, best;

	for (int64_t r = 0; r < n * k->rows; r++, from += n_parts, to += n_parts) {
		float class = classes[r];

		for (int64_t i = 0; r % k->rows == 0 && i < k->rows; i++)
			counted = (i ? counted : 0) +
				  !(classes[r + i] >= k->ignored && classes[r + i] <= k->ignored);
		if (class >= k->ignored && class <= k->ignored) {
			memset(to, 0, (size_t)n_parts * sizeof(*to));
			continue;
		}
		all.classified++;
		if (orr_class_at(0, k->width, class) < 0) {
			for (int64_t i = 0; i < n_parts; i++)
				to[i] = (struct orr_class_part){NAN, NAN, NAN, NAN, NAN, NAN};
			all.loss = NAN;
			continue;
		}
		all.loss +=
			orr_class_parts_loss(k, n_parts, from, 1.0 / (double)counted, to, &best);
		all.correct += best == (int64_t) class;
	}
	if (metrics)
		*metrics = all;
}

static void mse(struct orr_device *d, int64_t n, int64_t width, const float *prediction,
		const float *target, float *slope, struct orr_metrics *metrics)
{
	struct orr_metrics seen = {0};

	for (int64_t r = 0; r < n; r++, prediction += width, target += width, slope += width) {
		double sum = 0;

		for (int64_t i = 0; i < width; i++) {
			double difference = (double)prediction[i] - (double)target[i];

			sum += difference * difference;
			slope[i] = (float)(2.0 * difference / (double)width);
		}
		seen.loss += sum / (double)width;
	}
	if (metrics)
		*metrics = seen;
}

static void bce(struct orr_device *d, int64_t n, int64_t width, const float *scores,
		const float *target, float *slope, struct orr_metrics *metrics)
{
	struct orr_metrics seen = {.classified = (double)(n * width)};

	for (int64_t r = 0; r < n; r++, scores += width, target += width, slope += width) {
		double sum = 0;

		for (int64_t i = 0; i < width; i++) {
			double x = (double)scores[i], t = (double)target[i], e = exp(-fabs(x));

			sum += (x > 0 ? x - x * t : -x * t) + log1p(e);
			slope[i] = (float)(((x > 0 ? 1.0 / (1.0 + e) : e / (1.0 + e)) - t) /
					   (double)width);
			seen.correct += (x > 0) == (t > 0.5);
		}
		seen.loss += sum / (double)width;
	}
	if (metrics)
		*metrics = seen;
}

/* ---- of choices of experts ---- */

/* One sample; returns its loss. p: probabilities, and then slopes. */
static double balance_sample(const struct orr_routing *r, const struct orr_routed *route, float *p,
			     float *shares)
{
	double loss = 0, scale = (double)r->experts / (double)r->rows;

	memset(shares, 0, (size_t)r->experts * sizeof(*shares));
	for (int64_t i = 0; i < r->rows; i++)
		for (int64_t e = 0; e < r->experts; e++)
			shares[e] += orr_routing_share(r, e, &route[i * r->top]);
	for (int64_t i = 0; i < r->rows; i++, p += r->experts) {
		float along = orr_row_dot(r->experts, shares, p);

		for (int64_t e = 0; e < r->experts; e++)
			p[e] *= (float)scale * (shares[e] - along);
		loss += scale * (double)along;
	}
	return loss;
}

static void balance(struct orr_device *d, const struct orr_routing *r, const float *scores,
		    const float *route, float *slope, float *shares, struct orr_metrics *metrics)
{
	const struct orr_routed *routed = orr_routed_of(route);
	int64_t choices = r->rows * r->top;
	struct orr_metrics all = {.classified = (double)(r->n * choices)};

	orr_rows_cpu.softmax_forward(d, r->n * r->rows, r->experts, scores, slope);
	for (int64_t s = 0; s < r->n; s++)
		all.loss +=
			balance_sample(r, routed + s * choices, slope + s * r->rows * r->experts,
				       shares + s * r->experts);
	for (int64_t i = 0; i < r->n * choices; i++)
		all.correct += routed[i].place >= 0;
	if (metrics)
		*metrics = all;
}

const struct orr_loss_kernels orr_losses_cpu = {ORR_LOSS_KERNELS(ORR_KERNEL)};
