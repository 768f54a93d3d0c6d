#include "orrery/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/quantity.h"
#include "codelets/operator.h"

bool orr_operator_is_input(const struct orr_operator *o)
{
	return o->instance && o->instance->op->input;
}

bool orr_operator_is_loss(const struct orr_operator *o)
{
	return o->instance && o->instance->op->loss;
}

bool orr_operator_is_counted(const struct orr_operator *o)
{
	const double *counted = o->instance && o->instance->op->opaque
					? orr_instance_value(o->instance, "counted")
					: NULL;

	return !counted || *counted > 0;
}

const char *orr_operator_op(const struct orr_operator *o)
{
	return o->instance ? o->instance->op->name : "cost";
}

double orr_operator_factor(const struct orr_operator *o)
{
	return o->instance->values[0];
}

static void print_value(char value[ORR_VALUE], const struct orr_attribute *a, const double *at)
{
	const char *choice = a->choices;

	switch (a->form) {
	case ORR_ATTRIBUTE_REAL: /* the fewest digits that are this double; 17 always are */
		for (int digits = 6; digits <= 17; digits++) {
			(void)snprintf(value, ORR_VALUE, "%.*g", digits, *at);
			if (strtod(value, NULL) <= *at && strtod(value, NULL) >= *at)
				break;
		}
		break;
	case ORR_ATTRIBUTE_TRUTH:
		(void)snprintf(value, ORR_VALUE, "%s", *at > 0 ? "true" : "false");
		break;
	case ORR_ATTRIBUTE_CHOICE:
		for (int i = 0; i < (int)*at; i++)
			choice = strchr(choice, ' ') + 1;
		(void)snprintf(value, ORR_VALUE, "%.*s", (int)strcspn(choice, ","), choice);
		break;
	case ORR_ATTRIBUTE_RANGE:
		(void)snprintf(value, ORR_VALUE, "%lld:%lld", (long long)at[0], (long long)at[1]);
		break;
	case ORR_ATTRIBUTE_COUNT:
	case ORR_ATTRIBUTE_COLUMNS:
	case ORR_ATTRIBUTE_TEXT:
		(void)snprintf(value, ORR_VALUE, "%lld", (long long)*at);
		break;
	}
}

const char *orr_operator_attribute(const struct orr_operator *o, int i, char value[ORR_VALUE],
				   bool *usual)
{
	const struct orr_attribute *a = o->instance ? o->instance->op->attributes : NULL;
	const double *at;

	for (int n = 0; a && a->name; a++) {
		if (a->form == ORR_ATTRIBUTE_COLUMNS || a->form == ORR_ATTRIBUTE_TEXT || n++ < i)
			continue;
		at = &o->instance->values[orr_op_value(o->instance->op, a)];
		print_value(value, a, at);
		*usual = !a->missing && !(at[0] < a->otherwise || at[0] > a->otherwise);
		if (a->form == ORR_ATTRIBUTE_RANGE)
			*usual = at[1] < 0;
		return a->name;
	}
	return NULL;
}

const char *orr_graph_op(int i, const char **text)
{
	const struct orr_op *op = i < orr_n_ops ? orr_ops[i] : NULL;

	*text = "";
	for (const struct orr_attribute *a = op ? op->attributes : NULL; a && a->name; a++) {
		/* not one that only says that nothing was said: ignore=-inf */
		bool number =
			a->form == ORR_ATTRIBUTE_REAL || a->form == ORR_ATTRIBUTE_COUNT
				? a->otherwise >= a->least && a->otherwise <= a->most
				: a->form == ORR_ATTRIBUTE_TRUTH || a->form == ORR_ATTRIBUTE_CHOICE;
		char value[ORR_VALUE] = "";

		if (number && !a->missing)
			print_value(value, a, &a->otherwise);
		*text = orr_text("%s%s%s=%s", *text, **text ? ", " : "", a->name, value);
	}
	return op ? op->name : NULL;
}

const char *orr_operator_parameter(const struct orr_operator *o, int i, int *n_dims,
				   const int64_t **dims)
{
	if (!o->instance || i >= o->instance->n_parameters)
		return NULL;
	*n_dims = o->instance->parameters[i].n_dims;
	*dims = o->instance->parameters[i].dims;
	return o->instance->parameters[i].name;
}

const char *orr_operator_parameter_role(const struct orr_operator *o, int i)
{
	static const char *const names[] = {[ORR_ROLE_WEIGHT] = "weight",
					    [ORR_ROLE_SPARED] = "spared",
					    [ORR_ROLE_AVERAGED] = "averaged"};

	return names[o->instance->parameters[i].role];
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return text ? orr_hash(hash, text, strlen(text) + 1) : hash;
}

void orr_graph_fingerprint(const struct orr_graph *g, char text[24])
{
	uint64_t hash = orr_hash(ORR_HASH, &g->overhead_ns, sizeof(g->overhead_ns));
	char value[ORR_VALUE];
	const char *name;
	bool usual;

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];
		const int64_t numbers[] = {
			o->rows,        o->width,          o->n_parameters, o->forward_ns,
			o->backward_ns, o->weight_ns,      o->update_ns,    o->activation_bytes,
			o->stash_bytes, o->parameter_bytes};

		hash = hash_text(hash, o->name);
		if (!orr_operator_is_study(o))
			hash = hash_text(hash, orr_operator_op(o));
		for (int k = 0; (name = orr_operator_attribute(o, k, value, &usual)); k++)
			if (!usual)
				hash = hash_text(hash_text(hash, name), value);
		hash = orr_hash(hash, numbers, sizeof(numbers));
		hash = orr_hash(hash, o->inputs, (size_t)o->n_inputs * sizeof(*o->inputs));
		for (int k = 0; o->reads && k < o->n_inputs; k++) {
			const int64_t read[] = {o->reads[k].bytes, o->reads[k].gradient_bytes,
						o->reads[k].detached};

			hash = orr_hash(hash, read, sizeof(read));
		}
		if (o->frozen) /* as before there was such a thing where nothing is */
			hash = orr_hash(hash, &o->frozen, sizeof(o->frozen));
		if (o->recompute)
			hash = orr_hash(hash, "recompute", sizeof("recompute"));
		if (o->gather)
			hash = orr_hash(hash, "gather", sizeof("gather"));
		if (o->n_gang)
			hash = orr_hash(hash, &o->n_gang, sizeof(o->n_gang));
		if (o->gang)
			hash = orr_hash(hash, o->gang, (size_t)o->n_gang * sizeof(*o->gang));
		hash = hash_text(hash, o->with);
		if (o->tied >= 0)
			hash = orr_hash(hash, &o->tied, sizeof(o->tied));
		if (o->length_exponent != 1) /* a default, too */
			hash = orr_hash(hash, &o->length_exponent, sizeof(o->length_exponent));
		hash = hash_text(hash, o->tensor);
		if (o->columns)
			hash = orr_hash(hash, o->columns, (size_t)o->width * sizeof(*o->columns));
	}
	orr_hash_print(text, hash);
}
