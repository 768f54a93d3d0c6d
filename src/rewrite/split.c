#include "rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "base/quantity.h"
#include "rewriting.h"

/* ---- how an operator is split ---- */

static enum orr_sharding input_of(const struct orr_division *d, int i)
{
	return d->inputs[i < d->n_inputs ? i : d->n_inputs - 1];
}

static bool is_long_enough(struct orr_shape shape, enum orr_sharding how, int t)
{
	return (how != ORR_SHARDING_ROWS || shape.rows >= t) &&
	       (how != ORR_SHARDING_COLUMNS || shape.columns >= t);
}

/* Columns of heads lie together, so that their number must be a multiple; of one number alone any
 * part will do. */
static bool fits(const struct orr_division *d, const struct orr_operator *o, int t, bool copied)
{
	struct orr_instance *is = o->instance;
	const double *where = orr_instance_value(is, d->where);

	if (where && (*where > 0) != d->is)
		return false;
	if (!is_long_enough(is->output, d->output, t) || (copied && d->output == ORR_SHARDING_ROWS))
		return false;
	for (int i = 0; i < o->n_inputs; i++)
		if (!is_long_enough(is->inputs[i], input_of(d, i), t) ||
		    (copied && input_of(d, i) == ORR_SHARDING_ROWS))
			return false;
	for (int i = 0; i < 2 && d->divided[i]; i++) {
		double value = *orr_instance_value(is, d->divided[i]);

		if (value > 0 && (d->evenly ? (int64_t)value % t != 0 : value < t))
			return false;
	}
	return true;
}

/* Floats that will be sent for its output by whatever reads it: addends must be added up, and where
 * nothing is split by rows all are to have all in the end. */
static double floats_after(const struct orr_operator *o, const struct orr_division *d,
			   const struct orr_split_choice *choice)
{
	double parts = (double)orr_shape_floats(o->instance->output) * (choice->t - 1) / choice->t;
	bool sum = d->output == ORR_SHARDING_SUM, columns = d->output == ORR_SHARDING_COLUMNS;

	return parts * (sum + (choice->copied && (sum || columns)));
}

/* ---- operators that share parameters ---- */

/* Of a division of o, or none: one worker has all. */
static bool is_copied(const struct orr_operator *o, const struct orr_division *d)
{
	for (int i = 0; d && i < o->instance->n_parameters; i++)
		if (d->axes[i] != ORR_DIVISION_COPIED)
			return false;
	return true;
}

/* Do both leave o the same parts of its parameters? */
static bool are_alike(const struct orr_operator *o, const struct orr_division *a,
		      const struct orr_division *b)
{
	if (!a || !b)
		return is_copied(o, a) && is_copied(o, b);
	return !memcmp(a->axes, b->axes, (size_t)o->instance->n_parameters * sizeof(*a->axes));
}

/* Can operator k be split so that its parameters are in such parts, t of them? */
static bool can_be(const struct orr_rewriting *x, int k, const struct orr_division *d, int t)
{
	const struct orr_operator *o = &x->graph->operators[k];
	const struct orr_split_choice *choice = &x->choices[k];
	const struct orr_op *op = o->instance->op;

	for (int i = 0; i < op->n_divisions && choice->t == t && choice->expert < 0; i++)
		if (are_alike(o, &op->divisions[i], d) &&
		    fits(&op->divisions[i], o, t, choice->copied))
			return true;
	return is_copied(o, d);
}

/* The first that is chosen of those that share parameters says in which parts all of them have
 * these, such as all can have; else each has them whole. */
static bool agrees(const struct orr_rewriting *x, int k, const struct orr_division *d)
{
	const struct orr_operator *o = &x->graph->operators[k];

	if (o->tied >= 0 && o->tied != k)
		return are_alike(o, d, x->choices[o->tied].division);
	for (int i = k + 1; o->tied == k && i < x->graph->n_operators; i++)
		if (x->graph->operators[i].tied == k && !can_be(x, i, d, x->choices[k].t))
			return false;
	return true;
}

/* That for which least moves, or NULL: it cannot be split. */
static const struct orr_division *choose(const struct orr_rewriting *x, int k)
{
	const struct orr_operator *o = &x->graph->operators[k];
	const struct orr_split_choice *choice = &x->choices[k];
	const struct orr_op *op = o->instance->op;
	const struct orr_division *best = NULL;
	double least = 0;

	for (int i = 0; i < op->n_divisions && choice->t > 1 && choice->expert < 0; i++) {
		const struct orr_division *d = &op->divisions[i];
		double floats;

		if (!fits(d, o, choice->t, choice->copied) || !agrees(x, k, d))
			continue;
		floats = floats_after(o, d, choice);
		for (int n = 0; n < o->n_inputs; n++)
			floats += orr_exchange_floats(x, o->inputs[n], choice->t, input_of(d, n));
		if (!best || floats < least) {
			best = d;
			least = floats;
		}
	}
	return best;
}

