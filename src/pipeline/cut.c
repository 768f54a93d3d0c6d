#include "cut.h"

#include <float.h>
#include <math.h>

#include "base/arrays.h"
#include "charge.h"
#include "numbering.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"

#define UNASKED_STAGES 4 /* where neither stages nor workers are given */
#define MOST_OPERATORS \
	20000 /* the search takes time and memory in proportion to operators * stages */

struct cutting {
	const struct orr_graph *g;
	int n;                      /* operators but inputs */
	int *order;                 /* [n] their numbers, in the order in which they are cut */
	int *place;                 /* [n_operators] place in order; -1: an input */
	struct orr_readers readers; /* of places, as places */
	double *sum;                /* [n + 1] cost of the first i */
	int *parent;                /* union-find over places */
	/* [(n_stages + 1) * (n + 1)] least largest cost of the first i in k stages, and where the
	 * last of those begins */
	double *best;
	int *from;
	struct orr_arrays all;
};

static double cost_of(const struct orr_operator *o, int64_t samples,
		      const struct orr_machine *machine)
{
	struct orr_stage alone = {0};

	orr_charge(&alone, o, samples, machine);
	return (double)(alone.forward_ns + alone.backward_ns + alone.weight_ns);
}

/* Depth first from the sinks, inputs first: a topological order that finishes one branch before the
 * next. The stack holds (operator, next input). false: no memory. */
static bool order_operators(struct cutting *c)
{
	const struct orr_graph *g = c->g;
	size_t n = (size_t)g->n_operators;
	int *stack = orr_arrays_add(&c->all, 2 * (n + 1), sizeof(*stack));
	bool *seen = orr_arrays_add(&c->all, n, sizeof(*seen)),
	     *read = orr_arrays_add(&c->all, n, sizeof(*read));

	if (c->all.failed)
		return false;
	for (int i = 0; i < g->n_operators; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++)
			read[g->operators[i].inputs[k]] = true;
	for (int sink = 0; sink < g->n_operators; sink++) {
		int depth = 0;

		if (read[sink] || seen[sink])
			continue;
		seen[sink] = true;
		stack[0] = sink, stack[1] = 0;
		while (depth >= 0) {
			int i = stack[2 * depth], k = stack[2 * depth + 1]++;

			if (k < g->operators[i].n_inputs) {
				int input = g->operators[i].inputs[k];

				if (!seen[input]) {
					seen[input] = true;
					depth++;
					stack[2 * depth] = input, stack[2 * depth + 1] = 0;
				}
				continue;
			}
			c->place[i] = -1;
			if (!orr_operator_is_input(&g->operators[i])) {
				c->place[i] = c->n;
				c->order[c->n++] = i;
			}
			depth--;
		}
	}
	return true;
}

static int root_of(int *parent, int i)
{
	for (; parent[i] != i; i = parent[i])
		parent[i] = parent[parent[i]];
	return i;
}

/* Extend the stage [begin, end) to begin at begin - 1: how many pieces it is in afterwards. */
static int join(struct cutting *c, int begin, int end, int pieces)
{
	c->parent[begin] = begin;
	pieces++;
	for (int k = c->readers.first[begin]; k < c->readers.first[begin + 1]; k++) {
		int to = c->readers.of[k];
		int x, y;

		if (to >= end)
			continue;
		x = root_of(c->parent, begin);
		y = root_of(c->parent, to);
		if (x != y) {
			c->parent[x] = y;
			pieces--;
		}
	}
	return pieces;
}

/* Does a stage [begin, end) make what it gathers? Not in that which begins behind begin. */
static bool feeds_gather(const struct cutting *c, int begin, int end)
{
	for (int k = c->readers.first[begin]; k < c->readers.first[begin + 1]; k++)
		if (c->readers.of[k] < end && c->g->operators[c->order[c->readers.of[k]]].gather)
			return true;
	return false;
}

/* best[k][i] over all stages [begin, i) that are connected; those dearer than limit are passed
 * over. */
static void search(struct cutting *c, int n_stages, double limit)
{
	size_t row = (size_t)c->n + 1;

	for (size_t i = 0; i < row * (size_t)(n_stages + 1); i++)
		c->best[i] = DBL_MAX;
	c->best[0] = 0;
	for (int end = 1; end <= c->n; end++) {
		int pieces = 0;

		for (int begin = end - 1; begin >= 0; begin--) {
			double cost = c->sum[end] - c->sum[begin];

			if (cost > limit || feeds_gather(c, begin, end))
				break;
			pieces = join(c, begin, end, pieces);
			for (int k = 1; pieces == 1 && k <= n_stages && k <= end; k++) {
				double before = c->best[(size_t)(k - 1) * row + (size_t)begin];
				double largest = before > cost ? before : cost;
				size_t here = (size_t)k * row + (size_t)end;

				if (largest < c->best[here]) {
					c->best[here] = largest;
					c->from[here] = begin;
				}
			}
		}
	}
}

