/* Nodes that have their like here, so that a model of them alone trains. */
#include "rules.h"

#include <string.h>

/* ---- what a rule asks ---- */

/* Nothing else reads it, or the other parts of it; but of biases and gains, of which exporters
 * write equal ones once, every reader has its own. */
bool orr_onnx_is_weight(const struct orr_onnx_tensor *t, int n_dims, int64_t floats)
{
	const struct orr_onnx_tensor *w = t ? t->weight : NULL;

	return w && w->proto && t->part && t->known && t->n_dims == n_dims &&
	       orr_onnx_floats(t) == floats &&
	       (w->n_dims == 1 || (t->n_readers == 1 && (t->apart || w->n_readers == 1)));
}

void orr_onnx_take(struct orr_onnx_like *like, const char *name, const struct orr_onnx_tensor *t,
		   int n_dims)
{
	like->weights[like->n_weights].name = name;
	like->weights[like->n_weights].tensor = t;
	like->weights[like->n_weights++].n_dims = n_dims;
}

/* Is input i an activation that can be computed, all of what an operator writes? */
static bool reads_any(const struct orr_onnx *x, const struct orr_onnx_node *n, int i)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, i);

	return t && t->real && t->n_dims > 0 && orr_onnx_is_whole(x, t) &&
	       t->rows * t->columns <= ORR_MOST_COLUMNS;
}

static bool reads_rows(const struct orr_onnx *x, const struct orr_onnx_node *n, int i)
{
	return reads_any(x, n, i) && orr_onnx_is_plain(x, n->in[i]);
}

static bool reads_image(const struct orr_onnx *x, const struct orr_onnx_node *n, int i)
{
	return reads_any(x, n, i) && orr_onnx_is_channels(x, n->in[i]);
}

/* The samples one after the other, and their rows in their order: [N][T][C]. */
static bool reads_tokens(const struct orr_onnx *x, const struct orr_onnx_node *n, int i)
{
	return reads_rows(x, n, i) && n->in[i]->n_dims == 3 && n->in[i]->dims[0] == x->samples &&
	       n->in[i]->dims[1] == n->in[i]->rows;
}

/* Does it come from the data, a number a row, such as ids and classes? */
static bool is_data(const struct orr_onnx *x, const struct orr_onnx_tensor *t)
{
	return t && t->known && t->is >= 0 && !t->real && t->columns == 1 &&
	       orr_onnx_is_whole(x, t) && x->draft->operators[t->is].is.instance->op->input;
}

static void say(struct orr_onnx_like *like, const char *name, double value)
{
	like->values[like->n_values].name = name;
	like->values[like->n_values++].value = value;
}

