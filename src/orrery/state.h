#ifndef ORR_STATE_H
#define ORR_STATE_H
/* The state of a run between two steps, to a checkpoint and back: how many steps it has trained,
 * the parameters and what the optimizer keeps of each. The order of the samples follows from seed
 * and step. Tensors are named after operators, so that a run that cuts or places the graph
 * otherwise goes on from it: trunk.1.weight, trunk.1.bias, norm.gain, trunk.1.weight.momentum
 * (Adam: .first_moment and .second_moment).
 *
 * Under mpirun all ranks call these together, with the same arguments and the same outcome; each
 * writes a shard with what it owns, and reads what it owns from whichever shard has it. */
#include <stdint.h>
#include "error.h"

struct orr_checkpoint;
struct orr_run;

/* Steps trained since the start of training, those before a checkpoint included. */
int64_t orr_run_step(const struct orr_run *run);

/* Save a checkpoint of the step in that folder, and remove all but the last `keep` ones (0: none).
 * A failure leaves the run as it is, and the checkpoints that are there. */
int orr_run_save(struct orr_run *run, const char *folder, int keep, struct orr_error *err);

/* Go on from a checkpoint. ORR_E_INPUT: it is of another graph, data set, batch, seed or optimizer;
 * the run is as it was. After another failure the run is of no use. The learning rate may be
 * another one where rate is given: *rate is then the one of the checkpoint. NULL: it must be the
 * same. */
int orr_run_load(struct orr_run *run, const struct orr_checkpoint *c, double *rate,
		 struct orr_error *err);
#endif
