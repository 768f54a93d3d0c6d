/* From a draft to a graph: operators by number, with their inputs and encoders. */
#include "draft.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/heap.h"

/* What numbering works on: the edges of a draft by the operator that they leave and enter. */
struct numbering {
	const struct orr_draft *draft;
	int *first_out,
		*out; /* heads of the edges out of i: out[first_out[i]] to out[first_out[i+1]-1] */
	int *first_in, *in;    /* numbers of the edges into i, in the order of the file */
	int *missing;          /* edges into i from operators without a number */
	struct orr_heap ready; /* operators with nothing missing, the first of the file on top */
	int *number;           /* of each operator, -1: none yet */
	int *order;            /* operators by number */
	int n;                 /* numbers given */
	struct orr_arrays all;
};

static int numbering_init(struct numbering *x, const struct orr_draft *draft, struct orr_error *err)
{
	size_t n = (size_t)draft->n_operators + 1, n_edges = (size_t)draft->n_edges + 1;

	*x = (struct numbering){.draft = draft};
	x->first_out = orr_arrays_add(&x->all, n + 1, sizeof(int));
	x->first_in = orr_arrays_add(&x->all, n + 1, sizeof(int));
	x->out = orr_arrays_add(&x->all, n_edges, sizeof(int));
	x->in = orr_arrays_add(&x->all, n_edges, sizeof(int));
	x->missing = orr_arrays_add(&x->all, n, sizeof(int));
	x->number = orr_arrays_add(&x->all, n, sizeof(int));
	x->order = orr_arrays_add(&x->all, n, sizeof(int));
	if (x->all.failed)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to number its operators",
				draft->name);
	/* count into the next but one, sum up, and each start moves to its place as edges come */
	for (int i = 0; i < draft->n_edges; i++) {
		x->first_out[draft->edges[i].from + 2]++;
		x->first_in[draft->edges[i].to + 2]++;
	}
	for (int i = 2; i <= draft->n_operators; i++) {
		x->first_out[i] += x->first_out[i - 1];
		x->first_in[i] += x->first_in[i - 1];
	}
	for (int i = 0; i < draft->n_edges; i++) {
		x->out[x->first_out[draft->edges[i].from + 1]++] = draft->edges[i].to;
		x->in[x->first_in[draft->edges[i].to + 1]++] = i;
	}
	for (int i = 0; i < draft->n_operators; i++) {
		x->number[i] = -1;
		x->missing[i] = x->first_in[i + 1] - x->first_in[i];
	}
	return 0;
}

/* Give numbers as long as an operator has all its inputs. */
static int number_operators(struct numbering *x, struct orr_error *err)
{
	int code = 0;

	for (int i = 0; i < x->draft->n_operators && !code; i++)
		if (x->missing[i] == 0)
			code = orr_heap_push(&x->ready, i, 0, i, err);
	while (x->ready.n > 0 && !code) {
		int i = (int)orr_heap_pop(&x->ready).value;

		x->number[i] = x->n;
		x->order[x->n++] = i;
		for (int k = x->first_out[i]; k < x->first_out[i + 1] && !code; k++)
			if (--x->missing[x->out[k]] == 0)
				code = orr_heap_push(&x->ready, x->out[k], 0, x->out[k], err);
	}
	return code;
}

/* An input of i that has no number; there is one where i has none. */
static int unnumbered_input(const struct numbering *x, int i)
{
	int k = x->first_in[i];

	while (x->number[x->draft->edges[x->in[k]].from] >= 0)
		k++;
	return x->draft->edges[x->in[k]].from;
}

