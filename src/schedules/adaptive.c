/* The shortest order of the V fold that a search over building blocks finds in a given memory. */
#include "order/offsets.h"
#include "v_fold.h"

static const struct orr_parameter parameters[] = {
	{"memory",
	 "stage stashes that a worker may hold; 0: as many as there are stages, which is 1f1b's "
	 "memory",
	 ORR_PARAMETER_STASHES, 0, 1 << 20, 0, NULL},
	{0},
};

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	int64_t memory = ((const struct orr_value *)data)->integer;

	return orr_offsets_search(p, memory ? memory : p->n_stages, out->n, err);
}

extern const struct orr_schedule orr_schedule_adaptive;
const struct orr_schedule orr_schedule_adaptive = {
	.name = "adaptive",
	.summary = "V fold, split backward: the shortest building block found for a memory limit",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix A",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.parameters = parameters,
	.check = v_fold_check,
	.compute = v_fold_compute,
	.place = place,
};