/* ---- its parts ---- */

static bool splits_parameters(const struct orr_division *d)
{
	return d && d->axes[0] != ORR_DIVISION_COPIED;
}

static bool is_shared(const struct orr_graph *g, const char *share)
{
	for (int k = 0; k < g->n_operators; k++)
		if (g->operators[k].share && !strcmp(g->operators[k].share, share))
			return true;
	return false;
}

/* A name of a set of parameters that the file does not have: "share/0", or with more strokes. */
static char *name_of_set(const struct orr_graph *g, const char *share, int i)
{
	static const char strokes[] = "////////////////";
	char *name = NULL;

	for (int n = 1; n < (int)sizeof(strokes); n++) {
		free(name);
		if (asprintf(&name, "%s%.*s%d", share, n, strokes, i) < 0)
			return NULL;
		if (!is_shared(g, name))
			break;
	}
	return name;
}

/* Copies have one set of parameters; parts have sets of their own, which those of others share
 * where the whole ones do. false: no memory. */
static bool name_set(struct orr_operator *part, const struct orr_graph *g,
		     const struct orr_operator *o, const struct orr_division *d, int i)
{
	bool copies = d && d->axes[0] == ORR_DIVISION_COPIED && o->n_parameters > 0;

	if (!o->share && !copies)
		return true;
	part->share = !o->share              ? name_of_set(g, o->name, 0)
		      : splits_parameters(d) ? name_of_set(g, o->share, i)
					     : strdup(o->share);
	return part->share;
}

static void set_values(struct orr_instance *is, const struct orr_instance *whole,
		       const struct orr_division *d, int t, int i)
{
	double *value;

	memcpy(is->values, whole->values, sizeof(is->values));
	for (int n = 0; d && n < 2 && (value = orr_instance_value(is, d->divided[n])); n++) {
		int64_t all = (int64_t)*value, first = orr_part_first(all, t, i);

		*value = (double)(orr_part_first(all, t, i + 1) - first);
		if (n)
			continue;
		if ((value = orr_instance_value(is, d->first)))
			*value += (double)first;
	}
	if (d && i && (value = orr_instance_value(is, d->once)))
		*value = 0;
}

/* What the file says of its costs, in equal parts. */
static void set_costs(struct orr_operator *part, const struct orr_operator *o,
		      const struct orr_division *d, int t)
{
	bool parts = d && d->output != ORR_SHARDING_COPIED;
	bool thinner = d && (d->output == ORR_SHARDING_ROWS || d->output == ORR_SHARDING_COLUMNS);
	const int64_t *const from[] = {&o->forward_ns,  &o->backward_ns,      &o->weight_ns,
				       &o->stash_bytes, &o->activation_bytes, &o->parameter_bytes,
				       &o->update_ns};
	int64_t *const to[] = {&part->forward_ns,  &part->backward_ns,      &part->weight_ns,
			       &part->stash_bytes, &part->activation_bytes, &part->parameter_bytes,
			       &part->update_ns};
	const bool divided[] = {
		parts, parts, parts, parts, thinner, splits_parameters(d), splits_parameters(d)};

	for (int n = 0; n < 7; n++)
		*to[n] = *from[n] > 0 && divided[n] ? (*from[n] + t - 1) / t : *from[n];
}

/* false: no memory. */
static bool copy_input(struct orr_operator *to, const struct orr_operator *from)
{
	size_t bytes = (size_t)from->width * sizeof(*from->columns);

	if (!from->columns)
		return true;
	to->columns = malloc(bytes);
	to->tensor = from->tensor ? strdup(from->tensor) : NULL;
	if (!to->columns || (from->tensor && !to->tensor))
		return false;
	memcpy(to->columns, from->columns, bytes);
	to->width = from->width;
	return true;
}

/* Operator k, or part i of t of it, which reads made[input][i]. Its number. */
static int add_part(struct orr_rewriting *x, int k, const struct orr_division *d, int t, int i,
		    const int *const *reads)
{
	const struct orr_operator *o = &x->graph->operators[k];
	int shard = d ? i : (int)larger(x->choices[k].expert, 0);
	int n = orr_rewriting_add(x, k, o->instance ? o->instance->op : NULL, shard, "%s",
				  d ? orr_text("/%d", i) : "");
	struct orr_operator *part;

	if (n < 0)
		return n;
	part = &x->draft.operators[n].is;
	part->frozen = o->frozen;
	part->recompute = o->recompute;
	part->gather = o->gather;
	if (part->instance)
		set_values(part->instance, o->instance, d, t, i);
	set_costs(part, o, d, t);
	if ((o->label && !(part->label = strdup(o->label))) || !copy_input(part, o) ||
	    !name_set(part, x->graph, o, d, i))
		orr_rewriting_no_memory(x);
	for (int in = 0; in < o->n_inputs; in++)
		orr_rewriting_read(x, reads[in][d ? i : shard], n, orr_operator_is_detached(o, in));
	return n;
}

