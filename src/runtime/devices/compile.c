#include "compile.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/device.h"
#include "codelets/program_layout.h"
#include "model/whole.h"
#include "orrery/graph.h"
#include "orrery/pipeline.h"

/* What is known of an operator while its stage is compiled. */
struct note {
	bool learns;  /* it or something before it has parameters that are trained with it */
	bool matters; /* a loss comes after it, from which a gradient comes back */
	bool data;    /* an input that the stage reads */
	bool read;    /* by the stage at hand or, of its own operators, by the edge at hand */
	bool stashed; /* the backward of this stage reads its output, */
	bool left;    /* W among it */
	bool returns; /* a gradient of it comes back over the edge at hand */
	int reader;   /* the last operator there whose gradient comes back, or -1 */
	bool written; /* a turn before has written its gradient */
	int layer;    /* its layer, or -1 */
	struct orr_tensor value, gradient;
	struct orr_tensor received; /* its value, as it comes over an edge */
};

/* A gradient that comes back over an edge, at its reader's turn. */
struct arrival {
	int reader, operator;
	struct orr_tensor from;
};

struct compiler {
	const struct orr_pipeline *pipeline;
	const struct orr_graph *graph;
	int s;
	struct orr_program *program;
	struct note *notes; /* [n_operators] */
	struct arrival *arrivals;
	int n_arrivals;
};

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static bool is_here(const struct compiler *c, int k)
{
	return c->pipeline->stage_of[k] == c->s;
}

static bool is_active(const struct compiler *c, int k)
{
	return c->notes[k].learns && c->notes[k].matters;
}

static bool is_trained(const struct orr_operator *o)
{
	return o->n_parameters > 0 && !o->frozen;
}

/* What operator k's backward reads of its forward besides what it saves. */
static unsigned reads_of(const struct compiler *c, int k)
{
	const struct orr_operator *o = &c->graph->operators[k];
	const struct orr_op *op = o->instance->op;

	return is_active(c, k) ? op->backward_reads | (is_trained(o) ? op->weight_reads : 0) : 0;
}

static int study_graph(struct compiler *c, struct orr_error *err)
{
	const struct orr_graph *g = c->graph;
	int code;

	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];

		if ((code = orr_program_check_operator(g, k, err)))
			return code;
		c->notes[k].learns = is_trained(o);
		for (int i = 0; i < o->n_inputs; i++) {
			struct note *input = &c->notes[o->inputs[i]];

			c->notes[k].learns = c->notes[k].learns ||
					     (input->learns && !orr_operator_is_detached(o, i));
			input->data =
				input->data || (is_here(c, k) &&
						orr_operator_is_input(&g->operators[o->inputs[i]]));
		}
		c->notes[k].layer = -1;
	}
	for (int k = g->n_operators - 1; k >= 0; k--) {
		const struct orr_operator *o = &g->operators[k];

		c->notes[k].matters = c->notes[k].matters || orr_operator_is_loss(o);
		for (int i = 0; i < o->n_inputs; i++)
			if (c->notes[k].matters && !orr_operator_is_detached(o, i))
				c->notes[o->inputs[i]].matters = true;
	}
	return 0;
}

/* Mark the outputs of stage `from` that stage `to` reads. Gradients go back as the pipeline says:
 * zeros where nothing before has parameters. */
static void mark_edge(struct compiler *c, int from, int to)
{
	const struct orr_graph *g = c->graph;
	const int *stage_of = c->pipeline->stage_of;

	for (int k = 0; k < g->n_operators; k++) {
		c->notes[k].read = c->notes[k].returns = false;
		c->notes[k].reader = -1;
	}
	for (int k = 0; k < g->n_operators; k++)
		for (int i = 0; i < g->operators[k].n_inputs && stage_of[k] == to; i++) {
			struct note *note = &c->notes[g->operators[k].inputs[i]];

			if (stage_of[g->operators[k].inputs[i]] != from ||
			    orr_operator_is_input(&g->operators[g->operators[k].inputs[i]]))
				continue;
			note->read = true;
			note->returns = note->returns || orr_graph_has_gradient(g, k, i);
			if (c->notes[k].matters && !orr_operator_is_detached(&g->operators[k], i))
				note->reader = k;
		}
}

