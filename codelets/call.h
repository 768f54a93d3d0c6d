#pragma once
/* One pass of one operator over a block of samples, as its descriptor sees it. */
#include <stddef.h>
#include "device.h"
#include "sequence.h"
#include "operator.h"
#include "program_layout.h"

/* The buffers of a program's pass. */
struct orr_pass_buffers {
	struct orr_device *device;
	int64_t n; /* samples */
	const float *data;
	const float *const *received;
	float *const *sent;
	float *stash, *passing;
	float *kept; /* NULL: in scratch */
	float *scratch;
	float *wide; /* room for the floats of a layer's bfloat16 */
};

struct orr_call {
	const struct orr_pass_buffers *buffers;
	const struct orr_layer *layer;
	const struct orr_instance *is;
	struct orr_device *device;
	const struct orr_kernels *kernels; /* the device's */
	int64_t n;                         /* samples */
	const float *parameters;           /* its own; NULL: it has none */
	const void *rounded;               /* them, by round(); NULL: nothing is kept */
	float loss_scale;                  /* of a loss: its gradient's factor, weight included */
	float share;                       /* of a sample in the minibatch; in the backward */
	struct orr_metrics *metrics;       /* of a loss; NULL: not wanted */
	float *apart; /* room for gradients of inputs that are added afterwards */
	bool inputs;  /* gradients of inputs have a turn */
	float *slope; /* the gradient of its parameters; NULL: it has no turn */
	float *room; /* of an op with apart(): adds to that, by way of this; NULL: writes over it */
	bool halves; /* its kernels take bfloat16; else it is given floats of what is kept so */
	bool forward; /* the pass: else what it reads of its output has been written */
};

/* Where a tensor lies, to be written or to be read. */
float *orr_buffers_write(const struct orr_pass_buffers *f, const struct orr_tensor *t);
const float *orr_buffers_read(const struct orr_pass_buffers *f, const struct orr_tensor *t);

/* x, numbers of its type, is added to a tensor. */
void orr_buffers_add(const struct orr_pass_buffers *f, const struct orr_tensor *t, const float *x);

/* Of an op that reads a whole minibatch: its samples, and the block's first among them. */
int64_t orr_call_minibatch(const struct orr_call *c);
int64_t orr_call_first(const struct orr_call *c);
/* Input i, there of the whole minibatch: in the forward any, in the backward where the op reads
 * inputs. */
const float *orr_call_input(const struct orr_call *c, int i);
/* The output: to be written by the forward, read by a backward that reads it. NULL for a loss. */
float *orr_call_output(const struct orr_call *c);
float *orr_call_saved(const struct orr_call *c);
/* Of the output; NULL for a loss. One that takes a relu may write what the relu lets through in its
 * place. */
float *orr_call_gradient(const struct orr_call *c);
/* Where that of input i goes, which is to be overwritten; NULL: not wanted now. */
float *orr_call_input_gradient(const struct orr_call *c, int i);

/* The gradient of input i becomes factor times x, or 0; nothing where it is not wanted. */
void orr_call_scale_gradient(const struct orr_call *c, int i, float factor, const float *x);
void orr_call_zero_gradient(const struct orr_call *c, int i);

/* (program.c) The pass is over: what it wrote as floats goes to where it is kept as bfloat16, and
 * gradients that are added are added. */
void orr_call_keep_output(const struct orr_call *c);
void orr_call_keep_input_gradients(const struct orr_call *c);

/* `width` columns of n rows, with a stride in floats for source and destination. */
static inline void orr_call_move_columns(const struct orr_call *c, int64_t n, int64_t width,
					 const float *x, int64_t from, float *y, int64_t to)
{
	const struct orr_box columns = {n, 1, width, from, 0, to, 0};

	c->kernels->sequence->move(c->device, &columns, x, y);
}

/* Floats and rows of input i in the block. */
static inline int64_t orr_call_input_floats(const struct orr_call *c, int i)
{
	return c->n * orr_shape_floats(c->is->inputs[i]);
}
static inline int64_t orr_call_rows(const struct orr_call *c, int i)
{
	return c->n * c->is->inputs[i].rows;
}
