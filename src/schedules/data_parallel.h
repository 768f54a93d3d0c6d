#ifndef ORR_DATA_PARALLEL_H
#define ORR_DATA_PARALLEL_H
/* What ddp and fsdp share: where and when microbatches run. Only the owners differ. */
#include "orrery/schedule.h"

static inline int data_parallel_compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
					const void *data)
{
	(void)s, (void)d, (void)data;
	return b % p->n_workers;
}

/* Forward through the stages, then backward, then the next microbatch. */
static inline int64_t data_parallel_priority(const struct orr_pipeline *p, int s, int b,
					     enum orr_pass d, const void *data)
{
	int64_t place = d == ORR_PASS_F ? s : 2 * p->n_stages - 1 - s;

	(void)data;
	return (int64_t)b * 2 * p->n_stages + place;
}
#endif
