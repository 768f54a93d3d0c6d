#include "call.h"

#include <assert.h>

/* Where tensor t may be written. */
float *orr_buffers_write(const struct orr_buffers *f, const struct orr_tensor *t)
{
	switch (t->storage) {
	case ORR_STORAGE_SENT:
		return f->sent[t->edge] + f->n * t->column;
	case ORR_STORAGE_STASH:
		return f->stash + f->n * t->column;
	case ORR_STORAGE_KEPT:
		return f->kept + f->n * t->column;
	case ORR_STORAGE_SCRATCH:
		return f->scratch + f->n * t->column;
	case ORR_STORAGE_NONE:
	case ORR_STORAGE_DATA:
	case ORR_STORAGE_RECEIVED:
		break;
	}
	assert(false); /* nobody may write there */
	return NULL;
}

const float *orr_buffers_read(const struct orr_buffers *f, const struct orr_tensor *t)
{
	if (t->storage == ORR_STORAGE_DATA)
		return f->data + f->n * t->column;
	if (t->storage == ORR_STORAGE_RECEIVED)
		return f->received[t->edge] + f->n * t->column;
	return orr_buffers_write(f, t);
}

int64_t orr_call_minibatch(const struct orr_call *c)
{
	return c->device->microbatch.gathered ? c->device->microbatch.n_minibatch : c->n;
}

int64_t orr_call_first(const struct orr_call *c)
{
	return c->device->microbatch.gathered ? c->device->microbatch.first : 0;
}

const float *orr_call_input(const struct orr_call *c, int i)
{
	const struct orr_microbatch *block = &c->device->microbatch;

	if (c->is->op->whole_minibatch && block->gathered)
		return block->gathered + block->n_minibatch * c->layer->ports[i].gathered;
	return orr_buffers_read(c->buffers, &c->layer->ports[i].value);
}

float *orr_call_output(const struct orr_call *c)
{
	return c->layer->output.storage ? orr_buffers_write(c->buffers, &c->layer->output) : NULL;
}

float *orr_call_saved(const struct orr_call *c)
{
	return c->layer->saved.storage ? orr_buffers_write(c->buffers, &c->layer->saved) : NULL;
}

const float *orr_call_gradient(const struct orr_call *c)
{
	return c->layer->gradient.storage ? orr_buffers_read(c->buffers, &c->layer->gradient)
					  : NULL;
}

float *orr_call_input_gradient(const struct orr_call *c, int i)
{
	const struct orr_port *port = &c->layer->ports[i];

	if (!port->gradient.storage)
		return NULL;
	return port->accumulate ? c->apart + c->n * port->apart
				: orr_buffers_write(c->buffers, &port->gradient);
}
