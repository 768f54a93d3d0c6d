#pragma once
/* The manifest of a checkpoint: JSON with the step, what its state is of, its shards with their
 * checksums, and a checksum of its own. */
#include <jansson.h>
#include "checksum.h"
#include "folder.h"
#include "orrery/orrery.h"

/* The most steps, and the most samples, that a training can have behind it. */
#define ORR_CHECKPOINT_MOST (INT64_C(1) << 53)

/* One file of a checkpoint. No pointers: one process can tell it another. */
struct orr_shard {
	int number;
	int64_t n_bytes;
	char checksum[ORR_CHECKSUM];
};

int orr_manifest_write(const struct orr_folder *folder, int64_t step, int64_t samples,
		       const json_t *about, const struct orr_shard *shards, int n_shards,
		       struct orr_error *err);
/* That of a folder, which is of this step; *manifest is the caller's, after a failure as well. */
int orr_manifest_read(json_t **manifest, const struct orr_folder *folder, int64_t step,
		      struct orr_error *err);
/* The manifest `what`. */
int orr_manifest_fail(const struct orr_folder *folder, const char *what, struct orr_error *err);
