#include "compile_notes.h"

/* What operator k's backward reads of its forward besides what it saves. */
static unsigned reads_of(const struct orr_compiler *c, int k)
{
	const struct orr_operator *o = &c->graph->operators[k];
	const struct orr_op *op = o->instance->op;

	return is_active(c, k) ? op->backward_reads | (is_trained(o) ? op->weight_reads : 0) : 0;
}

static void choose_stashed(struct orr_compiler *c)
{
	for (int k = 0; k < c->graph->n_operators; k++) {
		const struct orr_operator *o = &c->graph->operators[k];
		unsigned reads = is_here(c, k) ? reads_of(c, k) : 0;

		unsigned left = reads && is_trained(o) ? o->instance->op->weight_reads : 0;

		for (int i = 0; i < o->n_inputs && (reads & ORR_READS_INPUTS); i++) {
			struct orr_note *input = &c->notes[o->inputs[i]];

			input->stashed = true;
			input->left = input->left || left & ORR_READS_INPUTS;
		}
		if (reads & ORR_READS_OUTPUT) {
			c->notes[k].stashed = true;
			c->notes[k].left = c->notes[k].left || left & ORR_READS_OUTPUT;
		}
	}
}

/* Where losses may leave their slopes in the place of the scores: a vocabulary's are the largest
 * tensors of a model. */
static void choose_slopes(struct orr_compiler *c)
{
	for (int k = 0; k < c->graph->n_operators; k++) {
		const struct orr_operator *o = &c->graph->operators[k];
		int i = o->n_inputs ? o->inputs[0] : k;
		struct orr_note *note = &c->notes[i];

		if (!o->instance->op->in_place || !is_here(c, k) || !is_here(c, i) ||
		    orr_operator_is_input(&c->graph->operators[i]) || note->stashed ||
		    !is_active(c, i) || orr_operator_is_detached(o, 0) || note->n_reads > 1)
			continue;
		note->slope = note->stashed = true;
		note->left = is_trained(&c->graph->operators[i]);
	}
}

/* Is a gradient of one of k's inputs wanted, so that B has a turn? */
static bool is_wanted(const struct orr_compiler *c, int k)
{
	const struct orr_operator *o = &c->graph->operators[k];

	for (int i = 0; i < o->n_inputs; i++)
		if (c->notes[o->inputs[i]].learns && !orr_operator_is_detached(o, i))
			return true;
	return false;
}

/* Is all that k reads, and the output of its reader r, of the type of its output? */
static bool is_of_one_type(const struct orr_graph *g, int k, int r)
{
	const struct orr_operator *o = &g->operators[k];

	for (int i = 0; i < o->n_inputs; i++)
		if (g->operators[o->inputs[i]].half != o->half)
			return false;
	return g->operators[r].half == o->half;
}

/* Which operators compute the relu behind them, too: what lies between the two is never written.
 * The relu's backward is in B, so B must have a turn where there is one. */
static void choose_relus(struct orr_compiler *c)
{
	for (int r = 1; r < c->graph->n_operators; r++) {
		const struct orr_operator *o = &c->graph->operators[r];
		int k = o->n_inputs ? o->inputs[0] : r;

		if (o->instance->op->is_relu && is_here(c, r) && is_here(c, k) &&
		    c->graph->operators[k].instance->op->takes_relu &&
		    (!is_active(c, k) || is_wanted(c, k)) && is_of_one_type(c->graph, k, r) &&
		    c->notes[k].n_reads == 1)
			c->notes[k].relu = r;
	}
}

int orr_compile_study(struct orr_compiler *c, struct orr_error *err)
{
	const struct orr_graph *g = c->graph;
	const int *stage_of = c->pipeline->stage_of;
	int n_losses = 0, code;

	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];

		if ((code = orr_program_check_operator(g, k, err)))
			return code;
		c->notes[k].loss = n_losses;
		n_losses += orr_operator_is_loss(o);
		c->notes[k].learns = is_trained(o);
		for (int i = 0; i < o->n_inputs; i++) {
			struct orr_note *input = &c->notes[o->inputs[i]];

			input->n_reads++;
			c->reads[(int64_t)o->inputs[i] * c->pipeline->n_stages + stage_of[k]] =
				true;
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
	choose_stashed(c);
	choose_slopes(c);
	choose_relus(c);
	return 0;
}

void orr_compile_mark_edge(struct orr_compiler *c, int from, int to)
{
	const struct orr_graph *g = c->graph;
	const int *stage_of = c->pipeline->stage_of;

	for (int k = 0; k < g->n_operators; k++) {
		c->notes[k].read = c->notes[k].returns = false;
		c->notes[k].reader = -1;
	}
	for (int k = 0; k < g->n_operators; k++)
		for (int i = 0; i < g->operators[k].n_inputs && stage_of[k] == to; i++) {
			struct orr_note *note = &c->notes[g->operators[k].inputs[i]];

			if (stage_of[g->operators[k].inputs[i]] != from ||
			    orr_operator_is_input(&g->operators[g->operators[k].inputs[i]]))
				continue;
			note->read = true;
			note->returns = note->returns || orr_graph_has_gradient(g, k, i);
			if (c->notes[k].matters && !orr_operator_is_detached(&g->operators[k], i))
				note->reader = k;
		}
}

int orr_compile_find_output(const struct orr_compiler *c, int k, const int *outputs, int n)
{
	const struct orr_pipeline *p = c->pipeline;

	for (int i = 0; i < n; i++) {
		bool carries = p->outputs[outputs[i] - p->n_edges].from == p->stage_of[k];

		for (int s = p->stage_of[k] + 1; s < p->n_stages && carries; s++)
			carries = c->reads[(int64_t)k * p->n_stages + s] ==
				  orr_pipeline_reads(p, s, outputs[i]);
		if (carries)
			return i;
	}
	return -1;
}