static bool write_stages(const struct cutting *c, int n_stages, int *stage_of)
{
	size_t row = (size_t)c->n + 1;
	int end = c->n;

	if (c->best[(size_t)n_stages * row + (size_t)c->n] >= DBL_MAX)
		return false;
	for (int s = n_stages - 1; s >= 0; s--) {
		int begin = c->from[(size_t)(s + 1) * row + (size_t)end];

		for (int i = begin; i < end; i++)
			stage_of[c->order[i]] = s;
		end = begin;
	}
	return true;
}

static int find(struct cutting *c, int n_stages, bool exactly, int *stage_of, int *n_chosen,
		struct orr_error *err)
{
	double dearest = 0, limit;

	for (int i = 0; i < c->n; i++)
		dearest = fmax(dearest, c->sum[i + 1] - c->sum[i]);
	limit = dearest + c->sum[c->n] / n_stages;
	for (;;) {
		search(c, n_stages, limit);
		if (write_stages(c, n_stages, stage_of)) {
			*n_chosen = n_stages;
			return 0;
		}
		if (limit < c->sum[c->n]) {
			limit *= 2;
			continue;
		}
		if (exactly)
			return orr_fail(err, ORR_E_INPUT,
					"%s: no cut into %d connected stages: give another number "
					"([stages]), or pin the nodes (stage=)",
					c->g->name, n_stages);
		/* one stage is connected at least where the graph is */
		if (!--n_stages)
			return orr_fail(err, ORR_E_INPUT,
					"%s: the model falls into parts that nothing connects: "
					"train them apart, or pin the nodes (stage=)",
					c->g->name);
	}
}

/* What gathers is apart from all that it reads, and other losses: it alone may connect them. */
static int least_stages(const struct orr_graph *g)
{
	int n = 0, n_losses = 0;

	for (int i = 0; i < g->n_operators; i++) {
		n += g->operators[i].gather ? g->operators[i].n_inputs : 0;
		n_losses += orr_operator_is_loss(&g->operators[i]);
	}
	return n ? n + n_losses : 1;
}

int orr_cut(const struct orr_graph *g, const struct orr_machine *machine, int64_t samples,
	    int n_stages, int *stage_of, int *n_chosen, struct orr_error *err)
{
	struct cutting c = {.g = g};
	bool exactly = n_stages > 0;
	size_t n = (size_t)g->n_operators, cells;
	int code = 0;

	c.order = orr_arrays_add(&c.all, n, sizeof(*c.order));
	c.place = orr_arrays_add(&c.all, n, sizeof(*c.place));
	c.parent = orr_arrays_add(&c.all, n, sizeof(*c.parent));
	c.sum = orr_arrays_add(&c.all, n + 1, sizeof(*c.sum));
	if (!order_operators(&c)) {
		code = orr_no_memory(err, g->name);
		goto out;
	}
	for (int i = 0; i < g->n_operators; i++)
		stage_of[i] = -1;
	if (n_stages == c.n) { /* nothing to choose */
		for (int i = 0; i < c.n; i++)
			stage_of[c.order[i]] = i;
		goto out;
	}
	if (c.n > MOST_OPERATORS) {
		code = orr_fail(err, ORR_E_INPUT,
				"%s: %d operators are too many to cut: pin them (stage=)", g->name,
				c.n);
		goto out;
	}
	if (!exactly) {
		n_stages = machine->n_workers ? machine->n_workers : UNASKED_STAGES;
		n_stages = least_stages(g) > n_stages ? least_stages(g) : n_stages;
	}
	if (n_stages > c.n)
		n_stages = c.n;
	for (int i = 0; i < c.n; i++)
		c.sum[i + 1] = c.sum[i] + cost_of(&g->operators[c.order[i]], samples, machine);
	cells = (size_t)(n_stages + 1) * (size_t)(c.n + 1);
	c.best = orr_arrays_add(&c.all, cells, sizeof(*c.best));
	c.from = orr_arrays_add(&c.all, cells, sizeof(*c.from));
	orr_readers_find(&c.readers, &c.all, g, c.place, c.n);
	code = c.all.failed ? orr_no_memory(err, g->name)
			    : find(&c, n_stages, exactly, stage_of, n_chosen, err);
out:
	orr_arrays_free(&c.all);
	return code;
}
