#pragma once
/* The automatic schedules of Zero Bubble Pipeline Parallelism [Qi24ZB, section 3.1]: a
 * greedy order under a limit of memory, tried with every combination of its rules; the best by
 * exact times is kept. It counts the latency of a transfer (the machine's latency_ns), and
 * bandwidth not at all.
 *
 * A microbatch enters and leaves the DAG in turn, by depth and not by number, so branches need no
 * care; stages of one worker (s mod n_workers) share its time. */
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

struct orr_zero_bubble {
	int most;    /* whole stashes that a stage may hold */
	int percent; /* of a stash that W still reads; B frees the rest. The simulator keeps stashes
			whole until W ends, that is 100 */
};

/* n of every job, as lay_out of a schedule with a split backward wants it: the smallest span, then
 * the smallest makespan, then the first found. Never worse than zb-h1, nor than zb-h2 where it
 * fits. */
int orr_zero_bubble(const struct orr_pipeline *p, const struct orr_zero_bubble *limit, int64_t *n,
		    struct orr_error *err);

/* 1F1B with the backward split, in closed form, on any stage DAG: after k forwards B, W and F take
 * turns, and W lags so far behind B that every stage holds `most` microbatches. What lags on the
 * stages near a sink fills their idle time at the end, and no weight gradient stands in the way of
 * the gradients before it.
 *
 * n grows along every edge of the DAG and from F to B to W of a stage as long as depth(s) <= k <=
 * most and k grows with depth, so no placement of it can deadlock. */
static inline int64_t split_one_f_one_b(const struct orr_pipeline *p, int s, int64_t b,
					enum orr_pass d, int k, int most)
{
	int64_t n = p->stages[s].depth;

	switch (d) {
	case ORR_PASS_F: /* just after B of b - k, and W if there is one to be run */
		n += 3 * (b - k) + 2;
		break;
	case ORR_PASS_B:
		n += 3 * b;
		break;
	case ORR_PASS_W: /* just before F of b + most */
		n += 3 * (b + most - k) + 1;
		break;
	}
	return n * p->n_stages + s;
}

/* zb-h1 has k and most of the depth of the stage and of the pipeline, and zb-h2, with times 2,
 * nearly twice as many. */
static inline int split_one_f_one_b_at_once(int depth, int times)
{
	return times * (depth - 1) + 1;
}
