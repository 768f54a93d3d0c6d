#ifndef ORR_CHECKPOINT_H
#define ORR_CHECKPOINT_H
/* Checkpoints: the state of a training, one folder per saved step. orr_run_save()
 * writes one and orr_run_load() resumes from one.
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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "orrery.h"

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

/* The state of a run between two steps, saved as a checkpoint and loaded again: the number of steps
 * trained, the parameters, and the optimizer's tensors. The order of samples follows from seed and
 * step. Tensors are named after operators (trunk.1.weight, trunk.1.bias, norm.gain,
 * trunk.1.weight.momentum, .first_moment, .second_moment) of the unsplit graph, so a run with
 * another cut, split, schedule or number of workers can go on from it.
 *
 * Collective: under mpirun all ranks call these together, with the same arguments, and all get the
 * same result. Each rank writes a shard of what it owns, and reads what it owns from any shard. */
struct orr_checkpoint;
struct orr_run;

/* Steps since the start of training, those before a checkpoint included. */
int64_t orr_run_step(const struct orr_run *run);

/* Save a checkpoint of this step in folder, then remove all but the newest keep ones (0: none). A
 * failure leaves the run and older checkpoints as they were. */
int orr_run_save(struct orr_run *run, const char *folder, int keep, struct orr_error *err);

/* Before the first step, replace the weights drawn from the seed by those of a safetensors file, by
 * the names above. ORR_E_INPUT: a tensor has another shape, is missing, or is not the model's; with
 * `partly`, the last two are allowed, and text[size] becomes a line about them, or "". For
 * operators that share parameters, those of one suffice. Each rank reads what it owns. */
int orr_run_begin(struct orr_run *run, const char *path, bool partly, char *text, size_t size,
		  struct orr_error *err);

/* Resume from checkpoint c, borrowed for the call. ORR_E_INPUT: it is of another graph, data set,
 * batch, seed or optimizer, and the run is unchanged; after any other failure only orr_run_destroy
 * may follow. rate NULL: the learning rate and its course must be the same; else they may differ,
 * and *rate becomes the checkpoint's. */
int orr_run_load(struct orr_run *run, const struct orr_checkpoint *c, double *rate,
		 struct orr_error *err);

ORR_END
#endif
