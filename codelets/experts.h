#pragma once
/* Rows that go to experts and come back, by the rules of kernels.h. A row's
 * choices are `top` struct orr_routed, one after the other; an expert's rows are groups * places a
 * sample. */
#include <stdint.h>
#include "sizes.h"

struct orr_device;

struct orr_expert_kernels {
	void (*route)(struct orr_device *d, const struct orr_routing *r, const float *scores,
		      float *route);
	void (*route_input)(struct orr_device *d, const struct orr_routing *r, const float *scores,
			    const float *route, const float *slope, float *dx);
	/* To an expert: its rows, zeros where there is none; at: for each row which of them it
	 * became, in its sample, or -1. */
	void (*dispatch)(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			 int64_t width, const float *x, const float *route, float *y, float *at);
	void (*dispatch_input)(struct orr_device *d, const struct orr_routing *r, int64_t width,
			       const float *at, const float *dy, float *dx);
	/* From an expert: its rows, times their weights, added to y. The slopes of what it gave,
	 * and of those of route that are its own; either may be NULL. */
	void (*combine)(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			int64_t width, const float *route, const float *x, float *y);
	void (*combine_input)(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			      int64_t width, const float *route, const float *x, const float *dy,
			      float *dx, float *slope);
};
#define ORR_EXPERT_KERNELS(X) \
	X(route) X(route_input) X(dispatch) X(dispatch_input) X(combine) X(combine_input)
