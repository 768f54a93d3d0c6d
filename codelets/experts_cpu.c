/* The kernels of experts on a CPU core as a table. */
#include "experts.h"

static void route(struct orr_device *d, const struct orr_routing *r, const float *scores,
		  float *route)
{
	(void)d;
	orr_route(r, scores, route);
}

static void route_input(struct orr_device *d, const struct orr_routing *r, const float *scores,
			const float *route, const float *slope, float *dx)
{
	(void)d;
	orr_route_input(r, scores, route, slope, dx);
}

static void dispatch(struct orr_device *d, const struct orr_routing *r, int64_t expert,
		     int64_t width, const float *x, const float *route, float *y, float *at)
{
	(void)d;
	orr_dispatch(r, expert, width, x, route, y, at);
}

static void dispatch_input(struct orr_device *d, const struct orr_routing *r, int64_t width,
			   const float *at, const float *dy, float *dx)
{
	(void)d;
	orr_dispatch_input(r, width, at, dy, dx);
}

static void combine(struct orr_device *d, const struct orr_routing *r, int64_t expert,
		    int64_t width, const float *route, const float *x, float *y)
{
	(void)d;
	orr_combine(r, expert, width, route, x, y);
}

static void combine_input(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			  int64_t width, const float *route, const float *x, const float *dy,
			  float *dx, float *slope)
{
	(void)d;
	orr_combine_input(r, expert, width, route, x, dy, dx, slope);
}

static void balance(struct orr_device *d, const struct orr_routing *r, const float *scores,
		    const float *route, float *slope, float *shares, struct orr_metrics *metrics)
{
	(void)d;
	orr_balance(r, scores, route, slope, shares, metrics);
}

const struct orr_expert_kernels orr_expert_kernels_cpu = {
	.route = route,
	.route_input = route_input,
	.dispatch = dispatch,
	.dispatch_input = dispatch_input,
	.combine = combine,
	.combine_input = combine_input,
	.balance = balance,
};
