#include "program.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "device.h"
#include "program_layout.h"

int64_t orr_program_n_parameters(const struct orr_program *p)
{
	return p->n_parameters;
}

int64_t orr_program_n_trained(const struct orr_program *p)
{
	return p->n_trained;
}

int64_t orr_program_first_parameter(const struct orr_program *p, int number)
{
	for (int k = 0; k < p->n_layers; k++)
		if (p->layers[k].number == number && p->layers[k].n_parameters)
			return p->layers[k].first_parameter;
	return -1;
}

int orr_program_operator_at(const struct orr_program *p, int64_t at)
{
	int k = 0;

	while (at < p->layers[k].first_parameter ||
	       at - p->layers[k].first_parameter >= p->layers[k].n_parameters)
		k++;
	return p->layers[k].number;
}

int64_t orr_program_stash_floats(const struct orr_program *p, int64_t n, bool split)
{
	return n * (p->stash_columns + (split ? p->kept_columns : 0));
}

/* Scratch of the backward: gradients, then kept, then a tensor computed apart, then a layer's
 * weights. */
int64_t orr_program_scratch_floats(const struct orr_program *p, int64_t n)
{
	int64_t forward = n * p->forward_columns;
	int64_t backward =
		n * (p->backward_columns + p->kept_columns + p->widest) + p->most_parameters;

	return forward > backward ? forward : backward;
}

size_t orr_program_workspace_bytes(const struct orr_program *p, const struct orr_device *device,
				   int64_t n)
{
	size_t most = 0;

	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_layer *layer = &p->layers[k];
		int64_t in = layer->ports[0].value.width, out = layer->output.width;
		size_t bytes = device->kernels->workspace_bytes(
			device->precision, n, in, layer->kernel == ORR_KERNEL_LINEAR ? out : in);

		most = bytes > most ? bytes : most;
	}
	return most;
}

void orr_program_prepare(const struct orr_program *p, struct orr_device *device, int64_t n)
{
	for (int k = 0; k < p->n_layers && device->kernels->prepare; k++) {
		const struct orr_layer *layer = &p->layers[k];

		if (layer->kernel == ORR_KERNEL_LINEAR)
			device->kernels->prepare(device, n, layer->ports[0].value.width,
						 layer->output.width);
	}
}

size_t orr_program_rounded_bytes(const struct orr_program *p, const struct orr_device *device)
{
	return device->precision == ORR_PRECISION_BF16 ? (size_t)p->n_rounded * sizeof(uint16_t)
						       : 0;
}

void orr_program_round(const struct orr_program *p, struct orr_device *device,
		       const float *parameters, void *to)
{
	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_layer *layer = &p->layers[k];

		if (layer->kernel == ORR_KERNEL_LINEAR)
			device->kernels->round(device, layer->ports[0].value.width,
					       layer->output.width,
					       parameters + layer->first_parameter,
					       (uint16_t *)to + layer->first_rounded);
	}
}

int orr_program_n_in(const struct orr_program *p)
{
	return p->n_in;
}

int orr_program_n_out(const struct orr_program *p)
{
	return p->n_out;
}

int64_t orr_program_in_floats(const struct orr_program *p, int i, int64_t n)
{
	return n * p->in[i].columns;
}

int64_t orr_program_out_floats(const struct orr_program *p, int i, int64_t n)
{
	return n * p->out[i].columns;
}

int64_t orr_program_in_gradient_floats(const struct orr_program *p, int i, int64_t n)
{
	return n * p->in[i].gradients;
}

int64_t orr_program_out_gradient_floats(const struct orr_program *p, int i, int64_t n)
{
	return n * p->out[i].gradients;
}

int orr_program_n_inputs(const struct orr_program *p)
{
	return p->n_inputs;
}

const int64_t *orr_program_input_columns(const struct orr_program *p, int i)
{
	return p->inputs[i].columns;
}

int64_t orr_program_input_width(const struct orr_program *p, int i)
{
	return p->inputs[i].width;
}

int orr_program_n_losses(const struct orr_program *p)
{
	return p->n_losses;
}

