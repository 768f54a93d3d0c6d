/* Views: a tensor as a part of what an operator writes, in an order of its own. Operators that
 * split, turn and regroup make views, and no operators. */
#include "rules.h"

#include <string.h>

void orr_onnx_lay(struct orr_onnx_tensor *t, int64_t rows, int64_t columns)
{
	int64_t stride = 1;

	t->rows = rows;
	t->columns = columns;
	t->at = 0;
	for (int i = t->n_dims - 1; i >= 0; i--) {
		t->strides[i] = stride;
		stride *= t->dims[i];
	}
}

void orr_onnx_lay_channels(struct orr_onnx_tensor *t, int64_t rows, int64_t columns)
{
	int64_t stride = columns;

	orr_onnx_lay(t, rows, columns);
	t->strides[0] = rows * columns;
	t->strides[1] = 1;
	for (int i = t->n_dims - 1; i > 1; i--) {
		t->strides[i] = stride;
		stride *= t->dims[i];
	}
}

void orr_onnx_lay_as(struct orr_onnx_tensor *t, const struct orr_onnx_tensor *as, int64_t rows,
		     int64_t columns)
{
	bool same = rows == as->rows && columns == as->columns;
	int64_t sample = as->rows * as->columns;

	for (int i = 0; i < t->n_dims; i++)
		t->strides[i] = same                 ? as->strides[i]
				: i == t->n_dims - 1 ? 1
				: as->strides[i] >= sample
					? as->strides[i] / sample * rows * columns
					: as->strides[i] / as->columns * columns;
	t->rows = rows;
	t->columns = columns;
	t->at = 0;
}

/* ---- what a view is ---- */

bool orr_onnx_is_whole(const struct orr_onnx *x, const struct orr_onnx_tensor *t)
{
	return t->is >= 0 && !t->at && orr_onnx_floats(t) == x->samples * t->rows * t->columns;
}

/* Of dimensions first to last - 1: do they count up rows in their order, the batch apart? How many
 * rows; 0: they do not. */
static int64_t rows_of(const struct orr_onnx *x, const struct orr_onnx_tensor *t, int first,
		       int last)
{
	bool batch = x->samples == 1;
	int64_t rows = 1;

	for (int i = last - 1; i >= first; i--) {
		if (t->dims[i] == 1)
			continue;
		if (!batch && t->dims[i] == x->samples && t->strides[i] == t->rows * t->columns)
			batch = true;
		else if (t->strides[i] == t->columns * rows)
			rows *= t->dims[i];
		else
			return 0;
	}
	if (!batch && rows == x->samples * t->rows) /* samples below each other */
		return t->rows;
	return batch ? rows : 0;
}

bool orr_onnx_is_plain(const struct orr_onnx *x, const struct orr_onnx_tensor *t)
{
	int last = t->n_dims - 1;

	return last >= 0 && orr_onnx_is_whole(x, t) && t->dims[last] == t->columns &&
	       (t->columns == 1 || t->strides[last] == 1) && rows_of(x, t, 0, last) == t->rows;
}

bool orr_onnx_is_channels(const struct orr_onnx *x, const struct orr_onnx_tensor *t)
{
	int64_t rows = 1;

	if (t->n_dims < 2 || !orr_onnx_is_whole(x, t) || t->dims[0] != x->samples ||
	    t->dims[1] != t->columns || (t->columns > 1 && t->strides[1] != 1) ||
	    (x->samples > 1 && t->strides[0] != t->rows * t->columns))
		return false;
	for (int i = t->n_dims - 1; i > 1; i--) {
		if (t->dims[i] != 1 && t->strides[i] != t->columns * rows)
			return false;
		rows *= t->dims[i];
	}
	return rows == t->rows;
}

bool orr_onnx_is_plain_part(const struct orr_onnx_tensor *t)
{
	int64_t stride = 1;

	for (int i = t->n_dims - 1; i >= 0; i--) {
		if (t->dims[i] != 1 && t->strides[i] != stride)
			return false;
		stride *= t->dims[i];
	}
	return true;
}

bool orr_onnx_is_box(const struct orr_onnx *x, const struct orr_onnx_tensor *t,
		     struct orr_onnx_box *box)
{
	int last = t->n_dims - 1;
	int64_t rows;

