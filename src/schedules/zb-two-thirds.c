/* The zero-bubble family at two thirds of 1F1B's memory: F runs down and B runs up without a pause.
 * [Qi24, figure 16b] draws the block and does not list it; this one is derived. One microbatch
 * every 3 cells would collide, so a block holds two, 2 cells apart, repeated every 6. On every
 * worker F and B then start an odd number of cells apart, which never is 0 modulo 6, and W takes
 * what is left. The first stage lives for 2P cells and waits for W: 2P/3 stashes. By depth, not by
 * number: it serves every DAG. */
#include "order/block.h"
#include "direct.h"

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_stages <= p->n_workers)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"zb-two-thirds needs a worker for each of the %d stages, and there are %d "
			"([workers])",
			p->n_stages, p->n_workers);
}

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	struct orr_block block = {0};
	int code = orr_block_init(&block, p, true, 2, 6, err);

	(void)data;
	for (int i = 0; !code && i < 2 * p->n_stages; i++) {
		int s = i % p->n_stages, b = i / p->n_stages, depth = p->stages[s].depth;

		block.worker[i] = s;
		block.start[orr_block_at(&block, s, b, ORR_PASS_F)] = p->depth - depth + 2 * b;
		block.start[orr_block_at(&block, s, b, ORR_PASS_B)] = p->depth + depth - 1 + 2 * b;
	}
	if (!code)
		code = orr_block_lay_out(&block, 0, out->n, NULL, err);
	orr_arrays_free(&block.all);
	return code;
}

const struct orr_schedule orr_schedule_zb_two_thirds = {
	.name = "zb-two-thirds",
	.summary = "one stage a worker, split backward: two thirds of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), figure 16b",
	.split_backward = true,
	.check = check,
	.compute = orr_compute_in_turn,
	.place = place,
};
