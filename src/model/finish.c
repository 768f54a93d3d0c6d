/* From a draft to a graph: operators by number, with their inputs and encoders. */
#include "draft.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/heap.h"
#include "base/quantity.h"

/* What numbering works on: the edges of a draft by the operator that they leave and enter. */
struct numbering {
	struct orr_draft *draft;
	int *first_out,
		*out; /* heads of the edges out of i: out[first_out[i]] to out[first_out[i+1]-1] */
	int *first_in, *in;    /* numbers of the edges into i, in the order of the file */
	int *missing;          /* edges into i from operators without a number */
	struct orr_heap ready; /* operators with nothing missing, the first of the file on top */
	int *number;           /* of each operator, -1: none yet */
	int *order;            /* operators by number */
	int *seen;             /* of each operator, the last one that read it, plus 1 */
	int *encoder;          /* of each block, its encoder's number plus 1; 0: none yet */
	const struct orr_draft_operator **sorted; /* by name */
	int n;                                    /* numbers given */
	struct orr_arrays all;
};

static int numbering_init(struct numbering *x, struct orr_draft *draft)
{
	size_t n = (size_t)draft->n_operators + 1, n_edges = (size_t)draft->n_edges + 1;

	*x = (struct numbering){.draft = draft};
	orr_arrays_make(&x->all, x->first_out, n + 1);
	orr_arrays_make(&x->all, x->first_in, n + 1);
	orr_arrays_make(&x->all, x->out, n_edges);
	orr_arrays_make(&x->all, x->in, n_edges);
	orr_arrays_make(&x->all, x->missing, n);
	orr_arrays_make(&x->all, x->number, n);
	orr_arrays_make(&x->all, x->order, n);
	orr_arrays_make(&x->all, x->seen, n);
	orr_arrays_make(&x->all, x->sorted, n);
	orr_arrays_make(&x->all, x->encoder, (size_t)draft->n_blocks + 1);
	if (x->all.failed)
		return orr_draft_no_memory(draft);
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
static int number_operators(struct numbering *x)
{
	struct orr_error *err = x->draft->err;
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
	return orr_draft_keep(x->draft, code);
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
static int fail_cycle(struct numbering *x)
{
	const struct orr_draft_operator *operators = x->draft->operators;
	int start = 0, first, i, length = 0;
	const char *text = "";

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
	for (int k = 0; k < length && k < 8; k++)
		text = orr_text("%s%.30s -> ", text, operators[x->order[k]].is.name);
	return orr_draft_keep(x->draft,
			      orr_operator_fail(x->draft->name, &operators[first].is, x->draft->err,
						"a cycle: %s%s%.30s: take one of these edges away",
						text, length > 8 ? "... -> " : "",
						operators[first].is.name));
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct orr_draft_operator *const *)a)->is.name,
		      (*(const struct orr_draft_operator *const *)b)->is.name);
}

/* Unfolding can make a name that the file has already. */
static int check_names(struct numbering *x)
{
	struct orr_draft *draft = x->draft;

	for (int i = 0; i < draft->n_operators; i++)
		x->sorted[i] = &draft->operators[i];
	qsort(x->sorted, (size_t)draft->n_operators, sizeof(const struct orr_draft_operator *),
	      compare_names);
	for (int i = 1; i < draft->n_operators && !draft->code; i++)
		if (strcmp(x->sorted[i - 1]->is.name, x->sorted[i]->is.name) == 0)
			orr_draft_keep(draft,
				       orr_operator_fail(draft->name, &x->sorted[i]->is, draft->err,
							 "two operators get this name, one of them "
							 "from repeat or split: rename one"));
	return draft->code;
}

/* What the file says of each input, where it says anything of one. in: the edges. false: no memory.
 */
static bool fill_reads(struct orr_operator *o, const struct orr_draft *draft, const int *in)
{
	for (int k = 0; k < o->n_inputs; k++) {
		int read = draft->edges[in[k]].read;

		if (read < 0)
			continue;
		if (!o->reads) {
			if (!(o->reads = calloc((size_t)o->n_inputs, sizeof(*o->reads))))
				return false;
			for (int i = 0; i < o->n_inputs; i++)
				o->reads[i] = (struct orr_read){-1, -1, false};
		}
		o->reads[k] = draft->reads[read];
	}
	return true;
}

