#pragma once
/* A program: one stage's operators as a straight list that runs over a block of samples. Plain C on
 * plain memory: it knows nothing of graphs, schedules or StarPU. src/runtime/devices/compile.h
 * makes one of a stage.
 *
 * Every tensor is a matrix of n rows (samples), row-major, of float32 or, where the graph says so,
 * of bfloat16, two in the place of a float. A buffer holds its tensors one after the other. An edge
 * holds every output of the earlier stage that the later one alone reads, once each, in the order
 * of
 * the operators; those that the same several stages read lie in a buffer of their own, one for all
 * of these stages. Gradients come back over every edge in that order, of those outputs that the
 * pipeline says have one (zeros for what has none), which may be none of them.
 *
 * The stash is all that the backward reads of the forward, the stage's inputs included, so that a
 * job (s,b,B) needs nothing but parameters, stash and the gradients of its outputs. Between B and W
 * of a split backward it also keeps what W reads of B.
 *
 * Parameters: the operators that are trained in their order, then those that are frozen; a linear's
 * weights [out][in], row after row, then its bias; a layernorm's gain, then its bias. Each
 * operator's begin at a multiple of 64 floats. Zeros fill the gaps, in gradients too;
 * checkpoints have no gaps. Gradient, optimizer state and update are of the first n_trained floats
 * alone.
 *
 * A device (device.h) computes it; the buffers lie where that can reach them. Parameters, gradients
 * of them and scratch are float32 in every precision.
 *
 * A program is never written to: any number of threads may run it at once. Nothing here
 * allocates. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program_layout.h"

struct orr_device;  /* device.h */
struct orr_metrics; /* kernels.h */

/* Sizes in floats, 0 where there is nothing; n: samples in the block, at least 1. */
/* Where those of an operator lie, by its number in the graph; -1: it is not of this stage, or has
 * none. And the operator whose parameter lies at `at`. */
int64_t orr_program_first_parameter(const struct orr_program *p, int number);
int orr_program_operator_at(const struct orr_program *p, int64_t at);
/* Where parameter i of an operator lies; false: there is none. averaged: it has no gradient, but a
 * mean that becomes a part of it, momentum;
 * decays: weight decay is meant for it, and not for biases and what norms learn. */
struct orr_parameter_place {
	int64_t first, end;
	bool averaged, decays;
	double momentum;
};
bool orr_program_parameter(const struct orr_program *p, int number, int i,
			   struct orr_parameter_place *parameter);
/* split: the backward comes as B and W apart; the stash then also keeps what W reads of B */
int64_t orr_program_stash_floats(const struct orr_program *p, int64_t n, bool split);
/* What B leaves for W apart from the stash: what W reads of B and, packed, of the stash. */
int64_t orr_program_left_floats(const struct orr_program *p, int64_t n, bool packed);
int64_t orr_program_scratch_floats(const struct orr_program *p, int64_t n); /* for any pass */
int64_t orr_program_forward_floats(const struct orr_program *p, int64_t n); /* for F alone */
/* Columns of the data that the stage reads, over all its inputs, in order; gathered into one block
 * as they are (the program applies the inputs' scale): n rows of the first input, then n rows of
 * the second, ... */
int64_t orr_program_data_columns(const struct orr_program *p);

/* Do its passes depend on which samples they are of (orr_microbatch), beside what they are given?
 */
bool orr_program_draws(const struct orr_program *p);

/* What the device's workspace must hold for blocks of n samples and less. */
size_t orr_program_workspace_bytes(const struct orr_program *p, const struct orr_device *device,
				   int64_t n);
/* (optional) Find the fastest products for blocks of n samples now, rather than when the first of
 * them runs. */
void orr_program_prepare(const struct orr_program *p, struct orr_device *device, int64_t n);

/* In BF16 a product reads its weights rounded. Where device->rounded is NULL every product rounds
 * them again; otherwise it is what orr_program_round made of the same parameters; 0 bytes in other
 * precisions. */
size_t orr_program_rounded_bytes(const struct orr_program *p, const struct orr_device *device);
void orr_program_round(const struct orr_program *p, struct orr_device *device,
		       const float *parameters, void *to);

/* Draw the parameters: linear weights uniform in +-sqrt(6/in), gains 1, biases 0. An operator's
 * values depend on seed and its number in the unsplit graph alone, or that of the first operator
 * there that shares them, and a part of an operator has those that the whole one has there: every
 * cut and split of a graph starts from the same model. */
void orr_program_init(const struct orr_program *p, uint64_t seed, float *parameters);

/* F: reads parameters, data and every in-edge; writes every out-edge, the stash and metrics, of
 * its own losses by their number in the graph (over what was there; may be NULL). in and data may
 * be reused afterwards. */
void orr_program_forward(const struct orr_program *p, struct orr_device *device, int64_t n,
			 const float *parameters, const float *data, const float *const *in,
			 float *const *out, float *stash, float *scratch,
			 struct orr_metrics *metrics);

/* Does an operator read a whole minibatch? Then F needs all of its in-edges, of n_parts
 * microbatches, one after the other; their samples are even, the first ones taking one more where
 * they do not divide. They are gathered, sample by sample, to device->microbatch.gathered,
 * gathered_columns a sample, for block.n_minibatch samples. The workspace must do for as many. */
bool orr_program_gathers(const struct orr_program *p);
void orr_program_gather(const struct orr_program *p, struct orr_device *device, int n_parts,
			const float *const *parts);

/* Recomputation: what F leaves is its inputs, a copy of data and every in-edge, input_floats of
 * them; its stash is written to memory that is not kept. Before B, F runs again from those inputs,
 * with the same parameters, and leaves the same stash to the bit. again: again_floats for outputs
 * that are not wanted; in and out: room for a pointer per edge. */
int64_t orr_program_input_floats(const struct orr_program *p, int64_t n);
int64_t orr_program_again_floats(const struct orr_program *p, int64_t n);
void orr_program_keep_inputs(const struct orr_program *p, struct orr_device *device, int64_t n,
			     const float *data, const float *const *in, float *inputs);
void orr_program_forward_again(const struct orr_program *p, struct orr_device *device, int64_t n,
			       const float *parameters, const float *inputs, const float **in,
			       float **out, float *again, float *stash, float *scratch);

/* B, W or both. INPUT writes every float of in_gradient and reads out_gradient; WEIGHT reads
 * neither (they may be NULL), only the stash, and writes gradient, which INPUT ignores. BOTH gives
 * the bits of INPUT and then WEIGHT. The pointer of an edge without gradients is ignored, as is
 * gradient where n_trained is 0. loss_scale: what a loss multiplies its gradient by, 1/batch
 * for the mean. gradient: the weight gradient is added to it, or written over it when overwrite.
 * Adding is always "compute apart, then add", so that in-place sums and sums of partial gradients
 * are the same to the bit. The gradients of a tensor with several readers are added from the last
 * reader in the graph to the first.
 * left: where INPUT leaves what WEIGHT reads of it; NULL: behind the stash. packed: with a copy of
 * all that WEIGHT reads of the stash, which it is then not given. */
enum orr_part { ORR_PART_INPUT = 1, ORR_PART_WEIGHT = 2, ORR_PART_BOTH = 3 };
void orr_program_backward(const struct orr_program *p, struct orr_device *device,
			  enum orr_part part, int64_t n, float loss_scale, const float *parameters,
			  float *stash, float *left, bool packed, const float *const *out_gradient,
			  float *const *in_gradient, float *gradient, bool overwrite,
			  float *scratch);
