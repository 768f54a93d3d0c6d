#include "stages_of.h"

#include <stdlib.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"
#include "charge.h"
#include "cost.h"
#include "orrery/graph.h"
#include "orrery/pipeline.h"

/* ---- which stages there are ---- */

/* Exchanges before each operator in its stage of the graph before; n: the most, + 1. Data is
 * wherever it is read. */
static void find_levels(int *level, int *n, const struct orr_graph *g, const int *stage_before)
{
	*n = 1;
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		level[i] = 0;
		for (int k = 0; k < o->n_inputs; k++) {
			const struct orr_operator *from = &g->operators[o->inputs[k]];
			int here = level[o->inputs[k]] + (from->shard != o->shard);

			if (!orr_operator_is_input(from) &&
			    stage_before[from->origin] == stage_before[o->origin] &&
			    here > level[i])
				level[i] = here;
		}
		*n = level[i] >= *n ? level[i] + 1 : *n;
	}
}

/* Operators by stage before, level and shard, whose numbers make the key; inputs are left out. */
static int sort_operators(struct orr_keyed *keyed, int *n, const struct orr_graph *g,
			  const int *stage_before, const int *level, int n_levels,
			  struct orr_error *err)
{
	int64_t n_shards = 1;

	*n = 0;
	for (int i = 0; i < g->n_operators; i++)
		n_shards = larger(n_shards, g->operators[i].shard + 1);
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (!orr_operator_is_input(o))
			keyed[(*n)++] =
				(struct orr_keyed){((int64_t)stage_before[o->origin] * n_levels +
						    level[i]) * n_shards +
							   o->shard,
						   i};
	}
	return orr_sort(keyed, *n, err);
}

/* Numbers for the stages that have operators, in the order of their keys: an edge between two of a
 * stage before goes to a later level, and one between stages before as they are numbered. */
static void number_stages(struct orr_split *split, int *stage_of, int *n_stages,
			  const struct orr_graph *g, const struct orr_keyed *keyed, int n,
			  const int *level)
{
	*n_stages = 0;
	for (int i = 0; i < n; i++) {
		const struct orr_operator *o = &g->operators[keyed[i].value];
		int S = split->whole->stage_of[o->origin];

		if (!i || keyed[i].key != keyed[i - 1].key) {
			split->stage[*n_stages] = S;
			split->shard[*n_stages] = o->shard;
			split->level[(*n_stages)++] = level[keyed[i].value];
		}
		stage_of[keyed[i].value] = *n_stages - 1;
		split->width[S] = o->shard >= split->width[S] ? o->shard + 1 : split->width[S];
	}
}

/* stage_of holds g's operators; split has its whole. */
static int find_stages(struct orr_split *split, int *stage_of, int *n_stages,
		       const struct orr_graph *g, struct orr_error *err)
{
	const int *before = split->whole->stage_of;
	size_t most = (size_t)g->n_operators; /* stages */
	struct orr_arrays all = {0};
	struct orr_keyed *keyed = orr_arrays_add(&all, most, sizeof(*keyed));
	int *level = orr_arrays_add(&all, most, sizeof(*level)), n, code;

	split->stage = calloc(3 * most + (size_t)split->whole->n_stages, sizeof(*split->stage));
	if (all.failed || !split->stage) {
		code = orr_no_memory(err, g->name);
		goto out;
	}
	split->shard = split->stage + most;
	split->level = split->shard + most;
	split->width = split->level + most;
	find_levels(level, &split->n_levels, g, before);
	if (!(code = sort_operators(keyed, &n, g, before, level, split->n_levels, err)))
		number_stages(split, stage_of, n_stages, g, keyed, n, level);
out:
	orr_arrays_free(&all);
	return code;
}

/* ---- what the stages before the split cost ---- */

/* How long stage s waits for what the other workers of its group send: all at once, or, where a
 * worker receives one thing at a time, one after the other. */