static void fill_inputs(struct orr_graph *g, int i, const struct numbering *x)
{
	struct orr_operator *o = &g->operators[i];
	const int *in = &x->in[x->first_in[x->order[i]]];
	struct orr_draft *draft = x->draft;

	o->n_inputs = x->first_in[x->order[i] + 1] - x->first_in[x->order[i]];
	if (!(o->inputs = calloc((size_t)o->n_inputs + 1, sizeof(*o->inputs))) ||
	    !fill_reads(o, draft, in))
		orr_draft_no_memory(draft);
	for (int k = 0; k < o->n_inputs && !draft->code; k++) {
		o->inputs[k] = x->number[draft->edges[in[k]].from];
		if (x->seen[o->inputs[k]] == i + 1)
			orr_draft_keep(draft,
				       orr_operator_fail(draft->name, o, draft->err,
							 "the edge %.60s -> %.60s is there twice: "
							 "take one away",
							 g->operators[o->inputs[k]].name, o->name));
		x->seen[o->inputs[k]] = i + 1;
	}
}

/* Encoders are numbered by their first operators; one without any is dropped. */
static void fill_encoders(struct orr_graph *g, const struct numbering *x)
{
	struct orr_draft *draft = x->draft;

	for (int i = 0; i < g->n_operators; i++) {
		int encoder = -1;

		for (int block = draft->operators[x->order[i]].block; block >= 0;
		     block = draft->blocks[block].parent)
			if (draft->blocks[block].encoder)
				encoder = block;
		if (encoder >= 0 && x->encoder[encoder] == 0)
			x->encoder[encoder] = ++g->n_encoders;
		g->operators[i].encoder = encoder >= 0 ? x->encoder[encoder] - 1 : -1;
	}
	for (int i = 0; i < draft->n_blocks; i++)
		if (x->encoder[i]) {
			g->encoders[x->encoder[i] - 1] = draft->blocks[i].encoder;
			draft->blocks[i].encoder = NULL;
		}
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

/* Its operators and what they read. */
static void fill(struct orr_graph *g, const struct numbering *x)
{
	struct orr_draft *draft = x->draft;

	if (!(g->operators = calloc((size_t)x->n, sizeof(*g->operators))) ||
	    !(g->encoders = calloc((size_t)draft->n_blocks + 1, sizeof(*g->encoders)))) {
		orr_draft_no_memory(draft);
		return;
	}
	for (int i = 0; i < x->n; i++) {
		g->operators[i] = draft->operators[x->order[i]].is;
		draft->operators[x->order[i]].is = (struct orr_operator){0};
	}
	g->n_operators = x->n;
	g->units = draft->units;
	g->overhead_ns = draft->overhead_ns;
	g->samples = draft->samples;
	g->profiled = draft->profiled;
	for (int i = 0; i < g->n_operators && !draft->code; i++)
		fill_inputs(g, i, x);
	fill_encoders(g, x);
	inherit(g, draft, x->order);
}

/* ---- operators that share one set of parameters ---- */

static int refuse(const struct orr_graph *g, const struct orr_operator *o, const char *why,
		  struct orr_error *err)
{
	return orr_operator_fail(g->name, o, err, "share=%.60s: %s, or take share away", o->share,
				 why);
}

/* Tensors of the same sizes, whatever reads them: an embedding's and a linear's may be tied. */
static bool alike(const struct orr_instance *a, const struct orr_instance *b)
{
	if (!a || !b || a->n_parameters != b->n_parameters)
		return a == b;
	for (int i = 0; i < a->n_parameters; i++)
		if (a->parameters[i].n_dims != b->parameters[i].n_dims ||
		    memcmp(a->parameters[i].dims, b->parameters[i].dims,
			   sizeof(a->parameters[i].dims)) != 0)
			return false;
	return true;
}

/* Can o have the parameters of `first`? */
static int check(const struct orr_graph *g, const struct orr_operator *first,
		 const struct orr_operator *o, struct orr_error *err)
{
	bool same = alike(o->instance, first->instance);
	const char *differs = strcmp(orr_operator_op(o), orr_operator_op(first)) != 0 && !same
				      ? "are of another op"
			      : o->frozen != first->frozen
				      ? "are frozen here or there alone (frozen=true)"
			      : !same || o->parameter_bytes != first->parameter_bytes
				      ? "have another shape or size"
				      : NULL;

	for (int i = 0; o->instance && i < o->instance->n_parameters; i++)
		if (o->instance->parameters[i].role == ORR_ROLE_AVERAGED)
			return refuse(g, o, "its running means are of one operator alone", err);
	if (!differs)
		return 0;
	return refuse(g, o,
		      orr_text("the parameters of node %.60s in line %d %s: make both nodes alike",
			       first->name, first->line, differs),
		      err);
}

struct named {
	const char *share;
	int number;
};

static int compare(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->share, y->share);

	return order ? order : x->number - y->number;
}

