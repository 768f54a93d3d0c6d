/* Shapes of operators that compute. */
#include "infer.h"

#include <string.h>

void orr_onnx_give(struct orr_onnx_node *n, int i, int n_dims, const int64_t *dims, bool real)
{
	struct orr_onnx_tensor *t = i < n->n_out ? n->out[i] : NULL;

	if (!t || n_dims < 0 || n_dims > ORR_ONNX_MOST_DIMS)
		return;
	t->n_dims = n_dims;
	if (n_dims)
		memmove(t->dims, dims, (size_t)n_dims * sizeof(*dims));
	t->real = real;
	t->known = true;
}

int orr_onnx_list(const struct orr_onnx_node *n, const char *name, int i, const int64_t **list)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, i);
	int count = orr_onnx_ints(n, name, list);

	if (count)
		return count;
	if (!t || !t->values)
		return -1;
	*list = t->values;
	return (int)orr_onnx_floats(t);
}

bool orr_onnx_mark_axes(bool *marks, const int64_t *axes, int n, int n_dims)
{
	memset(marks, 0, ORR_ONNX_MOST_DIMS * sizeof(*marks));
	for (int i = 0; i < n; i++) {
		int axis = orr_onnx_axis(axes[i], n_dims);

		if (axis < 0)
			return false;
		marks[axis] = true;
	}
	return true;
}

bool orr_onnx_infer_same(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	bool real = t && t->real;

	if (!t)
		return false;
	if (!strcmp(n->proto->op_type, "Cast")) {
		int64_t to = orr_onnx_int(n, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);

		real = to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
		       to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
		       to == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 ||
		       to == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
	}
	orr_onnx_give(n, 0, t->n_dims, t->dims, real);
	if (!strcmp(n->proto->op_type, "Dropout"))
		orr_onnx_give(n, 1, t->n_dims, t->dims, false);
	return true;
}

/* One more shape against those so far, as numpy broadcasts. */
static bool broadcast(int64_t *dims, int *n_dims, const int64_t *more, int n_more)
{
	for (; *n_dims < n_more; ++*n_dims) {
		memmove(dims + 1, dims, (size_t)*n_dims * sizeof(*dims));
		dims[0] = 1;
	}
	for (int i = 0; i < n_more; i++) {
		int64_t *dim = &dims[*n_dims - n_more + i];

		if (more[i] != 1 && *dim != 1 && *dim != more[i])
			return false;
		*dim = *dim == 1 ? more[i] : *dim;
	}
	return true;
}

static bool infer_broadcast(struct orr_onnx_node *n, bool real)
{
	int64_t dims[ORR_ONNX_MOST_DIMS] = {0};
	int n_dims = 0;

	for (int i = 0; i < n->n_in; i++) {
		const struct orr_onnx_tensor *t = orr_onnx_in(n, i);

		if (!t)
			return false;
		if (!broadcast(dims, &n_dims, t->dims, t->n_dims))
			return orr_onnx_refuse(n, "its inputs do not broadcast");
	}
	orr_onnx_give(n, 0, n_dims, dims, real);
	return n->n_in > 0;
}

bool orr_onnx_infer_wise(struct orr_onnx_node *n)
{
	bool real = false;

	for (int i = 0; i < n->n_in; i++)
		real = real || (n->in[i] && n->in[i]->real);
	return infer_broadcast(n, real);
}

bool orr_onnx_infer_truth(struct orr_onnx_node *n)
{
	return infer_broadcast(n, false);
}

bool orr_onnx_infer_matmul(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *a = orr_onnx_in(n, 0), *b = orr_onnx_in(n, 1);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	int n_dims;

	if (!a || !b)
		return false;
	if (a->n_dims < 1 || b->n_dims < 1 ||
	    a->dims[a->n_dims - 1] != b->dims[b->n_dims > 1 ? b->n_dims - 2 : 0])
		return orr_onnx_refuse(n, "its inputs do not fit each other");
	n_dims = a->n_dims > 2 ? a->n_dims - 2 : 0;
	memcpy(dims, a->dims, (size_t)n_dims * sizeof(*dims));
	if (b->n_dims > 2 && !broadcast(dims, &n_dims, b->dims, b->n_dims - 2))
		return orr_onnx_refuse(n, "its inputs do not broadcast");
	if (a->n_dims > 1)
		dims[n_dims++] = a->dims[a->n_dims - 2];
	if (b->n_dims > 1)
		dims[n_dims++] = b->dims[b->n_dims - 1];
	orr_onnx_give(n, 0, n_dims, dims, true);
	return true;
}

