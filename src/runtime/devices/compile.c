#include "compile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "compile_notes.h"
#include "model/whole.h"

/* Count and allocate everything at its largest; the lists are then filled by appending. */
static int allocate(struct orr_compiler *c, struct orr_error *err)
{
	const struct orr_graph *g = c->graph;
	const struct orr_stage *stage = &c->pipeline->stages[c->s];
	struct orr_program *p = c->program;
	size_t n_layers = 0, n_inputs = 0, n_moves = (size_t)g->n_operators, n_all = n_moves;

	for (int k = 0; k < g->n_operators; k++) {
		n_inputs += c->notes[k].data;
		n_layers += is_here(c, k) && !orr_operator_is_input(&g->operators[k]);
	}
	n_all *= (size_t)stage->n_out + 1;
	p->n_in = stage->n_in + stage->n_read;
	p->n_out = stage->n_out + stage->n_sent;
	orr_arrays_make(&p->all, p->in, (size_t)p->n_in + 1);
	orr_arrays_make(&p->all, p->out, (size_t)p->n_out + 1);
	orr_arrays_make(&p->all, p->inputs, n_inputs + 1);
	orr_arrays_make(&p->all, p->layers, n_layers + 1);
	orr_arrays_make(&p->all, p->before, n_moves);
	orr_arrays_make(&p->all, p->after, n_all);
	orr_arrays_make(&p->all, p->zeros, n_moves);
	orr_arrays_make(&p->all, p->backward, n_all);
	orr_arrays_make(&c->all, c->arrivals, n_all);
	orr_arrays_make(&c->all, c->places.held, n_moves + 1);
	if (p->all.failed || c->all.failed)
		return orr_no_memory(err, g->name);
	return 0;
}

/* The first columns that are free. */
static int64_t take_columns(struct orr_scratch_places *places, int64_t columns)
{
	int64_t first = 0;
	int i = 0;

	while (i < places->n && places->held[i].first - first < columns)
		first = places->held[i++].end;
	memmove(&places->held[i + 1], &places->held[i],
		(size_t)(places->n++ - i) * sizeof(*places->held));
	places->held[i] = (struct orr_held){first, first + columns};
	places->most = larger(places->most, first + columns);
	return first;
}

/* Those that begin at `first` are free again. */
static void give_back_columns(struct orr_scratch_places *places, int64_t first)
{
	int i = 0;

	while (places->held[i].first != first)
		i++;
	memmove(&places->held[i], &places->held[i + 1],
		(size_t)(--places->n - i) * sizeof(*places->held));
}

static struct orr_tensor place(enum orr_storage where, int64_t *columns, int64_t width, bool half)
{
	struct orr_tensor t = {where, 0, *columns, width, half, 0};

	*columns += orr_tensor_floats(&t);
	return t;
}

static struct orr_tensor place_stash(struct orr_compiler *c, int64_t width, bool half, bool left)
{
	struct orr_program *p = c->program;

	return left ? place(ORR_STORAGE_STASH, &p->left_columns, width, half)
		    : place(ORR_STORAGE_PASSING, &p->passing_columns, width, half);
}

/* In scratch, until it is given back. */
static struct orr_tensor borrow(struct orr_compiler *c, int64_t width, bool half)
{
	struct orr_tensor t = {ORR_STORAGE_SCRATCH, .width = width, .half = half};

	t.column = take_columns(&c->places, orr_tensor_floats(&t));
	return t;
}

/* What comes in: over the edges as it lies there, outputs of several readers apart, or copied to
 * the stash where the backward reads it; gradients go back over the same edges. */
static void place_received(struct orr_compiler *c)
{
	const struct orr_graph *g = c->graph;
	const struct orr_stage *stage = &c->pipeline->stages[c->s];
	struct orr_program *p = c->program;

	for (int e = 0; e < stage->n_in; e++) {
		const struct orr_edge *edge = &c->pipeline->edges[stage->in[e]];

		orr_compile_mark_edge(c, edge->from, c->s);
		for (int k = 0; k < g->n_operators; k++) {
			struct orr_note *note = &c->notes[k];
			int64_t width = g->operators[k].width;
			bool half = g->operators[k].half;
			int in;

			if (!note->read)
				continue;
			in = orr_compile_find_output(c, k, stage->read, stage->n_read);
			in = in < 0 ? e : stage->n_in + in;
			note->value = place(ORR_STORAGE_RECEIVED, &p->in[in].columns, width, half);
			note->value.edge = in;
			note->received = note->value;
			if (note->returns) {
				note->gradient =
					place(ORR_STORAGE_SENT, &p->in[e].gradients, width, half);
				note->gradient.edge = e;
			}
			if (note->stashed) {
				struct orr_tensor from = note->value;

				note->value = place_stash(c, width, half, note->left);
				p->before[p->n_before++] =
					(struct orr_move){from, note->value, 1.0f};
			}
		}
	}
}