/* Count and allocate everything at its largest; the lists are then filled by appending. */
static int allocate(struct compiler *c, struct orr_error *err)
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
	if (!(p->in = calloc((size_t)stage->n_in + 1, sizeof(*p->in))) ||
	    !(p->out = calloc((size_t)stage->n_out + 1, sizeof(*p->out))) ||
	    !(p->inputs = calloc(n_inputs + 1, sizeof(*p->inputs))) ||
	    !(p->layers = calloc(n_layers + 1, sizeof(*p->layers))) ||
	    !(p->before = calloc(n_moves, sizeof(*p->before))) ||
	    !(p->after = calloc(n_all, sizeof(*p->after))) ||
	    !(p->zeros = calloc(n_moves, sizeof(*p->zeros))) ||
	    !(p->backward = calloc(n_all, sizeof(*p->backward))) ||
	    !(c->arrivals = calloc(n_all, sizeof(*c->arrivals))))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for the program of stage %d",
				g->name, c->s);
	p->n_in = stage->n_in;
	p->n_out = stage->n_out;
	return 0;
}

/* Which outputs the backward reads. */
static void choose_stashed(struct compiler *c)
{
	for (int k = 0; k < c->graph->n_operators; k++) {
		const struct orr_operator *o = &c->graph->operators[k];
		unsigned reads = is_here(c, k) ? reads_of(c, k) : 0;

		unsigned left = reads && is_trained(o) ? o->instance->op->weight_reads : 0;

		for (int i = 0; i < o->n_inputs && (reads & ORR_READS_INPUTS); i++) {
			struct note *input = &c->notes[o->inputs[i]];

			input->stashed = true;
			input->left = input->left || left & ORR_READS_INPUTS;
		}
		if (reads & ORR_READS_OUTPUT) {
			c->notes[k].stashed = true;
			c->notes[k].left = c->notes[k].left || left & ORR_READS_OUTPUT;
		}
	}
}

static struct orr_tensor place(enum orr_storage where, int64_t *columns, int64_t width, bool half)
{
	struct orr_tensor t = {where, 0, *columns, width, half};

	*columns += orr_tensor_floats(&t);
	return t;
}

static struct orr_tensor place_stash(struct compiler *c, int64_t width, bool half, bool left)
{
	struct orr_program *p = c->program;

	return left ? place(ORR_STORAGE_STASH, &p->left_columns, width, half)
		    : place(ORR_STORAGE_PASSING, &p->passing_columns, width, half);
}

/* What comes in: over the edges as it lies there, or copied to the stash where the backward reads
 * it; gradients go back over the same edges. */
