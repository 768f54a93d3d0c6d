/* The inputs of a model: columns of the data, a sample a row. */
#include "rules.h"

#include <stdlib.h>

/* Pixel by pixel, the channels of each beside each other, as an image's rows and columns lie. */
static bool set_columns(struct orr_onnx *x, struct orr_operator *o, const struct orr_onnx_tensor *t,
			int64_t rows, int64_t columns)
{
	bool turned = t->real && t->n_dims == 4;

	o->width = rows * columns;
	if (!(o->columns = malloc((size_t)o->width * sizeof(*o->columns))))
		return false;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < columns; c++)
			o->columns[r * columns + c] =
				x->n_columns + (turned ? c * rows + r : r * columns + c);
	x->n_columns += o->width;
	return true;
}

static int add_input(struct orr_onnx *x, struct orr_onnx_tensor *t, struct orr_error *err)
{
	int64_t rows, columns;
	struct orr_operator *o;

	bool image = t->real && t->n_dims == 4;

	columns = !t->real || t->n_dims < 2 ? 1 : t->dims[image ? 1 : t->n_dims - 1];
	rows = columns > 0 ? orr_onnx_floats(t) / x->samples / columns : 0;
	if (rows < 1 || x->n_columns + rows * columns > ORR_MOST_COLUMNS)
		return orr_fail(err, ORR_E_INPUT,
				"%s: input %.80s: no numbers in it, or more than %d with the "
				"inputs before it",
				x->draft->name, t->name, ORR_MOST_COLUMNS);
	if (!(o = orr_onnx_add(x, "input", t->name, NULL, 0, err)))
		return ORR_E_NOMEM;
	t->is = x->draft->n_operators - 1;
	if (image)
		orr_onnx_lay_channels(t, rows, columns);
	else
		orr_onnx_lay(t, rows, columns);
	orr_onnx_set(o, "rows", (double)rows);
	return set_columns(x, o, t, rows, columns) ? 0 : orr_onnx_no_memory(x, err);
}

static int fail_input(const struct orr_onnx *x, const Onnx__ValueInfoProto *input,
		      struct orr_error *err)
{
	const Onnx__TypeProto__Tensor *type =
		input->type && input->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
			? input->type->tensor_type
			: NULL;

	for (size_t i = 1; type && type->shape && i < type->shape->n_dim; i++) {
		const Onnx__TensorShapeProto__Dimension *dim = type->shape->dim[i];

		if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
			return orr_fail(
				err, ORR_E_INPUT,
				"%s: input %.60s: dimension %zu (%.40s) has no number, as the "
				"batch alone may: export the model with it fixed",
				x->draft->name, input->name, i,
				dim->dim_param ? dim->dim_param : "");
	}
	for (size_t i = 0; type && type->shape && i < type->shape->n_dim; i++) {
		const Onnx__TensorShapeProto__Dimension *dim = type->shape->dim[i];
		bool number =
			dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;

		if (number && (dim->dim_value < 0 || dim->dim_value > ORR_MOST_COLUMNS))
			return orr_fail(err, ORR_E_INPUT,
					"%s: input %.80s: dimension %zu is %lld: it must be 0 to "
					"%d: export the model with another",
					x->draft->name, input->name, i, (long long)dim->dim_value,
					ORR_MOST_COLUMNS);
	}
	return orr_fail(err, ORR_E_INPUT,
			"%s: input %.80s has no shape of tensors: export the model with its shapes",
			x->draft->name, input->name);
}

/* The batch: the first dimension of every input, one sample where it has no number. */
static int find_batch(struct orr_onnx *x, struct orr_error *err)
{
	const struct orr_onnx_tensor *first = NULL;

	x->samples = 1;
	for (size_t i = 0; i < x->graph->n_input; i++) {
		struct orr_onnx_tensor *t = orr_onnx_find(x, x->graph->input[i]->name);

		if (!t || t->constant || !t->live)
			continue;
		if (!orr_onnx_take_type(x, t, x->graph->input[i]))
			return fail_input(x, x->graph->input[i], err);
		if (!t->n_dims || t->dims[0] < 1 || (first && t->dims[0] != first->dims[0]))
			return orr_fail(
				err, ORR_E_INPUT,
				"%s: input %.80s: its first dimension must be the batch, the "
				"same for every input: export the model so",
				x->draft->name, t->name);
		first = first ? first : t;
	}
	if (!first)
		return orr_fail(err, ORR_E_INPUT, "%s: no input changes its outputs: nothing to do",
				x->draft->name);
	x->samples = first->dims[0];
	return 0;
}

int orr_onnx_add_inputs(struct orr_onnx *x, struct orr_error *err)
{
	int code = find_batch(x, err);

	for (size_t i = 0; i < x->graph->n_input && !code; i++) {
		struct orr_onnx_tensor *t = orr_onnx_find(x, x->graph->input[i]->name);

		if (t && !t->constant && t->live && t->is < 0)
			code = add_input(x, t, err);
	}
	return code;
}
