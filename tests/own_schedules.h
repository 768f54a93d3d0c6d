#pragma once
/* Functions of schedules that tests make up, as orrery/schedule.h has them. */
#include "orrery/schedule.h"
#include "schedules/direct.h"
#include "schedules/one_f_one_b.h"

/* Each pass elsewhere. */
static inline int anywhere(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			   const void *data)
{
	(void)data;
	return (s * 7 + b * 5 + (int)d * 3) % p->n_workers;
}

static inline int64_t in_turn(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			      const void *data)
{
	(void)data;
	return one_f_one_b(p, s, b, d, p->stages[s].depth);
}

/* In flight. */
static inline int as_deep(const struct orr_pipeline *p, int s, const void *data)
{
	(void)data;
	return p->stages[s].depth;
}

static inline int two(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p, (void)s, (void)data;
	return 2;
}
