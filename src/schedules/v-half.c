/* V-Half: half of 1F1B's memory. No bubble grows with the microbatches while tW + 2tB >= 2tF and
 * tW + 2tF >= 2tB [Qi24, appendix E.1]. */
#include "v_fold.h"

static int v_half_place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
			struct orr_error *err)
{
	(void)data;
	return v_fold_lay_out(p, true, orr_fold_v_half, out->n, err);
}

extern const struct orr_schedule orr_schedule_v_half;
const struct orr_schedule orr_schedule_v_half = {
	.name = "v-half",
	.summary = "V fold, split backward: half of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.check = v_fold_check,
	.compute = v_fold_compute,
	.place = v_half_place,
};
