/* What the workers of a group exchange, as operators: slices on the worker that sends, a sum or a
 * row of parts on the one that reads. A collective is one such operator on each worker, so that it
 * has one order of addition and nothing in it can wait in a circle. */
#include <stdarg.h>
#include <stdio.h>

#include "base/quantity.h"
#include "rewriting.h"

int orr_rewriting_add(struct orr_rewriting *x, int k, const struct orr_op *op, int shard,
		      const char *suffix, ...)
{
	const struct orr_operator *from = &x->graph->operators[k];
	char name[512];
	va_list args;
	size_t used = (size_t)snprintf(name, sizeof(name), "%.400s", from->name);
	struct orr_draft_operator *o;

	va_start(args, suffix);
	used += (size_t)vsnprintf(name + used, sizeof(name) - used, suffix, args);
	va_end(args);
	if (x->owner >= 0)
		(void)snprintf(name + used, sizeof(name) - used, "@%.60s",
			       x->graph->operators[x->owner].name);
	if (!(o = orr_draft_add_operator(&x->draft, name)))
		return -1;
	o->block = from->encoder;
	o->is.line = from->line;
	o->is.stage = from->stage;
	o->is.shard = shard;
	o->is.origin = x->owner >= 0 ? x->owner : k;
	o->is.length_exponent = from->length_exponent;
	o->is.mean_growth = from->mean_growth;
	/* as shapes make them, unless the file says otherwise */
	o->is.forward_ns = o->is.backward_ns = -1;
	o->is.activation_bytes = o->is.stash_bytes = o->is.parameter_bytes = -1;
	if (op && !(o->is.instance = orr_instance_create(op))) {
		orr_rewriting_no_memory(x);
		return -1;
	}
	return x->draft.n_operators - 1;
}

int orr_rewriting_no_memory(struct orr_rewriting *x)
{
	return orr_draft_fail(&x->draft, ORR_E_NOMEM, "%s: no memory to split it", x->graph->name);
}

void orr_rewriting_read(struct orr_rewriting *x, int from, int to, bool detached)
{
	orr_draft_add_edge(&x->draft, from, to, detached ? 0 : -1);
}

static struct orr_shape shape_of(const struct orr_rewriting *x, int k)
{
	return x->graph->operators[k].instance->output;
}

/* Along the axis of ROWS or COLUMNS. */
static int64_t length_of(const struct orr_rewriting *x, int k, enum orr_sharding how)
{
	return how == ORR_SHARDING_ROWS ? shape_of(x, k).rows : shape_of(x, k).columns;
}

/* Part j of t of what the new operator `from` on worker `shard` has, which is all of k's output
 * along the axis of `how`. */
static int add_slice(struct orr_rewriting *x, int k, int from, int shard, int t, int j,
		     enum orr_sharding how)
{
	static const char *const letters[] = {
		[ORR_SHARDING_ROWS] = "rows", [ORR_SHARDING_COLUMNS] = "columns"};
	int64_t whole = length_of(x, k, how);
	/* of another number of parts than the tensor itself: they have other names */
	const char *of = t != x->spreads[k].t ? orr_text(".%d", t) : "";
	double *range;
	int n = orr_rewriting_add(x, k, orr_op_find("slice"), shard, ":%s%d%s/%d", letters[how], j,
				  of, shard);

	if (n < 0)
		return n;
	x->draft.operators[n].is.moves = true;
	range = orr_instance_value(x->draft.operators[n].is.instance, letters[how]);
	range[0] = (double)orr_part_first(whole, t, j);
	range[1] = (double)orr_part_first(whole, t, j + 1);
	orr_rewriting_read(x, from, n, false);
	return n;
}

/* What is at from[0] to from[n-1], which lies as `how` says: addends are added up, parts put in a
 * row. collective: of parts. */
static int add_joint(struct orr_rewriting *x, int k, int shard, enum orr_collective collective,
		     const char *name, enum orr_sharding how, const int *from, int n)
{
	bool sum = how == ORR_SHARDING_SUM;
	int to = orr_rewriting_add(x, k, orr_op_find(sum ? "add" : "concat"), shard, ":%s/%d", name,
				   shard);

	if (to < 0)
		return to;
	x->draft.operators[to].is.moves = true;
	x->draft.operators[to].is.collective = sum ? ORR_COLLECTIVE_REDUCE_SCATTER : collective;
	if (!sum && how == ORR_SHARDING_ROWS)
		*orr_instance_value(x->draft.operators[to].is.instance, "axis") = 1;
	for (int i = 0; i < n; i++)
		orr_rewriting_read(x, from[i], to, false);
	return to;
}

