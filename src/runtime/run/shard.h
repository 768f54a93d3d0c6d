#pragma once
/* What a rank writes of a checkpoint: tensors of the unsplit model. Of one that lies in parts on
 * several ranks they take turns: the others send theirs to one, which puts it together by itself
 * and writes it before the next. */
#include "checkpoint/checkpoint.h"
#include "parts.h"

/* Collective. */
int orr_shard_write(struct orr_run *run, const char *folder, struct orr_shard *shard,
		    struct orr_error *err);

/* Room for the whole state of o's stage, of which o may keep a part. */
int orr_shard_room(float **state, const struct orr_run *run, const struct orr_owned *o,
		   struct orr_error *err);
/* The part of o goes into the whole state, or comes out of it. */
void orr_shard_copy(const struct orr_run *run, const struct orr_owned *o, float *whole, float *part,
		    bool into);