static void place_received(struct compiler *c)
{
	const struct orr_graph *g = c->graph;
	struct orr_program *p = c->program;

	for (int e = 0; e < p->n_in; e++) {
		const struct orr_edge *edge = &c->pipeline->edges[c->pipeline->stages[c->s].in[e]];

		mark_edge(c, edge->from, c->s);
		for (int k = 0; k < g->n_operators; k++) {
			struct note *note = &c->notes[k];
			int64_t width = g->operators[k].width;
			bool half = g->operators[k].half;

			if (!note->read)
				continue;
			note->value = place(ORR_STORAGE_RECEIVED, &p->in[e].columns, width, half);
			note->value.edge = e;
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
static int place_data(struct compiler *c, struct orr_error *err)
{
	const struct orr_graph *g = c->graph;
	struct orr_program *p = c->program;
	int64_t columns = 0;

	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];
		struct note *note = &c->notes[k];
		struct orr_program_input *input = &p->inputs[p->n_inputs];
		size_t bytes = (size_t)o->width * sizeof(*input->columns);
		double factor;

		if (!note->data)
			continue;
		p->n_inputs++;
		factor = orr_operator_factor(o);
		if (!(input->columns = malloc(bytes)) ||
		    (o->tensor && !(input->tensor = strdup(o->tensor))))
			return orr_fail(err, ORR_E_NOMEM, "%s: no memory for the columns of %s",
					g->name, o->name);
		memcpy(input->columns, o->columns, bytes);
		input->width = o->width;
		note->value = place(ORR_STORAGE_DATA, &columns, o->width, false);
		if (note->stashed || factor < 1.0 || factor > 1.0) {
			struct orr_tensor from = note->value;

			note->value = note->stashed ? place_stash(c, o->width, false, note->left)
						    : place(ORR_STORAGE_SCRATCH,
							    &p->forward_columns, o->width, false);
			p->before[p->n_before++] =
				(struct orr_move){from, note->value, (float)factor};
		}
	}
	return 0;
}

/* The edges out of the stage. First without copies, which lets outputs be computed where they leave
 * from; then with copies for what lies elsewhere, and a note of what gradients come back. */
static void place_sent(struct compiler *c, bool copies)
{
	struct orr_program *p = c->program;

	for (int e = 0; e < p->n_out; e++) {
		const struct orr_edge *edge = &c->pipeline->edges[c->pipeline->stages[c->s].out[e]];

		p->out[e] = (struct orr_program_edge){0};
		mark_edge(c, c->s, edge->to);
		for (int k = 0; k < c->graph->n_operators; k++) {
			struct note *note = &c->notes[k];
			int64_t width = c->graph->operators[k].width;
			bool half = c->graph->operators[k].half;
			struct orr_tensor to;

			if (!note->read)
				continue;
			to = place(ORR_STORAGE_SENT, &p->out[e].columns, width, half);
			to.edge = e;
			if (!note->value.storage)
				note->value = to;
			if (!copies)
				continue;
			if (note->value.storage != ORR_STORAGE_SENT || note->value.edge != e)
				p->after[p->n_after++] = (struct orr_move){note->value, to, 1.0f};
			if (!note->returns)
				continue;
			to = place(ORR_STORAGE_RECEIVED, &p->out[e].gradients, width, half);
			to.edge = e;
			if (note->learns && note->reader >= 0)
				c->arrivals[c->n_arrivals++] =
					(struct arrival){note->reader, k, to};
		}
	}
}

/* Outputs of the stage's own operators: in the stash if the backward reads them, else in the first
 * edge that carries them, else in scratch. Then copies for the other edges. */
static void place_outputs(struct compiler *c)
{
	struct orr_program *p = c->program;

	for (int k = 0; k < c->graph->n_operators; k++) {
		const struct orr_operator *o = &c->graph->operators[k];
		struct note *note = &c->notes[k];

		if (is_here(c, k) && !orr_operator_is_input(o) && note->stashed)
			note->value = place_stash(c, o->width, o->half, note->left);
	}
	place_sent(c, false);
	for (int k = 0; k < c->graph->n_operators; k++) {
		const struct orr_operator *o = &c->graph->operators[k];

		if (is_here(c, k) && !c->notes[k].value.storage && !orr_operator_is_loss(o))
			c->notes[k].value =
				place(ORR_STORAGE_SCRATCH, &p->forward_columns, o->width, o->half);
	}
	place_sent(c, true);
}

/* Those that are trained come first. */
static void place_parameters(struct compiler *c)
{
	struct orr_program *p = c->program;

	for (int k = 0; k < p->n_layers; k++)
		if (p->layers[k].trained) {
			p->layers[k].first_parameter = p->n_trained;
			p->n_trained += p->layers[k].n_parameters;
		}
	p->n_parameters = p->n_trained;
	for (int k = 0; k < p->n_layers; k++)
		if (!p->layers[k].trained) {
			p->layers[k].first_parameter = p->n_parameters;
			p->n_parameters += p->layers[k].n_parameters;
		}
}

/* What the layer's forward leaves its backward of its own. */
static struct orr_tensor place_saved(struct compiler *c, int k)
{
	int64_t floats = c->graph->operators[k].instance->saved;
	struct orr_program *p = c->program;

	if (!floats)
		return (struct orr_tensor){0};
	return is_active(c, k) ? place_stash(c, floats, false, is_trained(&c->graph->operators[k]))
			       : place(ORR_STORAGE_SCRATCH, &p->forward_columns, floats, false);
}

static int number_of_loss(const struct orr_graph *g, int k)
{
	int n = 0;

	for (int i = 0; i < k; i++)
		n += orr_operator_is_loss(&g->operators[i]);
	return n;
}

/* What it shares begins, and is updated, as that of the first of those that share it. */
static void add_drawn(const struct compiler *c, struct orr_layer *layer)
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
static int add_instance(struct compiler *c, struct orr_layer *layer, struct orr_error *err)
{
	const struct orr_operator *o = &c->graph->operators[layer->number];

	layer->ports = calloc((size_t)o->n_inputs + 1, sizeof(*layer->ports));
	if (!layer->ports || !orr_instance_copy(&layer->is, o->instance))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %s", c->graph->name, o->name);
	add_drawn(c, layer);
	for (int i = 0; i < o->n_inputs; i++) {
		const struct note *input = &c->notes[o->inputs[i]];

		layer->ports[i].value = input->value;
		if (!layer->is.op->whole_minibatch)
			continue;
		layer->ports[i].value = input->received;
		layer->ports[i].gathered = c->program->gathered_columns;
		c->program->gathered_columns += input->received.width;
	}
	return 0;
}

/* Where its output's gradient lies; a loss has none. */
static struct orr_tensor place_gradient(struct compiler *c, const struct orr_layer *layer)
{
	const struct orr_operator *o = &c->graph->operators[layer->number];
	struct orr_program *p = c->program;

	if (!layer->active || layer->is.op->loss)
		return c->notes[layer->number].gradient;
	return layer->trained ? place(ORR_STORAGE_KEPT, &p->kept_columns, o->width, o->half)
			      : place(ORR_STORAGE_SCRATCH, &p->backward_columns, o->width, o->half);
}

/* Columns of what its passes read and write as floats of its halves. */
static int64_t wide_columns(const struct compiler *c, const struct orr_operator *o)
{
	int64_t columns = o->half ? 2 * o->width : 0; /* the output and its gradient */

	for (int i = 0; i < o->n_inputs; i++) {
		const struct orr_operator *input = &c->graph->operators[o->inputs[i]];

		columns += input->half ? 2 * input->width : 0;
	}
	return columns;
}

/* May kernels that take bfloat16 compute it? */
static bool has_halves(const struct compiler *c, const struct orr_operator *o)
{
	bool halves = o->half && o->width / o->rows % 8 == 0 && o->instance->op->halves;

	for (int i = 0; i < o->n_inputs; i++) {
		const struct orr_operator *input = &c->graph->operators[o->inputs[i]];

		halves = halves && input->half && input->width / input->rows % 8 == 0;
	}
	return halves;
}

static int add_layer(struct compiler *c, int k, struct orr_error *err)
{
	const struct orr_operator *o = &c->graph->operators[k];
	struct orr_program *p = c->program;
	struct orr_layer *layer = &p->layers[p->n_layers++];
	struct note *note = &c->notes[k];
	int code;

	layer->number = k;
	layer->active = is_active(c, k);
	if ((code = add_instance(c, layer, err)))
		return code;
	layer->output = note->value;
	layer->saved = place_saved(c, k);
	layer->n_parameters = o->n_parameters;
	layer->trained = is_trained(o);
	p->wide_columns = larger(p->wide_columns, wide_columns(c, o));
	layer->halves = has_halves(c, o);
	layer->first_rounded = p->n_rounded;
	p->n_rounded += layer->is.rounded;
	if (layer->trained)
		p->most_parameters = larger(p->most_parameters, layer->n_parameters);
	layer->gradient = note->gradient = place_gradient(c, layer);
	if (layer->is.op->loss) {
		layer->loss = number_of_loss(c->graph, k);
		layer->weight = (float)orr_operator_factor(o);
		p->n_losses = layer->loss + 1;
	}
	note->layer = p->n_layers - 1;
	return 0;
}

static void add_layer_backward(struct compiler *c, struct orr_layer *layer)
{
	const struct orr_operator *o = &c->graph->operators[layer->number];
	struct orr_program *p = c->program;
	int64_t apart = 0;
	bool wanted = false;

	for (int i = 0; i < o->n_inputs; i++) {
		struct note *note = &c->notes[o->inputs[i]];

		if (!note->learns || !note->gradient.storage || orr_operator_is_detached(o, i))
			continue;
		layer->ports[i].gradient = note->gradient;
		layer->ports[i].accumulate = note->written;
		layer->ports[i].apart = apart;
		apart += note->written ? orr_tensor_floats(&note->gradient) : 0;
		note->written = wanted = true;
	}
	if (!wanted)
		return;
	p->widest = larger(p->widest, apart);
	p->backward[p->n_backward++] =
		(struct orr_backward_step){.layer = (int)(layer - p->layers)};
}

/* The backward takes every reader of a tensor, here or in another stage, from the last to the
 * first. So the sum of three and more gradients has the order that it has in the whole graph,
 * unless one edge brings a sum of some that does not begin with the last. */
static void order_backward(struct compiler *c)
{
	struct orr_program *p = c->program;

	for (int k = c->graph->n_operators - 1; k >= 0; k--) {
		for (int i = 0; i < c->n_arrivals; i++) {
			const struct arrival *a = &c->arrivals[i];
			struct note *note = &c->notes[a->operator];

			if (a->reader != k)
				continue;
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
}

int orr_program_create(struct orr_program **out, const struct orr_pipeline *p, int s,
		       struct orr_error *err)
{
	struct compiler c = {.pipeline = p, .graph = p->graph, .s = s};
	int code;

	c.program = calloc(1, sizeof(*c.program));
	c.notes = calloc((size_t)c.graph->n_operators, sizeof(*c.notes));
	if (!c.program || !c.notes) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory for the program of stage %d",
				c.graph->name, s);
		goto out;
	}
	if ((code = study_graph(&c, err)) || (code = allocate(&c, err)))
		goto out;
	choose_stashed(&c);
	place_received(&c);
	if ((code = place_data(&c, err)))
		goto out;
	place_outputs(&c);
	for (int k = 0; k < c.graph->n_operators; k++)
		if (is_here(&c, k) && !orr_operator_is_input(&c.graph->operators[k]))
			if ((code = add_layer(&c, k, err)))
				goto out;
	place_parameters(&c);
	order_backward(&c);
	*out = c.program;
	c.program = NULL;
out:
	orr_program_destroy(c.program);
	free(c.notes);
	free(c.arrivals);
	return code;
}

void orr_program_destroy(struct orr_program *program)
{
	if (!program)
		return;
	for (int i = 0; i < program->n_inputs; i++) {
		free(program->inputs[i].tensor);
		free(program->inputs[i].columns);
	}
	for (int k = 0; k < program->n_layers; k++)
		free(program->layers[k].ports), free(program->layers[k].is.inputs);
	free(program->in);
	free(program->out);
	free(program->inputs);
	free(program->layers);
	free(program->before);
	free(program->after);
	free(program->zeros);
	free(program->backward);
	free(program);
}