/* Name the operators of a cycle in the order of the data, from the first of the file on. */
static int fail_cycle(struct numbering *x, struct orr_error *err)
{
	const struct orr_draft_operator *operators = x->draft->operators;
	int start = 0, first, i, length = 0;
	char text[320] = "", place[256];
	size_t used;

	while (x->number[start] >= 0)
		start++;
	/* so many steps back end inside the cycle */
	for (int k = 0; k < x->draft->n_operators; k++)
		start = unnumbered_input(x, start);
	for (first = i = start; length == 0 || i != start; length++) {
		if (i < first)
			first = i;
		i = unnumbered_input(x, i);
	}
	i = first;
	for (int k = length - 1; k >= 0; k--)
		x->order[k] = i = unnumbered_input(x, i); /* order[0] is first again */
	for (int k = 0; k < length && k < 8; k++) {
		used = strlen(text);
		(void)snprintf(text + used, sizeof(text) - used, "%.30s -> ",
			       operators[x->order[k]].is.name);
	}
	used = strlen(text);
	(void)snprintf(text + used, sizeof(text) - used, "%s%.30s", length > 8 ? "... -> " : "",
		       operators[first].is.name);
	return orr_fail(err, ORR_E_INPUT, "%s: a cycle: %s: take one of these edges away",
			orr_location(place, sizeof(place), x->draft->name, operators[first].is.line,
				     operators[first].is.name),
			text);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct orr_draft_operator *const *)a)->is.name,
		      (*(const struct orr_draft_operator *const *)b)->is.name);
}

/* Unfolding can make a name that the file has already. */
static int check_names(const struct orr_draft *draft, struct orr_error *err)
{
	const struct orr_draft_operator **sorted =
		calloc((size_t)draft->n_operators + 1, sizeof(*sorted));
	char place[256];
	int code = 0;

	if (!sorted)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its names", draft->name);
	for (int i = 0; i < draft->n_operators; i++)
		sorted[i] = &draft->operators[i];
	qsort(sorted, (size_t)draft->n_operators, sizeof(const struct orr_draft_operator *),
	      compare_names);
	for (int i = 1; i < draft->n_operators && !code; i++)
		if (strcmp(sorted[i - 1]->is.name, sorted[i]->is.name) == 0)
			code = orr_fail(err, ORR_E_INPUT,
					"%s: two operators get this name, one of them from repeat "
					"or split: rename one",
					orr_location(place, sizeof(place), draft->name,
						     sorted[i]->is.line, sorted[i]->is.name));
	free(sorted);
	return code;
}

static int no_memory_for_edges(const struct numbering *x, struct orr_error *err)
{
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its edges", x->draft->name);
}

/* What the file says of each input, where it says anything of one. in: the edges. */
static int fill_reads(struct orr_operator *o, const struct numbering *x, const int *in,
		      struct orr_error *err)
{
	for (int k = 0; k < o->n_inputs; k++) {
		int read = x->draft->edges[in[k]].read;

		if (read < 0)
			continue;
		if (!o->reads) {
			if (!(o->reads = calloc((size_t)o->n_inputs, sizeof(*o->reads))))
				return no_memory_for_edges(x, err);
			for (int i = 0; i < o->n_inputs; i++)
				o->reads[i] = (struct orr_read){-1, -1, false};
		}
		o->reads[k] = x->draft->reads[read];
	}
	return 0;
}

/* seen: of each operator, the last one that read it, plus 1. */
static int fill_inputs_of(struct orr_graph *g, int i, const struct numbering *x, int *seen,
			  struct orr_error *err)
{
	struct orr_operator *o = &g->operators[i];
	const int *in = &x->in[x->first_in[x->order[i]]];
	char place[256];

	o->n_inputs = x->first_in[x->order[i] + 1] - x->first_in[x->order[i]];
	o->inputs = calloc((size_t)o->n_inputs + 1, sizeof(*o->inputs));
	if (!o->inputs)
		return no_memory_for_edges(x, err);
	for (int k = 0; k < o->n_inputs; k++) {
		o->inputs[k] = x->number[x->draft->edges[in[k]].from];
		if (seen[o->inputs[k]] == i + 1)
			return orr_fail(err, ORR_E_INPUT,
					"%s: the edge %.60s -> %.60s is there twice: take one away",
					orr_location(place, sizeof(place), x->draft->name, o->line,
						     o->name),
					g->operators[o->inputs[k]].name, o->name);
		seen[o->inputs[k]] = i + 1;
	}
	return fill_reads(o, x, in, err);
}