/* The columns of the data that the stage reads, scaled into the stash or scratch unless they serve
 * as they are. */
static int place_data(struct orr_compiler *c, struct orr_error *err)
{
	const struct orr_graph *g = c->graph;
	struct orr_program *p = c->program;
	int64_t columns = 0;

	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];
		struct orr_note *note = &c->notes[k];
		struct orr_program_input *input = &p->inputs[p->n_inputs];
		double factor;

		if (!note->data)
			continue;
		p->n_inputs++;
		factor = orr_operator_factor(o);
		orr_arrays_make(&p->all, input->columns, o->width);
		if (o->tensor)
			input->tensor = orr_arrays_add(&p->all, strlen(o->tensor) + 1, 1);
		if (p->all.failed)
			return orr_no_memory(err, g->name);
		memcpy(input->columns, o->columns, (size_t)o->width * sizeof(*input->columns));
		if (o->tensor)
			strcpy(input->tensor, o->tensor);
		input->width = o->width;
		note->value = place(ORR_STORAGE_DATA, &columns, o->width, false);
		if (note->stashed || factor < 1.0 || factor > 1.0) {
			struct orr_tensor from = note->value;

			note->value = note->stashed ? place_stash(c, o->width, false, note->left)
						    : borrow(c, o->width, false);
			p->before[p->n_before++] =
				(struct orr_move){from, note->value, (float)factor};
		}
	}
	return 0;
}

static int first_reader(const struct orr_compiler *c, int output)
{
	return c->pipeline->outputs[output - c->pipeline->n_edges].readers[0];
}

/* What leaves in p->out[out]: it is computed there, or copied there. */
static void place_output(struct orr_compiler *c, struct orr_note *note, int64_t width, bool half,
			 int out, bool copies)
{
	struct orr_program *p = c->program;
	struct orr_tensor to = place(ORR_STORAGE_SENT, &p->out[out].columns, width, half);

	to.edge = out;
	if (!note->value.storage)
		note->value = to;
	if (copies && (note->value.storage != ORR_STORAGE_SENT || note->value.edge != out))
		p->after[p->n_after++] = (struct orr_move){note->value, to, 1.0f};
}

/* The edges out of the stage. First without copies, which lets outputs be computed where they leave
 * from; then with copies for what lies elsewhere, and a note of what gradients come back. */
static void place_sent(struct orr_compiler *c, bool copies)
{
	const struct orr_stage *stage = &c->pipeline->stages[c->s];
	struct orr_program *p = c->program;

	memset(p->out, 0, (size_t)p->n_out * sizeof(*p->out));
	for (int e = 0; e < stage->n_out; e++) {
		const struct orr_edge *edge = &c->pipeline->edges[stage->out[e]];

		orr_compile_mark_edge(c, c->s, edge->to);
		for (int k = 0; k < c->graph->n_operators; k++) {
			struct orr_note *note = &c->notes[k];
			int64_t width = c->graph->operators[k].width;
			bool half = c->graph->operators[k].half;
			struct orr_tensor to;
			int out;

			if (!note->read)
				continue;
			out = orr_compile_find_output(c, k, stage->sent, stage->n_sent);
			if (out < 0 || first_reader(c, stage->sent[out]) == edge->to)
				place_output(c, note, width, half, out < 0 ? e : stage->n_out + out,
					     copies);
			if (!copies || !note->returns)
				continue;
			to = place(ORR_STORAGE_RECEIVED, &p->out[e].gradients, width, half);
			to.edge = e;
			if (note->learns && note->reader >= 0)
				c->arrivals[c->n_arrivals++] =
					(struct orr_arrival){note->reader, k, to};
		}
	}
}

/* Of those in scratch that operator k reads, the ones that none of the stage reads after it are
 * free. */
static void give_back_inputs(struct orr_compiler *c, int k)
{
	const struct orr_operator *o = &c->graph->operators[k];

	for (int i = 0; i < o->n_inputs; i++) {
		struct orr_note *note = &c->notes[o->inputs[i]];

		if (note->last != k || note->value.storage != ORR_STORAGE_SCRATCH)
			continue;
		give_back_columns(&c->places, note->value.column);
		note->last = -1;
	}
}

