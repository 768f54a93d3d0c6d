#pragma once
/* What the schedules on a V fold share. They lay stages out in a row by number, which suits every
 * DAG, since stages are numbered topologically; squeezing lets branches run side by side. */
#include "order/fold.h"
#include "orrery/schedule.h"

static inline int v_fold_check(const struct orr_pipeline *p, const void *data,
			       struct orr_error *err)
{
	(void)data;
	if (p->n_stages == 2 * p->n_workers)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"a V fold puts two stages on every worker: %d stages need %d workers%s, "
			"and there are %d ([workers], [stages])",
			p->n_stages, (p->n_stages + 1) / 2,
			p->n_stages % 2 ? " and one stage more" : "", p->n_workers);
}
