#include "call.h"

#include <assert.h>

/* Where tensor t may be written. */
float *orr_buffers_write(const struct orr_pass_buffers *f, const struct orr_tensor *t)
{
	switch (t->storage) {
	case ORR_STORAGE_SENT:
		return f->sent[t->edge] + f->n * t->column;
	case ORR_STORAGE_STASH:
		return f->stash + f->n * t->column;
	case ORR_STORAGE_PASSING:
		return f->passing + f->n * t->column;
	case ORR_STORAGE_KEPT:
		return f->kept ? f->kept + f->n * t->column : f->scratch + f->n * t->joined;
	case ORR_STORAGE_SCRATCH:
		return f->scratch + f->n * t->column;
	case ORR_STORAGE_NONE:
	case ORR_STORAGE_DATA:
	case ORR_STORAGE_RECEIVED:
		break;
	}
	assert(false); /* not to be written */
	return NULL;
}

const float *orr_buffers_read(const struct orr_pass_buffers *f, const struct orr_tensor *t)
{
	if (t->storage == ORR_STORAGE_DATA)
		return f->data + f->n * t->column;
	if (t->storage == ORR_STORAGE_RECEIVED)
		return f->received[t->edge] + f->n * t->column;
	return orr_buffers_write(f, t);
}

void orr_buffers_add(const struct orr_pass_buffers *f, const struct orr_tensor *t, const float *x)
{
	int64_t floats = f->n * orr_tensor_floats(t);
	float *sum = orr_buffers_write(f, t);

	f->device->halves = t->half;
	f->device->kernels->elements->sum(f->device, t->half ? 2 * floats : floats, sum, x, sum);
	f->device->halves = false;
}

int64_t orr_call_minibatch(const struct orr_call *c)
{
	return c->device->microbatch.gathered ? c->device->microbatch.n_minibatch : c->n;
}

int64_t orr_call_first(const struct orr_call *c)
{
	return c->device->microbatch.gathered ? c->device->microbatch.first : 0;
}

/* ---- what is kept as bfloat16, as floats ---- */

/* In the room for them: the inputs, the output, its gradient, those of the inputs. */
static float *wide_input(const struct orr_call *c, int i)
{
	int64_t columns = 0;

	for (int k = 0; k < i; k++)
		if (c->layer->ports[k].value.half)
			columns += c->layer->ports[k].value.width;
	return c->buffers->wide + c->n * columns;
}

static float *wide_output(const struct orr_call *c)
{
	return wide_input(c, c->is->n_inputs);
}

static float *wide_gradient(const struct orr_call *c)
{
	const struct orr_tensor *output = &c->layer->output;
	bool both = c->layer->relu ||
		    (c->is->op->backward_reads | c->is->op->weight_reads) & ORR_READS_OUTPUT;

	return wide_output(c) + c->n * (output->half && both ? output->width : 0);
}

static float *wide_input_gradient(const struct orr_call *c, int i)
{
	const struct orr_tensor *gradient = &c->layer->gradient;
	int64_t columns = gradient->half ? gradient->width : 0;

	for (int k = 0; k < i; k++)
		if (c->layer->ports[k].gradient.half)
			columns += c->layer->ports[k].gradient.width;
	return wide_gradient(c) + c->n * columns;
}

static float *widen(const struct orr_call *c, const struct orr_tensor *t, float *to)
{
	c->kernels->elements->widen(c->device, c->n * t->width, orr_buffers_read(c->buffers, t),
				    to);
	return to;
}

static void narrow(const struct orr_call *c, const struct orr_tensor *t, const float *from,
		   bool add)
{
	c->kernels->elements->narrow(c->device, c->n * t->width, 2 * c->n * orr_tensor_floats(t),
				     from, add, orr_buffers_write(c->buffers, t));
}

/* Zeros behind what a kernel wrote of bfloat16: samples of odd widths take more room than that. */
static void fill(const struct orr_call *c, const struct orr_tensor *t)
{
	int64_t values = c->n * t->width, rest = 2 * c->n * orr_tensor_floats(t) - values;

	if (t->half && c->halves && rest)
		c->kernels->elements->narrow(c->device, 0, rest, NULL, false,
					     (uint16_t *)orr_buffers_write(c->buffers, t) + values);
}

void orr_call_keep_output(const struct orr_call *c)
{
	if (c->layer->output.half && !c->halves)
		narrow(c, &c->layer->output, wide_output(c), false);
	fill(c, &c->layer->saved);
}

static void keep_input_gradient(const struct orr_call *c, int i)
{
	const struct orr_port *port = &c->layer->ports[i];

	if (port->gradient.half && !c->halves)
		narrow(c, &port->gradient, wide_input_gradient(c, i), port->accumulate);
	else if (port->accumulate)
		orr_buffers_add(c->buffers, &port->gradient, c->apart + c->n * port->apart);
	fill(c, &port->gradient);
}

void orr_call_keep_input_gradients(const struct orr_call *c)
{
	if (c->layer->relu && c->layer->trained && c->layer->gradient.half && !c->halves)
		narrow(c, &c->layer->gradient, wide_gradient(c), false);
	for (int i = 0; i < c->is->n_inputs; i++)
		if (c->layer->ports[i].gradient.storage)
			keep_input_gradient(c, i);
}

/* ---- what an operator's passes read and write ---- */

const float *orr_call_input(const struct orr_call *c, int i)
{
	const struct orr_microbatch *block = &c->device->microbatch;
	const struct orr_tensor *t = &c->layer->ports[i].value;

	if (c->is->op->whole_minibatch && block->gathered)
		return block->gathered + block->n_minibatch * c->layer->ports[i].gathered;
	return t->half && !c->halves ? widen(c, t, wide_input(c, i))
				     : orr_buffers_read(c->buffers, t);
}

float *orr_call_output(const struct orr_call *c)
{
	const struct orr_tensor *t = &c->layer->output;

	if (!t->half || c->halves)
		return t->storage ? orr_buffers_write(c->buffers, t) : NULL;
	if (!c->forward)
		(void)widen(c, t, wide_output(c));
	return wide_output(c);
}

float *orr_call_saved(const struct orr_call *c)
{
	return c->layer->saved.storage ? orr_buffers_write(c->buffers, &c->layer->saved) : NULL;
}

float *orr_call_gradient(const struct orr_call *c)
{
	const struct orr_tensor *t = &c->layer->gradient;

	if (t->half && !c->halves)
		return widen(c, t, wide_gradient(c));
	return t->storage ? orr_buffers_write(c->buffers, t) : NULL;
}

float *orr_call_input_gradient(const struct orr_call *c, int i)
{
	const struct orr_port *port = &c->layer->ports[i];

	if (!c->inputs || !port->gradient.storage)
		return NULL;
	if (port->gradient.half && !c->halves)
		return wide_input_gradient(c, i);
	return port->accumulate ? c->apart + c->n * port->apart
				: orr_buffers_write(c->buffers, &port->gradient);
}

void orr_call_scale_gradient(const struct orr_call *c, int i, float factor, const float *x)
{
	float *dx = orr_call_input_gradient(c, i);

	if (dx)
		c->kernels->elements->scale(c->device, orr_call_input_floats(c, i), factor, x, dx);
}

void orr_call_zero_gradient(const struct orr_call *c, int i)
{
	float *dx = orr_call_input_gradient(c, i);

	if (dx)
		c->kernels->elements->zero(c->device, orr_call_input_floats(c, i), dx);
}
