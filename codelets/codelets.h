#pragma once
/* The one table of StarPU codelets. Each has one function, for CPU cores and CUDA devices alike:
 * what differs is the worker's struct orr_device. On a CUDA device it starts kernels on the
 * worker's stream and returns; it neither waits nor allocates.
 *
 * A codelet's buffers are vectors of floats, in this order (what a stage lacks is left out):
 *   forward   parameters, data, a tensor per in-edge, a tensor per out-edge, stash
 *   backward  parameters, stash, a gradient per out-edge and then per in-edge that has one, weight
 *             gradient
 *   add       partial gradient, sum of gradients
 *   update    parameters, state, a gradient per owner (or the chunks of their sum, or all of it)
 *   reduce    gradient, sum over the owners
 *   check     gradient
 *   join      gradients: computes nothing, and orders tasks
 *   norm      a gradient per owner (or the chunks of their sum, or all of it)
 * Where a stage gathers a minibatch, forward has of each in-edge a tensor per microbatch.
 * Where F is recomputed, its stash is the inputs alone, and B makes the whole stash: for W in a
 * buffer of its own after the inputs, else in the worker's memory. W after B has no edges. What
 * follows after these only orders tasks. */
#include "arguments.h"

enum orr_codelet {
	ORR_CODELET_FORWARD,
	ORR_CODELET_BACKWARD,
	ORR_CODELET_ADD,
	ORR_CODELET_UPDATE,
	ORR_CODELET_REDUCE,
	ORR_CODELET_CHECK,
	ORR_CODELET_JOIN,
	ORR_CODELET_NORM
};
extern struct starpu_codelet orr_codelets[8];
