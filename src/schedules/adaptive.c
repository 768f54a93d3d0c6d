/* The shortest order of the V fold that a search over building blocks finds in a given memory. */
#include "order/offsets.h"
#include "v_fold.h"

static const struct orr_parameter parameters[] = {
	{"memory",
	 "stage stashes that a worker may hold; 0: as many as there are stages, which is 1f1b's "
	 "memory",
	 0, 1 << 20, 0, ORR_PARAMETER_STASHES},
	{0},
};
static const int64_t defaults[] = {0};

static int lay_out(const struct orr_pipeline *p, const void *data, int64_t *n,
		   struct orr_error *err)
{
	int64_t memory = *(const int64_t *)data;

	return orr_offsets_search(p, memory ? memory : p->n_stages, n, err);
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
	.lay_out = lay_out,
	.data = defaults,
};
