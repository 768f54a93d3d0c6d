/* embedding: for each row, which is one id, that row of the weights. bag: for each sample, whose
 * columns are ids, the sum or the mean of those rows; ids below 0 are none. A table may be a part
 * of a larger one: what it gives for ids of the other parts is zero, so that the parts' outputs add
 * up to the whole's [Shoeybi19]. */
#include "list.h"

enum { VOCABULARY, FEATURES, DEVIATION, FIRST, OF, MODE };
#define ORR_TABLE_OF_ROWS \
	[VOCABULARY] = ORR_NEEDED("vocabulary", 1 << 24, \
				  "how many ids there are, vocabulary=1000 for 0 to 999"), \
	[FEATURES] = ORR_NEEDED("features", ORR_MOST_COLUMNS, \
				"how many columns an id becomes, features=64"), \
	[DEVIATION] = ORR_REAL("deviation", 0, 1e9, 0.02), \
	[FIRST] = ORR_COUNT("first", 0, 1 << 24, 0), [OF] = ORR_COUNT("of", 0, 1 << 24, 0)

static const struct orr_attribute attributes[] = {
	ORR_TABLE_OF_ROWS,
	{0},
};

static const struct orr_attribute bag_attributes[] = {
	ORR_TABLE_OF_ROWS,
	[MODE] = {.name = "mode", .form = ORR_ATTRIBUTE_CHOICE, .choices = "sum, mean"},
	{0},
};

static struct orr_bag sizes(const struct orr_instance *is, int64_t n)
{
	bool bag = is->op == &orr_op_bag;
	int64_t of = (int64_t)is->values[OF];

	if (!of && is->n_parameters)
		of = is->parameters[0].portion.of;
	return (struct orr_bag){.n = n * is->inputs[0].rows,
				.ids = is->inputs[0].columns,
				.vocabulary = (int64_t)is->values[VOCABULARY],
				.features = (int64_t)is->values[FEATURES],
				.padding = bag,
				.mean = bag && is->values[MODE] > 0,
				.first = (int64_t)is->values[FIRST],
				.of = of};
}

static const struct orr_division divisions[] = {
	{.n_inputs = 1,
	 .inputs = {ORR_SHARDING_COPIED},
	 .output = ORR_SHARDING_SUM,
	 .axes = {0},
	 .divided = {"vocabulary"},
	 .first = "first"},
};

static bool infer(struct orr_instance *is, struct orr_refusal *why)
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
	if (b.of && b.first + b.vocabulary > b.of)
		return orr_refuse(why,
				  "%s has rows for ids from %lld on, %lld of them, and there are "
				  "%lld in all: correct first=, vocabulary= or of=",
				  is->op->name, (long long)b.first, (long long)b.vocabulary,
				  (long long)b.of);
	return (b.padding ? ids->rows == 1 : ids->columns == 1) ||
	       orr_refuse(why,
			  "%s reads %s, and %.60s has %lld rows of %lld columns: split the input's "
			  "columns into rows by rows=",
			  is->op->name, b.padding ? "ids in one row" : "one id a row",
			  why->inputs[0], (long long)ids->rows, (long long)ids->columns);
}

static int64_t n_ids(const struct orr_instance *is, int i)
{
	struct orr_bag b = sizes(is, 1);

	return orr_bag_all(&b);
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
	struct orr_bag b = sizes(c->is, c->n);

	orr_call_zero_gradient(c, 0);
	if (c->slope)
		c->kernels->sequence->bag_weight(c->device, &b, orr_call_input(c, 0),
						 orr_call_gradient(c), c->room, c->slope);
}

/* A row at a time. */
static int64_t apart(const struct orr_instance *is)
{
	return is->output.columns;
}

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	struct orr_bag b = sizes(is, n);

	return d->kernels->sequence->bag_bytes(&b);
}

static bool is_none(const struct orr_instance *is, int i, double id)
{
	return id < 0;
}

#define ORR_TABLE(NAME, ...) \
	const struct orr_op orr_op_##NAME = { \
		.name = #NAME, \
		.kept = ORR_OUTPUT_FLOAT, \
		ORR_READS(1, 1), \
		.weight_reads = ORR_READS_INPUTS, \
		.infer = infer, \
		.n_ids = n_ids, \
		.forward = forward, \
		.backward = backward, \
		.apart = apart, \
		.workspace = workspace, \
		ORR_DIVIDED(divisions), \
		__VA_ARGS__, \
	};
ORR_TABLE(embedding, .attributes = attributes)
ORR_TABLE(bag, .attributes = bag_attributes, .is_none = is_none, .none = "any below 0")
