/* A mixture of experts: each row goes through those that score best for it [Lepikhin21, Fedus22].
 * route: from a row's scores to its choices; dispatch: the rows that are an expert's; combine: what
 * the experts made of them, each at its row, times its weight; balance: a loss, the less the more
 * evenly experts are chosen. Samples do not share queues, nor do the groups of rows that a sample
 * may have, so a row's choices do not hang on the microbatch. */
#include <math.h>

#include "list.h"

#define CHOICE ((int64_t)(sizeof(struct orr_routed) / sizeof(float)))

enum { GROUPS, EXPERTS, CAPACITY, TOP, EXPERT = TOP };
#define ORR_GROUPS [GROUPS] = ORR_COUNT("groups", 1, 1 << 24, 1)
#define ORR_QUEUES \
	ORR_GROUPS, [EXPERTS] = ORR_NEEDED("experts", 1 << 16, "how many there are, experts=4"), \
		    [CAPACITY] = ORR_REAL("capacity", 1e-6, 1e6, 1.25)

static const struct orr_attribute route_attributes[] = {
	ORR_QUEUES,
	[TOP] = ORR_COUNT("top", 1, 1 << 16, 1),
	{0},
};

static const struct orr_attribute dispatch_attributes[] = {
	ORR_QUEUES,
	[EXPERT] = ORR_COUNT("expert", 0, (1 << 16) - 1, 0),
	{0},
};

static const struct orr_attribute combine_attributes[] = {
	ORR_GROUPS,
	{0},
};

static const struct orr_division route_divisions[] = {
	{ORR_LIES(ORR_SHARDING_ROWS), .divided = {"groups"}, .evenly = true},
};

/* also of combine, whose last inputs are the experts' */
static const struct orr_division divisions[] = {
	{.n_inputs = 2,
	 .inputs = {ORR_SHARDING_ROWS, ORR_SHARDING_ROWS},
	 .output = ORR_SHARDING_ROWS,
	 .divided = {"groups"},
	 .evenly = true},
};

/* Rows of a group that an expert takes: its even share times the capacity, rounded up. */
static int64_t places_of(double capacity, int64_t top, int64_t rows, int64_t experts)
{
	double share = ceil(capacity * (double)(top * rows) / (double)experts - 1e-9);

	return share < 1 ? 1 : share > (double)rows ? rows : (int64_t)share;
}

static struct orr_routing queues_of(const struct orr_instance *is, int64_t n, int64_t top)
{
	struct orr_routing r = {.n = n,
				.rows = is->inputs[0].rows,
				.experts = (int64_t)is->values[EXPERTS],
				.top = top,
				.groups = (int64_t)is->values[GROUPS]};

	r.places = places_of(is->values[CAPACITY], top, r.rows / r.groups, r.experts);
	return r;
}

static bool groups_fit(const struct orr_instance *is, int64_t rows, const char *of,
		       struct orr_refusal *why)
{
	int64_t groups = (int64_t)is->values[GROUPS];

	return rows % groups == 0 ||
	       orr_refuse(why,
			  "%s has %lld groups, and %.60s has %lld rows: groups= must divide them",
			  is->op->name, (long long)groups, of, (long long)rows);
}

/* ---- route ---- */

static struct orr_routing routing_of(const struct orr_instance *is, int64_t n)
{
	return queues_of(is, n, (int64_t)is->values[TOP]);
}

static bool infer_route(struct orr_instance *is, struct orr_refusal *why)
{
	struct orr_routing r = routing_of(is, 1);

	is->output = (struct orr_shape){r.rows, r.top * CHOICE};
	if (!groups_fit(is, r.rows, why->inputs[0], why))
		return false;
	if (r.top > r.experts)
		return orr_refuse(why, "route cannot choose %lld of %lld experts: top=%lld",
				  (long long)r.top, (long long)r.experts, (long long)r.experts);
	return is->inputs[0].columns == r.experts ||
	       orr_refuse(why,
			  "route reads a score for each of %lld experts, and %.60s has %lld "
			  "columns: make them equal",
			  (long long)r.experts, why->inputs[0], (long long)is->inputs[0].columns);
}