	if (t->is < 0 || last < 0 || t->columns < 1 ||
	    (t->dims[last] != 1 && t->strides[last] != 1) || !(rows = rows_of(x, t, 0, last)))
		return false;
	*box = (struct orr_onnx_box){.row = t->at / t->columns,
				     .column = t->at % t->columns,
				     .rows = rows,
				     .columns = t->dims[last]};
	return box->columns > 0 && box->column + box->columns <= t->columns &&
	       box->row + box->rows <= t->rows;
}

bool orr_onnx_is_heads(const struct orr_onnx *x, const struct orr_onnx_tensor *t, bool turned,
		       struct orr_onnx_box *box, int64_t *heads)
{
	int row = t->n_dims - 2 + turned, column = t->n_dims - 1 - turned;
	bool batch = x->samples == 1;

	if (t->is < 0 || t->n_dims < 3)
		return false;
	*heads = 1;
	*box = (struct orr_onnx_box){.row = t->at / t->columns,
				     .column = t->at % t->columns,
				     .rows = t->dims[row],
				     .columns = t->dims[column]};
	if ((box->rows > 1 && t->strides[row] != t->columns) ||
	    (box->columns > 1 && t->strides[column] != 1))
		return false;
	for (int i = t->n_dims - 3; i >= 0; i--) {
		if (t->dims[i] == 1)
			continue;
		if (!batch && t->dims[i] == x->samples && t->strides[i] == t->rows * t->columns)
			batch = true;
		else if (*heads == 1 && t->strides[i] == box->columns)
			*heads = t->dims[i];
		else
			return false;
	}
	box->columns *= *heads;
	return batch && box->columns > 0 && box->column + box->columns <= t->columns &&
	       box->row + box->rows <= t->rows;
}

/* ---- what makes one ---- */

/* Other dimensions of the same floats in the same order; false: their order has no strides. */
static bool regroup(struct orr_onnx_tensor *out, const struct orr_onnx_tensor *in)
{
	int i = in->n_dims - 1, k = out->n_dims - 1;

	for (int j = 0; j < out->n_dims; j++)
		out->strides[j] = 0;
	while (k >= 0) {
		int64_t block = 1, left, stride;
		int first = k;

		while (i >= 0 && in->dims[i] == 1)
			i--;
		if (out->dims[k] == 1) {
			k--;
			continue;
		}
		if (i < 0)
			return false;
		left = in->dims[i];
		stride = in->strides[i];
		for (;;) { /* a run of either that has equally many elements */
			while (k >= 0 && block < left)
				block *= out->dims[k--];
			if (block == left)
				break;
			do
				i--;
			while (i >= 0 && in->dims[i] == 1);
			if (i < 0 || block < left || in->strides[i] != stride * left)
				return false;
			left *= in->dims[i];
		}
		for (int j = first; j > k; j--) {
			out->strides[j] = stride;
			stride *= out->dims[j];
		}
		i--;
	}
	return true;
}

/* From `start` on along an axis. */
static void begin_at(struct orr_onnx_tensor *out, const struct orr_onnx_tensor *in, int axis,
		     int64_t start)
{
	memcpy(out->strides, in->strides, sizeof(out->strides));
	out->at = in->at + start * in->strides[axis];
}

static bool view_slice(struct orr_onnx_tensor *out, const struct orr_onnx_tensor *in,
		       const struct orr_onnx_node *n)
{
	const int64_t *starts, *axes, *steps;
	int count = orr_onnx_list(n, "starts", 1, &starts), n_axes, n_steps;

	n_axes = orr_onnx_list(n, "axes", 3, &axes);
	n_steps = orr_onnx_list(n, "steps", 4, &steps);
	if (count < 1 || (n_axes >= 0 && n_axes != count) || (n_axes < 0 && n->n_in > 3) ||
	    (n_steps >= 0 && n_steps != count) || (n_steps < 0 && n->n_in > 4))
		return false;
	begin_at(out, in, 0, 0);
	for (int i = 0; i < count; i++) {
		int axis = n_axes < 0 ? i : orr_onnx_axis(axes[i], in->n_dims);
		int64_t start = starts[i];

		if (axis < 0 || axis >= in->n_dims || (n_steps >= 0 && steps[i] != 1))
			return false;
		start += start < 0 ? in->dims[axis] : 0;
		start = start < 0 ? 0 : start;
		if (start > in->dims[axis] - out->dims[axis])
			return false;
		out->at += start * in->strides[axis];
	}
	return true;
}

