#include "lay_out.h"

#include "weave.h"

int orr_block_lay_out_within(struct orr_block *block, int64_t stashes, int64_t *n,
			     int64_t *makespan_ns, struct orr_error *err)
{
	struct orr_weave *weave = NULL;
	int code;

	if ((code = orr_block_fill(block, err)) || (code = orr_weave_create(&weave, block, err)) ||
	    (code = orr_weave_repeat(weave, block, err)))
		goto out;
	for (int w = 0; w < block->pipeline->n_workers; w++)
		if (weave->peak[w].stashes < stashes)
			weave->peak[w] = (struct orr_held){stashes, INT64_MAX};
	orr_weave_squeeze(weave);
	if ((code = orr_weave_reorder(weave, err)))
		goto out;
	orr_weave_number(weave, n);
	if (makespan_ns)
		*makespan_ns = weave->makespan;
out:
	orr_weave_destroy(weave);
	return code;
}

int orr_block_lay_out(struct orr_block *block, int64_t *n, struct orr_error *err)
{
	return orr_block_lay_out_within(block, 0, n, NULL, err);
}
