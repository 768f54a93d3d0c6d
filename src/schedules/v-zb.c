/* V-ZB: no bubble but the staggered start, in 1F1B's memory. */
#include "v_fold.h"

static int v_zb_place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		      struct orr_error *err)
{
	(void)data;
	return v_fold_lay_out(p, true, orr_fold_v_zb, out->n, err);
}

extern const struct orr_schedule orr_schedule_v_zb;
const struct orr_schedule orr_schedule_v_zb = {
	.name = "v-zb",
	.summary = "V fold, split backward: 1f1b's memory and next to no bubble",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.check = v_fold_check,
	.compute = v_fold_compute,
	.place = v_zb_place,
};
