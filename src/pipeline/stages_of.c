#include "stages_of.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"
#include "charge.h"
#include "path.h"
#include "codelets/operator.h"
#include "model/draft.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "microbatches.h"
#include "orrery/pipeline.h"

void orr_stages_place_inputs(const struct orr_graph *g, int *stage_of)
{
	for (int i = 0; i < g->n_operators; i++)
		if (orr_operator_is_input(&g->operators[i]))
			stage_of[i] = -1;
	for (int i = g->n_operators - 1; i >= 0; i--)
		for (int k = 0; k < g->operators[i].n_inputs; k++) {
			int input = g->operators[i].inputs[k];

			if (!orr_operator_is_input(&g->operators[input]))
				continue;
			if (stage_of[input] < 0 || stage_of[i] < stage_of[input])
				stage_of[input] = stage_of[i];
		}
	for (int i = 0; i < g->n_operators; i++)
		stage_of[i] = stage_of[i] < 0 ? 0 : stage_of[i]; /* an input without readers */
}

/* The output of an operator. */
struct tensor {
	bool learns;    /* something is trained, there or before */
	int kept, left; /* the last stage whose backward reads it, and whose W does; from 1 on */
	int edge;       /* that carries it last, from 1 on */
	bool read;
	/* Of an operator with recompute=true: a later one that is made again with it, or itself;
	 * and, of the last one, the bytes of all of them. */
	int with;
	int64_t again_bytes;
};

/* A cut, while its pipeline is made. */
struct cut {
	const struct orr_graph *g;
	const int *stage_of;
	int64_t samples;
	struct orr_stage *stages;
	struct orr_keyed *sorted; /* operators by stage, in their order: reads by one stage are met
				     together */
	struct tensor *tensors;   /* [n_operators] */
	struct orr_edge *edges;
	int *carried; /* by edges, until they are merged: the operator whose output it is */
	int n_edges;
	struct orr_arrays all;
};

static int begin(struct cut *x, int n_stages, struct orr_error *err)
{
	size_t n = (size_t)x->g->n_operators, most = 1;

	for (size_t i = 0; i < n; i++)
		most += (size_t)x->g->operators[i].n_inputs;
	orr_arrays_make(&x->all, x->stages, n_stages);
	orr_arrays_make(&x->all, x->sorted, n);
	orr_arrays_make(&x->all, x->tensors, n);
	orr_arrays_make(&x->all, x->edges, most);
	orr_arrays_make(&x->all, x->carried, most);
	if (x->all.failed)
		return orr_no_memory(err, x->g->name);
	for (int i = 0; i < (int)n; i++)
		x->sorted[i] = (struct orr_keyed){x->stage_of[i], i};
	return orr_sort(x->sorted, (int)n, err);
}

/* Stage `to`, which the edge goes to, has another operator that reads the tensor: the larger of
 * what they read is sent. */
static void add_reader(struct orr_edge *edge, const struct orr_graph *g, int i, int k,
		       int64_t samples)
{
	struct orr_sent sent = orr_sent_over(g, i, k, samples);

	edge->bytes = larger(edge->bytes, sent.bytes);
	edge->gradient_bytes = larger(edge->gradient_bytes, sent.gradient_bytes);
	edge->detached = edge->detached && !orr_graph_has_gradient(g, i, k);
}

/* Every output of one stage that another reads, each once. Data comes from no stage: from -1. */
static void collect_edges(struct cut *x)
{
	for (int i = 0; i < x->g->n_operators; i++) {
		const struct orr_operator *o = &x->g->operators[x->sorted[i].value];
		int to = x->stage_of[x->sorted[i].value];

		for (int k = 0; k < o->n_inputs; k++) {
			int from = o->inputs[k], *edge = &x->tensors[from].edge;
			bool data = orr_operator_is_input(&x->g->operators[from]);

			if (x->stage_of[from] == to && !data)
				continue;
			if (!*edge || x->edges[*edge - 1].to != to) {
				x->carried[x->n_edges] = from;
				x->edges[x->n_edges] =
					(struct orr_edge){.from = data ? -1 : x->stage_of[from],
							  .to = to,
							  .detached = true};
				*edge = ++x->n_edges;
			}
			add_reader(&x->edges[*edge - 1], x->g, x->sorted[i].value, k, x->samples);
		}
	}
}

