#include "program.h"

#include "base/max.h"
#include "call.h"

int64_t orr_program_first_parameter(const struct orr_program *p, int number)
{
	for (int k = 0; k < p->n_layers; k++)
		if (p->layers[k].number == number && p->layers[k].n_parameters)
			return p->layers[k].first_parameter;
	return -1;
}

bool orr_program_parameter(const struct orr_program *p, int number, int i,
			   struct orr_parameter_place *parameter)
{
	const struct orr_layer *layer = p->layers;
	const struct orr_parameter_tensor *is;
	int64_t first;

	while (layer < p->layers + p->n_layers && layer->number != number)
		layer++;
	if (layer == p->layers + p->n_layers || i >= layer->is.n_parameters)
		return false;
	first = layer->first_parameter;
	is = layer->is.parameters;
	for (int k = 0; k < i; k++)
		first += orr_parameter_floats(is++);
	*parameter = (struct orr_parameter_place){first, first + orr_parameter_floats(is),
						  is->role == ORR_ROLE_AVERAGED,
						  is->role == ORR_ROLE_WEIGHT, is->momentum};
	return true;
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
	return n * (p->left_columns + p->passing_columns + (split ? p->kept_columns : 0));
}

int64_t orr_program_left_floats(const struct orr_program *p, int64_t n, bool packed)
{
	return n * (p->kept_columns + (packed ? p->left_columns : 0));
}

int64_t orr_program_forward_floats(const struct orr_program *p, int64_t n)
{
	return n * (p->forward_columns + p->wide_columns);
}

/* The room in which the gradients of a layer's parameters are computed before they are added. */
static int64_t apart_floats(const struct orr_layer *layer)
{
	if (!layer->trained)
		return 0;
	return layer->is.op->apart ? layer->is.op->apart(&layer->is) : layer->n_parameters;
}

/* Scratch of the forward: tensors, then a layer's halves as floats. Of the backward: gradients,
 * then tensors computed apart, then a layer's halves, then its weights. */
int64_t orr_program_scratch_floats(const struct orr_program *p, int64_t n)
{
	int64_t most = 0;

	for (int k = 0; k < p->n_layers; k++)
		most = larger(most, apart_floats(&p->layers[k]));
	return larger(orr_program_forward_floats(p, n),
		      n * (p->backward_columns + p->widest + p->wide_columns) + most);
}

bool orr_program_draws(const struct orr_program *p)
{
	for (int k = 0; k < p->n_layers; k++)
		if (p->layers[k].is.op->draws)
			return true;
	return false;
}

static size_t workspace_of(const struct orr_instance *is, const struct orr_device *device,
			   int64_t n)
{
	int64_t rows = n * is->inputs[0].rows, columns = is->inputs[0].columns;

	return is->op->workspace ? is->op->workspace(is, device, n)
				 : device->kernels->workspace_bytes(device->precision, rows,
								    columns, columns);
}

size_t orr_program_workspace_bytes(const struct orr_program *p, const struct orr_device *device,
				   int64_t n)
{
	size_t most = 0;

	for (int k = 0; k < p->n_layers; k++) {
		size_t bytes = workspace_of(&p->layers[k].is, device, n);

		most = bytes > most ? bytes : most;
	}
	return most;
}

void orr_program_prepare(const struct orr_program *p, struct orr_device *device, int64_t n)
{
	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_instance *is = &p->layers[k].is;

		device->halves = p->layers[k].halves && device->kernels->halves;
		if (is->op->prepare)
			is->op->prepare(is, device, n);
		device->halves = false;
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
	struct orr_rounding pieces[ORR_MOST_ROUNDINGS];
	int n = 0;

	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_layer *layer = &p->layers[k];

		if (!layer->is.op->round)
			continue;
		if (n > ORR_MOST_ROUNDINGS - ORR_MOST_PARAMETER_TENSORS) {
			device->kernels->linear->round(device, pieces, n);
			n = 0;
		}
		n += layer->is.op->round(&layer->is, parameters + layer->first_parameter,
					 (uint16_t *)to + layer->first_rounded, pieces + n);
	}
	if (n)
		device->kernels->linear->round(device, pieces, n);
}