static int64_t exchange_ns(const struct orr_pipeline *p, int s, int b, bool gradient)
{
	const struct orr_stage *stage = &p->stages[s];
	const struct orr_cluster *cluster = p->machine.cluster;
	int n = gradient ? stage->n_out : stage->n_in;
	int64_t longest = 0, sum = 0;

	if (cluster && cluster->n_workers < 2)
		return 0;
	for (int i = 0; i < n; i++) {
		int e = (gradient ? stage->out : stage->in)[i];
		int other = gradient ? p->edges[e].to : p->edges[e].from;
		int64_t ns;

		if (p->split->stage[other] != p->split->stage[s] ||
		    p->split->shard[other] == p->split->shard[s] ||
		    (gradient && p->edges[e].detached))
			continue;
		ns = orr_machine_transfer_ns(&p->machine, 0, 1,
					     b >= 0     ? orr_pipeline_edge_bytes(p, e, b, gradient)
					     : gradient ? p->edges[e].gradient_bytes
							: p->edges[e].bytes);
		sum += ns;
		longest = larger(longest, ns);
	}
	return cluster && cluster->groups[cluster->workers[0].group].ports ? sum : longest;
}

/* What one worker has of a stage before the split. */
struct shard {
	int64_t stash_bytes, again_all_bytes, input_bytes, parameter_bytes, frozen_bytes, update_ns;
};

/* A level ends: what it takes is added, and the next one begins. */
static void end_level(struct orr_cost *sum, struct orr_cost *longest)
{
	sum->forward_ns += longest->forward_ns;
	sum->backward_ns += longest->backward_ns;
	sum->weight_ns += longest->weight_ns;
	*longest = (struct orr_cost){0};
}

/* Of the stages [first, end), all of one stage before, by level and then by shard: the longest of
 * each level. b: a microbatch, or -1: the stages' own costs. shards is zero, and left so. */
static struct orr_cost cost_whole(const struct orr_pipeline *p, int first, int end, int b,
				  bool exchanges, struct shard *shards)
{
	struct orr_cost sum = {0}, longest = {0};

	for (int s = first; s < end; s++) {
		struct orr_cost cost = b >= 0 ? p->microbatches->costs[b * p->n_stages + s]
					      : orr_cost_of_stage(&p->stages[s]);
		struct shard *shard = &shards[p->split->shard[s]];

		if (s > first && p->split->level[s] != p->split->level[s - 1])
			end_level(&sum, &longest);
		longest.forward_ns =
			larger(longest.forward_ns,
			       cost.forward_ns + (exchanges ? exchange_ns(p, s, b, false) : 0));
		longest.backward_ns =
			larger(longest.backward_ns,
			       cost.backward_ns + (exchanges ? exchange_ns(p, s, b, true) : 0));
		longest.weight_ns = larger(longest.weight_ns, cost.weight_ns);
		shard->stash_bytes += cost.stash_bytes;
		shard->again_all_bytes += cost.again_all_bytes;
		shard->input_bytes += cost.input_bytes;
		sum.stash_bytes = larger(sum.stash_bytes, shard->stash_bytes);
		sum.again_bytes = larger(sum.again_bytes, cost.again_bytes);
		sum.again_all_bytes = larger(sum.again_all_bytes, shard->again_all_bytes);
		sum.input_bytes = larger(sum.input_bytes, shard->input_bytes);
	}
	for (int s = first; s < end; s++)
		shards[p->split->shard[s]] = (struct shard){0};
	end_level(&sum, &longest);
	return sum;
}

/* A stage that sends no gradient back counts all of its backward as its weights' (partition.c). */
static struct orr_cost fold_inner(const struct orr_stage *stage, struct orr_cost cost)
{
	if (stage->has_weight_gradient && !stage->has_input_gradient) {
		cost.weight_ns += cost.backward_ns;
		cost.backward_ns = 0;
	} else if (!stage->has_weight_gradient && !stage->has_input_gradient) {
		cost.backward_ns = cost.weight_ns = cost.stash_bytes = 0;
	}
	return cost;
}

/* Parameters: the fullest worker's. What stages have in common is left out, so that each counts
 * all of its own. */
