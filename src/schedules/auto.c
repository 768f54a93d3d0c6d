/* The shortest order that a search finds in a given memory; see search.h. */
#include "orrery/search.h"

#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "orrery/figures.h"
#include "orrery/pipeline.h"
#include "orrery/try.h"
#include "schedule/table.h"
#include "direct.h"

#define LIST(name) &orr_schedule_##name,
static const struct orr_schedule *const starts[] = {ORR_DIRECT_SCHEDULES(LIST) NULL};

static const struct orr_parameter parameters[] = {
	{"memory",
	 "stage stashes that a worker may hold, or their bytes; 0: what [memory] leaves, or else "
	 "as many as there are stages, for each microbatch where a minibatch is gathered",
	 ORR_PARAMETER_MEMORY, 0, 1 << 30, 0, NULL},
	{"placement",
	 "of stages: s mod P, the V fold, an even share of the work, or the best of those",
	 ORR_PARAMETER_WORD, 0, 0, ORR_PLACEMENT_ANY, "any|straight|fold|plan"},
	{"effort",
	 "million jobs that are timed to improve each placement's order; more of them never find "
	 "less",
	 ORR_PARAMETER_INTEGER, 0, 1 << 20, 8, NULL},
	{"seconds",
	 "search so long instead; runs differ then, so not for several processes; 0: not by time",
	 ORR_PARAMETER_INTEGER, 0, 1 << 20, 0, NULL},
	{"seed", "of the random numbers: another one finds another order", ORR_PARAMETER_INTEGER, 0,
	 1 << 30, 1, NULL},
	{"reorder",
	 "1: where microbatches differ, choose the order of them too, in up to twice the time",
	 ORR_PARAMETER_INTEGER, 0, 1, 1, NULL},
	{"objective",
	 "the shortest makespan, or span: from a worker's first start to its last end, for steps "
	 "that overlap",
	 ORR_PARAMETER_WORD, 0, 0, ORR_OBJECTIVE_MAKESPAN, "makespan|span"},
	{0},
};

static bool has_stashes(const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].stash_bytes > 0)
			return true;
	return false;
}

/* Beside the exchanges of a split a worker computes something else, as far as the order lets it:
 * orders are compared by the step of the parts. */
static void hide_exchanges(struct orr_stage *stages, const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++) {
		const int64_t *exchange_ns = p->parts->split->exchange_ns[s];

		stages[s].forward_ns -= exchange_ns[ORR_PASS_F];
		stages[s].backward_ns -= exchange_ns[ORR_PASS_B];
		stages[s].weight_ns -= exchange_ns[ORR_PASS_W];
	}
}

/* With stashes where they are, and parked where they may be and that is shorter: then the bound is
 * that of any memory. Jobs get the workers of their stages. */
static int search(struct orr_placed *out, struct orr_search_result *result,
		  const struct orr_pipeline *p, struct orr_search_options *options,
		  struct orr_error *err)
{
	struct orr_pipeline bare = *p;
	struct orr_search_result with;
	size_t n_stages = (size_t)p->n_stages,
	       n_jobs = n_stages * (size_t)p->n_microbatches * ORR_N_PASSES;
	struct orr_arrays all = {0};
	int *worker = orr_arrays_add(&all, n_stages, sizeof(*worker)), code, none;
	int64_t *n = orr_arrays_add(&all, n_jobs, sizeof(*n));
	bool parks = false;

	orr_arrays_make(&all, bare.stages, n_stages);
	if ((code = orr_arrays_check(&all, "auto", err)))
		return code;
	memcpy(bare.stages, p->stages, n_stages * sizeof(*p->stages));
	for (int s = 0; s < p->n_stages; s++) {
		parks = parks || p->stages[s].park;
		bare.stages[s].park = 0;
	}
	if (p->parts && !parks) {
		hide_exchanges(bare.stages, p);
		options->parts = p->parts;
	}
	code = none = orr_search(out->worker, out->n, result, &bare, options, err);
	if (parks && (!none || none == ORR_E_INPUT)) {
		options->parked = p;
		code = orr_search(worker, n, &with, &bare, options, err);
		out->stays = code || (!none && with.makespan_ns >= result->makespan_ns);
	}
	if (parks && !code && !out->stays) {
		*result = with;
		memcpy(out->worker, worker, n_stages * sizeof(*worker));
		memcpy(out->n, n, n_jobs * sizeof(*n));
	} else if (out->stays && (!code || code == ORR_E_INPUT)) {
		result->bound_ns = smaller(result->bound_ns, with.anywhere_ns);
		code = none;
	}
	for (size_t j = n_jobs; j-- > 0 && !code;) /* no number is below its stage's */
		out->worker[j] = out->worker[j / ORR_N_PASSES % n_stages];
	orr_arrays_free(&all);
	return code;
}

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	const struct orr_value *memory = data, *value = data;
	bool given = memory->integer || memory->bytes;
	int64_t memory_bytes = given ? 0 : p->machine.memory_bytes;
	struct orr_search_options options = {
		.schedules = starts,
		.stashes = given || (memory_bytes && has_stashes(p)) ? memory->integer
			   : orr_pipeline_gathers(p) ? (int64_t)p->n_stages * p->n_microbatches
						     : p->n_stages,
		.stash_bytes = memory->bytes,
		.memory_bytes = memory_bytes,
		.placement = (enum orr_placement)value[1].integer,
		.effort = value[2].integer,
		.related = 1,
		.seconds = value[3].integer,
		.seed = value[4].integer,
		.reorder = value[5].integer,
		.objective = (enum orr_objective)value[6].integer,
		.observer = out->observer,
	};
	struct orr_search_result result;
	int code = search(out, &result, p, &options, err);

	if (code)
		return code;
	out->bound_ns = result.bound_ns; /* no makespan is below its span */
	if (options.objective == ORR_OBJECTIVE_SPAN)
		out->span_bound_ns = result.bound_ns;
	return 0;
}

ORR_DECLARE_SCHEDULE(auto)
const struct orr_schedule orr_schedule_auto = {
	.name = "auto",
	.summary = "split backward; the shortest order that a search finds in a given memory, and "
		   "how far from the best it can be",
	.split_backward = true,
	.parameters = parameters,
	.place = place,
};
