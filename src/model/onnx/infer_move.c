/* Shapes of operators that move numbers and compute nothing. */
#include "infer.h"

#include <string.h>

bool orr_onnx_infer_reshape(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS], floats = 1;
	const int64_t *to;
	int count = orr_onnx_list(n, "shape", 1, &to), open = -1;

	if (!t || count < 0 || count > ORR_ONNX_MOST_DIMS)
		return false;
	for (int i = 0; i < count; i++) {
		bool copies = to[i] == 0 && !orr_onnx_int(n, "allowzero", 0);

		if (copies && i >= t->n_dims)
			return orr_onnx_refuse(n, "its shape copies a dimension that there is not");
		dims[i] = copies ? t->dims[i] : to[i];
		if (dims[i] < -1 || (dims[i] == -1 && open >= 0))
			return orr_onnx_refuse(n, "a shape has one -1 at most, and nothing below");
		if (dims[i] == -1)
			open = i;
		else if (__builtin_mul_overflow(floats, dims[i], &floats))
			return orr_onnx_refuse(n, "its shape is larger than can be");
	}
	if (open >= 0) {
		if (!floats || orr_onnx_floats(t) % floats)
			return false;
		dims[open] = orr_onnx_floats(t) / floats;
		floats *= dims[open];
	}
	if (floats != orr_onnx_floats(t))
		return false;
	orr_onnx_give(n, 0, count, dims, t->real);
	return true;
}

bool orr_onnx_infer_flatten(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t axis = orr_onnx_int(n, "axis", 1), dims[2] = {1, 1};

	if (!t)
		return false;
	if (axis > t->n_dims || axis < -t->n_dims)
		return orr_onnx_refuse(n, "its input has no such axis");
	axis += axis < 0 ? t->n_dims : 0;
	for (int i = 0; i < t->n_dims; i++)
		dims[i >= axis] *= t->dims[i];
	orr_onnx_give(n, 0, 2, dims, t->real);
	return true;
}

bool orr_onnx_infer_transpose(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	const int64_t *order;
	int count = orr_onnx_ints(n, "perm", &order);

	bool taken[ORR_ONNX_MOST_DIMS] = {false};

	if (!t)
		return false;
	if (count && count != t->n_dims)
		return orr_onnx_refuse(n, "perm has not as many numbers as its input dimensions");
	for (int i = 0; i < t->n_dims; i++) {
		int64_t from = count ? order[i] : t->n_dims - 1 - i;

		if (from < 0 || from >= t->n_dims || taken[from])
			return orr_onnx_refuse(n, "perm is no order of its input's dimensions");
		taken[from] = true;
		dims[i] = t->dims[from];
	}
	orr_onnx_give(n, 0, t->n_dims, dims, t->real);
	return true;
}

bool orr_onnx_infer_squeeze(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	bool goes[ORR_ONNX_MOST_DIMS];
	const int64_t *axes;
	int count = orr_onnx_list(n, "axes", 1, &axes), n_dims = 0;

	if (!t || (count < 0 && n->n_in > 1))
		return false;
	if (!orr_onnx_mark_axes(goes, axes, count, t->n_dims))
		return orr_onnx_refuse(n, "its input has no such axis");
	for (int i = 0; i < t->n_dims; i++)
		if (count < 0 ? t->dims[i] != 1 : !goes[i])
			dims[n_dims++] = t->dims[i];
	orr_onnx_give(n, 0, n_dims, dims, t->real);
	return true;
}

bool orr_onnx_infer_unsqueeze(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	bool comes[ORR_ONNX_MOST_DIMS];
	const int64_t *axes;
	int count = orr_onnx_list(n, "axes", 1, &axes), from = 0;

	if (!t || count < 0 || count > ORR_ONNX_MOST_DIMS - t->n_dims)
		return false;
	if (!orr_onnx_mark_axes(comes, axes, count, t->n_dims + count))
		return orr_onnx_refuse(n, "its output has no such axis");
	for (int i = 0; i < t->n_dims + count; i++) {
		if (!comes[i] && from == t->n_dims)
			return false;
		dims[i] = comes[i] ? 1 : t->dims[from++];
	}
	orr_onnx_give(n, 0, t->n_dims + count, dims, t->real);
	return from == t->n_dims;
}