/* ---- a loss of scores that lie in parts ---- */

/* What both have by the same name. */
static void copy_values(struct orr_instance *to, const struct orr_instance *from)
{
	for (const struct orr_attribute *a = from->op->attributes; a && a->name; a++) {
		double *value = orr_instance_value(to, a->name);

		if (value)
			*value = from->values[orr_op_value(from->op, a)];
	}
}

static bool is_loss_of_parts(const struct orr_rewriting *x, int k)
{
	const struct orr_operator *o = &x->graph->operators[k];
	int t = x->choices[k].t;

	return o->instance && o->instance->op->part && t > 1 && x->spreads[o->inputs[0]].t == t &&
	       x->spreads[o->inputs[0]].how == ORR_SHARDING_COLUMNS;
}

/* What worker i of t sees of its scores. */
static int add_loss_part(struct orr_rewriting *x, int k, int t, int i, int scores, int classes)
{
	const struct orr_operator *o = &x->graph->operators[k];
	int n = orr_rewriting_add(x, k, o->instance->op->part, i, ":part/%d", i);
	struct orr_operator *part;

	if (n < 0)
		return n;
	part = &x->draft.operators[n].is;
	part->moves = true;
	copy_values(part->instance, o->instance);
	*orr_instance_value(part->instance, "first") =
		(double)orr_part_first(o->instance->inputs[0].columns, t, i);
	orr_rewriting_read(x, scores, n, orr_operator_is_detached(o, 0));
	orr_rewriting_read(x, classes, n, false);
	return n;
}

/* These parts, and the loss of all of them on the first worker: its number. */
static int split_loss(struct orr_rewriting *x, int k)
{
	const struct orr_operator *o = &x->graph->operators[k];
	int t = x->choices[k].t, *parts = orr_arrays_add(&x->all, (size_t)t, sizeof(*parts)), joint,
	    n;
	const int *scores = x->spreads[o->inputs[0]].made,
		  *classes = orr_exchange(x, o->inputs[1], t, ORR_SHARDING_COPIED, 0)->made;

	if (!parts)
		return orr_rewriting_no_memory(x);
	for (int i = 0; i < t && !x->draft.code; i++)
		parts[i] = add_loss_part(x, k, t, i, scores[i], classes[i]);
	joint = orr_rewriting_join(x, k, 0, parts, t);
	n = orr_rewriting_add(x, k, o->instance->op->joined, 0, "%s", "");
	if (n < 0)
		return n;
	copy_values(x->draft.operators[n].is.instance, o->instance);
	*orr_instance_value(x->draft.operators[n].is.instance, "classes") =
		(double)o->instance->inputs[0].columns;
	set_costs(&x->draft.operators[n].is, o, NULL, t);
	orr_rewriting_read(x, joint, n, false);
	orr_rewriting_read(x, classes[0], n, false);
	return n;
}

static void split_operator(struct orr_rewriting *x, int k)
{
	const struct orr_operator *o = &x->graph->operators[k];
	struct orr_split_choice *choice = &x->choices[k];
	struct orr_sharded *spread = &x->spreads[k];
	const int **reads = orr_arrays_add(&x->all, (size_t)o->n_inputs + 1, sizeof(*reads));
	const struct orr_division *d = o->instance ? choose(x, k) : NULL;
	int n_parts = d ? choice->t : 1;

	spread->t = choice->t;
	spread->how = d ? d->output : ORR_SHARDING_NONE;
	spread->at = d ? 0 : (int)larger(choice->expert, 0);
	orr_arrays_make(&x->all, spread->made, choice->t);
	choice->division = d;
	x->reader = k;
	if (x->all.failed) {
		orr_rewriting_no_memory(x);
	} else if (is_loss_of_parts(x, k)) {
		spread->made[0] = split_loss(x, k);
		return;
	}
	for (int i = 0; i < o->n_inputs && !x->draft.code; i++)
		reads[i] = orr_exchange(x, o->inputs[i], choice->t,
					d ? input_of(d, i) : ORR_SHARDING_NONE, spread->at)
				   ->made;
	for (int i = 0; i < n_parts && !x->draft.code; i++)
		spread->made[i] = add_part(x, k, d, choice->t, i, reads);
	for (int i = n_parts; i < choice->t && !x->draft.code; i++)
		spread->made[i] = spread->made[0];
}

/* ---- the graph ---- */

