#pragma once
/* Rows that go to experts and come back, by the rules of kernels.h. A row's
 * choices are `top` struct orr_routed, one after the other; an expert's rows are groups * places a
 * sample. */
#include <stdint.h>
#include "sizes.h"

struct orr_device;
struct orr_metrics; /* kernels.h */

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
	/* Of a sample: experts times the sum over them of the share of rows whose first choice it
	 * is, times its mean probability [Fedus22]. slope: by the scores, the shares being
	 * constants; shares, room for n * experts. metrics (NULL: not wanted): their sum over the
	 * samples; counted are choices, correct those that have a place. */
	void (*balance)(struct orr_device *d, const struct orr_routing *r, const float *scores,
			const float *route, float *slope, float *shares,
			struct orr_metrics *metrics);
};
extern const struct orr_expert_kernels orr_experts_cpu, orr_experts_cuda;
