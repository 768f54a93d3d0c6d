/* The tensors of a model by name: inputs, constants and what nodes write. */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/element.h"

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct orr_onnx_tensor *)a)->name,
		      ((const struct orr_onnx_tensor *)b)->name);
}

struct orr_onnx_tensor *orr_onnx_find(const struct orr_onnx *x, const char *name)
{
	struct orr_onnx_tensor key = {.name = name};

	return name && *name && x->n_tensors
		       ? bsearch(&key, x->tensors, (size_t)x->n_tensors, sizeof(key), compare_names)
		       : NULL;
}

int64_t orr_onnx_floats(const struct orr_onnx_tensor *t)
{
	int64_t floats = 1;

	for (int i = 0; i < t->n_dims; i++)
		floats *= t->dims[i];
	return floats;
}

/* ---- shapes and values ---- */

/* Are all dimensions there, and is their product none that overflows? */
static bool fits(const struct orr_onnx_tensor *t)
{
	double floats = 1;

	for (int i = 0; i < t->n_dims; i++) {
		if (t->dims[i] < 0)
			return false;
		floats *= (double)(t->dims[i] > 0 ? t->dims[i] : 1);
	}
	return floats <= (double)ORR_ONNX_MOST_FLOATS;
}

static bool is_real(int32_t type)
{
	switch (type) {
	case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
	case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
	case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
	case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
		return true;
	default:
		return false;
	}
}

bool orr_onnx_take_shape(struct orr_onnx_tensor *t, const Onnx__TensorProto *from)
{
	if (from->n_dims > ORR_ONNX_MOST_DIMS)
		return false;
	t->n_dims = (int)from->n_dims;
	if (from->n_dims)
		memcpy(t->dims, from->dims, from->n_dims * sizeof(*t->dims));
	t->real = is_real(from->data_type);
	t->known = fits(t);
	return t->known;
}

bool orr_onnx_set_values(struct orr_onnx_tensor *t, const int64_t *values, int64_t n)
{
	free(t->values);
	t->values = NULL;
	if (n > ORR_ONNX_MOST_VALUES || !(t->values = malloc((size_t)n * sizeof(*values) + 1)))
		return false;
	memcpy(t->values, values, (size_t)n * sizeof(*values));
	return true;
}

/* Little-endian, as the format has it. */
static int64_t whole_at(const uint8_t *at, int bytes, bool sign)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	if (sign && bytes < 8 && at[bytes - 1] >= 0x80)
		value |= ~UINT64_C(0) << (8 * bytes);
	return (int64_t)value;
}