/* Outputs of the stage's own operators: in the stash if the backward reads them, else in the first
 * edge that carries them, else in scratch, where no edge carries them. Then copies for the other
 * edges. */
static void place_outputs(struct orr_compiler *c)
{
	struct orr_program *p = c->program;

	for (int k = 0; k < c->graph->n_operators; k++) {
		const struct orr_operator *o = &c->graph->operators[k];
		struct orr_note *note = &c->notes[k];

		if (is_here(c, k) && !orr_operator_is_input(o) && note->stashed)
			note->value = place_stash(c, o->width, o->half, note->left);
		for (int i = 0; i < o->n_inputs && is_here(c, k); i++)
			c->notes[o->inputs[i]].last = k;
	}
	place_sent(c, false);
	for (int k = 0; k < c->graph->n_operators; k++) {
		const struct orr_operator *o = &c->graph->operators[k];
		struct orr_tensor *value = &c->notes[result_of(c, k)].value;

		if (!is_here(c, k) || orr_operator_is_input(o) || is_taken(c, k))
			continue;
		if (!value->storage && !orr_operator_is_loss(o))
			*value = borrow(c, o->width, o->half);
		give_back_inputs(c, k);
	}
	p->forward_columns = c->places.most;
	c->places.n = 0;
	place_sent(c, true);
}

/* From `at` on. A bias may begin anywhere behind its weights: that is the same under every cut. */
static int64_t place_parameters(struct orr_program *p, bool trained, int64_t at)
{
	for (int k = 0; k < p->n_layers; k++)
		if (p->layers[k].trained == trained && p->layers[k].n_parameters) {
			p->layers[k].first_parameter = orr_padded_floats(at);
			at = p->layers[k].first_parameter + p->layers[k].n_parameters;
		}
	return at;
}

/* What the layer's forward leaves its backward of its own; without one it is the next layer's
 * place, too. */
static struct orr_tensor place_saved(struct orr_compiler *c, int k)
{
	const struct orr_operator *o = &c->graph->operators[k];
	int64_t width = o->instance->saved;
	bool as_input = o->instance->op->in_place;
	bool half = as_input && c->graph->operators[o->inputs[0]].half;
	struct orr_program *p = c->program;
	struct orr_tensor saved;

	if (!width)
		return (struct orr_tensor){0};
	if (as_input && c->notes[o->inputs[0]].slope)
		return c->notes[o->inputs[0]].value;
	if (is_active(c, k))
		return place_stash(c, width, half, is_trained(o));
	saved = (struct orr_tensor){ORR_STORAGE_SCRATCH, 0, c->places.most, width, half, 0};
	p->forward_columns = larger(p->forward_columns, saved.column + orr_tensor_floats(&saved));
	return saved;
}

/* What it shares begins, and is updated, as that of the first of those that share it. */
static void add_drawn(const struct orr_compiler *c, struct orr_layer *layer)
{
	const struct orr_graph *whole = orr_graph_whole(c->graph);
	const struct orr_instance *drawn;
	int tied;

	layer->origin = orr_graph_origin(c->graph, layer->number);
	tied = whole->operators[layer->origin].tied;
	layer->drawn = tied >= 0 ? tied : layer->origin;
	drawn = whole->operators[layer->drawn].instance;
	layer->n_drawn = drawn->n_parameters;
	memcpy(layer->drawn_tensors, drawn->parameters, sizeof(layer->drawn_tensors));
	for (int j = 0; j < layer->n_drawn; j++)
		layer->part_of[j] = -1;
	for (int i = 0; i < layer->is.n_parameters; i++) {
		struct orr_parameter_tensor *own = &layer->is.parameters[i], part = *own;
		int j = orr_whole_parameter(c->graph, layer->number, i);

		layer->part_of[j] = i;
		*own = drawn->parameters[j];
		memcpy(own->dims, part.dims, sizeof(own->dims));
		own->portion = part.portion;
	}
}

/* Its op with attributes and shapes. */
static int add_instance(struct orr_compiler *c, struct orr_layer *layer, struct orr_error *err)
{
	const struct orr_operator *o = &c->graph->operators[layer->number];

	orr_arrays_make(&c->program->all, layer->ports, (size_t)o->n_inputs + 1);
	if (!layer->ports || !orr_instance_copy(&layer->is, o->instance))
		return orr_no_memory(err, c->graph->name);
	add_drawn(c, layer);
	for (int i = 0; i < o->n_inputs; i++) {
		const struct orr_note *input = &c->notes[o->inputs[i]];

		layer->ports[i].value = input->value;
		if (!layer->is.op->whole_minibatch)
			continue;
		layer->ports[i].value = input->received;
		layer->ports[i].gathered = c->program->gathered_columns;
		c->program->gathered_columns += input->received.width;
	}
	return 0;
}

