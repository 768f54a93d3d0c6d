#include "experts.h"

#include <string.h>

#include "kernels.h"
#include "loops.h"
#include "sequence.h"

static const struct orr_routed *routed(const float *route)
{
	return (const struct orr_routed *)route;
}

static void route(struct orr_device *d, const struct orr_routing *r, const float *scores,
		  float *route)
{
	struct orr_routed *to = (struct orr_routed *)route;
	int64_t group = r->rows / r->groups * r->top;

	for (int64_t i = 0; i < r->n * r->rows; i++)
		orr_routing_choose(r, scores + i * r->experts, to + i * r->top);
	for (int64_t g = 0; g < r->n * r->groups; g++)
		for (int64_t e = 0; e < r->experts; e++)
			orr_routing_queue(r, e, to + g * group);
}

static void route_input(struct orr_device *d, const struct orr_routing *r, const float *scores,
			const float *route, const float *slope, float *dx)
{
	for (int64_t i = 0; i < r->n * r->rows; i++)
		orr_routing_slopes(r, scores + i * r->experts, routed(route) + i * r->top,
				   routed(slope) + i * r->top, dx + i * r->experts);
}

static void dispatch(struct orr_device *d, const struct orr_routing *r, int64_t expert,
		     int64_t width, const float *x, const float *route, float *y, float *at)
{
	int64_t own = r->groups * r->places;
	size_t bytes = (size_t)width * sizeof(*y);

	memset(y, 0, (size_t)(r->n * own) * bytes);
	for (int64_t i = 0; i < r->n * r->rows; i++) {
		at[i] = -1;
		for (int64_t j = 0; j < r->top; j++) {
			int64_t to = orr_routing_at(r, expert, i, j, routed(route));

			if (to < 0)
				continue;
			memcpy(y + to * width, x + i * width, bytes);
			at[i] = (float)(to % own);
		}
	}
}

static void dispatch_input(struct orr_device *d, const struct orr_routing *r, int64_t width,
			   const float *at, const float *dy, float *dx)
{
	size_t bytes = (size_t)width * sizeof(*dx);

	for (int64_t i = 0; i < r->n * r->rows; i++, dx += width) {
		int64_t from = i / r->rows * r->groups * r->places;

		if (at[i] < 0)
			memset(dx, 0, bytes);
		else
			memcpy(dx, dy + (from + (int64_t)at[i]) * width, bytes);
	}
}

static void combine(struct orr_device *d, const struct orr_routing *r, int64_t expert,
		    int64_t width, const float *route, const float *x, float *y)
{
	for (int64_t i = 0; i < r->n * r->rows; i++)
		for (int64_t j = 0; j < r->top; j++) {
			int64_t from = orr_routing_at(r, expert, i, j, routed(route));

			if (from >= 0)
				orr_row_add(width, routed(route)[i * r->top + j].weight,
					    x + from * width, y + i * width);
		}
}

static void combine_input(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			  int64_t width, const float *route, const float *x, const float *dy,
			  float *dx, float *slope)
{
	struct orr_routed *slopes = (struct orr_routed *)slope;

	if (dx)
		memset(dx, 0, (size_t)(r->n * r->groups * r->places * width) * sizeof(*dx));
	for (int64_t i = 0; i < r->n * r->rows; i++)
		for (int64_t j = 0; j < r->top; j++) {
			int64_t from = orr_routing_at(r, expert, i, j, routed(route));

			if (from >= 0 && dx)
				orr_row_add(width, routed(route)[i * r->top + j].weight,
					    dy + i * width, dx + from * width);
			if (from >= 0 && slope)
				slopes[i * r->top + j].weight =
					orr_row_dot(width, dy + i * width, x + from * width);
		}
}

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
	int64_t choices = r->rows * r->top;
	struct orr_metrics all = {.classified = r->n * choices};

	orr_rows_cpu.softmax_forward(d, r->n * r->rows, r->experts, scores, slope);
	for (int64_t s = 0; s < r->n; s++)
		all.loss +=
			balance_sample(r, routed(route) + s * choices,
				       slope + s * r->rows * r->experts, shares + s * r->experts);
	for (int64_t i = 0; i < r->n * choices; i++)
		all.correct += routed(route)[i].place >= 0;
	if (metrics)
		*metrics = all;
}

const struct orr_expert_kernels orr_experts_cpu = {
	.route = route,
	.route_input = route_input,
	.dispatch = dispatch,
	.dispatch_input = dispatch_input,
	.combine = combine,
	.combine_input = combine_input,
	.balance = balance,
};