/* splitmix64 (Sebastiano Vigna, public domain) */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Uniform in +-sqrt(6 / width of the input): keeps the variance through a relu (He 2015). */
static void init_linear(uint64_t state, int64_t in, int64_t out, float *parameters)
{
	float bound = (float)sqrt(6.0 / (double)in);

	for (int64_t i = 0; i < in * out; i++) {
		float unit = (float)(draw(&state) >> 40) * 0x1p-24f;

		parameters[i] = (2.0f * unit - 1.0f) * bound;
	}
	memset(parameters + in * out, 0, (size_t)out * sizeof(*parameters));
}

void orr_program_init(const struct orr_program *p, uint64_t seed, float *parameters)
{
	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_layer *layer = &p->layers[k];
		float *own = parameters + layer->first_parameter;
		uint64_t state = seed;

		/* mixed twice: seed 1 of operator 2 is not seed 2 of operator 1 */
		state = draw(&state) + (uint64_t)layer->drawn;
		state = draw(&state);
		if (layer->kernel == ORR_KERNEL_LINEAR) {
			init_linear(state, layer->ports[0].value.width, layer->output.width, own);
		} else if (layer->n_parameters) { /* layernorm: gain 1, bias 0 */
			int64_t width = layer->output.width;

			for (int64_t i = 0; i < width; i++)
				own[i] = 1.0f;
			memset(own + width, 0, (size_t)width * sizeof(*own));
		}
	}
}

/* The buffers of one call. */
struct buffers {
	struct orr_device *device;
	const struct orr_kernels *kernels; /* the device's */
	int64_t n;
	const float *data;
	const float *const *received;
	float *const *sent;
	float *stash, *kept, *scratch;
};

static float *write_at(const struct buffers *f, const struct orr_tensor *t)
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

static const float *read_at(const struct buffers *f, const struct orr_tensor *t)
{
	if (t->storage == ORR_STORAGE_DATA)
		return f->data + f->n * t->column;
	if (t->storage == ORR_STORAGE_RECEIVED)
		return f->received[t->edge] + f->n * t->column;
	return write_at(f, t);
}

static void copy_all(const struct buffers *f, const struct orr_move *moves, int n_moves)
{
	for (int i = 0; i < n_moves; i++)
		f->kernels->scale(f->device, f->n * moves[i].to.width, moves[i].factor,
				  read_at(f, &moves[i].from), write_at(f, &moves[i].to));
}

static void add_ports(const struct buffers *f, const struct orr_layer *layer, float *y)
{
	int64_t count = f->n * layer->output.width;
	const float *sum = read_at(f, &layer->ports[0].value);

	if (layer->n_ports == 1)
		f->kernels->copy(f->device, count, sum, y);
	for (int i = 1; i < layer->n_ports; i++, sum = y)
		f->kernels->sum(f->device, count, sum, read_at(f, &layer->ports[i].value), y);
}

static void concat_ports(const struct buffers *f, const struct orr_layer *layer, float *y)
{
	int64_t first = 0;

	for (int i = 0; i < layer->n_ports; i++) {
		const struct orr_tensor *x = &layer->ports[i].value;

		f->kernels->columns_put(f->device, f->n, x->width, read_at(f, x),
					layer->output.width, first, y);
		first += x->width;
	}
}

/* What the device keeps of a linear's weights, rounded; NULL: nothing. */
static const void *rounded_of(const struct buffers *f, const struct orr_layer *layer)
{
	const uint16_t *rounded = f->device->rounded;

	return rounded ? rounded + layer->first_rounded : NULL;
}

