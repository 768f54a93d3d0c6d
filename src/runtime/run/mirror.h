#pragma once
/* A copy on several hosts: each rank's shard goes to a rank of the next host, too, which writes it
 * in the folder of its own. */
#include "checkpoint/manifest.h"
#include "runtime/peers/hosts.h"

/* All ranks, in a thread of each, once its own shard is written, or has failed: then it has no
 * bytes. 0: this one has all that it is to keep, as others have written it. */
int orr_mirror_shards(const struct orr_hosts *hosts, int64_t step, const struct orr_shard *own,
		      struct orr_error *err);
