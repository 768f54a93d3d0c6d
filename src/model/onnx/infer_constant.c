/* Values of whole numbers: the shapes that a model computes of shapes. */
#include "infer.h"

#include <stdlib.h>
#include <string.h>

bool orr_onnx_infer_constant(struct orr_onnx_node *n)
{
	const Onnx__AttributeProto *value = orr_onnx_attribute(n, "value"),
				   *whole = orr_onnx_attribute(n, "value_int"),
				   *list = orr_onnx_attribute(n, "value_ints"),
				   *real = orr_onnx_attribute(n, "value_float"),
				   *reals = orr_onnx_attribute(n, "value_floats");
	struct orr_onnx_tensor *t = n->n_out ? n->out[0] : NULL;

	if (!t)
		return false;
	if (value && value->t) {
		if (!orr_onnx_take_shape(t, value->t))
			return false;
		orr_onnx_take_values(t, value->t);
	} else if (whole && whole->has_i) {
		orr_onnx_give(n, 0, 0, NULL, false);
		(void)orr_onnx_set_values(t, &whole->i, 1);
	} else if (list) {
		orr_onnx_give(n, 0, 1, (int64_t[]){(int64_t)list->n_ints}, false);
		(void)orr_onnx_set_values(t, list->ints, (int64_t)list->n_ints);
	} else if (real) {
		orr_onnx_give(n, 0, 0, NULL, true);
	} else if (reals) {
		orr_onnx_give(n, 0, 1, (int64_t[]){(int64_t)reals->n_floats}, true);
	}
	return t->known;
}

/* Whole numbers that are all the same, where they are few. */
static void fill(struct orr_onnx_tensor *t, int64_t value)
{
	int64_t values[ORR_ONNX_MOST_VALUES], floats = 1;

	for (int i = 0; i < t->n_dims; i++)
		if (t->dims[i] < 0 || t->dims[i] > ORR_ONNX_MOST_VALUES ||
		    (floats *= t->dims[i]) > ORR_ONNX_MOST_VALUES)
			return;
	for (int64_t i = 0; i < floats; i++)
		values[i] = value;
	(void)orr_onnx_set_values(t, values, floats);
}

bool orr_onnx_infer_filled(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *shape = orr_onnx_in(n, 0);
	const Onnx__AttributeProto *value = orr_onnx_attribute(n, "value");
	struct orr_onnx_tensor one = {.name = ""};

	if (!shape || !shape->values || orr_onnx_floats(shape) > ORR_ONNX_MOST_DIMS)
		return false;
	one.real = true;
	if (value && value->t && orr_onnx_take_shape(&one, value->t))
		orr_onnx_take_values(&one, value->t);
	orr_onnx_give(n, 0, (int)orr_onnx_floats(shape), shape->values, one.real);
	if (one.values && n->n_out && n->out[0] && orr_onnx_floats(&one) == 1)
		fill(n->out[0], one.values[0]);
	free(one.values);
	return true;
}

bool orr_onnx_infer_range(struct orr_onnx_node *n)
{
	int64_t values[ORR_ONNX_MOST_VALUES], count = 0;
	const struct orr_onnx_tensor *t[3];

	for (int i = 0; i < 3; i++)
		if (!(t[i] = orr_onnx_in(n, i)) || !t[i]->values || orr_onnx_floats(t[i]) != 1 ||
		    !orr_onnx_counts(t[i]->values[0]))
			return false;
	for (int64_t v = t[0]->values[0], step = t[2]->values[0];
	     step && (step > 0 ? v < t[1]->values[0] : v > t[1]->values[0]); v += step) {
		if (count == ORR_ONNX_MOST_VALUES)
			return false;
		values[count++] = v;
	}
	orr_onnx_give(n, 0, 1, &count, false);
	return n->n_out && n->out[0] && orr_onnx_set_values(n->out[0], values, count);
}

bool orr_onnx_infer_shape_of(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t start = orr_onnx_int(n, "start", 0), end, count;

	if (!t || start > t->n_dims || start < -t->n_dims)
		return false;
	end = orr_onnx_int(n, "end", t->n_dims);
	start += start < 0 ? t->n_dims : 0;
	end = end > t->n_dims ? t->n_dims : end < -t->n_dims ? 0 : end < 0 ? end + t->n_dims : end;
	count = end > start ? end - start : 0;
	orr_onnx_give(n, 0, 1, &count, false);
	return n->n_out && n->out[0] && orr_onnx_set_values(n->out[0], t->dims + start, count);
}

bool orr_onnx_infer_size_of(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t floats = t ? orr_onnx_floats(t) : 0;

	if (!t)
		return false;
	orr_onnx_give(n, 0, 0, NULL, false);
	return n->n_out && n->out[0] && orr_onnx_set_values(n->out[0], &floats, 1);
}

/* ---- values from values ---- */

/* a op b; false: the result is none, or is not counted here. */
static bool combine(int64_t *out, const char *op, int64_t a, int64_t b)
{
	if (!strcmp(op, "Add"))
		return !__builtin_add_overflow(a, b, out);
	if (!strcmp(op, "Sub"))
		return !__builtin_sub_overflow(a, b, out);
	if (!strcmp(op, "Mul"))
		return !__builtin_mul_overflow(a, b, out);
	if (!strcmp(op, "Div") && b && b != -1) {
		*out = a / b;
		return true;
	}
	if (!strcmp(op, "Mod") && b > 0) {
		*out = a % b + (a % b < 0 ? b : 0);
		return true;
	}
	if (!strcmp(op, "Max") || !strcmp(op, "Min")) {
		*out = (a > b) == (op[1] == 'a') ? a : b;
		return true;
	}
	if (!strcmp(op, "Equal")) {
		*out = a == b;
		return true;
	}
	return false;
}