bool orr_onnx_infer_concat(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	int axis = t ? orr_onnx_axis(orr_onnx_int(n, "axis", 1), t->n_dims) : -1;

	if (!t)
		return false;
	if (axis < 0)
		return orr_onnx_refuse(n, "its inputs have no such axis");
	memcpy(dims, t->dims, sizeof(dims));
	for (int i = 1; i < n->n_in; i++) {
		const struct orr_onnx_tensor *more = orr_onnx_in(n, i);

		if (!more)
			return false;
		for (int k = 0; k < t->n_dims && more->n_dims == t->n_dims; k++)
			if (k != axis && more->dims[k] != t->dims[k])
				return k > 0 /* not the batch */
					       ? orr_onnx_refuse(
							 n, "its inputs differ along another axis")
					       : false;
		if (more->n_dims != t->n_dims)
			return orr_onnx_refuse(n,
					       "its inputs differ in their number of dimensions");
		dims[axis] += more->dims[axis];
	}
	orr_onnx_give(n, 0, t->n_dims, dims, t->real);
	return true;
}

bool orr_onnx_infer_split(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS], part, sum = 0;
	int axis = t ? orr_onnx_axis(orr_onnx_int(n, "axis", 0), t->n_dims) : -1;
	const int64_t *parts;
	int count = orr_onnx_list(n, "split", 1, &parts);

	if (!t || (count < 0 && n->n_in > 1))
		return false;
	if (axis < 0)
		return orr_onnx_refuse(n, "its input has no such axis");
	for (int i = 0; i < count; i++)
		if (parts[i] < 0 || __builtin_add_overflow(sum, parts[i], &sum))
			return orr_onnx_refuse(n, "parts have a size of 0 or more");
	if (count >= 0 && (count != n->n_out || sum != t->dims[axis]))
		return axis > 0 || t->constant /* not the batch, of which one sample may be read */
			       ? orr_onnx_refuse(n, "its parts do not add up to its input")
			       : false;
	part = (t->dims[axis] + n->n_out - 1) / n->n_out;
	memcpy(dims, t->dims, sizeof(dims));
	for (int i = 0; i < n->n_out; i++) {
		int64_t left = t->dims[axis] - i * part;

		dims[axis] = count >= 0 ? parts[i] : left < part ? left : part;
		orr_onnx_give(n, i, t->n_dims, dims, t->real);
	}
	return true;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* Of so many, from start to end by steps. */
static int64_t sliced(int64_t start, int64_t end, int64_t step, int64_t dim)
{
	int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;

	start = clamp(start < 0 ? start + dim : start, step > 0 ? 0 : -1, high);
	end = clamp(end < 0 ? (end < -dim ? low : end + dim) : end, low, high);
	if (step > 0)
		return end > start ? (end - start + step - 1) / step : 0;
	return start > end ? (start - end - step - 1) / -step : 0;
}

bool orr_onnx_infer_slice(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	const int64_t *starts, *ends, *axes, *steps;
	int64_t dims[ORR_ONNX_MOST_DIMS];
	int count = orr_onnx_list(n, "starts", 1, &starts);
	int n_ends = orr_onnx_list(n, "ends", 2, &ends);
	int n_axes = orr_onnx_list(n, "axes", 3, &axes),
	    n_steps = orr_onnx_list(n, "steps", 4, &steps);

	if (!t || count < 0 || count != n_ends || count > t->n_dims ||
	    (n_axes >= 0 && n_axes != count) || (n_steps >= 0 && n_steps != count))
		return false;
	memcpy(dims, t->dims, sizeof(dims));
	for (int i = 0; i < count; i++) {
		int axis = orr_onnx_axis(n_axes >= 0 ? axes[i] : i, t->n_dims);
		int64_t step = n_steps >= 0 ? steps[i] : 1;

		if (axis < 0 || !step)
			return orr_onnx_refuse(n, axis < 0 ? "its input has no such axis"
							   : "a step of 0 ends nowhere");
		if (!orr_onnx_counts(step))
			return false;
		dims[axis] = sliced(starts[i], ends[i], step, t->dims[axis]);
	}
	orr_onnx_give(n, 0, t->n_dims, dims, t->real);
	return true;
}