static bool view_split(struct orr_onnx_tensor *out, const struct orr_onnx_tensor *in,
		       const struct orr_onnx_node *n, int k)
{
	int axis = orr_onnx_axis(orr_onnx_int(n, "axis", 0), in->n_dims);
	int64_t start = 0;

	if (axis < 0)
		return false;
	for (int i = 0; i < k; i++) {
		if (!n->out[i] || !n->out[i]->known || n->out[i]->n_dims != in->n_dims)
			return false;
		start += n->out[i]->dims[axis];
	}
	if (start + out->dims[axis] > in->dims[axis])
		return false;
	begin_at(out, in, axis, start);
	return true;
}

/* One of a dimension, by its number. */
static bool view_gather(struct orr_onnx_tensor *out, const struct orr_onnx_tensor *in,
			const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *which = orr_onnx_in(n, 1);
	int axis = orr_onnx_axis(orr_onnx_int(n, "axis", 0), in->n_dims), to = 0;
	int64_t index;

	if (!which || !which->values || orr_onnx_floats(which) != 1 || which->n_dims > 1 ||
	    axis < 0 || out->n_dims != in->n_dims - 1 + which->n_dims)
		return false;
	index = which->values[0] + (which->values[0] < 0 ? in->dims[axis] : 0);
	if (index < 0 || index >= in->dims[axis])
		return false;
	out->at = in->at + index * in->strides[axis];
	for (int i = 0; i < in->n_dims; i++)
		if (i != axis || which->n_dims)
			out->strides[to++] = in->strides[i];
	return true;
}

static bool view_transpose(struct orr_onnx_tensor *out, const struct orr_onnx_tensor *in,
			   const struct orr_onnx_node *n)
{
	const int64_t *order;
	int count = orr_onnx_ints(n, "perm", &order);

	if (count && count != in->n_dims)
		return false;
	for (int i = 0; i < in->n_dims; i++) {
		int64_t from = count ? order[i] : in->n_dims - 1 - i;

		if (from < 0 || from >= in->n_dims || out->dims[i] != in->dims[from])
			return false;
		out->strides[i] = in->strides[from];
	}
	return true;
}

/* In inference it gives what it reads. */
static bool drops_nothing(const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *training = n->n_in > 2 ? n->in[2] : NULL;

	return (!training || (training->values && !training->values[0])) &&
	       !(n->n_out > 1 && n->out[1] && n->out[1]->live);
}

bool orr_onnx_view(struct orr_onnx_tensor *out, const struct orr_onnx_tensor *in,
		   const struct orr_onnx_node *n, int k)
{
	static const char *const regroups[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", NULL};
	const char *op = n->op->name;

	bool same = orr_onnx_floats(in) == orr_onnx_floats(out);

	/* the shape may be the file's own, and not what the node makes */
	if (out->real != in->real || !orr_onnx_floats(in) || !orr_onnx_floats(out))
		return false;
	out->is = in->is;
	out->rows = in->rows;
	out->columns = in->columns;
	out->at = in->at;
	for (int i = 0; regroups[i]; i++)
		if (!strcmp(op, regroups[i]))
			return same && regroup(out, in);
	if (k == 0 && !strcmp(op, "Gather"))
		return view_gather(out, in, n);
	if (out->n_dims == in->n_dims && !strcmp(op, "Split"))
		return view_split(out, in, n, k);
	if (k > 0)
		return false;
	if (out->n_dims == in->n_dims && !strcmp(op, "Transpose"))
		return view_transpose(out, in, n);
	if (out->n_dims == in->n_dims && !strcmp(op, "Slice"))
		return view_slice(out, in, n);
	return same &&
	       (!strcmp(op, "Identity") || !strcmp(op, "Cast") || !strcmp(op, "Expand") ||
		(!strcmp(op, "Dropout") && drops_nothing(n))) &&
	       regroup(out, in);
}
