/* attention: softmax(q k^T / sqrt(width of a head)) v in each head, by tiles. A fourth input is how
 * many keys of each sample count. It keeps the logarithm of the sum of each row's exponentials. */
#include "list.h"

enum { Q, K, V, LENGTHS };
enum { HEADS, KV_HEADS, CAUSAL };
static const struct orr_attribute attributes[] = {
	[HEADS] = ORR_NEEDED("heads", ORR_MOST_COLUMNS,
			     "into how many heads its columns are split, heads=8"),
	[KV_HEADS] = ORR_COUNT("kv_heads", 1, ORR_MOST_COLUMNS, 0),
	[CAUSAL] = {.name = "causal", .form = ORR_ATTRIBUTE_TRUTH},
	{0},
};

static int64_t kv_heads_of(const struct orr_instance *is)
{
	return (int64_t)is->values[is->values[KV_HEADS] > 0 ? KV_HEADS : HEADS];
}

static struct orr_attention sizes(const struct orr_instance *is, const struct orr_device *d,
				  int64_t n)
{
	int64_t heads = (int64_t)is->values[HEADS];

	return (struct orr_attention){.n = n,
				      .queries = is->inputs[Q].rows,
				      .keys = is->inputs[K].rows,
				      .heads = heads,
				      .kv_heads = kv_heads_of(is),
				      .width = is->inputs[Q].columns / heads,
				      .causal = is->values[CAUSAL] > 0,
				      .rounded = d->precision == ORR_PRECISION_BF16};
}

static bool is_split(const struct orr_instance *is, struct orr_refusal *why)
{
	int64_t heads = (int64_t)is->values[HEADS], kv_heads = kv_heads_of(is);
	int64_t columns = is->inputs[Q].columns, width = columns / heads;

	if (columns % heads)
		return orr_refuse(why,
				  "attention splits columns into %lld heads, and %.60s has %lld "
				  "columns: give heads= a divisor of them",
				  (long long)heads, why->inputs[Q], (long long)columns);
	if (width > ORR_MOST_HEAD_WIDTH)
		return orr_refuse(why,
				  "attention has heads of at most %d columns, and %.60s has %lld "
				  "in each of %lld: give it more heads=",
				  ORR_MOST_HEAD_WIDTH, why->inputs[Q], (long long)width,
				  (long long)heads);
	if (heads % kv_heads)
		return orr_refuse(why,
				  "kv_heads=%lld: attention's %lld heads share keys and values in "
				  "groups of equal size: give a divisor of heads=",
				  (long long)kv_heads, (long long)heads);
	return is->inputs[K].columns == kv_heads * width ||
	       orr_refuse(why,
			  "attention reads %lld x %lld columns of keys, and %.60s has %lld: as "
			  "many heads (kv_heads=) as %.60s, or fewer, of its width",
			  (long long)kv_heads, (long long)width, why->inputs[K],
			  (long long)is->inputs[K].columns, why->inputs[Q]);
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	const struct orr_shape *k = &is->inputs[K];
	int64_t products;

	if (!orr_instance_counts(
		    is, 10.0 * (double)k->rows * (double)orr_shape_floats(is->inputs[Q]), why))
		return false;
	products = 2 * is->inputs[Q].rows * k->rows * is->inputs[Q].columns;
	is->saved = is->inputs[Q].rows * (int64_t)is->values[HEADS];
	is->forward_flops = 2 * products / (is->values[CAUSAL] > 0 ? 2 : 1);
	is->backward_flops = is->forward_flops / 2 * 5; /* scores again, and four gradients */
	if (!is_split(is, why))
		return false;
	if (!orr_instance_same_shape(is, K, V, "keys and values of ", why))
		return false;
	return is->n_inputs <= LENGTHS || orr_shape_floats(is->inputs[LENGTHS]) == 1 ||
	       orr_refuse(why,
			  "attention's fourth input is the number of keys, and %.60s has %lld "
			  "columns: give it one",
			  why->inputs[LENGTHS], (long long)orr_shape_floats(is->inputs[LENGTHS]));
}

static int64_t n_ids(const struct orr_instance *is, int i)
{
	return i == LENGTHS ? is->inputs[K].rows + 1 : 0;
}

static const float *lengths_of(const struct orr_call *c)
{
	return c->is->n_inputs > LENGTHS ? orr_call_input(c, LENGTHS) : NULL;
}

static void forward(const struct orr_call *c)
{
	struct orr_attention a = sizes(c->is, c->device, c->n);

	c->kernels->attention->forward(c->device, &a, orr_call_input(c, Q), orr_call_input(c, K),
				       orr_call_input(c, V), lengths_of(c), orr_call_output(c),
				       orr_call_saved(c));
}

static void backward(const struct orr_call *c)
{
	struct orr_attention a = sizes(c->is, c->device, c->n);
	float *dx[3];

	for (int i = Q; i <= V; i++)
		dx[i] = orr_call_input_gradient(c, i);
	if (dx[Q] || dx[K] || dx[V])
		c->kernels->attention->input(c->device, &a, orr_call_input(c, Q),
					     orr_call_input(c, K), orr_call_input(c, V),
					     lengths_of(c), orr_call_output(c), orr_call_saved(c),
					     orr_call_gradient(c), dx[Q], dx[K], dx[V]);
	if (c->is->n_inputs > LENGTHS)
		orr_call_zero_gradient(c, LENGTHS);
}

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	struct orr_attention a = sizes(is, d, n);

	return d->kernels->attention->bytes(&a);
}

static const struct orr_division divisions[] = {
	{.n_inputs = 4,
	 .inputs = {ORR_SHARDING_COLUMNS, ORR_SHARDING_COLUMNS, ORR_SHARDING_COLUMNS,
		    ORR_SHARDING_COPIED},
	 .output = ORR_SHARDING_COLUMNS,
	 .divided = {"heads", "kv_heads"},
	 .evenly = true},
};

const struct orr_op orr_op_attention = {
	.name = "attention",
	.kept = ORR_OUTPUT_HALF,
	.halves = true,
	ORR_READS(3, 4),
	.inputs = "queries, keys and values, and then the number of keys",
	.attributes = attributes,
	.backward_reads = ORR_READS_INPUTS | ORR_READS_OUTPUT,
	.infer = infer,
	.n_ids = n_ids,
	.forward = forward,
	.backward = backward,
	.workspace = workspace,
	ORR_DIVIDED(divisions),
};