/* Its output lies as input i, but with this number of columns in each row. */
static void lies_as(struct orr_onnx_like *like, const struct orr_onnx_node *n, int i,
		    int64_t columns)
{
	like->as = n->in[i];
	like->rows = n->in[i]->rows;
	like->columns = columns;
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
		if (x->claimed[i] || !add.op || !is_op(&add, "Add") || add.n_in != 2)
			continue;
		own = add.in[0] == out ? 0 : add.in[1] == out ? 1 : -1;
		if (own >= 0) {
			*bias = add.in[!own];
			return orr_onnx_is_weight(*bias, 1, features) ? i : -1;
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

	if (!reads_rows(x, n, 0) || n->in[0]->n_dims < 2 || !w || w->n_dims != 2 ||
	    !orr_onnx_is_weight(w, 2, orr_onnx_floats(w)))
		return false;
	like->turned = !gemm || !orr_onnx_int(n, "transB", 0);
	features = w->dims[like->turned];
	orr_onnx_take(like, "weight", w, 2);
	if (gemm) {
		bias = n->n_in > 2 && n->in[2];
		added = bias ? n->in[2] : NULL;
		if (orr_onnx_int(n, "transA", 0) || orr_onnx_real(n, "alpha", 1) != 1 ||
		    orr_onnx_real(n, "beta", 1) != 1 ||
		    (bias && !orr_onnx_is_weight(n->in[2], 1, features)))
			return false;
	} else {
		like->also = find_bias(x, n, features, &added);
		bias = like->also >= 0;
	}
	if (bias)
		orr_onnx_take(like, "bias", added, 1);
	like->op = "linear";
	lies_as(like, n, 0, features);
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

	if (!reads_image(x, n, 0) || n->in[0]->n_dims != 4 ||
	    !is_even(n, "kernel_shape", conv && w && w->n_dims == 4 ? w->dims[2] : 0, &side) ||
	    !is_even(n, "strides", 1, &stride) || !is_even(n, "pads", 0, &padding) ||
	    !is_even(n, "dilations", 1, &dilation) || dilation != 1 || padding >= side ||
	    pads_itself(n) || orr_onnx_int(n, "ceil_mode", 0))
		return false;
	if (conv) {
		bool bias = n->n_in > 2 && n->in[2];

		if (!w || w->n_dims != 4 || w->dims[2] != side || w->dims[3] != side ||
		    !orr_onnx_is_weight(w, 4, orr_onnx_floats(w)) ||
		    (bias && !orr_onnx_is_weight(n->in[2], 1, w->dims[0])))
			return false;
		say(like, "features", (double)w->dims[0]);
		say(like, "groups", (double)orr_onnx_int(n, "group", 1));
		say(like, "bias", bias);
		orr_onnx_take(like, "weight", w, 4);
		if (bias)
			orr_onnx_take(like, "bias", n->in[2], 1);
	} else if ((most && n->n_out > 1 && n->out[1]) ||
		   (!most && padding && !orr_onnx_int(n, "count_include_pad", 0))) {
		return false;
	}
	say(like, "kernel", (double)side);
	say(like, "stride", (double)stride);
	say(like, "padding", (double)padding);
	say(like, "image_height", (double)n->in[0]->dims[2]);
	like->op = conv ? "conv2d" : most ? "max_pool" : "mean_pool";
	like->channels = true;
	like->rows = n->out[0]->dims[2] * n->out[0]->dims[3];
	like->columns = n->out[0]->dims[1];
	return true;
}

static bool like_norm(struct orr_onnx_like *like, const struct orr_onnx *x,
		      const struct orr_onnx_node *n)
{
	static const char *const names[] = {"gain", "bias", "mean", "variance"};
	bool batch = is_op(n, "BatchNormalization");
	int last = n->in[0] ? n->in[0]->n_dims - 1 : 0;
	double epsilon = orr_onnx_real(n, "epsilon", 1e-5);

	if (!(batch ? reads_image(x, n, 0) : reads_rows(x, n, 0)) || epsilon < 1e-30 ||
	    epsilon > 1 || (!batch && orr_onnx_axis(orr_onnx_int(n, "axis", -1), last + 1) != last))
		return false;
	for (int i = 1; i < (batch ? 5 : 3); i++) {
		if (i >= n->n_in || !orr_onnx_is_weight(n->in[i], 1, n->in[0]->columns))
			return false;
		orr_onnx_take(like, names[i - 1], n->in[i], 1);
	}
	like->op = batch ? "batchnorm" : "layernorm";
	lies_as(like, n, 0, n->in[0]->columns);
	say(like, "epsilon", epsilon);
	if (batch) {
		double momentum = 1 - orr_onnx_real(n, "momentum", 0.9);

		say(like, "momentum", momentum < 1e-6 ? 1e-6 : momentum > 1 ? 1 : momentum);
	}
	return true;
}

static bool are_equal(const struct orr_onnx_tensor *a, const struct orr_onnx_tensor *b)
{
	if (a->n_dims != b->n_dims || a->rows != b->rows || a->columns != b->columns)
		return false;
	for (int i = 0; i < a->n_dims; i++)
		if (a->dims[i] != b->dims[i] || (a->dims[i] > 1 && a->strides[i] != b->strides[i]))
			return false;
	return true;
}

/* Times a number. */
static bool like_scale(struct orr_onnx_like *like, struct orr_onnx *x,
		       const struct orr_onnx_node *n)
{
	int own = n->in[0]->constant;
	float factor;

	if (!reads_any(x, n, own) || n->in[own]->n_dims != n->out[0]->n_dims ||
	    !orr_onnx_number(x, n->in[!own], &factor) || (own && is_op(n, "Div")))
		return false;
	if (is_op(n, "Div"))
		factor = 1 / factor;
	if (!(factor >= -1e9f && factor <= 1e9f))
		return false;
	like->op = "scale";
	lies_as(like, n, own, n->in[own]->columns);
	say(like, "factor", (double)factor);
	return true;
}

/* Sums and products of activations; a learned vector added to each row; a factor. */
static bool like_wise(struct orr_onnx_like *like, struct orr_onnx *x, const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *a, *b;

	if (n->n_in != 2 || !orr_onnx_in(n, 0) || !orr_onnx_in(n, 1))
		return false;
	a = n->in[n->in[0]->is < 0];
	b = n->in[n->in[0]->is >= 0];
	if (is_op(n, "Add") && reads_tokens(x, n, a == n->in[1]) &&
	    orr_onnx_is_weight(b, b->n_dims, a->rows * a->columns) && b->n_dims >= 2 &&
	    b->dims[b->n_dims - 1] == a->columns && b->dims[b->n_dims - 2] == a->rows) {
		like->op = "positions";
		lies_as(like, n, a == n->in[1], a->columns);
		orr_onnx_take(like, "weight", b, 2);
		return true;
	}
	if ((is_op(n, "Mul") || is_op(n, "Div")) && (a->constant || b->constant))
		return like_scale(like, x, n);
	if (is_op(n, "Div") || !reads_any(x, n, 0) || !reads_any(x, n, 1) || !are_equal(a, b) ||
	    a->is == b->is)
		return false;
	like->op = is_op(n, "Add") ? "add" : "multiply";
	lies_as(like, n, 0, a->columns);
	return true;
}

static bool like_concat(struct orr_onnx_like *like, const struct orr_onnx *x,
			const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int axis = t ? orr_onnx_axis(orr_onnx_int(n, "axis", 1), t->n_dims) : -1;
	bool image = t && t->n_dims == 4, columns = t && axis == (image ? 1 : t->n_dims - 1);

	if (axis < 1 || n->n_in < 2 || !(columns || (t->n_dims == 3 && axis == 1)))
		return false;
	for (int i = 0; i < n->n_in; i++) {
		if (!(image     ? reads_image(x, n, i)
		      : columns ? reads_rows(x, n, i)
				: reads_tokens(x, n, i)))
			return false;
		for (int k = 0; k < i; k++)
			if (n->in[k]->is == n->in[i]->is)
				return false;
		like->columns = (columns ? like->columns : 0) + n->in[i]->columns;
		like->rows = (columns ? 0 : like->rows) + n->in[i]->rows;
	}
	like->op = "concat";
	like->channels = image;
	like->as = columns && !image ? t : NULL;
	say(like, "axis", columns ? 0 : 1);
	return true;
}

static bool like_embedding(struct orr_onnx_like *like, const struct orr_onnx *x,
			   const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *w = orr_onnx_in(n, 0), *ids = orr_onnx_in(n, 1);

	if (!w || w->n_dims != 2 || !orr_onnx_is_weight(w, 2, orr_onnx_floats(w)) ||
	    orr_onnx_int(n, "axis", 0) || !is_data(x, ids) || w->dims[0] < 1 ||
	    w->dims[0] > 1 << 24 || ids->rows * w->dims[1] > ORR_MOST_COLUMNS)
		return false;
	like->op = "embedding";
	orr_onnx_take(like, "weight", w, 2);
	lies_as(like, n, 1, w->dims[1]);
	say(like, "vocabulary", (double)w->dims[0]);
	say(like, "features", (double)w->dims[1]);
	return true;
}

static bool like_mean(struct orr_onnx_like *like, const struct orr_onnx *x,
		      const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	bool image = t && t->n_dims == 4;
	const int64_t *axes;
	int count = orr_onnx_list(n, "axes", 1, &axes);

	if (!(image ? reads_image(x, n, 0) : reads_tokens(x, n, 0)))
		return false;
	if (is_op(n, "GlobalAveragePool") ? !image
	    : image ? count != 2 || orr_onnx_axis(axes[0], 4) + orr_onnx_axis(axes[1], 4) != 5 ||
			      axes[0] == axes[1] || !orr_onnx_axis(axes[0], 4) ||
			      !orr_onnx_axis(axes[1], 4)
		    : count != 1 || orr_onnx_axis(axes[0], 3) != 1)
		return false;
	like->op = "mean";
	like->rows = 1;
	like->columns = t->columns;
	return true;
}

/* Of classes along the second dimension, as images have their channels, or of rows. The mean is
 * that of the rows that count there, and of all rows here: a class to ignore has no like. Below 0
 * it is none, which exporters write always, and labels of it are refused where the data is read. */
static bool like_loss(struct orr_onnx_like *like, const struct orr_onnx *x,
		      const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *labels = orr_onnx_in(n, 1);

	if (!(reads_image(x, n, 0) || (reads_rows(x, n, 0) && n->in[0]->n_dims == 2)) ||
	    n->in[0]->columns < 2 || n->n_in != 2 || !is_data(x, labels) ||
	    labels->rows != n->in[0]->rows || n->out[0]->n_dims || n->out[0]->n_readers > 1 ||
	    orr_onnx_is_text(n, "reduction", "sum") || (n->n_out > 1 && n->out[1]))
		return false;
	if (orr_onnx_int(n, "ignore_index", -1) >= 0) {
		like->why = "SoftmaxCrossEntropyLoss with ignore_index: a mean over the rows that "
			    "count";
		return false;
	}
	like->op = "softmax_cross_entropy";
	like->rows = like->columns = 1;
	return true;
}

static bool like_softmax(struct orr_onnx_like *like, const struct orr_onnx *x,
			 const struct orr_onnx_node *n)
{
	int last = n->in[0] ? n->in[0]->n_dims - 1 : 0;

	if (!reads_rows(x, n, 0) ||
	    orr_onnx_axis(orr_onnx_int(n, "axis", x->version < 13 ? 1 : -1), last + 1) != last)
		return false;
	like->op = "softmax";
	lies_as(like, n, 0, n->in[0]->columns);
	return true;
}

/* In training; see orr_onnx_view() for others. */
static bool like_dropout(struct orr_onnx_like *like, struct orr_onnx *x,
			 const struct orr_onnx_node *n)
{
	float rate = 0.5f;

	if (!reads_any(x, n, 0) || (n->n_out > 1 && n->out[1] && n->out[1]->live) ||
	    (orr_onnx_in(n, 1) && !orr_onnx_number(x, n->in[1], &rate)) || !(rate >= 0) ||
	    rate >= 1)
		return false;
	like->op = "dropout";
	lies_as(like, n, 0, n->in[0]->columns);
	say(like, "rate", (double)rate);
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
			lies_as(like, n, 0, n->in[0]->columns);
			if (i == 3 && orr_onnx_is_text(n, "approximate", "tanh"))
				like->op = "gelu_tanh";
			return true;
		}
	return false;
}