void orr_onnx_take_values(struct orr_onnx_tensor *t, const Onnx__TensorProto *from)
{
	int64_t values[ORR_ONNX_MOST_VALUES], n = t->known ? orr_onnx_floats(t) : -1;
	int bytes = from->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64   ? 8
		    : from->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32 ? 4
		    : from->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL  ? 1
									      : 0;

	if (!bytes || n < 0 || n > ORR_ONNX_MOST_VALUES ||
	    from->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
		return;
	if (from->has_raw_data && from->raw_data.len == (size_t)(n * bytes)) {
		for (int64_t i = 0; i < n; i++)
			values[i] = whole_at(from->raw_data.data + i * bytes, bytes, bytes > 1);
	} else if (bytes == 8 && from->n_int64_data == (size_t)n) {
		for (int64_t i = 0; i < n; i++)
			values[i] = from->int64_data[i];
	} else if (bytes < 8 && from->n_int32_data == (size_t)n) {
		for (int64_t i = 0; i < n; i++)
			values[i] = from->int32_data[i];
	} else {
		return;
	}
	(void)orr_onnx_set_values(t, values, n);
}

bool orr_onnx_element(const Onnx__TensorProto *t, enum orr_element *element)
{
	switch (t->data_type) {
	case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
		*element = ORR_ELEMENT_F32;
		return true;
	case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
		*element = ORR_ELEMENT_F16;
		return true;
	case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
		*element = ORR_ELEMENT_BF16;
		return true;
	case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
		*element = ORR_ELEMENT_F64;
		return true;
	default:
		return false;
	}
}

/* A half in a field of whole numbers is the low half of one. */
const void *orr_onnx_numbers(const Onnx__TensorProto *t, enum orr_element element, int64_t n,
			     int64_t *step)
{
	*step = orr_element_bytes(element);
	if (t->has_raw_data && t->raw_data.len)
		return (int64_t)t->raw_data.len == n * *step ? t->raw_data.data : NULL;
	if (element == ORR_ELEMENT_F32)
		return (int64_t)t->n_float_data == n ? t->float_data : NULL;
	if (element == ORR_ELEMENT_F64)
		return (int64_t)t->n_double_data == n ? t->double_data : NULL;
	*step = sizeof(*t->int32_data);
	return (int64_t)t->n_int32_data == n ? t->int32_data : NULL;
}

bool orr_onnx_take_type(struct orr_onnx *x, struct orr_onnx_tensor *t,
			const Onnx__ValueInfoProto *from)
{
	const Onnx__TypeProto__Tensor *type =
		from->type && from->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
			? from->type->tensor_type
			: NULL;

	if (!type || !type->shape || type->shape->n_dim > ORR_ONNX_MOST_DIMS)
		return false;
	t->n_dims = (int)type->shape->n_dim;
	t->real = is_real(type->elem_type);
	for (int i = 0; i < t->n_dims; i++) {
		const Onnx__TensorShapeProto__Dimension *dim = type->shape->dim[i];
		bool number =
			dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;

		if (!number && i > 0)
			return false;
		t->dims[i] = number ? dim->dim_value : x->samples;
	}
	t->known = fits(t);
	return t->known;
}

/* ---- by name ---- */

static void add(struct orr_onnx *x, const char *name, int made_by)
{
	if (name && *name)
		x->tensors[x->n_tensors++] =
			(struct orr_onnx_tensor){.name = name, .made_by = made_by, .is = -1};
}

/* An input may have a value besides: it is a constant then. */
static int merge(struct orr_onnx *x, struct orr_error *err)
{
	int n = 0;

	for (int i = 0; i < x->n_tensors; i++) {
		if (!n || strcmp(x->tensors[n - 1].name, x->tensors[i].name) != 0)
			x->tensors[n++] = x->tensors[i];
		else if (x->tensors[i].made_by >= 0 || x->tensors[n - 1].made_by >= 0)
			return orr_fail(err, ORR_E_INPUT,
					"%s: tensor %.80s is made twice: a damaged model, export "
					"it again",
					x->draft->name, x->tensors[i].name);
	}
	x->n_tensors = n;
	return 0;
}

int orr_onnx_tensors_init(struct orr_onnx *x, struct orr_error *err)
{
	const Onnx__GraphProto *g = x->graph;
	size_t n = g->n_input + g->n_initializer;

	for (size_t i = 0; i < g->n_node; i++)
		n += g->node[i]->n_output;
	if (g->n_node > ORR_MOST_OPERATORS || n > 2 * ORR_MOST_OPERATORS)
		return orr_fail(err, ORR_E_INPUT, "%s: more than %d nodes: no model is that large",
				x->draft->name, ORR_MOST_OPERATORS);
	if (!(x->tensors = calloc(n + 1, sizeof(*x->tensors))))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its tensors", x->draft->name);
	for (size_t i = 0; i < g->n_input; i++)
		add(x, g->input[i]->name, -1);
	for (size_t i = 0; i < g->n_initializer; i++)
		add(x, g->initializer[i]->name, -1);
	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < g->node[i]->n_output; k++)
			add(x, g->node[i]->output[k], (int)i);
	qsort(x->tensors, (size_t)x->n_tensors, sizeof(*x->tensors), compare_names);
	return merge(x, err);
}

void orr_onnx_tensors_fini(struct orr_onnx *x)
{
	for (int i = 0; i < x->n_tensors; i++)
		free(x->tensors[i].values);
	free(x->tensors);
	x->tensors = NULL;
	x->n_tensors = 0;
}
