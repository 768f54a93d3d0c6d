/* V-Min: a third of 1F1B's memory. Passes that do not last equally long cost it a bubble per
 * microbatch [Qi24, section 3.3]. */
#include "v_fold.h"

static int v_min_place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		       struct orr_error *err)
{
	(void)data;
	return v_fold_lay_out(p, true, orr_fold_v_min, out->n, err);
}

extern const struct orr_schedule orr_schedule_v_min;
const struct orr_schedule orr_schedule_v_min = {
	.name = "v-min",
	.summary = "V fold, split backward: a third of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.check = v_fold_check,
	.compute = v_fold_compute,
	.place = v_min_place,
};
