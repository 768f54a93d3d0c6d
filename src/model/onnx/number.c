/* The numbers of constants of real numbers, such as a factor or a mask, worked out where a rule
 * asks for them. */
#include "rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/element.h"

#define MOST_DEPTH 64
#define MOST_FLOATS (INT64_C(1) << 24) /* of one tensor */

static float *evaluate(struct orr_onnx *x, const struct orr_onnx_tensor *t, int depth);

/* Numbers that lie in the file itself; false: they do not. */
static bool from_file(float *to, const Onnx__TensorProto *from, int64_t n)
{
	enum orr_element element;
	int64_t step, column = 0;
	const char *numbers;

	if (from->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL ||
	    !orr_onnx_element(from, &element) ||
	    !(numbers = orr_onnx_numbers(from, element, n, &step)))
		return false;
	for (int64_t i = 0; i < n; i++)
		orr_element_gather(element, numbers + i * step, NULL, &column, 1, &to[i]);
	return true;
}

static bool from_constant(float *to, const struct orr_onnx_node *n, int64_t floats)
{
	const Onnx__AttributeProto *value = orr_onnx_attribute(n, "value"),
				   *real = orr_onnx_attribute(n, "value_float"),
				   *reals = orr_onnx_attribute(n, "value_floats");

	if (value && value->t)
		return from_file(to, value->t, floats);
	if (real && floats == 1)
		*to = real->f;
	else if (reals && (int64_t)reals->n_floats == floats)
		memcpy(to, reals->floats, (size_t)floats * sizeof(*to));
	else
		return false;
	return true;
}

/* ---- elements from elements ---- */

static float combine(const char *op, float a, float b)
{
	switch (op[0]) {
	case 'A':
		return op[1] == 'd' ? a + b : a != 0 && b != 0;
	case 'S':
		return a - b;
	case 'M':
		return a * b;
	case 'D':
		return a / b;
	case 'P':
		return powf(a, b);
	case 'E':
		return a == b;
	case 'O':
		return a != 0 || b != 0;
	case 'L':
		return op[4] ? a <= b : a < b;
	default: /* Greater, GreaterOrEqual */
		return op[7] ? a >= b : a > b;
	}
}

/* Where output element i of `out` is in t, which is broadcast to it. */
static int64_t broadcast(const struct orr_onnx_tensor *t, const struct orr_onnx_tensor *out,
			 int64_t i)
{
	int64_t at = 0, stride = 1;

	for (int k = out->n_dims - 1; k >= 0; k--) {
		int own = k - (out->n_dims - t->n_dims);
		int64_t index = i % out->dims[k];

		i /= out->dims[k];
		if (own < 0)
			continue;
		at += (t->dims[own] == 1 ? 0 : index) * stride;
		stride *= t->dims[own];
	}
	return at;
}

static bool wise(struct orr_onnx *x, float *to, const struct orr_onnx_node *n, int depth)
{
	const struct orr_onnx_tensor *out = n->out[0];
	int64_t floats = orr_onnx_floats(out);
	bool where = !strcmp(n->op->name, "Where");
	float *in[3] = {NULL, NULL, NULL};
	bool right = n->n_in == 2 + where;

	for (int k = 0; k < n->n_in && right; k++)
		right = (in[k] = n->in[k] ? evaluate(x, n->in[k], depth) : NULL) != NULL;
	for (int64_t i = 0; i < floats && right; i++) {
		float a = in[0][broadcast(n->in[0], out, i)],
		      b = in[1][broadcast(n->in[1], out, i)];

		to[i] = where ? (a != 0 ? b : in[2][broadcast(n->in[2], out, i)])
			      : combine(n->op->name, a, b);
	}
	for (int k = 0; k < 3; k++)
		free(in[k]);
	return right;
}

/* Of one: each by itself. */
static bool single(float *to, const struct orr_onnx_node *n, int64_t floats)
{
	int64_t cast = orr_onnx_int(n, "to", 1);
	const char *op = n->op->name;

	for (int64_t i = 0; i < floats; i++)
		to[i] = !strcmp(op, "Sqrt")         ? sqrtf(to[i])
			: !strcmp(op, "Reciprocal") ? 1 / to[i]
			: !strcmp(op, "Neg")        ? -to[i]
			: !strcmp(op, "Not")        ? to[i] == 0
			: !strcmp(op, "Cast") && cast == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL
				? to[i] != 0
			: !strcmp(op, "Cast") && (cast == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
						  cast == ONNX__TENSOR_PROTO__DATA_TYPE__INT32)
				? truncf(to[i])
				: to[i];
	return true;
}