bool orr_onnx_infer_gather(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0), *ids = orr_onnx_in(n, 1);
	int64_t dims[2 * ORR_ONNX_MOST_DIMS];
	int axis = t ? orr_onnx_axis(orr_onnx_int(n, "axis", 0), t->n_dims) : -1, n_dims = 0;

	if (!t || !ids)
		return false;
	if (axis < 0)
		return orr_onnx_refuse(n, "its input has no such axis");
	for (int64_t i = 0, all = ids->values ? orr_onnx_floats(ids) : 0; i < all; i++)
		if ((axis > 0 || t->constant) && /* as above */
		    (ids->values[i] < -t->dims[axis] || ids->values[i] >= t->dims[axis]))
			return orr_onnx_refuse(n, "it reads by a number that there is not");
	for (int i = 0; i < axis; i++)
		dims[n_dims++] = t->dims[i];
	for (int i = 0; i < ids->n_dims; i++)
		dims[n_dims++] = ids->dims[i];
	for (int i = axis + 1; i < t->n_dims; i++)
		dims[n_dims++] = t->dims[i];
	orr_onnx_give(n, 0, n_dims, dims, t->real);
	return n_dims <= ORR_ONNX_MOST_DIMS;
}

bool orr_onnx_infer_second(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0), *like = orr_onnx_in(n, 1);

	if (t && like)
		orr_onnx_give(n, 0, like->n_dims, like->dims, t->real);
	return t && like;
}

bool orr_onnx_infer_expand(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	const int64_t *to;
	int count = orr_onnx_list(n, "shape", 1, &to), n_dims;

	if (!t || count < 0 || count > ORR_ONNX_MOST_DIMS)
		return false;
	n_dims = t->n_dims > count ? t->n_dims : count;
	for (int i = 1; i <= n_dims; i++) {
		int64_t own = i <= t->n_dims ? t->dims[t->n_dims - i] : 1,
			wanted = i <= count ? to[count - i] : 1;

		if (own != 1 && wanted != 1 && own != wanted)
			return false;
		dims[n_dims - i] = own == 1 ? wanted : own;
	}
	orr_onnx_give(n, 0, n_dims, dims, t->real);
	return true;
}

bool orr_onnx_infer_tile(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	const int64_t *times;

	if (!t || orr_onnx_list(n, "repeats", 1, &times) != t->n_dims)
		return false;
	for (int i = 0; i < t->n_dims; i++)
		if (__builtin_mul_overflow(t->dims[i], times[i], &dims[i]))
			return false;
	orr_onnx_give(n, 0, t->n_dims, dims, t->real);
	return true;
}

bool orr_onnx_infer_pad(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	const int64_t *pads;

	if (!t || (n->n_in > 3 && n->in[3]) || orr_onnx_list(n, "pads", 1, &pads) != 2 * t->n_dims)
		return false;
	for (int i = 0; i < t->n_dims; i++) {
		if (!orr_onnx_counts(pads[i]) || !orr_onnx_counts(pads[t->n_dims + i]))
			return false;
		dims[i] = t->dims[i] + pads[i] + pads[t->n_dims + i];
	}
	orr_onnx_give(n, 0, t->n_dims, dims, t->real);
	return true;
}

/* To sizes that the file says; of scales, which are real numbers, the file gives the shape. */
bool orr_onnx_infer_resize(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0), *sizes = orr_onnx_in(n, 3);

	if (!t || !sizes || !sizes->values || orr_onnx_floats(sizes) != t->n_dims)
		return false;
	orr_onnx_give(n, 0, t->n_dims, sizes->values, t->real);
	return true;
}

bool orr_onnx_infer_blocks(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0);
	int64_t side = orr_onnx_int(n, "blocksize", 0);
	bool wider = !strcmp(n->proto->op_type, "DepthToSpace");

	if (!t || t->n_dims != 4 || side < 1 || side > 1 << 10)
		return false;
	orr_onnx_give(n, 0, 4,
		      wider ? (int64_t[]){t->dims[0], t->dims[1] / (side * side), t->dims[2] * side,
					  t->dims[3] * side}
			    : (int64_t[]){t->dims[0], t->dims[1] * side * side, t->dims[2] / side,
					  t->dims[3] / side},
		      t->real);
	return true;
}

bool orr_onnx_infer_top(struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *t = orr_onnx_in(n, 0), *k = orr_onnx_in(n, 1);
	int64_t dims[ORR_ONNX_MOST_DIMS];
	int axis = t ? orr_onnx_axis(orr_onnx_int(n, "axis", -1), t->n_dims) : -1;

	if (axis < 0 || !k || !k->values || orr_onnx_floats(k) != 1)
		return false;
	memcpy(dims, t->dims, sizeof(dims));
	dims[axis] = k->values[0];
	orr_onnx_give(n, 0, t->n_dims, dims, t->real);
	orr_onnx_give(n, 1, t->n_dims, dims, false);
	return true;
}