/* Of a graph in which something is split. */
static int check(const struct orr_graph *g, const struct orr_split_choice *choices,
		 struct orr_error *err)
{
	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];

		if (choices[k].t > 1 && orr_operator_is_study(o))
			return orr_operator_fail(
				g->name, o, err,
				"a split needs operators, and only its costs are known: give "
				"it an op, or take split= away");
		if (o->n_gang || o->with)
			return orr_operator_fail(
				g->name, o, err,
				"it says on which workers it is (gang= or with=), and the "
				"graph is split among workers: take one of both away");
	}
	return 0;
}

/* What was not said of a part: of which tensor of the whole operator it has what. */
static void note_portions(struct orr_operator *part, const struct orr_operator *o, int t)
{
	struct orr_instance *is = part->instance;

	for (int i = 0; i < is->n_parameters; i++) {
		struct orr_parameter_tensor *own = &is->parameters[i];
		const struct orr_parameter_tensor *whole = o->instance->parameters;

		while (strcmp(whole->name, own->name) != 0)
			whole++;
		own->initial = whole->initial;
		own->value = whole->value;
		for (int a = 0; a < own->n_dims; a++)
			if (own->dims[a] != whole->dims[a])
				own->portion = (struct orr_portion){
					a, orr_part_first(whole->dims[a], t, part->shard),
					whole->dims[a]};
	}
	if (is->output.rows != o->instance->output.rows)
		is->portion = (struct orr_portion){
			0, orr_part_first(o->instance->output.rows, t, part->shard),
			o->instance->output.rows};
	else if (is->output.columns != o->instance->output.columns)
		is->portion = (struct orr_portion){
			1, orr_part_first(o->instance->output.columns, t, part->shard),
			o->instance->output.columns};
}

static int finish(struct orr_graph **out, struct orr_rewriting *x, struct orr_graph *g)
{
	struct orr_graph *split = NULL;
	int code = orr_rewriting_prune(x);

	if (code || (code = orr_draft_finish(&split, &x->draft)))
		return code;
	for (int k = 0; k < split->n_operators; k++) {
		struct orr_operator *part = &split->operators[k];
		const struct orr_operator *o = &g->operators[part->origin];

		if (!part->moves)
			note_portions(part, o, x->choices[part->origin].t);
	}
	if (g->folder && !(split->folder = strdup(g->folder)))
		code = orr_rewriting_no_memory(x);
	else if (g->n_lengths)
		code = orr_graph_set_lengths(split, g->lengths, g->n_lengths, x->draft.err);
	if (code) {
		orr_graph_destroy(split);
		return code;
	}
	split->whole = g;
	*out = split;
	return 0;
}

static void draft_begin(struct orr_rewriting *x)
{
	const struct orr_graph *g = x->graph;
	struct orr_draft *draft = &x->draft;

	draft->units = g->units;
	draft->overhead_ns = g->overhead_ns;
	draft->samples = g->samples;
	draft->profiled = g->profiled;
	if ((g->data && !(draft->data = strdup(g->data))) ||
	    !(draft->reads = calloc(1, sizeof(*draft->reads)))) {
		orr_rewriting_no_memory(x);
		return;
	}
	draft->reads[0] = (struct orr_read){-1, -1, true};
	for (int i = 0; i < g->n_encoders; i++)
		(void)orr_draft_add_block(draft, g->encoders[i], -1, g->encoders[i]);
}

struct orr_graph *orr_graph_unsplit(struct orr_graph *split)
{
	struct orr_graph *whole = split->whole;

	split->whole = NULL;
	orr_graph_destroy(split);
	return whole;
}

int orr_graph_split(struct orr_graph **out, struct orr_graph *g, const char *splits,
		    struct orr_error *err)
{
	struct orr_rewriting x = {.graph = g, .owner = -1};
	size_t n = (size_t)g->n_operators;
	bool any = false;
	int code = orr_draft_init(&x.draft, g->name, err);

	orr_arrays_make(&x.all, x.choices, n);
	orr_arrays_make(&x.all, x.spreads, n);
	if (!code && x.all.failed)
		code = orr_rewriting_no_memory(&x);
	if (code || (code = orr_splits_choose(x.choices, g, splits, err)))
		goto out;
	for (int k = 0; k < g->n_operators; k++)
		any = any || x.choices[k].t > 1;
	if (!any) {
		*out = g;
		goto out;
	}
	if ((code = check(g, x.choices, err)))
		goto out;
	draft_begin(&x);
	for (int k = 0; k < g->n_operators && !x.draft.code; k++)
		split_operator(&x, k);
	if (!(code = x.draft.code) && !(code = finish(out, &x, g)))
		orr_graph_set_precision(*out, g->precision);
out:
	orr_arrays_free(&x.all);
	orr_draft_fini(&x.draft);
	return code;
}