int orr_rewriting_join(struct orr_rewriting *x, int k, int shard, const int *from, int n)
{
	return add_joint(x, k, shard, ORR_COLLECTIVE_ALL_GATHER, "parts", ORR_SHARDING_COLUMNS,
			 from, n);
}

/* The axis along which addends are added up in parts. */
static enum orr_sharding axis_of_sums(const struct orr_rewriting *x, int k, int t)
{
	return shape_of(x, k).rows >= t ? ORR_SHARDING_ROWS : ORR_SHARDING_COLUMNS;
}

static struct orr_sharded *find(const struct orr_rewriting *x, int k, int t, enum orr_sharding how,
				int at)
{
	for (struct orr_sharded *s = &x->spreads[k]; s; s = s->next)
		if (s->t == t && s->how == how && (how != ORR_SHARDING_NONE || s->at == at))
			return s;
	return NULL;
}

static struct orr_sharded *note(struct orr_rewriting *x, int k, int t, enum orr_sharding how,
				int at)
{
	struct orr_sharded *s = orr_arrays_add(&x->all, 1, sizeof(*s)), *last = &x->spreads[k];

	if (!s || !(s->made = orr_arrays_add(&x->all, (size_t)t, sizeof(*s->made)))) {
		orr_rewriting_no_memory(x);
		return NULL;
	}
	s->t = t;
	s->how = how;
	s->at = at;
	while (last->next)
		last = last->next;
	last->next = s;
	return s;
}

/* All t have what one operator delivers. */
static void fill(int *made, int t, int one)
{
	for (int i = 0; i < t; i++)
		made[i] = one;
}

/* Worker j gets part j of what every worker of `from` has of the other kind: of addends their sum,
 * of parts along another axis those in a row. */
static void exchange_parts(int *made, struct orr_rewriting *x, int k,
			   const struct orr_sharded *from, enum orr_sharding how)
{
	const char *name = from->how != ORR_SHARDING_SUM ? "turned"
			   : how == ORR_SHARDING_ROWS    ? "sum"
							 : "columns";
	int *slices = orr_arrays_add(&x->all, (size_t)from->t, sizeof(*slices));

	if (!slices)
		orr_rewriting_no_memory(x);
	for (int j = 0; j < from->t && !x->draft.code; j++) {
		for (int i = 0; i < from->t; i++)
			slices[i] = add_slice(x, k, from->made[i], i, from->t, j, how);
		made[j] = add_joint(x, k, j, ORR_COLLECTIVE_ALL_TO_ALL, name, from->how, slices,
				    from->t);
	}
}

/* Each takes its part of what it has, or, of what one worker has, that one takes all parts. */
static void slice_all(int *made, struct orr_rewriting *x, int k, const struct orr_sharded *from,
		      int t, enum orr_sharding how)
{
	bool one = from->how == ORR_SHARDING_NONE;

	for (int j = 0; j < t && !x->draft.code; j++)
		made[j] = add_slice(x, k, from->made[one ? 0 : j], one ? from->at : j, t, j, how);
}

/* All of it, on each worker of a group of t. */
static void join_all(int *made, struct orr_rewriting *x, int k, const struct orr_sharded *from,
		     int t)
{
	for (int i = 0; i < t; i++)
		made[i] = add_joint(x, k, i, ORR_COLLECTIVE_ALL_GATHER, "all", from->how,
				    from->made, from->t);
}

/* A group of t from one of another size, which sends all of it; what the readers make of it is in
 * their stage. */
static void exchange_groups(int *made, struct orr_rewriting *x, int k, int t,
			    enum orr_sharding want)
{
	const struct orr_sharded *from = &x->spreads[k];
	int at = from->how == ORR_SHARDING_NONE ? from->at : 0;

