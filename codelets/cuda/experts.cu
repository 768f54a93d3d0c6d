/* Rows that go to experts and come back; ../experts.h. */
#include "../experts.h"
#include "rows.h"
#include "places.h"

static const struct orr_routed *routed(const float *route)
{
	return reinterpret_cast<const struct orr_routed *>(route);
}

/* Where choice j of row i lies among the expert's rows of all samples; -1: nowhere. */
__device__ inline int64_t place_of(const struct orr_routing &r, int64_t expert, int64_t i,
				   int64_t j, const struct orr_routed *route)
{
	int64_t at = orr_routing_at(&r, expert, i, route + i * r.top + j);

	return at < 0 ? -1 : i / r.rows * r.groups * r.places + at;
}

/* ---- to experts ---- */

struct choose {
	struct orr_routing r;
	const float *scores;
	struct orr_routed *route;
	__device__ void operator()(int64_t, int64_t i) const
	{
		orr_routing_choose(&r, scores + i * r.experts, route + i * r.top);
	}
};

/* One thread an expert and group: places go by the order of rows. */
struct queue {
	struct orr_routing r;
	struct orr_routed *route;
	__device__ void operator()(int64_t group, int64_t expert) const
	{
		orr_routing_queue(&r, expert, route + group * (r.rows / r.groups) * r.top);
	}
};

static void start_route(struct orr_device *d, const struct orr_routing *r, const float *scores,
			float *route)
{
	struct orr_routed *to = reinterpret_cast<struct orr_routed *>(route);

	start(d, "route", 1, r->n * r->rows, choose{*r, scores, to});
	start(d, "route", r->n * r->groups, r->experts, queue{*r, to});
}

struct route_slopes {
	struct orr_routing r;
	const float *scores;
	const struct orr_routed *route, *slope;
	float *dx;
	__device__ void operator()(int64_t, int64_t i) const
	{
		orr_routing_slopes(&r, scores + i * r.experts, route + i * r.top, slope + i * r.top,
				   dx + i * r.experts);
	}
};

static void start_route_input(struct orr_device *d, const struct orr_routing *r,
			      const float *scores, const float *route, const float *slope,
			      float *dx)
{
	start(d, "route backward", 1, r->n * r->rows,
	      route_slopes{*r, scores, routed(route), routed(slope), dx});
}

struct to_expert {
	struct orr_routing r;
	int64_t expert, width;
	const float *x;
	const struct orr_routed *route;
	float *y, *at;
	__device__ void operator()(int64_t i, int64_t c) const
	{
		int64_t own = r.groups * r.places, found = -1;

		for (int64_t j = 0; j < r.top; j++) {
			int64_t to = place_of(r, expert, i, j, route);

			if (to < 0)
				continue;
			y[to * width + c] = x[i * width + c];
			found = to % own;
		}
		if (c == 0)
			at[i] = (float)found;
	}
};

static void start_dispatch(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			   int64_t width, const float *x, const float *route, float *y, float *at)
{
	orr_cuda_zero(d, r->n * r->groups * r->places * width, y);
	start(d, "dispatch", r->n * r->rows, width,
	      to_expert{*r, expert, width, x, routed(route), y, at});
}

struct to_row {
	struct orr_routing r;
	int64_t width;
	const float *at, *dy;
	float *dx;
	__device__ void operator()(int64_t i, int64_t c) const
	{
		int64_t from = i / r.rows * r.groups * r.places + (int64_t)at[i];

		dx[i * width + c] = at[i] < 0 ? 0.0f : dy[from * width + c];
	}
};

static void start_dispatch_input(struct orr_device *d, const struct orr_routing *r, int64_t width,
				 const float *at, const float *dy, float *dx)
{
	start(d, "dispatch backward", r->n * r->rows, width, to_row{*r, width, at, dy, dx});
}

/* ---- from experts ---- */

struct weigh {
	struct orr_routing r;
	int64_t expert, width;
	const struct orr_routed *route;
	const float *x;
	float *y;
	__device__ void operator()(int64_t i, int64_t c) const
	{
		for (int64_t j = 0; j < r.top; j++) {
			int64_t from = place_of(r, expert, i, j, route);

			if (from >= 0)
				y[i * width + c] +=
					route[i * r.top + j].weight * x[from * width + c];
		}
	}
};

static void start_combine(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			  int64_t width, const float *route, const float *x, float *y)
{
	start(d, "combine", r->n * r->rows, width, weigh{*r, expert, width, routed(route), x, y});
}

struct weigh_back {
	struct orr_routing r;
	int64_t expert, width;
	const struct orr_routed *route;
	const float *dy;
	float *dx;
	__device__ void operator()(int64_t i, int64_t c) const
	{
		for (int64_t j = 0; j < r.top; j++) {
			int64_t to = place_of(r, expert, i, j, route);

			if (to >= 0)
				dx[to * width + c] =
					route[i * r.top + j].weight * dy[i * width + c];
		}
	}
};

/* The slopes of weights: products of rows, a warp a row. */
__global__ void __launch_bounds__(ORR_BLOCK)
	weight_slopes(const __grid_constant__ struct orr_routing r, int64_t expert, int64_t width,
		      const struct orr_routed *route, const float *x, const float *dy,
		      struct orr_routed *slope)
{
	each_row<32>(r.n * r.rows, [=](int64_t i) {
		for (int64_t j = 0; j < r.top; j++) {
			int64_t from = place_of(r, expert, i, j, route);
			double sum = 0;

			if (from < 0)
				continue;
			each_of<32, 1>(width, [&](int64_t c) {
				sum += (double)dy[i * width + c] * (double)x[from * width + c];
			});
			sum = row_sum<32>(sum);
			if (!place<32>::x())
				slope[i * r.top + j].weight = (float)sum;
		}
	});
}

static void start_combine_input(struct orr_device *d, const struct orr_routing *r, int64_t expert,
				int64_t width, const float *route, const float *x, const float *dy,
				float *dx, float *slope)
{
	struct shape s = shape_of(r->n * r->rows, 1, 0);

	if (dx) {
		orr_cuda_zero(d, r->n * r->groups * r->places * width, dx);
		start(d, "combine backward", r->n * r->rows, width,
		      weigh_back{*r, expert, width, routed(route), dy, dx});
	}
	if (!slope)
		return;
	ORR_LAUNCH(weight_slopes, s.grid, ORR_BLOCK, 0, d->cuda->stream, *r, expert, width,
		   routed(route), x, dy, reinterpret_cast<struct orr_routed *>(slope));
	orr_cuda_ok(d, cudaGetLastError(), "combine backward");
}

const struct orr_expert_kernels orr_experts_cuda = {
	.route = start_route,
	.route_input = start_route_input,
	.dispatch = start_dispatch,
	.dispatch_input = start_dispatch_input,
	.combine = start_combine,
	.combine_input = start_combine_input,
	.balance = orr_cuda_balance,
};
