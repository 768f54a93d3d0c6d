#include "charge.h"

#include <math.h>
#include <stdlib.h>

#include "base/arrays.h"
#include "codelets/operator.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"

/* As real numbers, which do not overflow. */
static double estimate_ns(int64_t given_ns, int64_t flops, int64_t samples,
			  const struct orr_machine *machine)
{
	if (given_ns >= 0)
		return (double)given_ns;
	return (double)flops * (double)samples / machine->flops_per_s * 1e9;
}

static double estimate_bytes(int64_t given_bytes, int64_t floats, int64_t samples)
{
	return given_bytes >= 0 ? (double)given_bytes
				: (double)floats * (double)samples * (double)sizeof(float);
}

/* a measured backward without a measured weight gradient is the whole of it */
static int64_t weight_flops(const struct orr_operator *o)
{
	return o->backward_ns >= 0 ? 0 : o->weight_flops;
}

#define N_KINDS 5
#define MOST 0x1p60 /* of a kind of cost, of all operators: a few kinds may be added up */

static void estimate(double costs[N_KINDS], const struct orr_operator *o, int64_t samples,
		     const struct orr_machine *machine)
{
	costs[0] = estimate_ns(o->forward_ns, o->forward_flops, samples, machine);
	costs[1] = estimate_ns(o->backward_ns, o->backward_flops, samples, machine);
	costs[2] = estimate_ns(o->weight_ns, weight_flops(o), samples, machine);
	costs[3] = estimate_bytes(o->stash_bytes, o->stash_floats, samples);
	costs[4] = estimate_bytes(o->activation_bytes, orr_operator_output_floats(o), samples);
}

int orr_charge_check(const struct orr_graph *g, const struct orr_machine *machine, int64_t samples,
		     struct orr_error *err)
{
	static const char *const kinds[N_KINDS] = {"forward passes last", "backward passes last",
						   "weight gradients last", "stashes are",
						   "activations are"};
	double sum[N_KINDS] = {0}, most[N_KINDS] = {-1, -1, -1, -1, -1}, costs[N_KINDS];
	const struct orr_operator *largest[N_KINDS];

	for (int i = 0; i < g->n_operators; i++) {
		estimate(costs, &g->operators[i], samples, machine);
		for (int k = 0; k < N_KINDS; k++) {
			sum[k] += costs[k];
			if (costs[k] <= most[k])
				continue;
			most[k] = costs[k];
			largest[k] = &g->operators[i];
		}
	}
	for (int k = 0; k < N_KINDS; k++)
		if (sum[k] > MOST)
			return orr_fail(
				err, ORR_E_INPUT,
				"%s:%d: node %s: of %lld samples in a microbatch, the %s more than "
				"2^60 %s, here the most: %slower [batch] or raise [microbatches]",
				g->name, largest[k]->line, largest[k]->name, (long long)samples,
				kinds[k], k < 3 ? "ns" : "bytes", k < 3 ? "raise [flops], " : "");
	return 0;
}

static int64_t charge(int64_t given_ns, int64_t flops, int64_t samples,
		      const struct orr_machine *machine)
{
	return given_ns >= 0 ? given_ns : llround(estimate_ns(-1, flops, samples, machine));
}

/* What the backward of o keeps of the forward. */
static int64_t stash_of(const struct orr_operator *o, int64_t samples)
{
	if (!o->has_input_gradient && !o->has_weight_gradient)
		return 0;
	return o->stash_bytes >= 0
		       ? o->stash_bytes
		       : orr_operator_stash_floats(o) * samples * (int64_t)sizeof(float);
}

static int64_t grow(int64_t cost, double growth)
{
	return growth == 1 ? cost : llround((double)cost * growth);
}

void orr_charge(struct orr_stage *stage, const struct orr_operator *o, int64_t samples,
		const struct orr_machine *machine)
{
	int64_t parameter_bytes = orr_operator_parameter_bytes(o);

	stage->forward_ns +=
		grow(charge(o->forward_ns, o->forward_flops, samples, machine), o->mean_growth);
	if (o->has_input_gradient)
		stage->backward_ns +=
			grow(charge(o->backward_ns, o->backward_flops, samples, machine),
			     o->mean_growth);
	if (o->has_weight_gradient) {
		stage->weight_ns += grow(charge(o->weight_ns, weight_flops(o), samples, machine),
					 o->mean_growth);
		stage->update_ns += o->update_ns > 0 ? o->update_ns : 0;
	}
	if (orr_operator_again(o))
		*(o->has_input_gradient ? &stage->backward_ns : &stage->weight_ns) += grow(
			charge(o->forward_ns, o->forward_flops, samples, machine), o->mean_growth);
	stage->stash_bytes += stash_of(o, samples);
	stage->parameter_bytes += parameter_bytes;
	stage->frozen_bytes += o->frozen ? parameter_bytes : 0;
}

struct orr_sent orr_sent_over(const struct orr_graph *g, int i, int k, int64_t samples)
{
	const struct orr_operator *o = &g->operators[i];
	struct orr_sent sent = {orr_operator_output_bytes(&g->operators[o->inputs[k]], samples), 0};

