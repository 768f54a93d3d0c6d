#ifndef ORR_SCHEDULES_V_FOLD_H
#define ORR_SCHEDULES_V_FOLD_H
/* What the schedules on a V fold share: they differ in their cells. They lay stages out in a row by
 * number, which suits every DAG, since stages are numbered topologically; squeezing lets branches
 * run side by side. */
#include "order/fold.h"
#include "order/block.h"
#include "orrery/schedule.h"

static inline int v_fold_check(const struct orr_pipeline *p, const void *data,
			       struct orr_error *err)
{
	(void)data;
	if (p->n_stages == 2 * p->n_workers)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"a V fold puts two stages on every worker: %d stages need %d workers%s, "
			"and there are %d "
			"([workers], [stages])",
			p->n_stages, (p->n_stages + 1) / 2,
			p->n_stages % 2 ? " and one stage more" : "", p->n_workers);
}

static inline int v_fold_compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
				 const void *data)
{
	(void)b;
	(void)d;
	(void)data;
	return s < p->n_workers ? s : p->n_stages - 1 - s;
}

static inline int v_fold_lay_out(const struct orr_pipeline *p, bool split,
				 void (*cells)(int64_t P, int64_t i, int64_t *cell), int64_t *n,
				 struct orr_error *err)
{
	struct orr_block *block = NULL;
	int64_t cell[4];
	int code = orr_fold_create(&block, p, split, err);

	for (int i = 0; !code && i < p->n_workers; i++) {
		cells(p->n_workers, i, cell);
		orr_fold_set(block, i, cell);
	}
	if (!code)
		code = orr_block_lay_out(block, 0, n, NULL, err);
	orr_block_destroy(block);
	return code;
}
#endif
