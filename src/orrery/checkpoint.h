#ifndef ORR_CHECKPOINT_H
#define ORR_CHECKPOINT_H
/* Checkpoints: the state of a training, a folder for every step that was kept. state.h saves a run
 * to one and goes on from one.
 *
 *   FOLDER/step-00000120/shard-0.safetensors    the tensors of one owner, and so on
 *   FOLDER/step-00000120/manifest.json          what they are of, their sizes and checksums
 *
 * A checkpoint is written under another name, .step-00000120.tmp, and is renamed once it is fully
 * on disk, so that one that has its name is whole, whenever the process dies.
 *
 * FOLDER is a path of the user's, which may lead over links. Nothing in it is followed: of a link
 * in the place of a step that is removed the link alone goes, and one in the place of a step,
 * shard, manifest or lock that is read is refused. */
#include <stdint.h>
#include "error.h"

ORR_BEGIN

struct orr_checkpoint; /* one that is open to be read: all of it was there, with the right
			* checksums, and every number is finite */

/* Make the folder where it is missing and keep other processes from writing there, until this one
 * ends. ORR_E_INPUT: one does. */
int orr_checkpoint_lock(const char *folder, struct orr_error *err);

/* Make the folder where it is missing, remove what was left unfinished there, and tell the newest
 * step there (whole or not), or -1. */
int orr_checkpoint_prepare(const char *folder, int64_t *newest, struct orr_error *err);

/* Open the newest one that is whole, or with a step of 0 or more that one. report (may be NULL) is
 * called with a line for each that is not whole and is passed over. */
int orr_checkpoint_open(struct orr_checkpoint **out, const char *folder, int64_t step,
			void (*report)(const char *line), struct orr_error *err);
void orr_checkpoint_close(struct orr_checkpoint *c); /* NULL is fine */
int64_t orr_checkpoint_step(const struct orr_checkpoint *c);

ORR_END
#endif
