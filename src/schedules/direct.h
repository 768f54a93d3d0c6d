#pragma once
/* The built-in schedules, in the order in which they are listed: all but auto, whose search starts
 * from them. X(name) of orr_schedule_name. */
#include "orrery/schedule.h"

/* clang-format off */
#define ORR_DIRECT_SCHEDULES(X) \
	X(ddp) \
	X(fsdp) \
	X(gpipe) \
	X(lpp) \
	X(fslpp) \
	X(1f1b) \
	X(eager_1f1b) \
	X(interleaved) \
	X(zb_h1) \
	X(zb_h2) \
	X(zb_1p) \
	X(zb_2p) \
	X(zb_two_thirds) \
	X(v_min) \
	X(v_half) \
	X(v_zb) \
	X(adaptive) \
	X(1f1b_v) \
	X(interleaved_uniform) \
	X(interleaved_low_memory) \
	X(chimera) \
	X(gems) \
	X(hanayo) \
	X(dualpipe_v) \
	X(1f1b_r) \
	X(pipedream) \
	X(1f1b_star) \
	X(k_periodic)
/* clang-format on */

#define ORR_DECLARE_SCHEDULE(name) extern const struct orr_schedule orr_schedule_##name;
ORR_DIRECT_SCHEDULES(ORR_DECLARE_SCHEDULE)

/* Stage s on worker s mod P: with fewer workers than stages placements wrap around. */
static inline int orr_compute_in_turn(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
				      const void *data)
{
	(void)b, (void)d, (void)data;
	return s % p->n_workers;
}
/* The V of stages, down the workers and up again, and again. */
static inline int orr_compute_folded(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
				     const void *data)
{
	int w = s % p->n_workers;

	(void)b, (void)d, (void)data;
	return s / p->n_workers % 2 ? p->n_workers - 1 - w : w;
}
