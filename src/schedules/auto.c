/* The shortest order that a search finds in a given memory; see search.h. */
#include "orrery/search.h"
#include "orrery/choice.h"

static const struct orr_parameter parameters[] = {
	{"memory",
	 "stage stashes that a worker may hold, or their bytes; 0: what --memory leaves, or else "
	 "as "
	 "many as there are stages",
	 ORR_COUNT_OR_SIZE, 1 << 30, 0, ORR_PARAMETER_STASHES},
	{"placement",
	 "of stages: s mod P, the V fold, an even share of the work, or the best of those", 0, 3, 0,
	 ORR_PARAMETER_CHOICE},
	{"effort",
	 "million jobs that are timed to improve each placement's order; more of them never find "
	 "less",
	 0, 1 << 20, 8, ORR_PARAMETER_CHOICE},
	{"seconds",
	 "search so long instead; runs differ then, so not for several processes; 0: not by time",
	 0, 1 << 20, 0, ORR_PARAMETER_CHOICE},
	{"seed", "of the random numbers: another one finds another order", 0, 1 << 30, 1,
	 ORR_PARAMETER_CHOICE},
	{0},
};
static const char *const words[] = {NULL, "any|straight|fold|plan", NULL, NULL, NULL};
static const int64_t defaults[] = {0, 0, 8, 0, 1};

static bool has_stashes(const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].stash_bytes > 0)
			return true;
	return false;
}

static int place(const struct orr_pipeline *p, const void *data, int *worker, int64_t *n,
		 int64_t *bound_ns, struct orr_error *err)
{
	const int64_t *value = data;
	int64_t memory_bytes = value[0] ? 0 : p->memory_bytes;
	struct orr_search_options options = {
		.schedules = orr_schedules,
		.stashes = value[0] > 0                                       ? value[0]
			   : value[0] < 0 || (memory_bytes && has_stashes(p)) ? 0
									      : p->n_stages,
		.stash_bytes = value[0] < 0 ? -value[0] : 0,
		.memory_bytes = memory_bytes,
		.placement = (enum orr_placement)value[1],
		.effort = value[2],
		.seconds = value[3],
		.seed = value[4],
	};
	struct orr_search_result result;
	int code = orr_search(worker, n, &result, p, &options, err);

	if (!code)
		*bound_ns = result.bound_ns;
	return code;
}

extern const struct orr_schedule orr_schedule_auto;
const struct orr_schedule orr_schedule_auto = {
	.name = "auto",
	.summary = "split backward; the shortest order that a search finds in a given memory, and "
		   "how far from "
		   "the best it can be",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.parameters = parameters,
	.words = words,
	.place = place,
	.data = defaults,
};
