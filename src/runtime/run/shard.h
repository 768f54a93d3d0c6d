#pragma once
/* What a rank writes of a checkpoint: tensors of the unsplit model. Of one that lies in parts on
 * several ranks they take turns: the others send theirs to one, which puts it together by itself
 * and writes it before the next. */
#include "checkpoint/checkpoint.h"
#include "parts.h"

/* Collective: parameters and their state stay as they are, what would change them waits, until the
 * shard is written. */
struct orr_shard_plan;
int orr_shard_begin(struct orr_shard_plan **out, const struct orr_run *run, struct orr_error *err);
/* Is all of it in main memory, and this rank's own? Then any thread may write it. */
bool orr_shard_is_alone(const struct orr_shard_plan *x);
/* Once; x goes, whatever comes of it. */
int orr_shard_write(struct orr_shard_plan *x, const char *folder, int64_t step,
		    struct orr_shard *shard, struct orr_error *err);

/* Room for the whole state of o's stage, of which o may keep a part. */
int orr_shard_room(float **state, const struct orr_run *run, const struct orr_owned *o,
		   struct orr_error *err);
/* The part of o goes into the whole state, or comes out of it. */
void orr_shard_copy(const struct orr_run *run, const struct orr_owned *o, float *whole, float *part,
		    bool into);