static void copy_all(const struct orr_pass_buffers *f, const struct orr_move *moves, int n_moves)
{
	const struct orr_kernels *kernels = f->device->kernels;

	for (int i = 0; i < n_moves; i++) {
		const float *from = orr_buffers_read(f, &moves[i].from);
		float *to = orr_buffers_write(f, &moves[i].to);
		int64_t floats = f->n * orr_tensor_floats(&moves[i].to);

		if (moves[i].to.half)
			kernels->elements->copy(f->device, floats, from, to);
		else
			kernels->elements->scale(f->device, floats, moves[i].factor, from, to);
	}
}

/* What an operator's descriptor sees of a pass of its layer. */
static struct orr_call call_of(const struct orr_pass_buffers *f, const struct orr_layer *layer,
			       const float *parameters)
{
	const uint16_t *rounded = f->device->rounded;

	return (struct orr_call){
		.buffers = f,
		.layer = layer,
		.is = &layer->is,
		.device = f->device,
		.kernels = f->device->kernels,
		.n = f->n,
		.parameters = parameters ? parameters + layer->first_parameter : NULL,
		.rounded = rounded ? rounded + layer->first_rounded : NULL,
		.halves = layer->halves && (layer->is.op->in_place || f->device->kernels->halves),
	};
}

/* Is what its kernels are given bfloat16? */
static void tell_halves(const struct orr_call *c, bool begins)
{
	bool mixed = c->halves && c->layer->mixed;

	c->device->halves = begins && c->halves && (!mixed || c->layer->output.half);
	c->device->floats = begins && mixed;
}

void orr_program_forward(const struct orr_program *p, struct orr_device *device, int64_t n,
			 const float *parameters, const float *data, const float *const *in,
			 float *const *out, float *stash, float *scratch,
			 struct orr_metrics *metrics)
{
	float *wide = scratch + n * p->forward_columns;
	struct orr_pass_buffers f = {
		device, n, data, in, out, stash, stash + n * p->left_columns, NULL, scratch, wide};

	copy_all(&f, p->before, p->n_before);
	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_layer *layer = &p->layers[k];
		struct orr_call call = call_of(&f, layer, parameters);

		call.metrics = metrics ? &metrics[layer->loss] : NULL;
		call.forward = true;
		tell_halves(&call, true);
		layer->is.op->forward(&call);
		tell_halves(&call, false);
		orr_call_keep_output(&call);
	}
	copy_all(&f, p->after, p->n_after);
}

bool orr_program_gathers(const struct orr_program *p)
{
	return p->gathered_columns > 0;
}

/* One tensor of the minibatch. */
static void gather_port(const struct orr_port *port, struct orr_device *device, int n_parts,
			const float *const *parts, int n_in)
{
	const struct orr_tensor *t = &port->value;
	int64_t all = device->microbatch.n_minibatch;
	float *to = device->microbatch.gathered + all * port->gathered;

	for (int k = 0; k < n_parts; k++) {
		int64_t n = all / n_parts + (k < all % n_parts);
		const float *from = parts[k * n_in + t->edge] + n * t->column;

		if (t->half)
			device->kernels->elements->widen(device, n * t->width, from, to);
		else
			device->kernels->elements->copy(device, n * t->width, from, to);
		to += n * t->width;
	}
}

void orr_program_gather(const struct orr_program *p, struct orr_device *device, int n_parts,
			const float *const *parts)
{
	for (int k = 0; k < p->n_layers; k++)
		for (int i = 0; i < p->layers[k].is.n_inputs; i++)
			if (p->layers[k].is.op->whole_minibatch)
				gather_port(&p->layers[k].ports[i], device, n_parts, parts,
					    p->n_in);
}

int64_t orr_program_data_columns(const struct orr_program *p)
{
	int64_t columns = 0;

	for (int i = 0; i < p->n_inputs; i++)
		columns += p->inputs[i].width;
	return columns;
}

int64_t orr_program_input_floats(const struct orr_program *p, int64_t n)
{
	int64_t columns = orr_program_data_columns(p);

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
		if (p->in[e].columns)
			device->kernels->elements->copy(device, n * p->in[e].columns, in[e],
							inputs);
		inputs += n * p->in[e].columns;
	}
	if (p->n_inputs)
		device->kernels->elements->copy(device, n * orr_program_data_columns(p), data,
						inputs);
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