/* All that one stage sends to another goes over one edge; data is what the stage reads itself. */
static void merge_edges(struct cut *x)
{
	struct orr_edge *edges = x->edges;
	int n = x->n_edges;

	x->n_edges = 0;
	qsort(edges, (size_t)n, sizeof(*edges), orr_ends_compare);
	for (int e = 0; e < n; e++) {
		struct orr_edge *sum = x->n_edges ? &edges[x->n_edges - 1] : NULL;

		if (edges[e].from < 0) {
			x->stages[edges[e].to].input_bytes += edges[e].bytes;
		} else if (!sum || orr_ends_compare(sum, &edges[e])) {
			edges[x->n_edges++] = edges[e];
		} else {
			sum->bytes += edges[e].bytes;
			sum->gradient_bytes += edges[e].gradient_bytes;
			sum->detached = sum->detached && edges[e].detached;
		}
	}
	for (int e = 0; e < x->n_edges; e++)
		if (!edges[e].gradient_bytes)
			edges[e].gradient_bytes = ORR_NO_BYTES;
}

/* A stage is frozen where one of its operators is not trained and none with parameters is.
 * Gradients start at what no operator reads. */
static void mark_stages(struct cut *x)
{
	for (int i = x->g->n_operators - 1; i >= 0; i--) {
		const struct orr_operator *o = &x->g->operators[i];
		struct orr_stage *stage = &x->stages[x->stage_of[i]];

		for (int k = 0; k < o->n_inputs; k++)
			x->tensors[o->inputs[k]].read = true;
		if (orr_operator_is_input(o))
			continue;
		stage->frozen = stage->frozen || !o->has_weight_gradient;
		stage->has_loss =
			stage->has_loss ||
			(!x->tensors[i].read && (o->has_input_gradient || o->has_weight_gradient));
	}
	for (int i = 0; i < x->g->n_operators; i++) {
		const struct orr_operator *o = &x->g->operators[i];

		if (o->has_weight_gradient && orr_operator_has_parameters(o))
			x->stages[x->stage_of[i]].frozen = false;
	}
}

/* Gradients inside a stage that sends none back are its weights' own. */
static void fold_inner_gradients(struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++) {
		struct orr_stage *stage = &p->stages[s];

		if (!stage->has_weight_gradient || stage->has_input_gradient)
			continue;
		stage->weight_ns += stage->backward_ns;
		stage->backward_ns = 0;
	}
}

/* ---- what a stash is, and what moves of it ---- */

static int64_t bytes_of(int64_t floats, int64_t samples)
{
	return floats * samples * (int64_t)sizeof(float);
}

/* The backward of stage s reads it, its W too if left: it is kept once for all operators there. */
static void count_tensor(struct orr_stage *stage, int s, struct tensor *tensor, int64_t bytes,
			 bool left)
{
	if (tensor->kept != s + 1) {
		stage->stash_bytes += bytes;
		stage->passing_bytes += bytes;
	}
	tensor->kept = s + 1;
	if (!left || tensor->left == s + 1)
		return;
	stage->passing_bytes -= bytes;
	tensor->left = s + 1;
}

/* Of the output of operator i. */
static int64_t size_of(const struct cut *x, int i)
{
	const struct orr_operator *o = &x->g->operators[i];

	return o->instance ? bytes_of(orr_operator_output_floats(o), x->samples)
			   : orr_operator_output_bytes(o, x->samples);
}

static bool made_again(const struct cut *x, int i, int s)
{
	return x->stage_of[i] == s && orr_operator_again(&x->g->operators[i]);
}

/* The last of those that are made again together with operator i. */
static int last_of(struct tensor *tensors, int i)
{
	for (; tensors[i].with != i; i = tensors[i].with)
		tensors[i].with = tensors[tensors[i].with].with;
	return i;
}

/* A backward reads so much that operator i makes again. */
static void add_again(struct cut *x, int i, int64_t bytes)
{
	struct orr_stage *stage = &x->stages[x->stage_of[i]];
	struct tensor *last = &x->tensors[last_of(x->tensors, i)];

	last->again_bytes += bytes;
	stage->again_all_bytes += bytes;
	stage->again_bytes = larger(stage->again_bytes, last->again_bytes);
}

/* Operator i is made again, together with all that it is made of and that is not kept either. */
static void join_again(struct cut *x, int i)
{
	const struct orr_operator *o = &x->g->operators[i];

	x->tensors[i].with = i;
	for (int k = 0; k < o->n_inputs; k++) {
		int last;

		if (!made_again(x, o->inputs[k], x->stage_of[i]))
			continue;
		last = last_of(x->tensors, o->inputs[k]);
		if (last == i)
			continue;
		x->tensors[last].with = i;
		x->tensors[i].again_bytes += x->tensors[last].again_bytes;
	}
}