/* Where its output's gradient lies; a loss has none. In scratch it is placed in order_backward().
 */
static struct orr_tensor place_gradient(struct orr_compiler *c, const struct orr_layer *layer)
{
	const struct orr_operator *o = &c->graph->operators[layer->number];
	struct orr_program *p = c->program;

	if (!layer->active || layer->is.op->loss)
		return c->notes[layer->number].gradient;
	if (c->notes[layer->number].slope)
		return c->notes[layer->number].value;
	if (layer->trained)
		return place(ORR_STORAGE_KEPT, &p->kept_columns, o->width, o->half);
	return (struct orr_tensor){ORR_STORAGE_SCRATCH, .width = o->width, .half = o->half};
}

/* Columns of what its passes read and write as floats of its halves. The output and its gradient
 * have one place, but where a backward reads both. */
static int64_t wide_columns(const struct orr_compiler *c, const struct orr_operator *o)
{
	const struct orr_op *op = o->instance->op;
	bool both = c->notes[o - c->graph->operators].relu ||
		    (op->backward_reads | op->weight_reads) & ORR_READS_OUTPUT;
	int64_t columns = o->half ? (both ? 2 : 1) * o->width : 0;

	if (op->in_place)
		return 0;
	for (int i = 0; i < o->n_inputs; i++) {
		const struct orr_operator *input = &c->graph->operators[o->inputs[i]];

		columns += input->half ? 2 * input->width : 0;
	}
	return columns;
}

/* Is it a norm of floats in halves, or a sum of floats and halves in floats, whose kernels take
 * that? */
static bool is_mixed(const struct orr_compiler *c, const struct orr_operator *o)
{
	int n = 0;

	for (int i = 0; i < o->n_inputs; i++)
		n += c->graph->operators[o->inputs[i]].half;
	return o->instance->op->mixes && o->width / o->rows % 8 == 0 && n == o->n_inputs - 1 &&
	       o->n_inputs <= 2 && o->half == (o->n_inputs == 1);
}

/* May kernels that take bfloat16 compute it? */
static bool has_halves(const struct orr_compiler *c, const struct orr_operator *o)
{
	bool halves = o->half && o->width / o->rows % 8 == 0 && o->instance->op->halves &&
		      !o->instance->floats;

	if (o->instance->op->in_place)
		return c->graph->operators[o->inputs[0]].half;
	for (int i = 0; i < o->n_inputs; i++) {
		const struct orr_operator *input = &c->graph->operators[o->inputs[i]];

		halves = halves && input->half && input->width / input->rows % 8 == 0;
	}
	return halves;
}

static int add_layer(struct orr_compiler *c, int k, struct orr_error *err)
{
	const struct orr_operator *o = &c->graph->operators[k];
	struct orr_program *p = c->program;
	struct orr_layer *layer = &p->layers[p->n_layers++];
	struct orr_note *note = &c->notes[result_of(c, k)];
	int code;

	layer->number = k;
	layer->relu = note != &c->notes[k];
	layer->active = is_active(c, k);
	if ((code = add_instance(c, layer, err)))
		return code;
	layer->output = note->value;
	layer->saved = place_saved(c, k);
	layer->n_parameters = o->n_parameters;
	layer->trained = is_trained(o);
	p->wide_columns = larger(p->wide_columns, wide_columns(c, o));
	layer->mixed = is_mixed(c, o);
	layer->halves = layer->mixed || has_halves(c, o);
	layer->first_rounded = p->n_rounded;
	p->n_rounded += layer->is.rounded;
	note->gradient = place_gradient(c, layer);
	if (layer->is.op->loss) {
		layer->loss = c->notes[k].loss;
		layer->weight = (float)orr_operator_factor(o);
		p->n_losses = layer->loss + 1;
	}
	c->notes[k].layer = p->n_layers - 1;
	return 0;
}

static bool is_in_scratch(const struct orr_tensor *t)
{
	return t->storage == ORR_STORAGE_KEPT || t->storage == ORR_STORAGE_SCRATCH;
}

/* The next turn writes this gradient, or adds to it. */
static void take_gradient(struct orr_compiler *c, struct orr_note *note)
{
	struct orr_tensor *t = &note->gradient;

	if (!note->written && is_in_scratch(t))
		*(t->storage == ORR_STORAGE_KEPT ? &t->joined : &t->column) =
			take_columns(&c->places, orr_tensor_floats(t));
}

