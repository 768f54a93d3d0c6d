#include "order/offsets.h"
#include "direct.h"
#include "v_fold.h"

/* data: the published block. */
static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	struct orr_block *block = NULL;
	int code = orr_fold_create(&block, p, true, err);

	if (!code) {
		orr_fold_publish(block, *(const enum orr_fold *)data);
		code = orr_block_lay_out(block, 0, out->n, NULL, err);
	}
	orr_block_destroy(block);
	return code;
}

/* V-Min: a third of 1F1B's memory. Passes that do not last equally long cost it a bubble per
 * microbatch [Qi24, section 3.3]. */
const struct orr_schedule orr_schedule_v_min = {
	.name = "v-min",
	.summary = "V fold, split backward: a third of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.split_backward = true,
	.check = v_fold_check,
	.compute = orr_compute_folded,
	.place = place,
	.data = &(const enum orr_fold){ORR_FOLD_V_MIN},
};

/* V-Half: half of 1F1B's memory. No bubble grows with the microbatches while tW + 2tB >= 2tF and
 * tW + 2tF >= 2tB [Qi24, appendix E.1]. */
const struct orr_schedule orr_schedule_v_half = {
	.name = "v-half",
	.summary = "V fold, split backward: half of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.split_backward = true,
	.check = v_fold_check,
	.compute = orr_compute_folded,
	.place = place,
	.data = &(const enum orr_fold){ORR_FOLD_V_HALF},
};

/* V-ZB: no bubble but the staggered start, in 1F1B's memory. */
const struct orr_schedule orr_schedule_v_zb = {
	.name = "v-zb",
	.summary = "V fold, split backward: 1f1b's memory and next to no bubble",
	.paper = "Qi et al. 2024 (Controllable Memory), section 3.2",
	.split_backward = true,
	.check = v_fold_check,
	.compute = orr_compute_folded,
	.place = place,
	.data = &(const enum orr_fold){ORR_FOLD_V_ZB},
};

/* The shortest order of the V fold that a search over building blocks finds in a given memory. */
static const struct orr_parameter parameters[] = {
	{"memory",
	 "stage stashes that a worker may hold; 0: as many as there are stages, which is 1f1b's "
	 "memory",
	 ORR_PARAMETER_STASHES, 0, 1 << 20, 0, NULL},
	{0},
};

static int adaptive_place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
			  struct orr_error *err)
{
	int64_t memory = ((const struct orr_value *)data)->integer;

	return orr_offsets_search(p, memory ? memory : p->n_stages, out->n, err);
}

const struct orr_schedule orr_schedule_adaptive = {
	.name = "adaptive",
	.summary = "V fold, split backward: the shortest building block found for a memory limit",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix A",
	.split_backward = true,
	.parameters = parameters,
	.check = v_fold_check,
	.compute = orr_compute_folded,
	.place = adaptive_place,
};