static void layer_forward(const struct buffers *f, const struct orr_layer *layer,
			  const float *parameters, struct orr_metrics *metrics)
{
	const struct orr_kernels *kernels = f->kernels;
	const float *own = parameters ? parameters + layer->first_parameter : NULL;
	const float *x = read_at(f, &layer->ports[0].value);
	int64_t n = f->n, in = layer->ports[0].value.width, out = layer->output.width;

	metrics = metrics ? &metrics[layer->loss] : NULL;
	switch (layer->kernel) {
	case ORR_KERNEL_LINEAR:
		kernels->linear_forward(f->device, n, in, out, x, own, rounded_of(f, layer),
					own + in * out, write_at(f, &layer->output));
		break;
	case ORR_KERNEL_RELU:
		kernels->relu_forward(f->device, n * out, x, write_at(f, &layer->output));
		break;
	case ORR_KERNEL_GELU:
		kernels->gelu_forward(f->device, n * out, x, write_at(f, &layer->output));
		break;
	case ORR_KERNEL_LAYERNORM:
		kernels->layernorm_forward(f->device, n, out, x, own, own + out,
					   write_at(f, &layer->output), write_at(f, &layer->saved));
		break;
	case ORR_KERNEL_ADD:
		add_ports(f, layer, write_at(f, &layer->output));
		break;
	case ORR_KERNEL_CONCAT:
		concat_ports(f, layer, write_at(f, &layer->output));
		break;
	case ORR_KERNEL_SOFTMAX_CROSS_ENTROPY:
		kernels->softmax_cross_entropy(f->device, n, in, x,
					       read_at(f, &layer->ports[1].value),
					       write_at(f, &layer->saved), metrics);
		break;
	case ORR_KERNEL_MSE:
		kernels->mse(f->device, n, in, x, read_at(f, &layer->ports[1].value),
			     write_at(f, &layer->saved), metrics);
		break;
	}
}

void orr_program_forward(const struct orr_program *p, struct orr_device *device, int64_t n,
			 const float *parameters, const float *data, const float *const *in,
			 float *const *out, float *stash, float *scratch,
			 struct orr_metrics *metrics)
{
	struct buffers f = {device, device->kernels, n, data, in, out, stash, NULL, scratch};

	copy_all(&f, p->before, p->n_before);
	for (int k = 0; k < p->n_layers; k++)
		layer_forward(&f, &p->layers[k], parameters, metrics);
	copy_all(&f, p->after, p->n_after);
}

static int64_t data_columns(const struct orr_program *p)
{
	int64_t columns = 0;

	for (int i = 0; i < p->n_inputs; i++)
		columns += p->inputs[i].width;
	return columns;
}

int64_t orr_program_input_floats(const struct orr_program *p, int64_t n)
{
	int64_t columns = data_columns(p);

	for (int e = 0; e < p->n_in; e++)
		columns += p->in[e].columns;
	return n * columns;
}

int64_t orr_program_again_floats(const struct orr_program *p, int64_t n)
{
	int64_t columns = 0;

	for (int e = 0; e < p->n_out; e++)
		columns += p->out[e].columns;
	return n * columns;
}

void orr_program_keep_inputs(const struct orr_program *p, struct orr_device *device, int64_t n,
			     const float *data, const float *const *in, float *inputs)
{
	for (int e = 0; e < p->n_in; e++) {
		device->kernels->copy(device, n * p->in[e].columns, in[e], inputs);
		inputs += n * p->in[e].columns;
	}
	if (p->n_inputs)
		device->kernels->copy(device, n * data_columns(p), data, inputs);
}

void orr_program_forward_again(const struct orr_program *p, struct orr_device *device, int64_t n,
			       const float *parameters, const float *inputs, const float **in,
			       float **out, float *again, float *stash, float *scratch)
{
	for (int e = 0; e < p->n_in; e++) {
		in[e] = inputs;
		inputs += n * p->in[e].columns;
	}
	for (int e = 0; e < p->n_out; e++) {
		out[e] = again;
		again += n * p->out[e].columns;
	}
	orr_program_forward(p, device, n, parameters, inputs, in, out, stash, scratch, NULL);
}

/* What the layer adds to the gradient of its input i, written to dx. */
static void port_backward(const struct buffers *f, const struct orr_layer *layer, int i,
			  float loss_scale, const float *own, float *dx)
{
	const struct orr_tensor *x = &layer->ports[i].value;
	int64_t n = f->n, width = x->width, out = layer->output.width, first = 0;
	const float *saved = layer->saved.storage ? read_at(f, &layer->saved) : NULL;
	const float *dy = layer->gradient.storage ? read_at(f, &layer->gradient) : NULL;
	const struct orr_kernels *kernels = f->kernels;

	switch (layer->kernel) {
	case ORR_KERNEL_LINEAR:
		kernels->linear_input(f->device, n, width, out, dy, own, rounded_of(f, layer), dx);
		break;
	case ORR_KERNEL_RELU:
		kernels->relu_backward(f->device, n * width, saved, dy, dx);
		break;
	case ORR_KERNEL_GELU:
		kernels->gelu_backward(f->device, n * width, saved, dy, dx);
		break;
	case ORR_KERNEL_LAYERNORM:
		kernels->layernorm_input(f->device, n, width, saved, own, dy, dx);
		break;
	case ORR_KERNEL_ADD:
		kernels->copy(f->device, n * width, dy, dx);
		break;
	case ORR_KERNEL_CONCAT:
		for (int before = 0; before < i; before++)
			first += layer->ports[before].value.width;
		kernels->columns_take(f->device, n, out, first, dy, width, dx);
		break;
	case ORR_KERNEL_SOFTMAX_CROSS_ENTROPY:
	case ORR_KERNEL_MSE: /* the target's gradient is the prediction's with the other sign */
		kernels->scale(f->device, n * width,
			       (i == 0 ? loss_scale : -loss_scale) * layer->weight, saved, dx);
		break;
	}
}