static void route_forward(const struct orr_call *c)
{
	struct orr_routing r = routing_of(c->is, c->n);

	c->kernels->experts->route(c->device, &r, orr_call_input(c, 0), orr_call_output(c));
}

static void route_backward(const struct orr_call *c)
{
	struct orr_routing r = routing_of(c->is, c->n);

	c->kernels->experts->route_input(c->device, &r, orr_call_input(c, 0), orr_call_output(c),
					 orr_call_gradient(c), orr_call_input_gradient(c, 0));
}

/* ---- dispatch ---- */

/* Of what reads a route, as input i. */
static bool is_route(const struct orr_instance *is, int i, int64_t rows, struct orr_refusal *why)
{
	const struct orr_shape *route = &is->inputs[i];

	return (route->rows == rows && route->columns % CHOICE == 0) ||
	       orr_refuse(why,
			  "%s reads a route of %lld rows, and %.60s has %lld rows of %lld columns",
			  is->op->name, (long long)rows, why->inputs[i], (long long)route->rows,
			  (long long)route->columns);
}

static struct orr_routing dispatched(const struct orr_instance *is, int64_t n)
{
	return queues_of(is, n, is->inputs[1].columns / CHOICE);
}

static bool infer_dispatch(struct orr_instance *is, struct orr_refusal *why)
{
	struct orr_routing r = dispatched(is, 1);

	is->output = (struct orr_shape){r.groups * r.places, is->inputs[0].columns};
	is->saved = r.rows;
	if (!is_route(is, 1, r.rows, why) || !groups_fit(is, r.rows, why->inputs[0], why))
		return false;
	return is->values[EXPERT] < is->values[EXPERTS] ||
	       orr_refuse(why, "dispatch is to expert %lld, and the experts are 0 to %lld",
			  (long long)is->values[EXPERT], (long long)r.experts - 1);
}

static void dispatch_forward(const struct orr_call *c)
{
	struct orr_routing r = dispatched(c->is, c->n);

	c->kernels->experts->dispatch(c->device, &r, (int64_t)c->is->values[EXPERT],
				      c->is->output.columns, orr_call_input(c, 0),
				      orr_call_input(c, 1), orr_call_output(c), orr_call_saved(c));
}

/* Where rows go has no gradient. */
static void dispatch_backward(const struct orr_call *c)
{
	struct orr_routing r = dispatched(c->is, c->n);
	float *dx = orr_call_input_gradient(c, 0);

	if (dx)
		c->kernels->experts->dispatch_input(c->device, &r, c->is->output.columns,
						    orr_call_saved(c), orr_call_gradient(c), dx);
	orr_call_zero_gradient(c, 1);
}

/* ---- combine ---- */

static struct orr_routing combined(const struct orr_instance *is, int64_t n)
{
	int64_t groups = (int64_t)is->values[GROUPS];

	return (struct orr_routing){.n = n,
				    .rows = is->inputs[0].rows,
				    .experts = is->n_inputs - 1,
				    .top = is->inputs[0].columns / CHOICE,
				    .groups = groups,
				    .places = is->inputs[1].rows / groups};
}

static bool infer_combine(struct orr_instance *is, struct orr_refusal *why)
{
	const struct orr_shape *first = &is->inputs[1];

	is->output = (struct orr_shape){is->inputs[0].rows, first->columns};
	is->forward_flops = 2 * is->inputs[0].columns / CHOICE * orr_shape_floats(is->output);
	is->backward_flops = 2 * is->forward_flops;
	if (!is_route(is, 0, is->inputs[0].rows, why) ||
	    !groups_fit(is, is->inputs[0].rows, why->inputs[0], why) ||
	    !groups_fit(is, first->rows, why->inputs[1], why))
		return false;
	for (int i = 2; i < is->n_inputs; i++)
		if (!orr_instance_same_shape(is, 1, i, "experts of ", why))
			return false;
	return true;
}

