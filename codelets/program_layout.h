#pragma once
/* What a program is made of: written by src/runtime/devices/compile.c, run by program.c.
 * A tensor is known by the buffer that it lies in and by how many columns lie before it there; with
 * n samples it starts n * column floats into the buffer. One of halves is bfloat16, value after
 * value, and takes orr_stored_floats() columns there. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "operator.h"

enum orr_storage {
	ORR_STORAGE_NONE,
	ORR_STORAGE_DATA,
	ORR_STORAGE_RECEIVED, /* from edge `edge`: activations in F, gradients in B */
	ORR_STORAGE_SENT,     /* over edge `edge` */
	ORR_STORAGE_STASH,
	ORR_STORAGE_PASSING, /* in the stash behind the others: W does not read it */
	ORR_STORAGE_KEPT, /* what W reads of B: behind the stash if the backward is split, else in
			   scratch */
	ORR_STORAGE_SCRATCH
};

struct orr_tensor {
	enum orr_storage storage;
	int edge;
	int64_t column, width;
	bool half;
	int64_t joined; /* of KEPT: its column of scratch where B and W are one */
};

/* What it takes of its buffer, a sample. */
static inline int64_t orr_tensor_floats(const struct orr_tensor *t)
{
	return orr_stored_floats(t->width, t->half);
}

/* A tensor that a layer reads, and where its gradient goes. */
struct orr_port {
	struct orr_tensor value, gradient; /* gradient: ORR_STORAGE_NONE: not wanted */
	bool accumulate;                   /* another layer has written this gradient before */
	int64_t apart;    /* then: columns before it where the layer's are computed apart */
	int64_t gathered; /* of an op that reads a whole minibatch: columns before it there */
};

/* n rounded up to a multiple of 64, where a layer's parameters begin: all are aligned alike,
 * whatever lies before, so that a product has one algorithm, and its bits, under every cut. */
static inline int64_t orr_padded_floats(int64_t n)
{
	return (n + 63) / 64 * 64;
}

struct orr_layer {
	struct orr_instance is; /* its inputs' shapes are owned */
	int number;             /* of the operator in its graph */
	int origin;             /* the operator of the unsplit graph that it is, or is a part of */
	int drawn; /* the one there as which its parameters are drawn: its origin, or the first of
		      those that share them */
	/* All that are drawn there; is.parameters[part_of[j]] is of drawn_tensors[j], -1: it is of
	 * another part alone. */
	int n_drawn, part_of[ORR_MOST_PARAMETER_TENSORS];
	struct orr_parameter_tensor drawn_tensors[ORR_MOST_PARAMETER_TENSORS];
	bool halves;  /* all that it reads and writes is, in rows that kernels take */
	bool mixed;   /* with halves: but for a norm's input, or one of two that are added and the
			 sum, which are floats */
	bool active;  /* has a backward: something to learn before it and a loss after it */
	bool trained; /* its parameters have a gradient; of zeros where it has no backward */
	bool wanted;  /* a gradient of an input is */
	bool relu;    /* its output, and the gradient of that, are those of a relu behind it */
	int loss;     /* of a loss: its number among those of the graph, and its weight */
	float weight;
	struct orr_port *ports; /* [is.n_inputs] */
	struct orr_tensor output;
	struct orr_tensor saved;    /* is.saved, what the forward leaves the backward */
	struct orr_tensor gradient; /* of its output */
	int64_t first_parameter, n_parameters;
	int64_t first_rounded; /* where its rounded parameters lie, see orr_program_round */
};

/* The end of a layer's parameters with the zeros behind them, of n floats in all. */
static inline int64_t orr_layer_end(const struct orr_layer *layer, int64_t n)
{
	int64_t end = orr_padded_floats(layer->first_parameter + layer->n_parameters);

	return end < n ? end : n;
}

/* Copy a tensor, times factor. */
struct orr_move {
	struct orr_tensor from, to;
	float factor;
};

/* A turn of the backward: a layer's, or that of a gradient from another stage. */
struct orr_backward_step {
	int layer; /* or -1 */
	struct orr_tensor from, to;
	bool accumulate;
};

/* Floats per sample over an edge, and those of the gradients that come back; 0: none do. */
struct orr_program_edge {
	int64_t columns, gradients;
};

struct orr_program_input {
	char *tensor; /* NULL: that of data which has no more than one */
	int64_t *columns;
	int64_t width;
};

struct orr_program {
	int n_in, n_out, n_inputs, n_layers, n_before, n_after, n_zeros, n_backward;
	struct orr_program_edge *in, *out;
	struct orr_program_input *inputs;
	struct orr_layer *layers; /* in the order of the graph */
	struct orr_move *before;  /* the forward: first these, then the layers, then these after */
	struct orr_move *after;
	struct orr_tensor *zeros;           /* gradients to send that no layer writes */
	struct orr_backward_step *backward; /* by reader, from the graph's last operator to its
					       first */
	int64_t n_parameters, n_trained;    /* of the stage; of them, those that come first */
	int64_t n_rounded;                  /* bfloat16 of rounded weights */
	/* floats per sample */
	int64_t left_columns,
		passing_columns; /* of the stash: what W reads, and what it does not */
	int64_t kept_columns;
	int64_t forward_columns, backward_columns; /* of scratch */
	int64_t widest; /* of any layer, gradients of inputs that are computed apart and then added
			 */
	int64_t wide_columns;     /* of any layer, its halves as floats (call.c) */
	int64_t gathered_columns; /* of what is read of a whole minibatch */
	int n_losses;             /* of the graph up to the last one here; 0: none is here */
	struct orr_arrays all;    /* every array, and those in layers and inputs */
};