static bool find_like(struct orr_onnx_like *like, struct orr_onnx *x, const struct orr_onnx_node *n)
{
	if (!n->op || !n->n_out || !n->out[0] || !n->out[0]->known)
		return false;
	if (is_op(n, "Gemm") || is_op(n, "MatMul"))
		return like_linear(like, x, n);
	if (is_op(n, "Conv") || is_op(n, "MaxPool") || is_op(n, "AveragePool"))
		return like_window(like, x, n);
	if (is_op(n, "BatchNormalization") || is_op(n, "LayerNormalization"))
		return like_norm(like, x, n);
	if (is_op(n, "Add") || is_op(n, "Mul") || is_op(n, "Div"))
		return like_wise(like, x, n);
	if (is_op(n, "Concat"))
		return like_concat(like, x, n);
	if (is_op(n, "Gather"))
		return like_embedding(like, x, n);
	if (is_op(n, "GlobalAveragePool") || is_op(n, "ReduceMean"))
		return like_mean(like, x, n);
	if (is_op(n, "SoftmaxCrossEntropyLoss"))
		return like_loss(like, x, n);
	if (is_op(n, "Softmax"))
		return like_softmax(like, x, n);
	if (is_op(n, "Dropout"))
		return like_dropout(like, x, n);
	return like_activation(like, x, n);
}

/* ONNX may have numbers that no graph can have here. */
static bool is_in_range(const struct orr_onnx_like *like, int i)
{
	double value = like->values[i].value;

	for (const struct orr_attribute *a = orr_op_find(like->op)->attributes; a && a->name; a++)
		if (!strcmp(a->name, like->values[i].name) &&
		    (a->form == ORR_ATTRIBUTE_COUNT || a->form == ORR_ATTRIBUTE_REAL))
			return value >= a->least && value <= a->most;
	return true;
}

bool orr_onnx_like(struct orr_onnx_like *like, struct orr_onnx *x, const struct orr_onnx_node *n)
{
	*like = (struct orr_onnx_like){.also = -1};
	if (!find_like(like, x, n))
		return false;
	for (int i = 0; i < like->n_values; i++)
		if (!is_in_range(like, i))
			return false;
	return true;
}
