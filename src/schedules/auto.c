/* The shortest order that a search finds in a given memory; see search.h. */
#include "orrery/search.h"
#include "orrery/pipeline.h"
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

/* The search gives a worker a stage; jobs get theirs from the last to the first, since their number
 * is no smaller than their stage's. */
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
	int code = orr_search(out->worker, out->n, &result, p, &options, err);

	if (code)
		return code;
	for (int j = p->n_stages * p->n_microbatches * ORR_N_PASSES - 1; j >= 0; j--)
		out->worker[j] = out->worker[j / ORR_N_PASSES % p->n_stages];
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
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.parameters = parameters,
	.place = place,
};
