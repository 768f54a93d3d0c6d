/* input: columns of the data. It computes nothing: its readers gather them. */
#include "list.h"

enum { SCALE, ROWS, COLUMNS, TENSOR };
static const struct orr_attribute attributes[] = {
	[SCALE] = ORR_REAL("scale", -1e9, 1e9, 1),
	[ROWS] = ORR_COUNT("rows", 1, ORR_MOST_COLUMNS, 1),
	[COLUMNS] = {.name = "columns",
		     .form = ORR_ATTRIBUTE_COLUMNS,
		     .missing = "columns is missing: say which columns of the data it takes, "
				"columns=\"0:16\" for the first 16"},
	[TENSOR] = {.name = "tensor", .form = ORR_ATTRIBUTE_TEXT},
	{0},
};

/* Its output comes with the number of columns, in one row. */
static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	int64_t rows = (int64_t)is->values[ROWS], columns = orr_shape_floats(is->output);

	if (columns % rows)
		return orr_refuse(why,
				  "rows: %lld columns are not %lld rows of as many each: give a "
				  "divisor of them",
				  (long long)columns, (long long)rows);
	is->output = (struct orr_shape){rows, columns / rows};
	is->forward_flops = columns; /* the scale */
	return true;
}

const struct orr_op orr_op_input = {
	.name = "input",
	.input = true,
	.attributes = attributes,
	.infer = infer,
};