static bool triangle(float *to, const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = n->out[0], *by = n->n_in > 1 ? n->in[1] : NULL;
	bool upper = orr_onnx_int(n, "upper", 1) != 0;
	int64_t k = 0, rows, columns;

	if (t->n_dims < 2 || (by && (!by->values || orr_onnx_floats(by) != 1)))
		return false;
	k = by ? by->values[0] : 0;
	rows = t->dims[t->n_dims - 2];
	columns = t->dims[t->n_dims - 1];
	if (!orr_onnx_counts(k))
		return false;
	for (int64_t i = 0, all = orr_onnx_floats(t); i < all; i++) {
		int64_t above = i % columns - i / columns % rows;

		if (upper ? above < k : above > k)
			to[i] = 0;
	}
	return true;
}

/* The dimensions that a node makes of its input's, as a view of it does; in the order of t. */
static bool moved(struct orr_onnx *x, float *to, struct orr_onnx_node *n, int depth)
{
	struct orr_onnx_tensor from = *n->in[0], out = *n->out[0];
	float *in;

	orr_onnx_lay(&from, 1, orr_onnx_floats(&from));
	if (!orr_onnx_view(&out, &from, n, 0) || !(in = evaluate(x, n->in[0], depth)))
		return false;
	for (int64_t i = 0, all = orr_onnx_floats(&out); i < all; i++) {
		int64_t at = out.at, rest = i;

		for (int k = out.n_dims - 1; k >= 0; k--) {
			at += rest % out.dims[k] * out.strides[k];
			rest /= out.dims[k];
		}
		to[i] = in[at];
	}
	free(in);
	return true;
}

static bool is_one_of(const char *name, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

static bool from_node(struct orr_onnx *x, float *to, struct orr_onnx_node *n, int depth)
{
	static const char *const wises[] = {
		"Add",         "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less",
		"LessOrEqual", "Mul", "Or",  "Pow",   "Sub",     "Where",          NULL};
	static const char *const singles[] = {"Sqrt",     "Reciprocal", "Neg",   "Not", "Cast",
					      "Identity", "Expand",     "Trilu", NULL};
	const char *op = n->op->name;
	int64_t floats = orr_onnx_floats(n->out[0]);
	const Onnx__AttributeProto *value;
	float *in;

	if (!strcmp(op, "Constant"))
		return from_constant(to, n, floats);
	if (!strcmp(op, "ConstantOfShape")) {
		value = orr_onnx_attribute(n, "value");
		*to = 0;
		if (value && value->t && !from_file(to, value->t, 1))
			return false;
		for (int64_t i = 1; i < floats; i++)
			to[i] = *to;
		return true;
	}
	if (is_one_of(op, wises))
		return wise(x, to, n, depth);
	if (!n->n_in || !n->in[0] || !n->in[0]->known)
		return false;
	if (!is_one_of(op, singles))
		return moved(x, to, n, depth);
	if (!(in = evaluate(x, n->in[0], depth)))
		return false;
	for (int64_t i = 0; i < floats; i++)
		to[i] = in[broadcast(n->in[0], n->out[0], i)];
	free(in);
	return strcmp(op, "Trilu") ? single(to, n, floats) : triangle(to, n);
}

/* All of t, for the caller to free; NULL: it is not known. */
static float *evaluate(struct orr_onnx *x, const struct orr_onnx_tensor *t, int depth)
{
	int64_t n = t->known ? orr_onnx_floats(t) : 0;
	struct orr_onnx_node node;
	float *to;

	if (!t->constant || n < 1 || n > MOST_FLOATS || n > x->budget || depth > MOST_DEPTH ||
	    !(to = malloc((size_t)n * sizeof(*to))))
		return NULL;
	x->budget -= n;
	if (t->values) {
		for (int64_t i = 0; i < n; i++)
			to[i] = (float)t->values[i];
		return to;
	}
	if (t->proto && from_file(to, t->proto, n))
		return to;
	if (t->made_by >= 0) {
		orr_onnx_node(&node, x, t->made_by);
		if (node.op && node.n_out && node.out[0] == t && from_node(x, to, &node, depth + 1))
			return to;
	}
	free(to);
	return NULL;
}

bool orr_onnx_number(struct orr_onnx *x, const struct orr_onnx_tensor *t, float *number)
{
	float *all = t && t->known && orr_onnx_floats(t) == 1 ? evaluate(x, t, 0) : NULL;

	if (!all)
		return false;
	*number = *all;
	free(all);
	return true;
}

bool orr_onnx_is_causal(struct orr_onnx *x, const struct orr_onnx_tensor *mask,
			enum orr_onnx_mask kind, int64_t rows, int64_t columns)
{
	bool right = mask->known && rows == columns && orr_onnx_floats(mask) == rows * columns;
	float *all = right ? evaluate(x, mask, 0) : NULL;

	for (int64_t i = 0; i < rows && all && right; i++)
		for (int64_t j = 0; j < columns && right; j++) {
			float value = all[i * columns + j];
			bool shown = kind == ORR_ONNX_ADDED
					     ? value == 0
					     : (value != 0) == (kind == ORR_ONNX_SHOWS);

			right = shown == (j <= i) &&
				(shown || kind != ORR_ONNX_ADDED || value <= -1e4f);
		}
	right = right && all;
	free(all);
	return right;
}