	if (from->t > 1 && t > 1 && want != ORR_SHARDING_COPIED && want != ORR_SHARDING_NONE) {
		from = orr_exchange(x, k, t, ORR_SHARDING_COPIED, 0);
		x->owner = x->reader;
		slice_all(made, x, k, from, t, want);
	} else if (from->how == ORR_SHARDING_NONE || t == 1 || want == ORR_SHARDING_NONE) {
		int one[] = {orr_exchange(x, k, from->t, ORR_SHARDING_NONE, at)->made[0]};
		const struct orr_sharded whole = {ORR_SHARDING_NONE, 1, at, one, NULL};

		if (want == ORR_SHARDING_ROWS || want == ORR_SHARDING_COLUMNS)
			slice_all(made, x, k, &whole, t, want);
		else
			fill(made, t, *one);
	} else if (from->how == ORR_SHARDING_COPIED) {
		for (int i = 0; i < t; i++)
			made[i] = from->made[i % from->t];
	} else {
		if (from->how == ORR_SHARDING_SUM)
			from = orr_exchange(x, k, from->t, axis_of_sums(x, k, from->t), 0);
		x->owner = x->reader;
		join_all(made, x, k, from, t);
	}
	x->owner = -1;
}

/* Within the group that has it. */
static void exchange_within(int *made, struct orr_rewriting *x, int k, enum orr_sharding want,
			    int at)
{
	const struct orr_sharded *from = &x->spreads[k];
	enum orr_sharding axis = axis_of_sums(x, k, from->t);
	int t = from->t;

	if (want == ORR_SHARDING_NONE && from->how == ORR_SHARDING_COPIED)
		fill(made, t, from->made[at]);
	else if (from->how == ORR_SHARDING_NONE &&
		 (want == ORR_SHARDING_NONE || want == ORR_SHARDING_COPIED))
		fill(made, t, from->made[0]);
	else if (want == ORR_SHARDING_NONE)
		fill(made, t,
		     add_joint(x, k, at, ORR_COLLECTIVE_ALL_GATHER, "whole", from->how, from->made,
			       t));
	else if (want == ORR_SHARDING_COPIED && from->how == ORR_SHARDING_SUM &&
		 length_of(x, k, axis) >= t) /* else it is too short for parts */
		join_all(made, x, k, orr_exchange(x, k, t, axis, 0), t);
	else if (want == ORR_SHARDING_COPIED)
		join_all(made, x, k, from, t);
	else if (from->how == ORR_SHARDING_COPIED || from->how == ORR_SHARDING_NONE)
		slice_all(made, x, k, from, t, want);
	else
		exchange_parts(made, x, k, from, want);
}

const struct orr_sharded *orr_exchange(struct orr_rewriting *x, int k, int t,
				       enum orr_sharding want, int at)
{
	const struct orr_sharded *from = &x->spreads[k];
	struct orr_sharded *s = find(x, k, t, want, at);

	if (s || !(s = note(x, k, t, want, at)))
		return s ? s : from;
	if (orr_operator_is_input(&x->graph->operators[k]) && want != ORR_SHARDING_ROWS &&
	    want != ORR_SHARDING_COLUMNS)
		fill(s->made, t, from->made[0]); /* readers of data load it themselves */
	else if (from->t == t)
		exchange_within(s->made, x, k, want, at);
	else
		exchange_groups(s->made, x, k, t, want);
	return s;
}

double orr_exchange_floats(const struct orr_rewriting *x, int k, int t, enum orr_sharding want)
{
	const struct orr_sharded *from = &x->spreads[k];
	double floats = (double)orr_shape_floats(shape_of(x, k)), rest = (double)(t - 1) / t;

	if (orr_operator_is_input(&x->graph->operators[k]) || find(x, k, t, want, 0))
		return 0;
	if (from->t != t)
		return want == ORR_SHARDING_COPIED ? floats : floats / t;
	if (from->how == want || from->how == ORR_SHARDING_COPIED)
		return 0;
	if (from->how == ORR_SHARDING_NONE)
		return want == ORR_SHARDING_COPIED ? floats * (t - 1) : floats * rest;
	if (from->how == ORR_SHARDING_SUM)
		return want == ORR_SHARDING_COPIED ? 2 * floats * rest : floats * rest;
	return want == ORR_SHARDING_COPIED ? floats * rest : floats * rest / t;
}