/* Operator i, whose stash was counted as if nothing else kept its tensors. What a file says of a
 * stash is all of it. Operators before it have been counted. */
static void count_moved(struct cut *x, int i)
{
	const struct orr_graph *g = x->g;
	const struct orr_operator *o = &g->operators[i];
	const struct orr_op *op = o->instance ? o->instance->op : NULL;
	int s = x->stage_of[i];
	struct orr_stage *stage = &x->stages[s];
	bool trained = o->n_parameters > 0 && !o->frozen, learns = trained,
	     again = orr_operator_again(o), given = !op || o->stash_bytes >= 0;
	int64_t bytes = given ? o->stash_bytes : bytes_of(orr_operator_stash_floats(o), x->samples);

	for (int k = 0; k < o->n_inputs; k++)
		learns = learns ||
			 (!orr_operator_is_detached(o, k) && x->tensors[o->inputs[k]].learns);
	x->tensors[i].learns = learns;
	if ((op && op->input) || (given && !again))
		return;
	stage->stash_bytes -= bytes;
	if (!again && (!learns || !(o->has_input_gradient || o->has_weight_gradient)))
		return;
	if (again)
		join_again(x, i);
	for (int k = -1; k < o->n_inputs; k++) {
		unsigned as = k < 0 ? ORR_READS_OUTPUT : ORR_READS_INPUTS;
		int from = k < 0 ? i : o->inputs[k];
		bool left = !given && trained && op->weight_reads & as,
		     reads = left || (!given && op->backward_reads & as),
		     made = made_again(x, from, s);

		if (made && reads && x->tensors[from].kept != s + 1)
			add_again(x, from, size_of(x, from));
		if (made && reads)
			x->tensors[from].kept = s + 1;
		if (!made && (reads || (again && k >= 0)))
			count_tensor(stage, s, &x->tensors[from], size_of(x, from), left);
	}
	bytes = given ? o->stash_bytes : bytes_of(o->saved_floats, x->samples);
	if (again) {
		add_again(x, i, bytes);
		return;
	}
	stage->stash_bytes += bytes;
	stage->passing_bytes += bytes;
	if (trained) /* and the gradient of its output */
		stage->passing_bytes -=
			bytes +
			(op->loss ? 0 : bytes_of(orr_operator_output_floats(o), x->samples));
}

/* 1 + the stage of the operator or encoder of that name; 0: there is none. */
static int find_stage(const struct orr_graph *g, const int *stage_of, const char *name)
{
	for (int i = 0; i < g->n_operators; i++)
		if (!orr_operator_is_input(&g->operators[i]) && !strcmp(g->operators[i].name, name))
			return stage_of[i] + 1;
	for (int i = 0; i < g->n_operators; i++)
		if (!orr_operator_is_input(&g->operators[i]) && g->operators[i].encoder >= 0 &&
		    !strcmp(g->encoders[g->operators[i].encoder], name))
			return stage_of[i] + 1;
	return 0;
}

/* s: the stage of o, which is with another. */
static int take_with(struct orr_gang *gang, int s, const struct orr_graph *g, const int *stage_of,
		     const struct orr_operator *o, struct orr_error *err)
{
	int with = find_stage(g, stage_of, o->with);

	if (!with)
		return orr_operator_fail(
			g->name, o, err,
			"with: no operator and no encoder has that name: give one of those that "
			"orrery show lists");
	if (with == s + 1) /* it is */
		return 0;
	if (gang->with && gang->with != with)
		return orr_operator_fail(
			g->name, o, err,
			"with: another operator of its stage is with another one: give both the "
			"same, or cut between them (stage=)");
	gang->with = with;
	return 0;
}

/* Where operators say that their stages are, and which stages gather a minibatch; sets of workers
 * stay the graph's. Refuses operators of one stage that say different things, and names that
 * nothing in the graph has. */
