/* Rows that go to experts and come back. */
#include "../sequence.h"
#include "rows.h"

/* ---- to experts ---- */

/* Places go by the order of rows: one thread an expert and group. */
static void route(struct orr_device *d, const struct orr_routing *routing, const float *scores,
		  float *route)
{
	const struct orr_routing r = *routing;
	struct orr_routed *to = reinterpret_cast<struct orr_routed *>(route);

	start(d, "route", 1, r.n * r.rows, [=] __device__(int64_t, int64_t i) {
		orr_routing_choose(&r, scores + i * r.experts, to + i * r.top);
	});
	start(d, "route", r.n * r.groups, r.experts, [=] __device__(int64_t group, int64_t expert) {
		orr_routing_queue(&r, expert, to + group * (r.rows / r.groups) * r.top);
	});
}

static void route_input(struct orr_device *d, const struct orr_routing *routing,
			const float *scores, const float *route, const float *slope, float *dx)
{
	const struct orr_routing r = *routing;
	const struct orr_routed *at = orr_routed_of(route), *slopes = orr_routed_of(slope);

	start(d, "route backward", 1, r.n * r.rows, [=] __device__(int64_t, int64_t i) {
		orr_routing_slopes(&r, scores + i * r.experts, at + i * r.top, slopes + i * r.top,
				   dx + i * r.experts);
	});
}

static void dispatch(struct orr_device *d, const struct orr_routing *routing, int64_t expert,
		     int64_t width, const float *x, const float *route, float *y, float *at)
{
	const struct orr_routing r = *routing;
	const struct orr_routed *choices = orr_routed_of(route);
	const int64_t own = r.groups * r.places;

	orr_elements_cuda.zero(d, r.n * own * width, y);
	start(d, "dispatch", r.n * r.rows, width, [=] __device__(int64_t i, int64_t c) {
		int64_t found = -1;

		for (int64_t j = 0; j < r.top; j++) {
			int64_t to = orr_routing_at(&r, expert, i, j, choices);

			if (to < 0)
				continue;
			y[to * width + c] = x[i * width + c];
			found = to % own;
		}
		if (c == 0)
			at[i] = (float)found;
	});
}

static void dispatch_input(struct orr_device *d, const struct orr_routing *routing, int64_t width,
			   const float *at, const float *dy, float *dx)
{
	const struct orr_routing r = *routing;

	start(d, "dispatch backward", r.n * r.rows, width, [=] __device__(int64_t i, int64_t c) {
		int64_t from = i / r.rows * r.groups * r.places + (int64_t)at[i];

		dx[i * width + c] = at[i] < 0 ? 0.0f : dy[from * width + c];
	});
}

/* ---- from experts ---- */

static void combine(struct orr_device *d, const struct orr_routing *routing, int64_t expert,
		    int64_t width, const float *route, const float *x, float *y)
{
	const struct orr_routing r = *routing;
	const struct orr_routed *choices = orr_routed_of(route);

	start(d, "combine", r.n * r.rows, width, [=] __device__(int64_t i, int64_t c) {
		for (int64_t j = 0; j < r.top; j++) {
			int64_t from = orr_routing_at(&r, expert, i, j, choices);

			if (from >= 0)
				y[i * width + c] +=
					choices[i * r.top + j].weight * x[from * width + c];
		}
	});
}

static void combine_input(struct orr_device *d, const struct orr_routing *routing, int64_t expert,
			  int64_t width, const float *route, const float *x, const float *dy,
			  float *dx, float *slope)
{
	const struct orr_routing r = *routing;
	const struct orr_routed *choices = orr_routed_of(route);
	struct orr_routed *slopes = reinterpret_cast<struct orr_routed *>(slope);

	if (dx) {
		orr_elements_cuda.zero(d, r.n * r.groups * r.places * width, dx);
		start(d, "combine backward", r.n * r.rows, width,
		      [=] __device__(int64_t i, int64_t c) {
			      for (int64_t j = 0; j < r.top; j++) {
				      int64_t to = orr_routing_at(&r, expert, i, j, choices);

				      if (to >= 0)
					      dx[to * width + c] = choices[i * r.top + j].weight *
								   dy[i * width + c];
			      }
		      });
	}
	if (!slope)
		return;
	by_warp(d, "combine backward", r.n * r.rows, [=] __device__(auto t, int64_t i) {
		for (int64_t j = 0; j < r.top; j++) {
			int64_t from = orr_routing_at(&r, expert, i, j, choices);
			double sum = 0;

			if (from < 0)
				continue;
			t.each(width, [&](int64_t c) {
				sum += (double)dy[i * width + c] * (double)x[from * width + c];
			});
			sum = t.sum(sum);
			if (!t.x())
				slopes[i * r.top + j].weight = (float)sum;
		}
	});
}

const struct orr_expert_kernels orr_experts_cuda = {ORR_EXPERT_KERNELS(ORR_KERNEL)};
