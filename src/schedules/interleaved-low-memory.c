/* Interleaved 1F1B with its bubble in less memory [Qi24, appendix H]: about vP stage stashes
 * instead of vP + P - 1. The block has the stages of a worker as close as Bs allow, or as close as
 * interleaved-uniform has them; warm-up and cool-down get the least memory with which they end as
 * early. */
#include <stdlib.h>
#include <string.h>

#include "order/lay_out.h"
#include "round_robin.h"

#define MARGIN 6 /* stashes above one microbatch a stage that are tried one by one */

/* The first that is no longer than bound_ns replaces n. */
static int find_least(const struct orr_pipeline *p, int64_t k, int64_t bound_ns, int64_t *tried,
		      int64_t *n, bool *found, struct orr_error *err)
{
	size_t size = (size_t)p->n_stages * (size_t)p->n_microbatches * 2 * sizeof(*n);
	struct orr_block *block = NULL;
	int64_t makespan_ns, published = round_robin_published_peak(p);
	int code = round_robin_block(&block, p, k, err);

	for (int64_t peak = p->n_stages;
	     !code && !*found && peak < p->n_stages + MARGIN && peak < published; peak++) {
		code = orr_block_lay_out_within(block, peak, tried, &makespan_ns, err);
		if (!code && makespan_ns <= bound_ns && (*found = true))
			memcpy(n, tried, size);
	}
	orr_block_destroy(block);
	return code;
}

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	int64_t *tried =
		calloc((size_t)p->n_stages * (size_t)p->n_microbatches * 2, sizeof(*tried));
	int64_t bound_ns;
	bool found = false;
	int code;

	(void)data;
	if (!tried)
		return orr_fail(err, ORR_E_NOMEM, "interleaved-low-memory: no memory");
	if (!(code = round_robin_lay_out(p, out->n, &bound_ns, err)) &&
	    !(code = find_least(p, (2 * p->n_workers + 2) / 3, bound_ns, tried, out->n, &found,
				err)))
		code = find_least(p, p->n_workers, bound_ns, tried, out->n, &found, err);
	free(tried);
	return code;
}

extern const struct orr_schedule orr_schedule_interleaved_low_memory;
const struct orr_schedule orr_schedule_interleaved_low_memory = {
	.name = "interleaved-low-memory",
	.summary = "interleaved with the same bubble in less memory",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix H",
	.order = ORR_ORDER_STRICT,
	.check = round_robin_check,
	.compute = round_robin_compute,
	.place = place,
};