/* named: those with a name, by name and number. */
static int tie(struct orr_graph *g, const struct named *named, int n, struct orr_error *err)
{
	int code = 0;

	for (int i = 0, first = 0; i < n && !code; i++) {
		struct orr_operator *o = &g->operators[named[i].number];

		first = strcmp(named[first].share, named[i].share) ? i : first;
		o->tied = named[first].number;
		if (i > first)
			code = check(g, &g->operators[o->tied], o, err);
		else if (!orr_operator_has_parameters(o))
			code = refuse(g, o, "it has no parameters: name nodes that have some", err);
		else if (i + 1 == n || strcmp(named[i + 1].share, named[i].share) != 0)
			code = refuse(g, o,
				      "no other node says so: name it on all that share parameters",
				      err);
	}
	return code;
}

/* Every operator's `tied`. Refuses names that one operator has alone, and operators that cannot
 * have one set of parameters. */
static int tie_all(struct orr_graph *g, struct orr_error *err)
{
	struct named *named = malloc((size_t)g->n_operators * sizeof(*named));
	int n = 0, code;

	if (!named)
		return orr_no_memory(err, g->name);
	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].share)
			named[n++] = (struct named){g->operators[i].share, i};
	qsort(named, (size_t)n, sizeof(*named), compare);
	code = tie(g, named, n, err);
	free(named);
	return code;
}

/* ---- all of it ---- */

int orr_draft_finish(struct orr_graph **out, struct orr_draft *draft)
{
	struct orr_error *err = draft->err;
	struct numbering x = {0};
	struct orr_graph *g = NULL;

	if (draft->n_operators == 0)
		orr_draft_fail(draft, ORR_E_INPUT, "%s: a graph without operators", draft->name);
	if (draft->code || orr_draft_unfold(draft) || numbering_init(&x, draft) ||
	    check_names(&x) || number_operators(&x) || (x.n < draft->n_operators && fail_cycle(&x)))
		goto out;
	if ((g = calloc(1, sizeof(*g))))
		fill(g, &x);
	else
		orr_draft_no_memory(draft);
	if (draft->code)
		goto out;
	g->name = draft->name;
	g->data = draft->data;
	draft->name = draft->data = NULL;
	if (orr_draft_keep(draft, orr_graph_infer(g, err)) ||
	    orr_draft_keep(draft, tie_all(g, err)) ||
	    orr_draft_keep(draft, orr_graph_find_gradients(g, err)))
		goto out;
	*out = g;
	g = NULL;
out:
	orr_heap_fini(&x.ready);
	orr_arrays_free(&x.all);
	orr_graph_destroy(g);
	return draft->code;
}

void orr_graph_destroy(struct orr_graph *g)
{
	if (!g)
		return;
	for (int i = 0; i < g->n_operators; i++)
		orr_operator_fini(&g->operators[i]);
	for (int i = 0; i < g->n_encoders; i++)
		free(g->encoders[i]);
	free(g->name);
	free(g->folder);
	free(g->data);
	free(g->operators);
	free(g->encoders);
	free(g->lengths);
	orr_graph_destroy(g->whole);
	free(g);
}
