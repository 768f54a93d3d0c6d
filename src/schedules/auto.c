/* The shortest order that a search finds in a given memory; see search.h. */
#include "orrery/search.h"

#include <string.h>

#include "base/arrays.h"
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

/* The search gives a worker a stage; jobs get theirs from the last to the first, since their number
 * is no smaller than their stage's. */
static int search(struct orr_placed *out, struct orr_search_result *result,
		  const struct orr_pipeline *p, const struct orr_search_options *options,
		  struct orr_error *err)
{
	int code = orr_search(out->worker, out->n, result, p, options, err);

	for (int j = p->n_stages * p->n_microbatches * ORR_N_PASSES - 1; j >= 0 && !code; j--)
		out->worker[j] = out->worker[j / ORR_N_PASSES % p->n_stages];
	return code;
}

/* ---- parked stashes ---- */

#define FINE 9 /* limits that are tried: quarters of a stash a stage, and the last is none */

/* Orders of more memory than there is, which may fit once stashes are parked. */
struct parked {
	const struct orr_pipeline *p;
	struct orr_pipeline bare; /* the same, where nothing is parked */
	const struct orr_search_options *options;
	struct orr_placed tried;
	int64_t sought_ns; /* the least; 0: nothing fits yet */
};

static bool fits(const struct parked *x, const struct orr_figures *f)
{
	const struct orr_search_options *o = x->options;

	for (int w = 0; w < f->n_workers; w++)
		if ((o->stashes && f->worker[w].peak_stash > o->stashes) ||
		    (o->stash_bytes && f->worker[w].peak_stash_bytes > o->stash_bytes))
			return false;
	return !o->memory_bytes || !orr_figures_check_memory(f, &x->p->machine, NULL);
}

/* Take what was tried, if it is shorter. */
static void take(struct parked *x, struct orr_placed *out, int64_t sought_ns, bool stays)
{
	size_t n = (size_t)x->p->n_stages * (size_t)x->p->n_microbatches * ORR_N_PASSES;

	if (x->sought_ns && sought_ns >= x->sought_ns)
		return;
	x->sought_ns = sought_ns;
	memcpy(out->worker, x->tried.worker, n * sizeof(*out->worker));
	memcpy(out->n, x->tried.n, n * sizeof(*out->n));
	out->stays = stays;
}

/* What was tried, with its stashes parked. */
static int simulate(struct parked *x, struct orr_placed *out, struct orr_error *err)
{
	static char name[] = "auto";
	const struct orr_table table = {.name = name,
					.n_stages = x->p->n_stages,
					.n_workers = x->p->n_workers,
					.n_microbatches = x->p->n_microbatches,
					.split_backward = true,
					.compute = x->tried.worker,
					.priority = x->tried.n};
	struct orr_schedule schedule;
	struct orr_try tried;
	int code;

	orr_table_schedule(&schedule, &table);
	schedule.check = NULL; /* it has a worker for passes that do not exist, too */
	if (!(code = orr_try_init(&tried, x->p, &schedule, NULL, err)) &&
	    !(code = orr_try_run(&tried, err)) && fits(x, tried.figures))
		take(x, out,
		     x->options->objective == ORR_OBJECTIVE_SPAN ? tried.figures->span_ns
								 : tried.figures->makespan_ns,
		     false);
	orr_try_fini(&tried);
	return code;
}

/* In the memory that there is without parking; then, with their stashes parked, in that for more
 * and more of a stash a stage, and in any, whose bound holds for all of them. */
static int search_parked(struct parked *x, struct orr_placed *out, struct orr_search_result *result,
			 struct orr_error *err)
{
	struct orr_search_options more = *x->options;
	struct orr_error unheard;
	int none = search(&x->tried, result, &x->bare, x->options, err), code = 0;

	if (none && none != ORR_E_INPUT)
		return none;
	if (!none)
		take(x, out, result->makespan_ns, true);
	more.memory_bytes = more.stash_bytes = 0;
	for (int i = 1; i <= FINE && !code; i++) {
		more.stashes = i < FINE ? ((int64_t)x->p->n_stages * i + 3) / 4 : 0;
		if (i < FINE && x->options->stashes && more.stashes <= x->options->stashes)
			continue;
		if (!(code = search(&x->tried, result, &x->bare, &more, &unheard)))
			code = simulate(x, out, &unheard);
		if (code == ORR_E_INPUT && i < FINE) /* too little, or what cannot be parked */
			code = 0;
	}
	if (code && (code != ORR_E_INPUT || !x->sought_ns))
		return orr_fail(err, code, "%s", unheard.msg);
	return x->sought_ns ? 0 : none;
}

static int park(struct orr_placed *out, struct orr_search_result *result,
		const struct orr_pipeline *p, const struct orr_search_options *options,
		struct orr_error *err)
{
	struct parked x = {.p = p, .bare = *p, .options = options};
	size_t n_stages = (size_t)p->n_stages,
	       n = n_stages * (size_t)p->n_microbatches * ORR_N_PASSES;
	struct orr_arrays all = {0};
	int code;

	x.bare.stages = orr_arrays_add(&all, n_stages, sizeof(*p->stages));
	x.tried.worker = orr_arrays_add(&all, n, sizeof(*x.tried.worker));
	x.tried.n = orr_arrays_add(&all, n, sizeof(*x.tried.n));
	if (!(code = orr_arrays_check(&all, "auto", err))) {
		memcpy(x.bare.stages, p->stages, n_stages * sizeof(*p->stages));
		for (int s = 0; s < p->n_stages; s++)
			x.bare.stages[s].park = 0;
		code = search_parked(&x, out, result, err);
	}
	orr_arrays_free(&all);
	return code;
}

static bool parks(const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].park)
			return true;
	return false;
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
	int code = (parks(p) ? park : search)(out, &result, p, &options, err);

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