static int find_gangs(const struct cut *x, struct orr_error *err)
{
	const struct orr_graph *g = x->g;
	const int *stage_of = x->stage_of;
	int code = 0;

	for (int i = 0; i < g->n_operators && !code; i++) {
		const struct orr_operator *o = &g->operators[i];
		struct orr_stage *stage = &x->stages[stage_of[i]];
		struct orr_gang *gang = &stage->gang;

		if (orr_operator_is_input(o)) /* it is with whatever reads it */
			continue;
		stage->gather = stage->gather || o->gather;
		for (int k = 0; k < o->n_inputs && o->gather; k++)
			if (!orr_operator_is_input(&g->operators[o->inputs[k]]) &&
			    stage_of[o->inputs[k]] == stage_of[i])
				return orr_operator_fail(
					g->name, o, err,
					"gather: what it reads is made in its own stage, which has "
					"one microbatch at a time: cut before it (stage=, or "
					"more [stages])");
		if (o->n_gang && gang->n &&
		    (o->n_gang != gang->n || !o->gang != !gang->workers ||
		     (o->gang && memcmp(o->gang, gang->workers,
					(size_t)gang->n * sizeof(*gang->workers)) != 0)))
			return orr_operator_fail(
				g->name, o, err,
				"gang: another operator of its stage is on other workers: give "
				"both the same, or cut between them (stage=)");
		if (o->n_gang) {
			gang->n = o->n_gang;
			gang->workers = o->gang;
		}
		if (o->with)
			code = take_with(gang, stage_of[i], g, stage_of, o, err);
	}
	return code;
}

static int build(struct orr_pipeline **out, const struct orr_graph *g,
		 const struct orr_machine *machine, const int *stage_of, int n_stages,
		 int64_t samples, struct orr_error *err)
{
	struct cut x = {.g = g, .stage_of = stage_of, .samples = samples};
	struct orr_fanout *outputs = NULL;
	struct orr_tied *tied = NULL;
	int n_outputs = 0, n_tied = 0, code = begin(&x, n_stages, err);

	if (code)
		goto out;
	for (int i = 0; i < g->n_operators; i++)
		orr_charge(&x.stages[stage_of[i]], &g->operators[i], samples, machine);
	if ((code = find_gangs(&x, err)))
		goto out;
	mark_stages(&x);
	if ((code = orr_tied_find(&tied, &n_tied, x.stages, g, stage_of, err)))
		goto out;
	for (int k = 0; k < g->n_operators; k++)
		count_moved(&x, x.sorted[k].value);
	collect_edges(&x);
	if ((code = orr_outputs_find(&outputs, &n_outputs, x.edges, x.carried, x.n_edges, err)))
		goto out;
	merge_edges(&x);
	if ((code = orr_pipeline_create(out, x.stages, n_stages, x.edges, x.n_edges, err)))
		goto out;
	fold_inner_gradients(*out);
	if ((code = orr_pipeline_tie(*out, tied, n_tied, err)) ||
	    (code = orr_pipeline_set_outputs(*out, outputs, n_outputs, err))) {
		orr_pipeline_destroy(*out);
		*out = NULL;
	}
out:
	orr_arrays_free(&x.all);
	free(outputs);
	free(tied);
	return code;
}

/* The costs of p's microbatch b, from a graph that costs as much. */
static int vary(struct orr_pipeline *p, int b, int64_t samples, struct orr_error *err)
{
	struct orr_pipeline *q = NULL;
	struct orr_graph g;
	int code = orr_charge_grow(&g, p->graph, b, samples, &p->machine, err);

	if (code)
		return code;
	if (!(code = orr_charge_check(&g, &p->machine, samples, err)) &&
	    !(code = build(&q, &g, &p->machine, p->stage_of, p->n_stages, samples, err))) {
		orr_pipeline_set_overhead(q, p->overhead_ns);
		orr_microbatches_set(p, b, q);
	}
	orr_pipeline_destroy(q);
	free(g.operators);
	return code;
}

static int vary_all(struct orr_pipeline *p, int64_t samples, struct orr_error *err)
{
	int n = p->graph->n_lengths, code = n ? orr_microbatches_create(p, n, err) : 0;

	for (int b = 0; b < n && !code; b++)
		code = vary(p, b, samples, err);
	if (n && !code)
		orr_microbatches_settle(p);
	return code;
}

int orr_stages_of(struct orr_pipeline **out, const struct orr_graph *g,
		  const struct orr_machine *machine, int *stage_of, int n_stages, int64_t samples,
		  struct orr_error *err)
{
	int code;

	orr_stages_place_inputs(g, stage_of);
	if ((code = build(out, g, machine, stage_of, n_stages, samples, err))) {
		free(stage_of);
		return code;
	}
	(*out)->graph = g;
	(*out)->machine = *machine;
	(*out)->units = g->units;
	(*out)->profiled = g->profiled;
	orr_pipeline_set_overhead(*out, g->overhead_ns + orr_machine_overhead(machine));
	for (int i = 0; i < g->n_operators; i++) /* a given 0 is a cost as well */
		(*out)->has_weight = (*out)->has_weight || g->operators[i].weight_ns >= 0;
	(*out)->stage_of = stage_of;
	if ((code = vary_all(*out, samples, err))) {
		orr_pipeline_destroy(*out);
		*out = NULL;
	}
	return code;
}