static void combine_forward(const struct orr_call *c)
{
	struct orr_routing r = combined(c->is, c->n);
	float *y = orr_call_output(c);

	c->kernels->elements->zero(c->device, c->n * orr_shape_floats(c->is->output), y);
	for (int64_t e = 0; e < r.experts; e++)
		c->kernels->experts->combine(c->device, &r, e, c->is->output.columns,
					     orr_call_input(c, 0), orr_call_input(c, (int)e + 1),
					     y);
}

static void combine_backward(const struct orr_call *c)
{
	struct orr_routing r = combined(c->is, c->n);
	float *slope = orr_call_input_gradient(c, 0);
	const float *dy = orr_call_gradient(c);

	orr_call_zero_gradient(c, 0);
	for (int64_t e = 0; e < r.experts; e++)
		c->kernels->experts->combine_input(c->device, &r, e, c->is->output.columns,
						   orr_call_input(c, 0),
						   orr_call_input(c, (int)e + 1), dy,
						   orr_call_input_gradient(c, (int)e + 1), slope);
}

/* ---- balance ---- */

static struct orr_routing balanced(const struct orr_instance *is, int64_t n)
{
	return (struct orr_routing){.n = n,
				    .rows = is->inputs[0].rows,
				    .experts = is->inputs[0].columns,
				    .top = is->inputs[1].columns / CHOICE,
				    .groups = 1,
				    .places = is->inputs[0].rows};
}

static bool infer_balance(struct orr_instance *is, struct orr_refusal *why)
{
	is->saved = orr_shape_floats(is->inputs[0]) + is->inputs[0].columns;
	return is_route(is, 1, is->inputs[0].rows, why);
}

static void balance_forward(const struct orr_call *c)
{
	struct orr_routing r = balanced(c->is, c->n);
	float *slope = orr_call_saved(c);

	c->kernels->losses->balance(c->device, &r, orr_call_input(c, 0), orr_call_input(c, 1),
				    slope, slope + r.n * r.rows * r.experts, c->metrics);
}

static void balance_backward(const struct orr_call *c)
{
	orr_call_scale_gradient(c, 0, c->loss_scale, orr_call_saved(c));
	orr_call_zero_gradient(c, 1);
}

const struct orr_op orr_op_route = {
	.name = "route",
	.kept = ORR_OUTPUT_EXACT,
	ORR_READS(1, 1),
	.attributes = route_attributes,
	.backward_reads = ORR_READS_INPUTS | ORR_READS_OUTPUT,
	.flops = {5, 3}, /* maximum, difference, exp and sum, and the queue */
	.infer = infer_route,
	.forward = route_forward,
	.backward = route_backward,
	ORR_DIVIDED(route_divisions),
};

const struct orr_op orr_op_dispatch = {
	.name = "dispatch",
	ORR_READS(2, 2),
	.inputs = "first the rows and then the route",
	.attributes = dispatch_attributes,
	.infer = infer_dispatch,
	.forward = dispatch_forward,
	.backward = dispatch_backward,
	ORR_DIVIDED(divisions),
	.expert_begins = true,
};

const struct orr_op orr_op_combine = {
	.name = "combine",
	.least_inputs = 2,
	.inputs = "first the route and then what each expert gives",
	.attributes = combine_attributes,
	.backward_reads = ORR_READS_INPUTS,
	.infer = infer_combine,
	.forward = combine_forward,
	.backward = combine_backward,
	ORR_DIVIDED(divisions),
	.expert_ends = true,
};

const struct orr_op orr_op_balance = {
	.name = "balance",
	.loss = true,
	ORR_READS(2, 2),
	.inputs = "first the scores and then the route",
	.attributes = orr_loss_attributes,
	.flops = {8, 1},
	.infer = infer_balance,
	.forward = balance_forward,
	.backward = balance_backward,
	.drops = true,
};
