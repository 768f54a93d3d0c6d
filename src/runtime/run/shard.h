#ifndef ORR_RUN_SHARD_H
#define ORR_RUN_SHARD_H
/* What a rank writes of a checkpoint: tensors of the unsplit model. Of one that lies in parts on
 * several ranks they take turns: the others send theirs to one, which puts it together by itself
 * and writes it before the next. */
#include "checkpoint/checkpoint.h"
#include "parts.h"

/* Collective. states: of those stages whose replicas divide what the optimizer keeps, see
 * whole_state.h. */
int orr_run_write_shard(struct orr_run *run, const char *folder, float *const *states,
			struct orr_shard *shard, struct orr_error *err);
#endif
