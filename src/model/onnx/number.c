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

#define OF_TWO(name, formula) \
	static float name(float a, float b) \
	{ \
		return (float)(formula); \
	}
OF_TWO(add, a + b)
OF_TWO(both, a != 0 && b != 0)
OF_TWO(ratio, a / b)
OF_TWO(equal, a == b)
OF_TWO(greater, a > b)
OF_TWO(at_least, a >= b)
OF_TWO(less, a < b)
OF_TWO(at_most, a <= b)
OF_TWO(product, a *b)
OF_TWO(either, a != 0 || b != 0)
OF_TWO(power, powf(a, b))
OF_TWO(difference, a - b)

#define OF_ONE(name, formula) \
	static float name(float a) \
	{ \
		return (float)(formula); \
	}
OF_ONE(root, sqrtf(a))
OF_ONE(reciprocal, 1 / a)
OF_ONE(negative, -a)
OF_ONE(opposite, a == 0)
OF_ONE(truth, a != 0)

static const struct {
	const char *op;
	float (*of)(float a, float b);
} of_two[] = {{"Add", add},         {"And", both},
	      {"Div", ratio},       {"Equal", equal},
	      {"Greater", greater}, {"GreaterOrEqual", at_least},
	      {"Less", less},       {"LessOrEqual", at_most},
	      {"Mul", product},     {"Or", either},
	      {"Pow", power},       {"Sub", difference},
	      {"Where", NULL}}; /* of three */

static const struct {
	const char *op;
	float (*of)(float a); /* NULL: as they are */
} of_one[] = {{"Sqrt", root}, {"Reciprocal", reciprocal}, {"Neg", negative}, {"Not", opposite},
	      {"Cast", NULL}, {"Identity", NULL},         {"Expand", NULL},  {"Trilu", NULL}};
#define N(table) (int)(sizeof(table) / sizeof((table)[0]))

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

/* of NULL: the second where the first is true, else the third. */
static bool wise(struct orr_onnx *x, float *to, const struct orr_onnx_node *n,
		 float (*of)(float a, float b), int depth)
{
	const struct orr_onnx_tensor *out = n->out[0];
	int64_t floats = orr_onnx_floats(out);
	float *in[3] = {NULL, NULL, NULL};
	bool right = n->n_in == (of ? 2 : 3);

	for (int k = 0; k < n->n_in && right; k++)
		right = (in[k] = n->in[k] ? evaluate(x, n->in[k], depth) : NULL) != NULL;
	for (int64_t i = 0; i < floats && right; i++) {
		float a = in[0][broadcast(n->in[0], out, i)],
		      b = in[1][broadcast(n->in[1], out, i)];

		to[i] = of ? of(a, b) : a != 0 ? b : in[2][broadcast(n->in[2], out, i)];
	}
	for (int k = 0; k < 3; k++)
		free(in[k]);
	return right;
}

static float (*cast_to(const struct orr_onnx_node *n))(float a)
{
	switch (orr_onnx_int(n, "to", 1)) {
	case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
		return truth;
	case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
	case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
		return truncf;
	default:
		return NULL;
	}
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

static bool filled(float *to, const struct orr_onnx_node *n, int64_t floats)
{
	const Onnx__AttributeProto *value = orr_onnx_attribute(n, "value");

	*to = 0;
	if (value && value->t && !from_file(to, value->t, 1))
		return false;
	for (int64_t i = 1; i < floats; i++)
		to[i] = *to;
	return true;
}

/* Of one, broadcast. */
static bool single(struct orr_onnx *x, float *to, const struct orr_onnx_node *n,
		   float (*of)(float a), int depth)
{
	float *in = evaluate(x, n->in[0], depth);

	if (!in)
		return false;
	for (int64_t i = 0, floats = orr_onnx_floats(n->out[0]); i < floats; i++) {
		float a = in[broadcast(n->in[0], n->out[0], i)];

		to[i] = of ? of(a) : a;
	}
	free(in);
	return true;
}

static bool from_node(struct orr_onnx *x, float *to, struct orr_onnx_node *n, int depth)
{
	const char *op = n->op->name;
	int64_t floats = orr_onnx_floats(n->out[0]);

	if (!strcmp(op, "Constant"))
		return from_constant(to, n, floats);
	if (!strcmp(op, "ConstantOfShape"))
		return filled(to, n, floats);
	for (int i = 0; i < N(of_two); i++)
		if (!strcmp(of_two[i].op, op))
			return wise(x, to, n, of_two[i].of, depth);
	if (!n->n_in || !n->in[0] || !n->in[0]->known)
		return false;
	for (int i = 0; i < N(of_one); i++)
		if (!strcmp(of_one[i].op, op))
			return single(x, to, n, strcmp(op, "Cast") ? of_one[i].of : cast_to(n),
				      depth) &&
			       (strcmp(op, "Trilu") || triangle(to, n));
	return moved(x, to, n, depth);
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