static bool fold_wise(int64_t *out, const struct orr_onnx_node *n, int64_t floats)
{
	const struct orr_onnx_tensor *a = n->in[0], *b = n->in[1];
	int64_t n_a = orr_onnx_floats(a), n_b = orr_onnx_floats(b);

	if ((n_a != 1 && n_a != floats) || (n_b != 1 && n_b != floats))
		return false;
	for (int64_t i = 0; i < floats; i++)
		if (!combine(&out[i], n->proto->op_type, a->values[n_a > 1 ? i : 0],
			     b->values[n_b > 1 ? i : 0]))
			return false;
	return true;
}

static bool fold_where(int64_t *out, const struct orr_onnx_node *n, int64_t floats)
{
	for (int64_t i = 0; i < floats; i++) {
		const int64_t *of[3];

		for (int k = 0; k < 3; k++) {
			int64_t n_k = orr_onnx_floats(n->in[k]);

			if (n_k != 1 && n_k != floats)
				return false;
			of[k] = &n->in[k]->values[n_k > 1 ? i : 0];
		}
		out[i] = *of[0] ? *of[1] : *of[2];
	}
	return true;
}

/* Of a list: its elements by number. */
static bool fold_gather(int64_t *out, const struct orr_onnx_node *n, int64_t floats)
{
	const struct orr_onnx_tensor *t = n->in[0], *ids = n->in[1];

	if (orr_onnx_floats(ids) != floats)
		return false;
	for (int64_t i = 0; i < floats; i++) {
		int64_t id = ids->values[i] + (ids->values[i] < 0 ? t->dims[0] : 0);

		if (id < 0 || id >= t->dims[0])
			return false;
		out[i] = t->values[id];
	}
	return true;
}

static bool fold_slice(int64_t *out, const struct orr_onnx_node *n, int64_t floats)
{
	const struct orr_onnx_tensor *t = n->in[0];
	const int64_t *starts, *steps;
	int64_t start, step;

	if (orr_onnx_list(n, "starts", 1, &starts) != 1)
		return false;
	step = orr_onnx_list(n, "steps", 4, &steps) == 1 ? steps[0] : 1;
	start = starts[0] < 0 ? starts[0] + t->dims[0] : starts[0];
	start = start < 0 ? 0 : start >= t->dims[0] ? t->dims[0] - 1 : start;
	for (int64_t i = 0; i < floats; i++) {
		int64_t at = start + i * step;

		if (at < 0 || at >= t->dims[0])
			return false;
		out[i] = t->values[at];
	}
	return true;
}

static bool fold_concat(int64_t *out, const struct orr_onnx_node *n, int64_t floats)
{
	int64_t at = 0;

	for (int i = 0; i < n->n_in; i++) {
		int64_t more = orr_onnx_floats(n->in[i]);

		if (at + more > floats)
			return false;
		memcpy(out + at, n->in[i]->values, (size_t)more * sizeof(*out));
		at += more;
	}
	return at == floats;
}

static bool fold(int64_t *out, const struct orr_onnx_node *n, int64_t floats)
{
	static const char *const copies[] = {"Identity", "Reshape", "Squeeze", "Unsqueeze",
					     "Cast",     "Flatten", NULL};
	const char *op = n->proto->op_type;
	bool list = n->in[0]->n_dims == 1;

	for (int i = 0; copies[i]; i++)
		if (!strcmp(op, copies[i])) {
			if (orr_onnx_floats(n->in[0]) != floats || n->out[0]->real)
				return false;
			memcpy(out, n->in[0]->values, (size_t)floats * sizeof(*out));
			return true;
		}
	if (!strcmp(op, "Concat"))
		return list && fold_concat(out, n, floats);
	if (!strcmp(op, "Gather") && n->n_in == 2)
		return list && fold_gather(out, n, floats);
	if (!strcmp(op, "Slice"))
		return list && fold_slice(out, n, floats);
	if (!strcmp(op, "Where") && n->n_in == 3)
		return fold_where(out, n, floats);
	if (!strcmp(op, "Expand")) {
		for (int64_t i = 0; i < floats; i++)
			out[i] = n->in[0]->values[0];
		return orr_onnx_floats(n->in[0]) == 1;
	}
	return n->n_in == 2 && fold_wise(out, n, floats);
}

void orr_onnx_fold(struct orr_onnx_node *n)
{
	struct orr_onnx_tensor *t = n->n_out ? n->out[0] : NULL;
	int64_t values[ORR_ONNX_MOST_VALUES], floats = t && t->known ? orr_onnx_floats(t) : -1;

	if (floats < 0 || floats > ORR_ONNX_MOST_VALUES || t->values || !n->n_in)
		return;
	for (int i = 0; i < n->n_in; i++)
		if (!n->in[i] || !n->in[i]->values || !n->in[i]->known)
			return;
	if (fold(values, n, floats))
		(void)orr_onnx_set_values(t, values, floats);
}
