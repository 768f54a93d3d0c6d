#ifndef ORR_STATE_H
#define ORR_STATE_H
/* The state of a run between two steps, saved as a checkpoint and loaded again: the number of steps
 * trained, the parameters, and the optimizer's tensors. The order of samples follows from seed and
 * step. Tensors are named after operators (trunk.1.weight, trunk.1.bias, norm.gain,
 * trunk.1.weight.momentum, .first_moment, .second_moment) of the unsplit graph, so a run with
 * another cut, split, schedule or number of workers can go on from it.
 *
 * Collective: under mpirun all ranks call these together, with the same arguments, and all get the
 * same result. Each rank writes a shard of what it owns, and reads what it owns from any shard. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "error.h"

ORR_BEGIN

struct orr_checkpoint;
struct orr_run;

/* Steps since the start of training, those before a checkpoint included. */
int64_t orr_run_step(const struct orr_run *run);

/* Save a checkpoint of this step in folder, then remove all but the newest keep ones (0: none). A
 * failure leaves the run and older checkpoints as they were. */
int orr_run_save(struct orr_run *run, const char *folder, int keep, struct orr_error *err);

/* Begin with the weights in a safetensors file, by the names above, in place of those drawn from
 * the seed: before the first step. ORR_E_INPUT: a tensor has another shape, is missing, or is none
 * of the model's; the last two are fine where it begins partly, and text[size] becomes a line about
 * them, or "". Of operators that share parameters those of one are enough. Each rank reads what it
 * owns. */
int orr_run_begin(struct orr_run *run, const char *path, bool partly, char *text, size_t size,
		  struct orr_error *err);

/* Go on from checkpoint c, which is borrowed for the call. ORR_E_INPUT: it is of another graph,
 * data set, batch, seed or optimizer, and the run is as it was; after any other failure only
 * orr_run_destroy may follow. rate NULL: the learning rate and its course must be the same;
 * else they may differ, and *rate becomes the checkpoint's. */
int orr_run_load(struct orr_run *run, const struct orr_checkpoint *c, double *rate,
		 struct orr_error *err);

ORR_END
#endif
