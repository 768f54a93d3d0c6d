#ifndef ORR_CHECKPOINT_H
#define ORR_CHECKPOINT_H
/* Checkpoints: the state of a training, one folder per saved step. state.h saves a run to one and
 * resumes from one.
 *
 *   FOLDER/step-00000120/shard-0.safetensors    the tensors of one owner, and so on
 *   FOLDER/step-00000120/manifest.json          what they are of, their sizes and checksums
 *
 * A checkpoint is written under another name, .step-00000120.tmp, and is renamed once it is fully
 * on disk, so a checkpoint under its own name is whole, whenever the process dies.
 *
 * FOLDER may be reached through symbolic links. Links inside it are never followed: removing a step
 * that is a link removes the link alone, and a link in place of a step, shard, manifest or lock to
 * be read is refused. FOLDER/best is a folder of its own, inside that one: never a link either. */
#include <stdint.h>
#include <stdio.h>
#include "error.h"

ORR_BEGIN

struct orr_graph;
struct orr_checkpoint; /* an open checkpoint: complete, with the right checksums, and every number
			  finite */

/* Create the folder if it is missing and lock it against other processes until this one ends.
 * ORR_E_INPUT: another process holds the lock. */
int orr_checkpoint_lock(const char *folder, struct orr_error *err);

/* Create the folder if it is missing, remove unfinished checkpoints, and set *newest to the newest
 * step there, whole or not, or to -1. */
int orr_checkpoint_prepare(const char *folder, int64_t *newest, struct orr_error *err);

/* Open the newest whole checkpoint or, with a step of 0 or more, that of this step. report (may be
 * NULL) gets a line for each damaged checkpoint that is skipped. */
int orr_checkpoint_open(struct orr_checkpoint **out, const char *folder, int64_t step,
			void (*report)(const char *line), struct orr_error *err);
void orr_checkpoint_close(struct orr_checkpoint *c); /* NULL is fine */
int64_t orr_checkpoint_step(const struct orr_checkpoint *c);

/* Write a model's weights, in the order of orr_run_parameters, as one safetensors file; the tensors
 * are named as in checkpoints. ORR_E_DIVERGED: a number is not finite. */
int orr_weights_write(FILE *file, const struct orr_graph *g, const float *parameters,
		      struct orr_error *err);

ORR_END
#endif
