#include "stages_of.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/sort.h"
#include "charge.h"
#include "orrery/graph.h"
#include "orrery/pipeline.h"

/* ---- of a graph ---- */

/* Operators that share parameters, by set and then by stage. */
static int sort_operators(struct orr_keyed **out, int *n, const struct orr_graph *g,
			  const int *stage_of, struct orr_error *err)
{
	struct orr_keyed *keyed = malloc(((size_t)g->n_operators + 1) * sizeof(*keyed));

	if (!keyed)
		return orr_no_memory(err, g->name);
	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].tied >= 0)
			keyed[(*n)++] = (struct orr_keyed){
				(int64_t)g->operators[i].tied << 32 | stage_of[i], i};
	*out = keyed;
	return orr_sort(keyed, *n, err);
}

static void take_off(struct orr_stage *stage, const struct orr_operator *o)
{
	int64_t bytes = orr_operator_parameter_bytes(o);

	stage->parameter_bytes -= bytes;
	stage->frozen_bytes -= o->frozen ? bytes : 0;
	stage->update_ns -= o->has_weight_gradient && o->update_ns > 0 ? o->update_ns : 0;
}

/* A set of the stages in numbers, of the parameters of o: a new one, or more of another. */
static void add_set(struct orr_tied *tied, int *n_tied, const struct orr_operator *o,
		    const int *numbers, int n)
{
	int t = 0;

	while (t < *n_tied && (tied[t].frozen != o->frozen || tied[t].n_stages != n ||
			       memcmp(tied[t].stages, numbers, (size_t)n * sizeof(*numbers)) != 0))
		t++;
	if (t == *n_tied)
		tied[(*n_tied)++] =
			(struct orr_tied){.frozen = o->frozen, .n_stages = n, .stages = numbers};
	tied[t].bytes += orr_operator_parameter_bytes(o);
}

int orr_tied_find(struct orr_tied **out, int *n_tied, struct orr_stage *stages,
		  const struct orr_graph *g, const int *stage_of, struct orr_error *err)
{
	struct orr_keyed *keyed = NULL;
	struct orr_tied *tied = NULL;
	int n = 0, first = 0, *numbers, code = sort_operators(&keyed, &n, g, stage_of, err);

	if (code || !n)
		goto out;
	/* half of them at most begin a set; behind the sets their stages */
	tied = calloc((size_t)n / 2 + 1, sizeof(*tied) + 2 * sizeof(*numbers));
	if (!tied) {
		code = orr_no_memory(err, g->name);
		goto out;
	}
	numbers = (int *)(tied + n / 2 + 1);
	for (int i = 0, end = 0; i < n; i++) {
		const struct orr_operator *o = &g->operators[keyed[i].value];
		bool last = i + 1 == n || keyed[i + 1].key >> 32 != keyed[i].key >> 32;

		if (i > 0 && keyed[i].key == keyed[i - 1].key)
			take_off(&stages[stage_of[keyed[i].value]], o);
		else
			numbers[end++] = stage_of[keyed[i].value];
		if (last && end - first > 1)
			add_set(tied, n_tied, o, numbers + first, end - first);
		first = last ? end : first;
	}
	*out = tied;
	tied = NULL;
out:
	free(keyed);
	free(tied);
	return code;
}

/* ---- of a pipeline ---- */

static int check(const struct orr_pipeline *p, const struct orr_tied *tied, struct orr_error *err)
{
	if (tied->n_stages < 2 || tied->bytes < 0)
		return orr_fail(err, ORR_E_INPUT,
				"pipeline: tied parameters of %d stages and %lld bytes: give two "
				"stages or more, and their size",
				tied->n_stages, (long long)tied->bytes);
	for (int i = 0; i < tied->n_stages; i++) {
		int s = tied->stages[i];
		const struct orr_stage *stage;

		if (s < 0 || s >= p->n_stages || (i && s <= tied->stages[i - 1]))
			return orr_fail(err, ORR_E_INPUT,
					"pipeline: tied parameters of stage %d: name stages from 0 "
					"to %d, ascending",
					s, p->n_stages - 1);
		stage = &p->stages[s];
		if (tied->bytes > stage->parameter_bytes - stage->tied_bytes ||
		    (!tied->frozen &&
		     tied->bytes > orr_stage_trained_bytes(stage) - stage->tied_trained_bytes))
			return orr_fail(
				err, ORR_E_INPUT,
				"pipeline: %lld bytes of tied parameters in stage %d, which has "
				"fewer %s ones: count them in its parameter_bytes",
				(long long)tied->bytes, s, tied->frozen ? "frozen" : "trained");
	}
	return 0;
}

int orr_pipeline_tie(struct orr_pipeline *p, const struct orr_tied *tied, int n_tied,
		     struct orr_error *err)
{
	size_t n = 0;
	struct orr_tied *copy;
	int *numbers, code = 0;

	for (int t = 0; t < n_tied; t++)
		n += (size_t)(tied[t].n_stages > 0 ? tied[t].n_stages : 0);
	copy = malloc((size_t)n_tied * sizeof(*copy) + (n + 1) * sizeof(*numbers));
	if (!copy)
		return orr_no_memory(err, "pipeline");
	numbers = (int *)(copy + n_tied);
	for (int s = 0; s < p->n_stages; s++)
		p->stages[s].tied_bytes = p->stages[s].tied_trained_bytes = 0;
	for (int t = 0; t < n_tied && !code; t++) {
		code = check(p, &tied[t], err);
		copy[t] = tied[t];
		copy[t].stages = numbers;
		for (int i = 0; i < tied[t].n_stages && !code; i++) {
			struct orr_stage *stage = &p->stages[tied[t].stages[i]];

			*numbers++ = tied[t].stages[i];
			stage->tied_bytes += tied[t].bytes;
			stage->tied_trained_bytes += tied[t].frozen ? 0 : tied[t].bytes;
		}
	}
	if (code) {
		free(copy);
		return code;
	}
	free(p->tied);
	p->tied = copy;
	p->n_tied = n_tied;
	return 0;
}

int orr_set_after(const struct orr_pipeline *p, int s, int set)
{
	for (set = set < p->n_stages ? p->n_stages : set + 1; set < orr_pipeline_n_sets(p); set++) {
		const struct orr_tied *tied = &p->tied[set - p->n_stages];

		for (int i = 0; i < tied->n_stages; i++)
			if (tied->stages[i] == s)
				return set;
	}
	return -1;
}