	if (o->reads && o->reads[k].bytes >= 0)
		sent.bytes = o->reads[k].bytes;
	if (orr_graph_has_gradient(g, i, k))
		sent.gradient_bytes = o->reads && o->reads[k].gradient_bytes >= 0
					      ? o->reads[k].gradient_bytes
					      : sent.bytes;
	return sent;
}

/* What operator i keeps less than stash_of() where all that it reads is in its stage: nothing that
 * is made again, and the inputs to make it of. */
static int64_t saved_by_again(const struct orr_graph *g, int i, int64_t samples)
{
	const struct orr_operator *o = &g->operators[i];
	const struct orr_op *op = o->instance ? o->instance->op : NULL;
	bool again = orr_operator_again(o),
	     reads = op && o->stash_bytes < 0 && stash_of(o, samples);
	int64_t bytes = again ? stash_of(o, samples) : 0;

	reads = reads && ((op->backward_reads | (o->has_weight_gradient ? op->weight_reads : 0)) &
			  ORR_READS_INPUTS);
	for (int k = 0; k < o->n_inputs; k++) {
		const struct orr_operator *from = &g->operators[o->inputs[k]];

		if (again && !orr_operator_again(from))
			bytes -= orr_operator_output_bytes(from, samples);
		else if (!again && reads && orr_operator_again(from))
			bytes +=
				orr_operator_output_floats(from) * samples * (int64_t)sizeof(float);
	}
	return bytes;
}

void orr_charge_least(struct orr_stage *stage, const struct orr_graph *g, int i, int64_t samples,
		      const struct orr_machine *machine)
{
	int64_t update_ns = stage->update_ns;

	orr_charge(stage, &g->operators[i], samples, machine);
	stage->stash_bytes -= saved_by_again(g, i, samples);
	if (!orr_operator_counts(&g->operators[i], i))
		stage->update_ns = update_ns;
}

static void grow_operator(struct orr_operator *o, double growth, double size, int64_t samples,
			  const struct orr_machine *machine)
{
	/* before that of the backward, which says whether it is a part of it */
	int64_t weight_ns = charge(o->weight_ns, weight_flops(o), samples, machine);
	int64_t backward_ns = charge(o->backward_ns, o->backward_flops, samples, machine);
	int64_t *const floats[] = {&o->width, &o->stash_floats, &o->input_stash_floats,
				   &o->saved_floats};

	o->forward_ns = grow(charge(o->forward_ns, o->forward_flops, samples, machine), growth);
	o->backward_ns = grow(backward_ns, growth);
	o->weight_ns = grow(weight_ns, growth);
	o->activation_bytes = grow(orr_operator_output_bytes(o, samples), size);
	if (o->stash_bytes >= 0)
		o->stash_bytes = grow(stash_of(o, samples), size);
	for (int i = 0; i < 4; i++) /* of which the stage counts what operators share once */
		*floats[i] = grow(*floats[i], size);
	o->mean_growth = 1;
}

static void grow_reads(struct orr_read *reads, const struct orr_graph *g,
		       const struct orr_operator *o, int b)
{
	for (int k = 0; k < o->n_inputs; k++) {
		double size = orr_operator_size_growth(g, &g->operators[o->inputs[k]], b);

		reads[k] = o->reads[k];
		if (reads[k].bytes >= 0)
			reads[k].bytes = grow(reads[k].bytes, size);
		if (reads[k].gradient_bytes >= 0)
			reads[k].gradient_bytes = grow(reads[k].gradient_bytes, size);
	}
}

int orr_charge_grow(struct orr_graph *out, const struct orr_graph *g, int b, int64_t samples,
		    const struct orr_machine *machine, struct orr_error *err)
{
	size_t n = (size_t)g->n_operators, n_reads = 0;
	struct orr_read *reads;

	for (int i = 0; i < g->n_operators; i++)
		n_reads += g->operators[i].reads ? (size_t)g->operators[i].n_inputs : 0;
	*out = *g;
	out->operators = malloc(n * sizeof(*out->operators) + n_reads * sizeof(*reads));
	if (!out->operators)
		return orr_no_memory(err, g->name);
	reads = (struct orr_read *)(void *)(out->operators + n);
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		out->operators[i] = *o;
		grow_operator(&out->operators[i], orr_operator_growth(g, o, b),
			      orr_operator_size_growth(g, o, b), samples, machine);
		if (!o->reads)
			continue;
		grow_reads(reads, g, o, b);
		out->operators[i].reads = reads;
		reads += o->n_inputs;
	}
	return 0;
}

void orr_pipeline_note(const struct orr_pipeline *p, struct orr_graph *g, int64_t samples)
{
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_stage *stage = &p->stages[p->stage_of[i]];
		struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_input(o)) { /* its readers take the time */
			o->forward_ns = o->backward_ns = 0;
			continue;
		}
		o->forward_ns = stage->forward_ns;
		o->backward_ns = stage->backward_ns;
		o->weight_ns = stage->weight_ns;
		o->update_ns = stage->update_ns;
		/* these follow from the shapes */
		o->stash_bytes = orr_operator_stash_floats(o) * samples * (int64_t)sizeof(float);
		o->activation_bytes = orr_operator_output_bytes(o, samples);
	}
	g->samples = samples;
	g->profiled = p->profiled;
}
