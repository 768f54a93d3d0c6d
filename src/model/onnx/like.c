/* Nodes that have their like here, so that a model of them alone trains. */
#include "infer.h"

#include <string.h>

bool orr_onnx_shape(const struct orr_onnx *x, const struct orr_onnx_tensor *t, int64_t *rows,
		    int64_t *columns)
{
	int64_t all = orr_onnx_floats(t);

	*columns = t->layout == ORR_ONNX_IDS || t->n_dims < 2 ? 1
		   : t->layout == ORR_ONNX_CHANNELS           ? t->dims[1]
							      : t->dims[t->n_dims - 1];
	*columns = *columns > 0 ? *columns : 1;
	*rows = all / x->samples / *columns;
	return *rows > 0 && *rows * *columns * x->samples == all;
}

/* ---- what a rule asks ---- */

/* Parameters of that many floats, which nothing else reads; but of biases and gains, of which
 * exporters write equal ones once, every reader has its own. */
static bool is_weight(const struct orr_onnx_tensor *t, int n_dims, int64_t floats)
{
	const struct orr_onnx_tensor *w = t ? t->weight : NULL;

	return w && (t->same || t->turned) && t->n_dims == n_dims && orr_onnx_floats(t) == floats &&
	       (w->n_dims == 1 || (t->n_readers == 1 && w->n_readers == 1));
}

/* The next parameter of the operator is this one. */
static void take(struct orr_onnx_like *like, const char *name, const struct orr_onnx_tensor *t,
		 int n_dims)
{
	like->weights[like->n_weights].name = name;
	like->weights[like->n_weights].tensor = t;
	like->weights[like->n_weights++].n_dims = n_dims;
}

/* Is input i an activation, the batch first, of a layout, and small enough to be computed? */
static bool reads(const struct orr_onnx *x, const struct orr_onnx_node *n, int i,
		  enum orr_onnx_layout layout)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, i);
	int64_t rows, columns;

	return t && t->is >= 0 && t->real && t->n_dims >= 1 && t->dims[0] == x->samples &&
	       (t->layout == layout || t->n_dims == 2) && orr_onnx_shape(x, t, &rows, &columns) &&
	       rows * columns <= ORR_MOST_COLUMNS;
}

/* Or of any, of which rows and columns lie as they do there. */
static bool reads_any(const struct orr_onnx *x, const struct orr_onnx_node *n, int i)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, i);

	return t && t->layout != ORR_ONNX_IDS && reads(x, n, i, t->layout);
}

static void say(struct orr_onnx_like *like, const char *name, double value)
{
	like->values[like->n_values].name = name;
	like->values[like->n_values++].value = value;
}

static bool is_op(const struct orr_onnx_node *n, const char *op)
{
	return !strcmp(n->op->name, op);
}

/* All of an attribute's numbers are one, or they are not there: then it is `otherwise`. */
static bool is_even(const struct orr_onnx_node *n, const char *name, int64_t otherwise,
		    int64_t *one)
{
	const int64_t *ints;
	int count = orr_onnx_ints(n, name, &ints);

	*one = count ? ints[0] : otherwise;
	for (int i = 1; i < count; i++)
		if (ints[i] != *one)
			return false;
	return *one >= 0 && *one <= 10000;
}

/* ---- rules ---- */

/* The one live node that reads it, an Add of a bias; -1: there is none. */
static int find_bias(const struct orr_onnx *x, const struct orr_onnx_node *n, int64_t features,
		     const struct orr_onnx_tensor **bias)
{
	const struct orr_onnx_tensor *out = n->out[0];

	if (out->n_readers != 1)
		return -1;
	/* exporters write it close by */
	for (int i = n->number + 1; i < (int)x->graph->n_node && i < n->number + 64; i++) {
		struct orr_onnx_node add;
		int own;

		orr_onnx_node(&add, x, i);
		if (!add.op || !is_op(&add, "Add") || add.n_in != 2)
			continue;
		own = add.in[0] == out ? 0 : add.in[1] == out ? 1 : -1;
		if (own >= 0) {
			*bias = add.in[!own];
			return is_weight(*bias, 1, features) ? i : -1;
		}
	}
	return -1;
}

