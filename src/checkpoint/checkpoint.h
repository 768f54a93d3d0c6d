#ifndef ORR_CHECKPOINT_H
#define ORR_CHECKPOINT_H
/* Checkpoints: the state of a training, a folder for every step that was kept.
 *
 *   FOLDER/step-00000120/shard-0.safetensors    the tensors of one owner, and so on
 *   FOLDER/step-00000120/manifest.json          what they are of, their sizes and checksums
 *
 * A checkpoint is written under another name, .step-00000120.tmp, and takes its own when all of it
 * is on the disk, so that one that has its name is whole, whenever the process dies.
 *
 * FOLDER is a path of the user's, which may lead over links. Nothing in it is followed: of a link
 * in the place of a step that is removed the link alone goes, and one in the place of a step,
 * shard, manifest or lock that is read is refused. */
#include <jansson.h>
#include <stdint.h>
#include "orrery/error.h"
#include "safetensors.h"

/* One file of a checkpoint. No pointers: one process can tell it another. */
struct orr_shard {
	int number;
	int64_t n_bytes;
	char checksum[ORR_CHECKSUM];
};

/* The most steps, and the most samples, that a training can have behind it. */
#define ORR_CHECKPOINT_MOST (INT64_C(1) << 53)

/* Make the folder where it is missing and keep other processes from writing there, until this one
 * ends. ORR_E_INPUT: one does. */
int orr_checkpoint_lock(const char *folder, struct orr_error *err);

/* Make the folder where it is missing, remove what was left unfinished there, and tell the newest
 * step there (whole or not), or -1. */
int orr_checkpoint_prepare(const char *folder, int64_t *newest, struct orr_error *err);

/* To write one: begin, in one process; then every owner its shard; then commit, in one process,
 * which also removes all but the last `keep` ones up to this step (0: none). After a failure,
 * abandon instead. samples: how many training has seen. about: what the state is of (borrowed). */
int orr_checkpoint_begin(const char *folder, int64_t step, struct orr_error *err);
int orr_checkpoint_write(const char *folder, int64_t step, int number,
			 const struct orr_named_tensor *tensors, int n_tensors,
			 struct orr_shard *shard, struct orr_error *err);
int orr_checkpoint_commit(const char *folder, int64_t step, int64_t samples, const json_t *about,
			  const struct orr_shard *shards, int n_shards, int keep,
			  struct orr_error *err);
void orr_checkpoint_abandon(const char *folder, int64_t step);

struct orr_checkpoint; /* one that is open to be read: all of it was there, with the right
			* checksums, and every number is finite */

/* Open the newest one that is whole, or with a step of 0 or more that one. report is called with a
 * line for each that is not whole and is passed over. */
int orr_checkpoint_open(struct orr_checkpoint **out, const char *folder, int64_t step,
			void (*report)(const char *line), struct orr_error *err);
void orr_checkpoint_close(struct orr_checkpoint *c); /* NULL is fine */
int64_t orr_checkpoint_step(const struct orr_checkpoint *c);

/* What its state is of, as it was committed; borrowed. NULL: it does not say. */
const json_t *orr_checkpoint_about(const struct orr_checkpoint *c);
/* Is it of the same? Else ORR_E_INPUT, and the message names the first thing that differs. */
int orr_checkpoint_check(const struct orr_checkpoint *c, const json_t *about,
			 struct orr_error *err);
/* Read a tensor, whichever shard it is in. */
int orr_checkpoint_read(const struct orr_checkpoint *c, const struct orr_named_tensor *tensor,
			struct orr_error *err);
#endif
