#pragma once
/* What microbatches cost where they differ: the table is made by microbatches.h. */
#include <stdint.h>

/* Of one microbatch on one stage; the fields are those of struct orr_stage. */
struct orr_cost {
	int64_t forward_ns, backward_ns, weight_ns;
	int64_t stash_bytes, input_bytes, again_bytes, again_all_bytes;
};

struct orr_stage;
struct orr_cost orr_cost_of_stage(const struct orr_stage *stage);

struct orr_microbatches {
	int n;                           /* microbatches of the step */
	struct orr_cost *costs;          /* [n * n_stages] of (s,b): costs[b * n_stages + s]; owned,
					    with the others as one block */
	int64_t *bytes, *gradient_bytes; /* [n * n_edges] of edge e: bytes[b * n_edges + e] */
	int64_t *outputs;                /* [n * n_outputs] the same of outputs */
};