static bool like_linear(struct orr_onnx_like *like, const struct orr_onnx *x,
			const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *w = orr_onnx_in(n, 1), *added = NULL;
	bool gemm = is_op(n, "Gemm"), bias = false;
	int64_t features;

	if (!reads(x, n, 0, ORR_ONNX_PLAIN) || n->in[0]->n_dims < 2 || !w || w->n_dims != 2 ||
	    !is_weight(w, 2, orr_onnx_floats(w)))
		return false;
	like->turned = !gemm || !orr_onnx_int(n, "transB", 0);
	features = w->dims[like->turned];
	take(like, "weight", w, 2);
	if (gemm) {
		bias = n->n_in > 2 && n->in[2];
		added = bias ? n->in[2] : NULL;
		if (orr_onnx_int(n, "transA", 0) || orr_onnx_real(n, "alpha", 1) != 1 ||
		    orr_onnx_real(n, "beta", 1) != 1 || (bias && !is_weight(n->in[2], 1, features)))
			return false;
	} else {
		like->also = find_bias(x, n, features, &added);
		bias = like->also >= 0;
	}
	if (bias)
		take(like, "bias", added, 1);
	like->op = "linear";
	say(like, "features", (double)features);
	say(like, "bias", bias);
	return true;
}

static bool pads_itself(const struct orr_onnx_node *n)
{
	return orr_onnx_attribute(n, "auto_pad") && !orr_onnx_is_text(n, "auto_pad", "NOTSET");
}

static bool like_window(struct orr_onnx_like *like, const struct orr_onnx *x,
			const struct orr_onnx_node *n)
{
	bool conv = is_op(n, "Conv"), most = is_op(n, "MaxPool");
	const struct orr_onnx_tensor *w = conv ? orr_onnx_in(n, 1) : NULL;
	int64_t side, stride, padding, dilation;

	if (!reads(x, n, 0, ORR_ONNX_CHANNELS) || n->in[0]->n_dims != 4 ||
	    !is_even(n, "kernel_shape", conv && w && w->n_dims == 4 ? w->dims[2] : 0, &side) ||
	    !is_even(n, "strides", 1, &stride) || !is_even(n, "pads", 0, &padding) ||
	    !is_even(n, "dilations", 1, &dilation) || dilation != 1 || padding >= side ||
	    pads_itself(n) || orr_onnx_int(n, "ceil_mode", 0))
		return false;
	if (conv) {
		bool bias = n->n_in > 2 && n->in[2];

		if (!w || w->n_dims != 4 || w->dims[2] != side || w->dims[3] != side ||
		    !is_weight(w, 4, orr_onnx_floats(w)) ||
		    (bias && !is_weight(n->in[2], 1, w->dims[0])))
			return false;
		say(like, "features", (double)w->dims[0]);
		say(like, "groups", (double)orr_onnx_int(n, "group", 1));
		say(like, "bias", bias);
		take(like, "weight", w, 4);
		if (bias)
			take(like, "bias", n->in[2], 1);
	} else if ((most && n->n_out > 1 && n->out[1]) ||
		   (!most && padding && !orr_onnx_int(n, "count_include_pad", 0))) {
		return false;
	}
	say(like, "kernel", (double)side);
	say(like, "stride", (double)stride);
	say(like, "padding", (double)padding);
	say(like, "image_height", (double)n->in[0]->dims[2]);
	like->op = conv ? "conv2d" : most ? "max_pool" : "mean_pool";
	like->layout = ORR_ONNX_CHANNELS;
	return true;
}

static bool like_norm(struct orr_onnx_like *like, const struct orr_onnx *x,
		      const struct orr_onnx_node *n)
{
	static const char *const names[] = {"gain", "bias", "mean", "variance"};
	bool batch = is_op(n, "BatchNormalization");
	int last = n->in[0] ? n->in[0]->n_dims - 1 : 0;
	double epsilon = orr_onnx_real(n, "epsilon", 1e-5);
	int64_t rows, columns;

	if (!reads(x, n, 0, batch ? ORR_ONNX_CHANNELS : ORR_ONNX_PLAIN) || epsilon < 1e-30 ||
	    epsilon > 1 || !orr_onnx_shape(x, n->in[0], &rows, &columns) ||
	    (!batch && orr_onnx_axis(orr_onnx_int(n, "axis", -1), last + 1) != last))
		return false;
	for (int i = 1; i < (batch ? 5 : 3); i++) {
		if (i >= n->n_in || !is_weight(n->in[i], 1, columns))
			return false;
		take(like, names[i - 1], n->in[i], 1);
	}
	like->op = batch ? "batchnorm" : "layernorm";
	like->layout = n->in[0]->layout;
	say(like, "epsilon", epsilon);
	if (batch) {
		double momentum = 1 - orr_onnx_real(n, "momentum", 0.9);

		say(like, "momentum", momentum < 1e-6 ? 1e-6 : momentum > 1 ? 1 : momentum);
	}
	return true;
}

