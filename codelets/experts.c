#include "sequence.h"

#include <string.h>

#include "device.h"
#include "loops.h"

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
		orr_routing_slopes(r, scores + i * r->experts, orr_routed_of(route) + i * r->top,
				   orr_routed_of(slope) + i * r->top, dx + i * r->experts);
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
			int64_t to = orr_routing_at(r, expert, i, j, orr_routed_of(route));

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
			int64_t from = orr_routing_at(r, expert, i, j, orr_routed_of(route));

			if (from >= 0)
				orr_row_add(width, orr_routed_of(route)[i * r->top + j].weight,
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
			int64_t from = orr_routing_at(r, expert, i, j, orr_routed_of(route));

			if (from >= 0 && dx)
				orr_row_add(width, orr_routed_of(route)[i * r->top + j].weight,
					    dy + i * width, dx + from * width);
			if (from >= 0 && slope)
				slopes[i * r->top + j].weight =
					orr_row_dot(width, dy + i * width, x + from * width);
		}
}

const struct orr_expert_kernels orr_experts_cpu = {ORR_EXPERT_KERNELS(ORR_KERNEL)};
