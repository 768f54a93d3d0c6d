#pragma once
/* Tensors to and from a checkpoint. */
#include <jansson.h>
#include "orrery/run.h"
#include "manifest.h"
#include "safetensors.h"

/* To write one: begin, in one process; then every owner its shard; then commit, in one process,
 * which also removes all but the last `keep` ones up to this step (0: none). After a failure,
 * abandon instead. n_shards: how many, from number 0 on. samples: seen by training so far. about:
 * the graph, data and options of the state (borrowed). */
int orr_checkpoint_begin(const char *folder, int64_t step, int n_shards, struct orr_error *err);
int orr_checkpoint_write(const char *folder, int64_t step, int number,
			 const struct orr_named_tensor *tensors, int n_tensors,
			 struct orr_shard *shard, struct orr_error *err);
int orr_checkpoint_commit(const char *folder, int64_t step, int64_t samples, const json_t *about,
			  const struct orr_shard *shards, int n_shards, int keep,
			  struct orr_error *err);
void orr_checkpoint_abandon(const char *folder, int64_t step);
/* Or commit with 0, and then only this step is kept: the next one is written over the one before.
 */
void orr_checkpoint_recycle(const char *folder, int64_t step);
/* Or this step is removed, though it was committed. */
void orr_checkpoint_drop(const char *folder, int64_t step);
/* All other steps, older, newer or unfinished, are removed; or, spares, the next one is written
 * over one of them. */
void orr_checkpoint_keep(const char *folder, int64_t step, bool spares);
/* Where the shards of the step are written, of others', too; the caller's to close. */
int orr_checkpoint_unfinished(struct orr_folder *unfinished, const char *folder, int64_t step,
			      struct orr_error *err);

/* One whose shards lie in several folders, each in one of them at least; each of these has the
 * manifest. */

/* The newest step up to `last` by its name, or -1. */
int64_t orr_checkpoint_newest(const char *folder, int64_t last);
/* *manifest is the caller's; NULL after a failure. */
int orr_checkpoint_manifest(json_t **manifest, const char *folder, int64_t step,
			    struct orr_error *err);
/* Is shard i of the manifest *there? Then it is read through: 0 where it is as it was written. */
int orr_checkpoint_has(const char *folder, int64_t step, const json_t *manifest, int i, bool *there,
		       struct orr_error *err);
/* Open it with some shards here, which have been read through, and a reader of the others (its
 * number is that of the shard); end is called once when it is closed. All is borrowed. */
struct orr_checkpoint_spread {
	const bool *here; /* [n_shards] */
	int (*read)(const struct orr_tensor_reader *reader, void *to, size_t n, int64_t at);
	void (*end)(void *user);
	void *user;
};
int orr_checkpoint_open_spread(struct orr_checkpoint **out, const char *folder, int64_t step,
			       json_t *manifest, const struct orr_checkpoint_spread *spread,
			       struct orr_error *err);

/* What its state is of, as it was committed; borrowed. NULL: it does not say. */
const json_t *orr_checkpoint_about(const struct orr_checkpoint *c);
/* Is it of the same? Else ORR_E_INPUT, and the message names the first thing that differs. */
int orr_checkpoint_check(const struct orr_checkpoint *c, const json_t *about,
			 struct orr_error *err);
/* Read a tensor, whichever shard it is in. */
int orr_checkpoint_read(const struct orr_checkpoint *c, const struct orr_named_tensor *tensor,
			struct orr_error *err);