static bool are_equal(const struct orr_onnx_tensor *a, const struct orr_onnx_tensor *b)
{
	return a->n_dims == b->n_dims &&
	       !memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof(*a->dims)) &&
	       a->layout == b->layout;
}

/* Sums and products of activations; and a learned vector added to each row. */
static bool like_wise(struct orr_onnx_like *like, const struct orr_onnx *x,
		      const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *a, *b;

	if (n->n_in != 2 || !orr_onnx_in(n, 0) || !orr_onnx_in(n, 1))
		return false;
	a = n->in[n->in[0]->is < 0];
	b = n->in[n->in[0]->is >= 0];
	if (is_op(n, "Add") && reads(x, n, a == n->in[1], ORR_ONNX_PLAIN) && a->n_dims == 3 &&
	    is_weight(b, b->n_dims, a->dims[1] * a->dims[2]) && b->n_dims >= 2 &&
	    b->dims[b->n_dims - 1] == a->dims[2] && b->dims[b->n_dims - 2] == a->dims[1]) {
		like->op = "positions";
		take(like, "weight", b, 2);
		return true;
	}
	if (!reads_any(x, n, 0) || !reads_any(x, n, 1) || !are_equal(a, b) || a->is == b->is)
		return false;
	like->op = is_op(n, "Add") ? "add" : "multiply";
	like->layout = a->layout;
	return true;
}

static bool like_concat(struct orr_onnx_like *like, const struct orr_onnx *x,
			const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int axis = t ? orr_onnx_axis(orr_onnx_int(n, "axis", 1), t->n_dims) : -1;
	bool columns = t && (t->layout == ORR_ONNX_CHANNELS ? axis == 1 : axis == t->n_dims - 1);

	if (axis < 1 || n->n_in < 2 || !(columns || (t->n_dims == 3 && axis == 1)))
		return false;
	for (int i = 0; i < n->n_in; i++) {
		if (!reads_any(x, n, i) || n->in[i]->layout != t->layout)
			return false;
		for (int k = 0; k < i; k++)
			if (n->in[k]->is == n->in[i]->is)
				return false;
	}
	like->op = "concat";
	like->layout = t->layout;
	say(like, "axis", columns ? 0 : 1);
	return true;
}

static bool like_embedding(struct orr_onnx_like *like, const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *w = orr_onnx_in(n, 0), *ids = orr_onnx_in(n, 1);

	if (!w || !ids || w->n_dims != 2 || !is_weight(w, 2, orr_onnx_floats(w)) ||
	    orr_onnx_int(n, "axis", 0) || ids->is < 0 || ids->layout != ORR_ONNX_IDS ||
	    w->dims[0] < 1 || w->dims[0] > 1 << 24 || orr_onnx_floats(n->out[0]) > ORR_MOST_COLUMNS)
		return false;
	like->op = "embedding";
	take(like, "weight", w, 2);
	say(like, "vocabulary", (double)w->dims[0]);
	say(like, "features", (double)w->dims[1]);
	return true;
}

static bool like_mean(struct orr_onnx_like *like, const struct orr_onnx *x,
		      const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	bool image = t && t->layout == ORR_ONNX_CHANNELS && t->n_dims == 4;
	const int64_t *axes;
	int count = orr_onnx_list(n, "axes", 1, &axes);

	if (!t || !reads_any(x, n, 0))
		return false;
	if (is_op(n, "GlobalAveragePool") ? !image
	    : image ? count != 2 || orr_onnx_axis(axes[0], 4) + orr_onnx_axis(axes[1], 4) != 5 ||
			      axes[0] == axes[1]
		    : t->n_dims != 3 || count != 1 || orr_onnx_axis(axes[0], 3) != 1)
		return false;
	like->op = "mean";
	like->layout = image && n->out[0]->n_dims == 4 ? ORR_ONNX_CHANNELS : ORR_ONNX_PLAIN;
	return true;
}