/* The turn of its operator is over. */
static void give_back_gradient(struct orr_compiler *c, const struct orr_note *note)
{
	const struct orr_tensor *t = &note->gradient;

	if (note->written && is_in_scratch(t))
		give_back_columns(&c->places,
				  t->storage == ORR_STORAGE_KEPT ? t->joined : t->column);
}

static void add_layer_backward(struct orr_compiler *c, struct orr_layer *layer)
{
	const struct orr_operator *o = &c->graph->operators[layer->number];
	struct orr_program *p = c->program;
	int64_t apart = 0;

	for (int i = 0; i < o->n_inputs; i++) {
		struct orr_note *note = &c->notes[o->inputs[i]];

		if (!note->learns || !note->gradient.storage || orr_operator_is_detached(o, i))
			continue;
		take_gradient(c, note);
		layer->ports[i].gradient = note->gradient;
		layer->ports[i].accumulate = note->written;
		layer->ports[i].apart = apart;
		apart += note->written ? orr_tensor_floats(&note->gradient) : 0;
		note->written = layer->wanted = true;
	}
	assert(layer->wanted || !layer->relu); /* by choose_relus() */
	layer->gradient = c->notes[result_of(c, layer->number)].gradient;
	give_back_gradient(c, &c->notes[result_of(c, layer->number)]);
	if (!layer->wanted && !layer->trained)
		return;
	p->widest = larger(p->widest, apart);
	p->backward[p->n_backward++] =
		(struct orr_backward_step){.layer = (int)(layer - p->layers)};
}

/* The backward takes every reader of a tensor, here or in another stage, from the last to the
 * first. So the sum of three and more gradients has the order that it has in the whole graph,
 * unless one edge brings a sum of some that does not begin with the last. */
static void order_backward(struct orr_compiler *c)
{
	struct orr_program *p = c->program;

	for (int k = c->graph->n_operators - 1; k >= 0; k--) {
		for (int i = 0; i < c->n_arrivals; i++) {
			const struct orr_arrival *a = &c->arrivals[i];
			struct orr_note *note = &c->notes[a->operator];

			if (a->reader != k)
				continue;
			take_gradient(c, note);
			p->backward[p->n_backward++] = (struct orr_backward_step){
				-1, a->from, note->gradient, note->written};
			note->written = true;
		}
		if (c->notes[k].layer >= 0 && is_active(c, k))
			add_layer_backward(c, &p->layers[c->notes[k].layer]);
	}
	for (int k = 0; k < c->graph->n_operators; k++)
		if (c->notes[k].gradient.storage == ORR_STORAGE_SENT && !c->notes[k].written)
			p->zeros[p->n_zeros++] = c->notes[k].gradient;
	p->backward_columns = c->places.most;
}

int orr_program_create(struct orr_program **out, const struct orr_pipeline *p, int s,
		       struct orr_error *err)
{
	struct orr_compiler c = {.pipeline = p, .graph = p->graph, .s = s};
	int code;

	c.program = calloc(1, sizeof(*c.program));
	orr_arrays_make(&c.all, c.notes, c.graph->n_operators);
	orr_arrays_make(&c.all, c.reads, (size_t)c.graph->n_operators * (size_t)p->n_stages);
	if (!c.program || c.all.failed) {
		code = orr_no_memory(err, c.graph->name);
		goto out;
	}
	if ((code = orr_compile_study(&c, err)) || (code = allocate(&c, err)))
		goto out;
	place_received(&c);
	if ((code = place_data(&c, err)))
		goto out;
	place_outputs(&c);
	for (int k = 0; k < c.graph->n_operators; k++)
		if (is_here(&c, k) && !orr_operator_is_input(&c.graph->operators[k]) &&
		    !is_taken(&c, k))
			if ((code = add_layer(&c, k, err)))
				goto out;
	c.program->n_trained = place_parameters(c.program, true, 0);
	c.program->n_parameters = place_parameters(c.program, false, c.program->n_trained);
	c.places.most = 0;
	order_backward(&c);
	*out = c.program;
	c.program = NULL;
out:
	orr_program_destroy(c.program);
	orr_arrays_free(&c.all);
	return code;
}

void orr_program_destroy(struct orr_program *program)
{
	if (!program)
		return;
	for (int k = 0; k < program->n_layers; k++)
		free(program->layers[k].is.inputs);
	orr_arrays_free(&program->all);
	free(program);
}