static void layer_backward(const struct buffers *f, const struct orr_layer *layer, float loss_scale,
			   const float *parameters, float *apart)
{
	const float *own = parameters ? parameters + layer->first_parameter : NULL;

	for (int i = 0; i < layer->n_ports; i++) {
		const struct orr_port *port = &layer->ports[i];

		if (!port->gradient.storage)
			continue;
		if (port->accumulate) {
			float *sum = write_at(f, &port->gradient);

			port_backward(f, layer, i, loss_scale, own, apart);
			f->kernels->sum(f->device, f->n * port->gradient.width, sum, apart, sum);
		} else {
			port_backward(f, layer, i, loss_scale, own, write_at(f, &port->gradient));
		}
	}
}

/* Gradients of readers are added from the last reader in the graph to the first. */
static void input_part(const struct orr_program *p, const struct buffers *f, float loss_scale,
		       const float *parameters, float *apart)
{
	for (int i = 0; i < p->n_zeros; i++)
		f->kernels->zero(f->device, f->n * p->zeros[i].width, write_at(f, &p->zeros[i]));
	for (int i = 0; i < p->n_backward; i++) {
		const struct orr_backward_step *step = &p->backward[i];
		int64_t count = f->n * step->to.width;
		const float *from;
		float *to;

		if (step->layer >= 0) {
			layer_backward(f, &p->layers[step->layer], loss_scale, parameters, apart);
			continue;
		}
		from = read_at(f, &step->from);
		to = write_at(f, &step->to);
		if (step->accumulate)
			f->kernels->sum(f->device, count, to, from, to);
		else
			f->kernels->copy(f->device, count, from, to);
	}
}

static void weight_part(const struct orr_program *p, const struct buffers *f, float *gradient,
			bool overwrite, float *apart)
{
	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_layer *layer = &p->layers[k];
		int64_t in = layer->ports[0].value.width, out = layer->output.width;
		float *own, *aside = overwrite ? NULL : apart;

		if (!layer->trained)
			continue;
		own = gradient + layer->first_parameter;
		if (!layer->active) {
			if (overwrite)
				f->kernels->zero(f->device, layer->n_parameters, own);
		} else if (layer->kernel == ORR_KERNEL_LINEAR) {
			f->kernels->linear_weight(
				f->device, f->n, in, out, read_at(f, &layer->saved),
				read_at(f, &layer->gradient), aside, own, own + in * out);
		} else {
			f->kernels->layernorm_weight(
				f->device, f->n, out, read_at(f, &layer->saved),
				read_at(f, &layer->gradient), aside, own, own + out);
		}
	}
}

void orr_program_backward(const struct orr_program *p, struct orr_device *device,
			  enum orr_part part, int64_t n, float loss_scale, const float *parameters,
			  float *stash, const float *const *out_gradient, float *const *in_gradient,
			  float *gradient, bool overwrite, float *scratch)
{
	float *behind = scratch + n * p->backward_columns;
	float *apart = behind + n * p->kept_columns;
	struct buffers f = {device,      device->kernels, n,      NULL,   out_gradient,
			    in_gradient, stash,           behind, scratch};

	if (part != ORR_PART_BOTH)
		f.kept = stash + n * p->stash_columns;
	if (part & ORR_PART_INPUT)
		input_part(p, &f, loss_scale, parameters, apart);
	if (part & ORR_PART_WEIGHT)
		weight_part(p, &f, gradient, overwrite, apart + n * p->widest);
}
