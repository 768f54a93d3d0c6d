/* Interleaved 1F1B with microbatches at equal intervals instead of groups of P [Qi24, appendix G]:
 * the same memory and bubble, for any number of microbatches. */
#include "round_robin.h"

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	(void)data;
	return round_robin_lay_out(p, out->n, NULL, err);
}

extern const struct orr_schedule orr_schedule_interleaved_uniform;
const struct orr_schedule orr_schedule_interleaved_uniform = {
	.name = "interleaved-uniform",
	.summary = "interleaved with microbatches at equal intervals: same memory and bubble, any "
		   "number of them",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix G",
	.order = ORR_ORDER_STRICT,
	.check = round_robin_check,
	.compute = round_robin_compute,
	.place = place,
};
