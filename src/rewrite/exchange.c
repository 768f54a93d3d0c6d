/* What the workers of a group exchange, as operators: slices on the worker that sends, a sum or a
 * row of parts on the one that reads. A collective is one such operator on each worker, so that it
 * has one order of addition and nothing in it can wait in a circle. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "rewriting.h"

int orr_rewriting_add(struct orr_rewriting *x, int k, const struct orr_op *op, int shard,
		      struct orr_error *err, const char *suffix, ...)
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
	if (orr_draft_add_operator(&x->draft, name, err))
		return -1;
	o = &x->draft.operators[x->draft.n_operators - 1];
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
		orr_fail(err, ORR_E_NOMEM, "%s: no memory to split it", x->graph->name);
		return -1;
	}
	return x->draft.n_operators - 1;
}

int orr_rewriting_read(struct orr_rewriting *x, int from, int to, bool detached,
		       struct orr_error *err)
{
	return orr_draft_add_edge(&x->draft, from, to, detached ? 0 : -1, err);
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
		     enum orr_sharding how, struct orr_error *err)
{
	static const char *const letters[] = {
		[ORR_SHARDING_ROWS] = "rows", [ORR_SHARDING_COLUMNS] = "columns"};
	int64_t whole = length_of(x, k, how);
	/* of another number of parts than the tensor itself: they have other names */
	char of[16] = "";
	double *range;
	int n;

	if (t != x->spreads[k].t)
		(void)snprintf(of, sizeof(of), ".%d", t);
	n = orr_rewriting_add(x, k, orr_op_find("slice"), shard, err, ":%s%d%s/%d", letters[how], j,
			      of, shard);
	if (n < 0)
		return -1;
	x->draft.operators[n].is.moves = true;
	range = orr_instance_value(x->draft.operators[n].is.instance, letters[how]);
	range[0] = (double)orr_part_first(whole, t, j);
	range[1] = (double)orr_part_first(whole, t, j + 1);
	return orr_rewriting_read(x, from, n, false, err) ? -1 : n;
}

/* What is at from[0] to from[n-1], which lies as `how` says: addends are added up, parts put in a
 * row. collective: of parts. */
static int add_joint(struct orr_rewriting *x, int k, int shard, enum orr_collective collective,
		     const char *name, enum orr_sharding how, const int *from, int n,
		     struct orr_error *err)
{
	bool sum = how == ORR_SHARDING_SUM;
	int to = orr_rewriting_add(x, k, orr_op_find(sum ? "add" : "concat"), shard, err, ":%s/%d",
				   name, shard);

	if (to < 0)
		return -1;
	x->draft.operators[to].is.moves = true;
	x->draft.operators[to].is.collective = sum ? ORR_COLLECTIVE_REDUCE_SCATTER : collective;
	if (!sum && how == ORR_SHARDING_ROWS)
		*orr_instance_value(x->draft.operators[to].is.instance, "axis") = 1;
	for (int i = 0; i < n; i++)
		if (orr_rewriting_read(x, from[i], to, false, err))
			return -1;
	return to;
}