static void weigh_whole(const struct orr_pipeline *p, int first, int end, struct shard *shards)
{
	struct orr_stage *stage = &p->split->whole->stages[p->split->stage[first]];

	stage->parameter_bytes = stage->frozen_bytes = stage->update_ns = 0;
	for (int s = first; s < end; s++) {
		struct shard *shard = &shards[p->split->shard[s]];

		shard->parameter_bytes += p->stages[s].parameter_bytes;
		shard->frozen_bytes += p->stages[s].frozen_bytes;
		shard->update_ns += p->stages[s].update_ns;
		stage->update_ns = larger(stage->update_ns, shard->update_ns);
		if (shard->parameter_bytes < stage->parameter_bytes)
			continue;
		stage->parameter_bytes = shard->parameter_bytes;
		stage->frozen_bytes = shard->frozen_bytes;
	}
	for (int s = first; s < end; s++)
		shards[p->split->shard[s]] = (struct shard){0};
}

static int cost_stages(struct orr_pipeline *p, struct orr_error *err)
{
	struct orr_pipeline *whole = p->split->whole;
	struct orr_microbatches *x = whole->microbatches;
	struct shard *shards = calloc((size_t)orr_pipeline_widest(p), sizeof(*shards));
	int64_t(*exchange_ns)[ORR_N_PASSES] = calloc((size_t)whole->n_stages, sizeof(*exchange_ns));
	int code = shards && exchange_ns ? orr_pipeline_tie(whole, NULL, 0, err)
					 : orr_no_memory(err, "partition");

	p->split->exchange_ns = exchange_ns;
	for (int first = 0, end; first < p->n_stages && !code; first = end) {
		int S = p->split->stage[first];
		struct orr_stage *stage = &whole->stages[S];
		struct orr_cost cost, alone;

		for (end = first; end < p->n_stages && p->split->stage[end] == S;)
			end++;
		weigh_whole(p, first, end, shards);
		cost = fold_inner(stage, cost_whole(p, first, end, -1, true, shards));
		alone = fold_inner(stage, cost_whole(p, first, end, -1, false, shards));
		exchange_ns[S][ORR_PASS_F] = cost.forward_ns - alone.forward_ns;
		exchange_ns[S][ORR_PASS_B] = cost.backward_ns - alone.backward_ns;
		exchange_ns[S][ORR_PASS_W] = cost.weight_ns - alone.weight_ns;
		stage->forward_ns = cost.forward_ns;
		stage->backward_ns = cost.backward_ns;
		stage->weight_ns = cost.weight_ns;
		stage->stash_bytes = cost.stash_bytes;
		stage->again_bytes = cost.again_bytes;
		stage->again_all_bytes = cost.again_all_bytes;
		stage->passing_bytes = 0;
		stage->input_bytes = cost.input_bytes;
		for (int b = 0; x && b < x->n; b++)
			x->costs[b * whole->n_stages + S] =
				fold_inner(stage, cost_whole(p, first, end, b, true, shards));
	}
	free(shards);
	return code;
}

/* ---- the pipeline ---- */

int orr_split_partition(struct orr_pipeline **out, const struct orr_graph *g,
			const struct orr_machine *machine, struct orr_pipeline *whole,
			int64_t samples, struct orr_error *err)
{
	struct orr_split *split = calloc(1, sizeof(*split));
	int *stage_of = calloc((size_t)g->n_operators, sizeof(*stage_of)), n_stages = 0, code;

	*out = NULL;
	if (!split || !stage_of) {
		orr_pipeline_destroy(whole);
		code = orr_no_memory(err, g->name);
		goto out;
	}
	split->whole = whole;
	if ((code = find_stages(split, stage_of, &n_stages, g, err)))
		goto out;
	code = orr_stages_of(out, g, machine, stage_of, n_stages, samples, err);
	stage_of = NULL;
	if (code)
		goto out;
	(*out)->split = split;
	split = NULL;
	if ((code = cost_stages(*out, err))) {
		orr_pipeline_destroy(*out);
		*out = NULL;
	}
out:
	free(stage_of);
	orr_pipeline_free_split(split);
	return code;
}