bool orr_onnx_infer_gemm(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *a = orr_onnx_in(n, 0), *b = orr_onnx_in(n, 1);
	int ta = orr_onnx_int(n, "transA", 0) != 0, tb = orr_onnx_int(n, "transB", 0) != 0;

	if (!a || !b)
		return false;
	if (a->n_dims != 2 || b->n_dims != 2 || a->dims[!ta] != b->dims[tb])
		return orr_onnx_refuse(n, "its inputs do not fit each other");
	orr_onnx_give(n, 0, 2, (int64_t[]){a->dims[ta], b->dims[!tb]}, true);
	return true;
}

/* ---- windows ---- */

/* What a window over the pixels is told of dimension i. */
struct window {
	int64_t side, stride, dilation, before, after;
};

static bool window_of(struct window *w, struct orr_onnx_node *n, int i, int n_pixels)
{
	const struct orr_onnx_tensor *weight = orr_onnx_in(n, 1);
	const int64_t *sides, *strides, *dilations, *pads;
	bool has_side = orr_onnx_ints(n, "kernel_shape", &sides) == n_pixels;
	bool padded = orr_onnx_ints(n, "pads", &pads) == 2 * n_pixels;

	if (!has_side && (!weight || weight->n_dims != n_pixels + 2))
		return false;
	*w = (struct window){
		.side = has_side ? sides[i] : weight->dims[i + 2],
		.stride = orr_onnx_ints(n, "strides", &strides) == n_pixels ? strides[i] : 1,
		.dilation =
			orr_onnx_ints(n, "dilations", &dilations) == n_pixels ? dilations[i] : 1,
		.before = padded ? pads[i] : 0,
		.after = padded ? pads[n_pixels + i] : 0,
	};
	if (w->side < 1 || w->stride < 1 || w->dilation < 1)
		return orr_onnx_refuse(n, "sides, strides and dilations are 1 or more");
	return w->before >= 0 && w->after >= 0 && w->side < 1 << 20 && w->stride < 1 << 20 &&
	       w->dilation < 1 << 20 && w->before < 1 << 20 && w->after < 1 << 20;
}

static bool pads_itself(const struct orr_onnx_node *n)
{
	return orr_onnx_is_text(n, "auto_pad", "SAME_UPPER") ||
	       orr_onnx_is_text(n, "auto_pad", "SAME_LOWER");
}

/* Places of a window over so many pixels; below 1: there are none. */
static int64_t places(const struct orr_onnx_node *n, struct window w, int64_t pixels)
{
	int64_t seen = (w.side - 1) * w.dilation + 1, room = pixels + w.before + w.after - seen;

	if (pads_itself(n))
		return (pixels + w.stride - 1) / w.stride;
	if (room < 0)
		return 0;
	return room / w.stride + 1 +
	       (orr_onnx_int(n, "ceil_mode", 0) && room % w.stride &&
		(room / w.stride + 1) * w.stride < pixels + w.before);
}

bool orr_onnx_infer_conv(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0), *weight = orr_onnx_in(n, 1);
	int64_t dims[ORR_ONNX_MOST_DIMS], groups = orr_onnx_int(n, "group", 1);
	struct window w;

	if (!t || t->n_dims < 3 || (weight && weight->n_dims != t->n_dims))
		return false;
	if (groups < 1 || (weight && (t->dims[1] % groups || weight->dims[0] % groups ||
				      t->dims[1] / groups != weight->dims[1])))
		return orr_onnx_refuse(n, "its groups of channels do not fit its weights");
	dims[0] = t->dims[0];
	dims[1] = weight ? weight->dims[0] : t->dims[1];
	for (int i = 2; i < t->n_dims; i++) {
		if (!window_of(&w, n, i - 2, t->n_dims - 2))
			return false;
		if ((dims[i] = places(n, w, t->dims[i])) < 1)
			return orr_onnx_refuse(n, "its window is larger than what it reads");
	}
	orr_onnx_give(n, 0, t->n_dims, dims, true);
	orr_onnx_give(n, 1, t->n_dims, dims, false);
	return true;
}