int orr_rewriting_join(struct orr_rewriting *x, int k, int shard, const int *from, int n,
		       struct orr_error *err)
{
	return add_joint(x, k, shard, ORR_COLLECTIVE_ALL_GATHER, "parts", ORR_SHARDING_COLUMNS,
			 from, n, err);
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
				int at, struct orr_error *err)
{
	struct orr_sharded *s = calloc(1, sizeof(*s)), *last = &x->spreads[k];

	if (!s || !(s->made = calloc((size_t)t, sizeof(*s->made)))) {
		free(s);
		orr_fail(err, ORR_E_NOMEM, "%s: no memory to split it", x->graph->name);
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

/* Worker j gets part j of what every worker of `from` has of the other kind: of addends their sum,
 * of parts along another axis those in a row. */
static int exchange_parts(int *made, struct orr_rewriting *x, int k, const struct orr_sharded *from,
			  enum orr_sharding how, struct orr_error *err)
{
	const char *name = from->how != ORR_SHARDING_SUM ? "turned"
			   : how == ORR_SHARDING_ROWS    ? "sum"
							 : "columns";
	int *slices = calloc((size_t)from->t, sizeof(*slices)), code = 0;

	if (!slices)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to split it", x->graph->name);
	for (int j = 0; j < from->t && !code; j++) {
		for (int i = 0; i < from->t && !code; i++) {
			slices[i] = add_slice(x, k, from->made[i], i, from->t, j, how, err);
			code = slices[i] < 0 ? ORR_E_NOMEM : 0;
		}
		if (code)
			break;
		made[j] = add_joint(x, k, j, ORR_COLLECTIVE_ALL_TO_ALL, name, from->how, slices,
				    from->t, err);
		code = made[j] < 0 ? ORR_E_NOMEM : 0;
	}
	free(slices);
	return code;
}

/* Each takes its part of what it has, or, of what one worker has, that one takes all parts. */
static int slice_all(int *made, struct orr_rewriting *x, int k, const struct orr_sharded *from,
		     int t, enum orr_sharding how, struct orr_error *err)
{
	for (int j = 0; j < t; j++) {
		bool one = from->how == ORR_SHARDING_NONE;

		made[j] = add_slice(x, k, from->made[one ? 0 : j], one ? from->at : j, t, j, how,
				    err);
		if (made[j] < 0)
			return ORR_E_NOMEM;
	}
	return 0;
}

/* All of it, on each worker of a group of t. */
static int join_all(int *made, struct orr_rewriting *x, int k, const struct orr_sharded *from,
		    int t, struct orr_error *err)
{
	for (int i = 0; i < t; i++) {
		made[i] = add_joint(x, k, i, ORR_COLLECTIVE_ALL_GATHER, "all", from->how,
				    from->made, from->t, err);
		if (made[i] < 0)
			return ORR_E_NOMEM;
	}
	return 0;
}

/* All of it, on one worker. */
static int join_at(int *made, struct orr_rewriting *x, int k, const struct orr_sharded *from,
		   int at, struct orr_error *err)
{
	int n = add_joint(x, k, at, ORR_COLLECTIVE_ALL_GATHER, "whole", from->how, from->made,
			  from->t, err);

	for (int i = 0; i < from->t; i++)
		made[i] = n;
	return n < 0 ? ORR_E_NOMEM : 0;
}

/* A group of t from one of another size, which sends all of it; what the readers make of it is in
 * their stage. */
static int exchange_groups(int *made, struct orr_rewriting *x, int k, int t, enum orr_sharding want,
			   struct orr_error *err)
{
	const struct orr_sharded *from = &x->spreads[k];
	const int *there;
	int code = 0;

	if (from->t > 1 && t > 1 && want != ORR_SHARDING_COPIED && want != ORR_SHARDING_NONE) {
		struct orr_sharded copied = {.how = ORR_SHARDING_COPIED, .t = t};

		if ((code = orr_exchange(&there, x, k, t, ORR_SHARDING_COPIED, 0, err)))
			return code;
		copied.made = (int *)(uintptr_t)there;
		x->owner = x->reader;
		code = slice_all(made, x, k, &copied, t, want, err);
	} else if (from->how == ORR_SHARDING_NONE || t == 1 || want == ORR_SHARDING_NONE) {
		int at = from->how == ORR_SHARDING_NONE ? from->at : 0;

		if ((code = orr_exchange(&there, x, k, from->t, ORR_SHARDING_NONE, at, err)))
			return code;
		if (want == ORR_SHARDING_ROWS || want == ORR_SHARDING_COLUMNS) {
			int one[] = {there[0]};
			struct orr_sharded whole = {ORR_SHARDING_NONE, 1, at, one, NULL};

			return slice_all(made, x, k, &whole, t, want, err);
		}
		for (int i = 0; i < t; i++)
			made[i] = there[0];
	} else if (from->how == ORR_SHARDING_COPIED) {
		for (int i = 0; i < t; i++)
			made[i] = from->made[i % from->t];
	} else {
		enum orr_sharding axis = axis_of_sums(x, k, from->t);

		if (from->how == ORR_SHARDING_SUM) {
			if ((code = orr_exchange(&there, x, k, from->t, axis, 0, err)))
				return code;
			from = find(x, k, from->t, axis, 0);
		}
		x->owner = x->reader;
		code = join_all(made, x, k, from, t, err);
	}
	x->owner = -1;
	return code;
}

/* Within the group that has it. */
static int exchange_within(int *made, struct orr_rewriting *x, int k, enum orr_sharding want,
			   int at, struct orr_error *err)
{
	const struct orr_sharded *from = &x->spreads[k];
	const int *parts;
	int t = from->t, code;

	if (want == ORR_SHARDING_NONE && from->how == ORR_SHARDING_COPIED) {
		for (int i = 0; i < t; i++)
			made[i] = from->made[at];
		return 0;
	}
	if (from->how == ORR_SHARDING_NONE &&
	    (want == ORR_SHARDING_NONE || want == ORR_SHARDING_COPIED)) {
		for (int i = 0; i < t; i++)
			made[i] = from->made[0];
		return 0;
	}
	if (want == ORR_SHARDING_NONE)
		return join_at(made, x, k, from, at, err);
	if (want == ORR_SHARDING_COPIED && from->how == ORR_SHARDING_SUM) {
		enum orr_sharding axis = axis_of_sums(x, k, t);

		if (length_of(x, k, axis) < t) /* too short for parts */
			return join_all(made, x, k, from, t, err);
		if ((code = orr_exchange(&parts, x, k, t, axis, 0, err)))
			return code;
		return join_all(made, x, k, find(x, k, t, axis, 0), t, err);
	}
	if (want == ORR_SHARDING_COPIED)
		return join_all(made, x, k, from, t, err);
	if (from->how == ORR_SHARDING_COPIED || from->how == ORR_SHARDING_NONE)
		return slice_all(made, x, k, from, t, want, err);
	return exchange_parts(made, x, k, from, want, err);
}

int orr_exchange(const int **made, struct orr_rewriting *x, int k, int t, enum orr_sharding want,
		 int at, struct orr_error *err)
{
	const struct orr_sharded *from = &x->spreads[k];
	struct orr_sharded *s = find(x, k, t, want, at);
	int code;

	if (!s) {
		if (!(s = note(x, k, t, want, at, err)))
			return ORR_E_NOMEM;
		if (orr_operator_is_input(&x->graph->operators[k]) && want != ORR_SHARDING_ROWS &&
		    want != ORR_SHARDING_COLUMNS) {
			/* readers of data load it themselves */
			for (int i = 0; i < t; i++)
				s->made[i] = from->made[0];
		} else {
			code = from->t == t ? exchange_within(s->made, x, k, want, at, err)
					    : exchange_groups(s->made, x, k, t, want, err);
			if (code)
				return code;
		}
	}
	*made = s->made;
	return 0;
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