static bool like_loss(struct orr_onnx_like *like, const struct orr_onnx *x,
		      const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *labels = orr_onnx_in(n, 1);

	if (!reads(x, n, 0, ORR_ONNX_PLAIN) || n->in[0]->n_dims != 2 || n->in[0]->dims[1] < 2 ||
	    n->n_in != 2 || !labels || labels->is < 0 || labels->made_by >= 0 ||
	    labels->n_dims != 1 || n->out[0]->n_dims || n->out[0]->n_readers > 1 ||
	    orr_onnx_is_text(n, "reduction", "sum") || (n->n_out > 1 && n->out[1]))
		return false;
	like->op = "softmax_cross_entropy";
	if (orr_onnx_attribute(n, "ignore_index"))
		say(like, "ignore", (double)orr_onnx_int(n, "ignore_index", 0));
	return true;
}

static bool like_softmax(struct orr_onnx_like *like, const struct orr_onnx *x,
			 const struct orr_onnx_node *n)
{
	int last = n->in[0] ? n->in[0]->n_dims - 1 : 0;

	if (!reads(x, n, 0, ORR_ONNX_PLAIN) ||
	    orr_onnx_axis(orr_onnx_int(n, "axis", x->version < 13 ? 1 : -1), last + 1) != last)
		return false;
	like->op = "softmax";
	return true;
}

/* Shapes that lie as they did; a sample's rows and columns stay. */
static bool like_view(struct orr_onnx_like *like, const struct orr_onnx *x,
		      const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *from = orr_onnx_in(n, 0), *to = n->out[0];
	int64_t rows, columns, to_rows, to_columns;

	if (!from || from->is < 0 || !to->n_dims || !from->n_dims || from->real != to->real ||
	    to->dims[0] != x->samples || from->dims[0] != x->samples ||
	    !orr_onnx_shape(x, from, &rows, &columns))
		return false;
	if (is_op(n, "Identity")) {
		like->layout = from->layout;
	} else {
		struct orr_onnx_tensor plain = *to;

		plain.layout = ORR_ONNX_PLAIN;
		if (!orr_onnx_shape(x, &plain, &to_rows, &to_columns) || to_rows != rows ||
		    to_columns != columns || from->layout == ORR_ONNX_IDS ||
		    (from->layout == ORR_ONNX_CHANNELS && rows > 1 && columns > 1))
			return false;
	}
	like->view = true;
	return true;
}

static bool like_activation(struct orr_onnx_like *like, const struct orr_onnx *x,
			    const struct orr_onnx_node *n)
{
	static const char *const names[][2] = {
		{"Relu", "relu"}, {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}, {"Gelu", "gelu"}};

	if (!reads_any(x, n, 0))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (is_op(n, names[i][0])) {
			like->op = names[i][1];
			like->layout = n->in[0]->layout;
			if (i == 3 && orr_onnx_is_text(n, "approximate", "tanh"))
				like->op = "gelu_tanh";
			return true;
		}
	return false;
}

bool orr_onnx_like(struct orr_onnx_like *like, const struct orr_onnx *x,
		   const struct orr_onnx_node *n)
{
	*like = (struct orr_onnx_like){.also = -1};
	if (!n->op || !n->n_out || !n->out[0])
		return false;
	if (is_op(n, "Gemm") || is_op(n, "MatMul"))
		return like_linear(like, x, n);
	if (is_op(n, "Conv") || is_op(n, "MaxPool") || is_op(n, "AveragePool"))
		return like_window(like, x, n);
	if (is_op(n, "BatchNormalization") || is_op(n, "LayerNormalization"))
		return like_norm(like, x, n);
	if (is_op(n, "Add") || is_op(n, "Mul"))
		return like_wise(like, x, n);
	if (is_op(n, "Concat"))
		return like_concat(like, x, n);
	if (is_op(n, "Gather"))
		return like_embedding(like, n);
	if (is_op(n, "GlobalAveragePool") || is_op(n, "ReduceMean"))
		return like_mean(like, x, n);
	if (is_op(n, "SoftmaxCrossEntropyLoss"))
		return like_loss(like, x, n);
	if (is_op(n, "Softmax"))
		return like_softmax(like, x, n);
	if (is_op(n, "Identity") || is_op(n, "Flatten") || is_op(n, "Reshape") ||
	    is_op(n, "Squeeze") || is_op(n, "Unsqueeze"))
		return like_view(like, x, n);
	return like_activation(like, x, n);
}