bool orr_onnx_infer_conv_back(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0), *weight = orr_onnx_in(n, 1);
	int64_t dims[ORR_ONNX_MOST_DIMS], groups = orr_onnx_int(n, "group", 1);
	const int64_t *more, *given;
	struct window w;

	if (!t || !weight || t->n_dims < 3 || weight->n_dims != t->n_dims || groups < 1 ||
	    groups > 1 << 20)
		return false;
	dims[0] = t->dims[0];
	dims[1] = weight->dims[1] * groups;
	for (int i = 2; i < t->n_dims; i++) {
		int n_pixels = t->n_dims - 2, k = i - 2;
		int64_t extra = orr_onnx_ints(n, "output_padding", &more) == n_pixels ? more[k] : 0;

		if (!window_of(&w, n, k, n_pixels) || !orr_onnx_counts(extra))
			return false;
		dims[i] = pads_itself(n)
				  ? t->dims[i] * w.stride
				  : (t->dims[i] - 1) * w.stride + extra +
					    (w.side - 1) * w.dilation + 1 - w.before - w.after;
		if (orr_onnx_ints(n, "output_shape", &given) == n_pixels)
			dims[i] = given[k];
	}
	orr_onnx_give(n, 0, t->n_dims, dims, true);
	return true;
}

bool orr_onnx_infer_global(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};

	if (!t || t->n_dims < 3)
		return false;
	memcpy(dims, t->dims, 2 * sizeof(*dims));
	orr_onnx_give(n, 0, t->n_dims, dims, true);
	return true;
}

/* ---- sums ---- */

/* Which dimensions go; false: the list is wrong. */
static bool find_reduced(bool *goes, const struct orr_onnx_node *n, int n_dims)
{
	const int64_t *axes;
	int count = orr_onnx_list(n, "axes", 1, &axes);
	bool all = count <= 0 && !orr_onnx_int(n, "noop_with_empty_axes", 0);

	if (n->n_in > 1 && n->in[1] && count < 0)
		return false;
	for (int i = 0; i < n_dims; i++)
		goes[i] = all;
	if (!strncmp(n->proto->op_type, "Arg", 3)) {
		int axis = orr_onnx_axis(orr_onnx_int(n, "axis", 0), n_dims);

		for (int i = 0; i < n_dims; i++)
			goes[i] = i == axis;
		return axis >= 0;
	}
	return all || orr_onnx_mark_axes(goes, axes, count, n_dims);
}

bool orr_onnx_infer_reduce(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	bool goes[ORR_ONNX_MOST_DIMS], keep = orr_onnx_int(n, "keepdims", 1) != 0;
	int n_dims = 0;

	if (!t || !find_reduced(goes, n, t->n_dims))
		return false;
	for (int i = 0; i < t->n_dims; i++)
		if (!goes[i] || keep)
			dims[n_dims++] = goes[i] ? 1 : t->dims[i];
	orr_onnx_give(n, 0, n_dims, dims, t->real && strncmp(n->proto->op_type, "Arg", 3) != 0);
	return true;
}

bool orr_onnx_infer_loss(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *scores = orr_onnx_in(n, 0), *labels = orr_onnx_in(n, 1);

	if (!scores || !labels)
		return false;
	if (orr_onnx_is_text(n, "reduction", "none"))
		orr_onnx_give(n, 0, labels->n_dims, labels->dims, true);
	else
		orr_onnx_give(n, 0, 0, NULL, true);
	orr_onnx_give(n, 1, scores->n_dims, scores->dims, true);
	return true;
}

bool orr_onnx_infer_recurrent(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0), *r = orr_onnx_in(n, 2);
	bool by_batch = orr_onnx_int(n, "layout", 0) != 0;

	if (!t || !r || t->n_dims != 3 || r->n_dims != 3)
		return false;
	/* all states, the last one, and LSTM's cell */
	if (by_batch)
		orr_onnx_give(n, 0, 4, (int64_t[]){t->dims[0], t->dims[1], r->dims[0], r->dims[2]},
			      true);
	else
		orr_onnx_give(n, 0, 4, (int64_t[]){t->dims[0], r->dims[0], t->dims[1], r->dims[2]},
			      true);
	for (int i = 1; i < 3; i++)
		orr_onnx_give(n, i, 3,
			      by_batch ? (int64_t[]){t->dims[0], r->dims[0], r->dims[2]}
				       : (int64_t[]){r->dims[0], t->dims[1], r->dims[2]},
			      true);
	return true;
}
