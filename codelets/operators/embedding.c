/* embedding: for each row, which is one id, that row of the weights. bag: for each sample, whose
 * columns are ids, the sum or the mean of those rows; ids below 0 are none. */
#include <stdio.h>

#include "list.h"

enum { VOCABULARY, FEATURES, DEVIATION, MODE };
#define ORR_TABLE_OF_ROWS \
	[VOCABULARY] = {.name = "vocabulary", \
			.form = ORR_ATTRIBUTE_COUNT, \
			.least = 1, \
			.most = 1 << 24, \
			.missing = "vocabulary is missing: say how many ids there are, " \
				   "vocabulary=1000 for 0 to 999"}, \
	[FEATURES] = {.name = "features", \
		      .form = ORR_ATTRIBUTE_COUNT, \
		      .least = 1, \
		      .most = ORR_MOST_COLUMNS, \
		      .missing = "features is missing: say how many columns an id becomes, " \
				 "features=64"}, \
	[DEVIATION] = { \
		.name = "deviation", .form = ORR_ATTRIBUTE_REAL, .most = 1e9, .otherwise = 0.02}

static const struct orr_attribute attributes[] = {
	ORR_TABLE_OF_ROWS,
	{0},
};
static const struct orr_attribute bag_attributes[] = {
	ORR_TABLE_OF_ROWS,
	[MODE] = {.name = "mode", .form = ORR_ATTRIBUTE_CHOICE, .choices = "sum, mean"},
	{0},
};

extern const struct orr_op orr_op_bag;

static struct orr_bag sizes(const struct orr_instance *is, int64_t n)
{
	bool bag = is->op == &orr_op_bag;

	return (struct orr_bag){.n = n * is->inputs[0].rows,
				.ids = is->inputs[0].columns,
				.vocabulary = (int64_t)is->values[VOCABULARY],
				.features = (int64_t)is->values[FEATURES],
				.padding = bag,
				.mean = bag && is->values[MODE] > 0};
}

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	const struct orr_shape *ids = &is->inputs[0];
	struct orr_bag b = sizes(is, 1);

	is->output = (struct orr_shape){ids->rows, b.features};
	orr_instance_add(is, (struct orr_parameter_tensor){.name = "weight",
							   .initial = ORR_INITIAL_NORMAL,
							   .value = is->values[DEVIATION],
							   .n_dims = 2,
							   .dims = {b.vocabulary, b.features}});
	is->forward_flops = is->weight_flops = orr_shape_floats(*ids) * b.features;
	if (b.padding ? ids->rows == 1 : ids->columns == 1)
		return true;
	(void)snprintf(text, size,
		       "%s reads %s, and %.60s has %lld rows of %lld columns: split the input's "
		       "columns into rows by rows=",
		       is->op->name, b.padding ? "ids in one row" : "one id a row", inputs[0],
		       (long long)ids->rows, (long long)ids->columns);
	return false;
}

static int64_t n_ids(const struct orr_instance *is, int i)
{
	(void)i;
	return (int64_t)is->values[VOCABULARY];
}

static void forward(const struct orr_call *c)
{
	struct orr_bag b = sizes(c->is, c->n);

	c->kernels->sequence->bag_forward(c->device, &b, orr_call_input(c, 0), c->parameters,
					  orr_call_output(c));
}

/* Ids have no gradient. */
static void backward(const struct orr_call *c)
{
	c->kernels->zero(c->device, c->n * orr_shape_floats(c->is->inputs[0]),
			 orr_call_input_gradient(c, 0));
}

static void weight(const struct orr_call *c, float *gradient, float *apart)
{
	struct orr_bag b = sizes(c->is, c->n);

	c->kernels->sequence->bag_weight(c->device, &b, orr_call_input(c, 0), orr_call_gradient(c),
					 apart, gradient);
}

static bool is_none(const struct orr_instance *is, int i, double id)
{
	(void)is, (void)i;
	return id < 0;
}

static const struct orr_division divisions[] = {
	{.n_inputs = 1,
	 .inputs = {ORR_SHARDING_COPIED},
	 .output = ORR_SHARDING_COLUMNS,
	 .axes = {1},
	 .divided = {"features"}},
};

const struct orr_op orr_op_embedding = {
	.name = "embedding",
	.least_inputs = 1,
	.most_inputs = 1,
	.attributes = attributes,
	.weight_reads = ORR_READS_INPUTS,
	.infer = infer,
	.n_ids = n_ids,
	.forward = forward,
	.backward = backward,
	.weight = weight,
	.divisions = divisions,
	.n_divisions = sizeof(divisions) / sizeof(*divisions),
};
const struct orr_op orr_op_bag = {
	.name = "bag",
	.least_inputs = 1,
	.most_inputs = 1,
	.attributes = bag_attributes,
	.weight_reads = ORR_READS_INPUTS,
	.infer = infer,
	.n_ids = n_ids,
	.is_none = is_none,
	.none = "any below 0",
	.forward = forward,
	.backward = backward,
	.weight = weight,
	.divisions = divisions,
	.n_divisions = sizeof(divisions) / sizeof(*divisions),
};
