#include "operator.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int orr_op_value(const struct orr_op *op, const struct orr_attribute *a)
{
	int at = 0;

	for (const struct orr_attribute *before = op->attributes; before < a; before++)
		at += before->form == ORR_ATTRIBUTE_RANGE ? 2 : 1;
	return at;
}

double *orr_instance_value(struct orr_instance *is, const char *name)
{
	for (const struct orr_attribute *a = name ? is->op->attributes : NULL; a && a->name; a++)
		if (!strcmp(a->name, name))
			return &is->values[orr_op_value(is->op, a)];
	return NULL;
}

struct orr_instance *orr_instance_create(const struct orr_op *op)
{
	struct orr_instance *is = calloc(1, sizeof(*is));

	if (!is)
		return NULL;
	is->op = op;
	for (const struct orr_attribute *a = op->attributes; a && a->name; a++) {
		double *at = &is->values[orr_op_value(op, a)];

		*at = a->otherwise;
		if (a->form == ORR_ATTRIBUTE_RANGE)
			at[1] = -1;
	}
	return is;
}

bool orr_instance_copy(struct orr_instance *to, const struct orr_instance *from)
{
	size_t bytes = (size_t)from->n_inputs * sizeof(*from->inputs);

	*to = *from;
	if (!from->inputs)
		return true;
	if ((to->inputs = malloc(bytes + 1)))
		memcpy(to->inputs, from->inputs, bytes);
	return to->inputs != NULL;
}

int64_t orr_parameter_floats(const struct orr_parameter_tensor *p)
{
	int64_t floats = 1;

	for (int i = 0; i < p->n_dims; i++)
		floats *= p->dims[i];
	return floats;
}

struct orr_pieces orr_portion_pieces(const struct orr_portion *p, int n_dims, const int64_t *dims)
{
	struct orr_pieces pieces = {1, 1, 0, 0};
	int64_t behind = 1; /* floats of a step along its axis */

	for (int i = 0; i < n_dims; i++) {
		if (p->of && i < p->axis)
			pieces.n *= dims[i];
		else
			pieces.floats *= dims[i];
		if (i > p->axis)
			behind *= dims[i];
	}
	pieces.first = p->of ? p->first * behind : 0;
	pieces.apart = p->of ? p->of * behind : pieces.floats;
	return pieces;
}

int64_t orr_instance_parameter_floats(const struct orr_instance *is)
{
	int64_t floats = 0;

	for (int i = 0; i < is->n_parameters; i++)
		floats += orr_parameter_floats(&is->parameters[i]);
	return floats;
}

const struct orr_attribute orr_loss_attributes[] = {ORR_LOSS_WEIGHT, {0}};

const struct orr_division orr_divisions_alike[3] = {
	{ORR_LIES(ORR_SHARDING_ROWS)},
	{ORR_LIES(ORR_SHARDING_COLUMNS)},
	{ORR_LIES(ORR_SHARDING_COPIED)},
};

const struct orr_division orr_divisions_rows[2] = {
	{ORR_LIES(ORR_SHARDING_ROWS)},
	{ORR_LIES(ORR_SHARDING_COPIED)},
};

struct orr_parameter_tensor orr_parameter_vector(const char *name, int64_t count, double value)
{
	return (struct orr_parameter_tensor){.name = name,
					     .role = ORR_ROLE_SPARED,
					     .initial = ORR_INITIAL_CONSTANT,
					     .value = value,
					     .n_dims = 1,
					     .dims = {count}};
}

void orr_instance_add(struct orr_instance *is, struct orr_parameter_tensor parameter)
{
	assert(is->n_parameters < ORR_MOST_PARAMETER_TENSORS);
	is->parameters[is->n_parameters++] = parameter;
}

bool orr_refuse(struct orr_refusal *why, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	(void)vsnprintf(why->text, sizeof(why->text), format, values);
	va_end(values);
	return false;
}

bool orr_instance_counts(const struct orr_instance *is, double operations, struct orr_refusal *why)
{
	return operations <= 0x1p60 ||
	       orr_refuse(why,
			  "%s: more operations than can be counted: make what it reads smaller",
			  is->op->name);
}

bool orr_instance_same_width(const struct orr_instance *is, int i, int j, struct orr_refusal *why)
{
	const struct orr_shape *a = &is->inputs[i], *b = &is->inputs[j];

	return a->columns == b->columns ||
	       orr_refuse(why,
			  "%s reads equal widths, and %.60s has %lld columns and %.60s %lld: make "
			  "them equal",
			  is->op->name, why->inputs[i], (long long)a->columns, why->inputs[j],
			  (long long)b->columns);
}

bool orr_instance_same_shape(const struct orr_instance *is, int i, int j, const char *what,
			     struct orr_refusal *why)
{
	const struct orr_shape *a = &is->inputs[i], *b = &is->inputs[j];

	return (a->rows == b->rows && a->columns == b->columns) ||
	       orr_refuse(why,
			  "%s reads %sequal shapes, and %.60s is %lld x %lld and %.60s %lld x "
			  "%lld: make them equal",
			  is->op->name, what, why->inputs[i], (long long)a->rows,
			  (long long)a->columns, why->inputs[j], (long long)b->rows,
			  (long long)b->columns);
}

static bool is_alike(const struct orr_instance *is, struct orr_refusal *why)
{
	bool alike = true;

	for (int i = 1; i < is->n_inputs && alike; i++)
		alike = is->inputs[0].rows == is->inputs[i].rows
				? orr_instance_same_width(is, 0, i, why)
				: orr_instance_same_shape(is, 0, i, "", why);
	return alike;
}

bool orr_instance_infer(struct orr_instance *is, struct orr_refusal *why)
{
	const struct orr_op *op = is->op;

	if (!op->input) {
		int64_t floats = orr_shape_floats(is->inputs[0]);

		is->output = op->loss ? (struct orr_shape){1, 1} : is->inputs[0];
		is->saved = op->slope_saved ? floats : 0;
		is->forward_flops = op->flops[0] * floats;
		is->backward_flops = op->flops[1] * floats;
		is->weight_flops = op->flops[2] * floats;
	}
	if (op->alike && !is_alike(is, why))
		return false;
	return !op->infer || op->infer(is, why);
}
