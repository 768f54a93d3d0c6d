/* 1F1B on a V fold: two thirds of 1F1B's memory without splitting the backward, and less of a
 * bubble. [Qi24, appendix H] draws the block and does not list it; this one is derived. Forward
 * passes are one cell apart. B takes 2 cells, and the two forward passes of a worker leave room for
 * two Bs: Bs follow each other at once, but every third waits 3 cells, so that a worker's Bs stay 3
 * apart modulo 6. The stages of a worker live for 8P cells together: 8P/6 stage stashes, two thirds
 * of P whole ones. Which B is the first to wait, and whether the first of all does, is tried: two
 * ways of six do not collide. */
#include <stdlib.h>
#include <string.h>

#include "order/block.h"
#include "direct.h"
#include "v_fold.h"

/* When B runs after `hops` others, if the first waits `gap` and is the phase-th of three. */
static int64_t backward(int64_t P, int64_t hops, int64_t gap, int64_t phase)
{
	return 2 * P + gap + 2 * hops + 3 * ((hops + phase) / 3);
}

static int place_1f1b_v(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
			struct orr_error *err)
{
	size_t size = (size_t)p->n_stages * (size_t)p->n_microbatches * 2 * sizeof(*out->n);
	int64_t P = p->n_workers, peak = 2 * (2 * P / 3 + 1), best_ns = INT64_MAX, makespan_ns;
	int64_t *tried = malloc(size);
	struct orr_block *block = NULL;
	int code = tried ? orr_fold_create(&block, p, false, err) : orr_no_memory(err, "1f1b-v");

	(void)data;
	for (int way = 0; !code && way < 6; way++) {
		int64_t gap = way % 2 * 3, phase = way / 2;

		for (int64_t i = 0; i < P; i++)
			orr_fold_set(block, (int)i,
				     (const int64_t[]){i, 2 * P - 1 - i, backward(P, i, gap, phase),
						       backward(P, 2 * P - 1 - i, gap, phase)});
		if ((code = orr_block_fill(block, err)) == ORR_E_INPUT) {
			code = way < 5 || best_ns < INT64_MAX ? 0 : code;
			continue;
		}
		if (!code)
			code = orr_block_lay_out(block, peak, tried, &makespan_ns, err);
		if (!code && makespan_ns < best_ns) {
			best_ns = makespan_ns;
			memcpy(out->n, tried, size);
		}
	}
	orr_block_destroy(block);
	free(tried);
	return code;
}

const struct orr_schedule orr_schedule_1f1b_v = {
	.name = "1f1b-v",
	.summary = "V fold, whole backward: two thirds of 1f1b's memory",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix H",
	.check = v_fold_check,
	.compute = orr_compute_folded,
	.place = place_1f1b_v,
};