/* A backward as its layers see it. */
struct backward {
	struct orr_pass_buffers buffers;
	enum orr_part part;
	float loss_scale;
	const float *parameters;
	float *apart;    /* room for gradients of inputs that are added afterwards */
	float *gradient; /* of the parameters */
	bool overwrite;
	float *room; /* of apart_floats() */
};

/* After the gradients of parameters no one reads the output's. */
static void layer_backward(const struct backward *b, const struct orr_layer *layer)
{
	struct orr_call call = call_of(&b->buffers, layer, b->parameters);
	bool weights = b->part & ORR_PART_WEIGHT && layer->trained;
	bool adds = weights && !b->overwrite;
	float *gradient = weights ? b->gradient + layer->first_parameter : NULL;

	call.loss_scale = b->loss_scale * layer->weight;
	call.share = b->loss_scale;
	call.apart = b->apart;
	call.inputs = b->part & ORR_PART_INPUT && layer->wanted;
	call.slope = adds && !layer->is.op->apart ? b->room : gradient;
	call.room = adds && layer->is.op->apart ? b->room : NULL;
	if (!call.inputs && !gradient)
		return;
	tell_halves(&call, true);
	layer->is.op->backward(&call);
	tell_halves(&call, false);
	if (call.slope != gradient)
		call.kernels->elements->sum(call.device, layer->n_parameters, gradient, call.slope,
					    gradient);
	if (call.inputs)
		orr_call_keep_input_gradients(&call);
}

/* Gradients of readers are added from the last reader in the graph to the first. */
static void input_part(const struct orr_program *p, const struct backward *b)
{
	const struct orr_pass_buffers *f = &b->buffers;
	const struct orr_kernels *kernels = f->device->kernels;

	for (int i = 0; i < p->n_zeros; i++)
		kernels->elements->zero(f->device, f->n * orr_tensor_floats(&p->zeros[i]),
					orr_buffers_write(f, &p->zeros[i]));
	for (int i = 0; i < p->n_backward; i++) {
		const struct orr_backward_step *step = &p->backward[i];

		if (step->layer >= 0)
			layer_backward(b, &p->layers[step->layer]);
		else if (step->accumulate)
			orr_buffers_add(f, &step->to, orr_buffers_read(f, &step->from));
		else
			kernels->elements->copy(f->device, f->n * orr_tensor_floats(&step->to),
						orr_buffers_read(f, &step->from),
						orr_buffers_write(f, &step->to));
	}
}

/* Of the layers that input_part has left, and zeros where none writes. */
static void weight_part(const struct orr_program *p, const struct backward *b)
{
	struct orr_device *device = b->buffers.device;

	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_layer *layer = &p->layers[k];
		int64_t at = layer->first_parameter + (layer->active ? layer->n_parameters : 0);
		int64_t rest = orr_layer_end(layer, p->n_trained) - at;

		if (layer->active && b->part != ORR_PART_BOTH)
			layer_backward(b, layer);
		if (layer->trained && b->overwrite && rest)
			device->kernels->elements->zero(device, rest, b->gradient + at);
	}
}

void orr_program_backward(const struct orr_program *p, struct orr_device *device,
			  enum orr_part part, int64_t n, float loss_scale, const float *parameters,
			  float *stash, float *left, bool packed, const float *const *out_gradient,
			  float *const *in_gradient, float *gradient, bool overwrite,
			  float *scratch)
{
	int64_t copied = packed ? n * p->left_columns : 0;
	float *apart = scratch + n * p->backward_columns, *wide = apart + n * p->widest;
	struct backward b = {
		{device, n, NULL, out_gradient, in_gradient, stash, NULL, NULL, scratch, wide},
		part,
		loss_scale,
		parameters,
		apart,
		gradient,
		overwrite,
		wide + n * p->wide_columns};

	if (part != ORR_PART_BOTH)
		b.buffers.kept =
			left ? left + copied : stash + orr_program_stash_floats(p, n, false);
	if (part == ORR_PART_WEIGHT && packed)
		b.buffers.stash = left;
	else
		b.buffers.passing = stash + n * p->left_columns;
	if (part & ORR_PART_INPUT)
		input_part(p, &b);
	if (part == ORR_PART_INPUT && copied)
		device->kernels->elements->copy(device, copied, stash, left);
	if (part & ORR_PART_WEIGHT)
		weight_part(p, &b);
}