static int fill_inputs(struct orr_graph *g, const struct numbering *x, struct orr_error *err)
{
	int *seen = calloc((size_t)g->n_operators + 1, sizeof(*seen)), code = 0;

	if (!seen)
		return no_memory_for_edges(x, err);
	for (int i = 0; i < g->n_operators && !code; i++)
		code = fill_inputs_of(g, i, x, seen, err);
	free(seen);
	return code;
}

/* Encoders are numbered by their first operators; one without any is dropped. */
static int fill_encoders(struct orr_graph *g, struct orr_draft *draft, const int *order,
			 struct orr_error *err)
{
	int *number = calloc((size_t)draft->n_encoders + 1, sizeof(*number));

	g->encoders = calloc((size_t)draft->n_encoders + 1, sizeof(*g->encoders));
	if (!number || !g->encoders) {
		free(number);
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its encoders", draft->name);
	}
	for (int i = 0; i < g->n_operators; i++) {
		int encoder = -1;

		for (int block = draft->operators[order[i]].block; block >= 0;
		     block = draft->blocks[block].parent)
			if (draft->blocks[block].encoder >= 0)
				encoder = draft->blocks[block].encoder;
		if (encoder >= 0 && number[encoder] == 0) {
			g->encoders[g->n_encoders++] = draft->encoders[encoder];
			draft->encoders[encoder] = NULL;
			number[encoder] = g->n_encoders;
		}
		g->operators[i].encoder = encoder >= 0 ? number[encoder] - 1 : -1;
	}
	free(number);
	return 0;
}

/* What the subgraphs around it say of an operator: it is frozen with each of them; of what else
 * they say the innermost counts. */
static void inherit(struct orr_graph *g, const struct orr_draft *draft, const int *order)
{
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_operator *o = &g->operators[i];
		double *exponent = &o->length_exponent;

		for (int at = draft->operators[order[i]].block; at >= 0;
		     at = draft->blocks[at].parent) {
			const struct orr_draft_block *block = &draft->blocks[at];

			o->frozen = o->frozen || block->frozen;
			*exponent = *exponent < 0 ? block->length_exponent : *exponent;
			if (!o->split) {
				o->split = block->split;
				o->split_copied = block->split_copied;
			}
		}
		if (*exponent < 0)
			*exponent = draft->length_exponent < 0 ? 1 : draft->length_exponent;
	}
}

int orr_draft_finish(struct orr_graph **out, struct orr_draft *draft, struct orr_error *err)
{
	struct orr_graph *g = NULL;
	struct numbering x = {0};
	int code;

	if (draft->n_operators == 0)
		return orr_fail(err, ORR_E_INPUT, "%s: a graph without operators", draft->name);
	if ((code = orr_draft_unfold(draft, err)) || (code = check_names(draft, err)) ||
	    (code = numbering_init(&x, draft, err)) || (code = number_operators(&x, err)))
		goto out;
	if (x.n < draft->n_operators) {
		code = fail_cycle(&x, err);
		goto out;
	}
	g = calloc(1, sizeof(*g));
	if (!g || !(g->operators = calloc((size_t)x.n, sizeof(*g->operators)))) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory for its operators", draft->name);
		goto out;
	}
	for (int i = 0; i < x.n; i++) {
		g->operators[i] = draft->operators[x.order[i]].is;
		draft->operators[x.order[i]].is = (struct orr_operator){0};
	}
	g->n_operators = x.n;
	g->units = draft->units;
	g->overhead_ns = draft->overhead_ns;
	g->samples = draft->samples;
	g->profiled = draft->profiled;
	if ((code = fill_inputs(g, &x, err)) || (code = fill_encoders(g, draft, x.order, err)))
		goto out;
	g->name = draft->name;
	g->data = draft->data;
	draft->name = draft->data = NULL;
	inherit(g, draft, x.order);
	if ((code = orr_graph_infer(g, err)) || (code = orr_graph_tie(g, err)) ||
	    (code = orr_graph_find_gradients(g, err)))
		goto out;
	*out = g;
	g = NULL;
out:
	orr_heap_fini(&x.ready);
	orr_arrays_free(&x.all);
	orr_graph_destroy(g);
	return code;
}
