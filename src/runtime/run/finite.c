#include "finite.h"

#include <math.h>
#include <stdlib.h>

#include "base/max.h"
#include "orrery/graph.h"
#include "orrery/run.h"
#include "schedule/versions.h"

/* What is not finite in a slot: losses are looked at where they were computed, and gradients by the
 * tasks that have them, each by its owner. A find is a number: of the step in the slot, and in it
 * of the operator in the graph, so that the least one is the first. */

enum { LOSS, GRADIENT, N_KINDS };
#define NONE INT64_MAX

static int64_t number_of(const struct orr_work *work, int step, int operator)
{
	return (int64_t)step * work->pipeline->graph->n_operators + operator;
}

/* The step of a slot that microbatch b is of. */
static int step_of(const struct orr_work *work, int b)
{
	return work->jobs->async ? b / orr_versions_step(work->jobs->versions) : 0;
}

static void find_here(const struct orr_data *data, const struct orr_slot *slot,
		      int64_t found[N_KINDS])
{
	const struct orr_work *work = data->work;
	int m = work->pipeline->n_microbatches, n = data->n_owned;

	found[LOSS] = found[GRADIENT] = NONE;
	for (int b = 0; b < m; b++)
		for (int l = 0; l < work->n_losses; l++)
			if (!isfinite(slot->metrics[orr_work_loss_at(work, l, b)].loss))
				found[LOSS] = smaller(found[LOSS], number_of(work, step_of(work, b),
									     work->losses[l]));
	for (int i = 0; i < n * work->n_updates; i++) {
		int s = data->owned[i % n].s;
		int every = work->jobs->async ? work->jobs->versions->every[s] : 1;

		if (slot->wild[i] != NONE)
			found[GRADIENT] =
				smaller(found[GRADIENT],
					number_of(work, step_of(work, (i / n + 1) * every - 1),
						  orr_program_operator_at(work->programs[s],
									  slot->wild[i])));
	}
}

static int gather(const struct orr_work *work, int64_t found[N_KINDS], struct orr_error *err)
{
	double *all = calloc((size_t)work->n_ranks * N_KINDS, sizeof(*all));
	int code;

	if (!all)
		return orr_no_memory(err, "run");
	for (int k = 0; k < N_KINDS; k++)
		all[work->rank * N_KINDS + k] = found[k] == NONE ? 0 : (double)found[k] + 1;
	code = orr_ranks_sum(all, work->n_ranks * N_KINDS, err);
	for (int i = 0; i < work->n_ranks * N_KINDS; i++)
		if (all[i] > 0)
			found[i % N_KINDS] = smaller(found[i % N_KINDS], (int64_t)all[i] - 1);
	free(all);
	return code;
}

static int tell(const struct orr_work *work, int64_t first_step, const int64_t found[N_KINDS],
		struct orr_error *err)
{
	const struct orr_graph *g = work->pipeline->graph;
	int n = g->n_operators;
	int64_t first = smaller(found[LOSS], found[GRADIENT]);
	bool loss = found[LOSS] != NONE && found[LOSS] / n == first / n,
	     gradient = found[GRADIENT] != NONE && found[GRADIENT] / n == first / n;

	return orr_fail(err, ORR_E_DIVERGED,
			"training diverged in step %lld: %s%.60s%s%s%.60s %s not finite",
			(long long)first_step + first / n + 1, loss ? "the loss of " : "",
			loss ? g->operators[found[LOSS] % n].name : "",
			loss && gradient ? ", and " : "",
			gradient ? "the norm of the gradient of " : "",
			gradient ? g->operators[found[GRADIENT] % n].name : "",
			loss && gradient ? "are" : "is");
}

int orr_finite_check(const struct orr_slots *slots, const struct orr_slot *slot, int64_t first_step,
		     struct orr_trained *trained, struct orr_error *err)
{
	const struct orr_work *work = slots->data->work;
	int64_t found[N_KINDS];
	double flags[] = {atomic_load(&trained->stop), 0};
	int code;

	find_here(slots->data, slot, found);
	flags[1] = !slots->skips && (found[LOSS] != NONE || found[GRADIENT] != NONE);
	if ((code = orr_ranks_sum(flags, 2, err)))
		return code;
	trained->ends = flags[0] > 0;
	if (flags[1] > 0)
		return (code = gather(work, found, err)) ? code
							 : tell(work, first_step, found, err);
	if (trained->n_skipped_last == ORR_MOST_SKIPPED) /* on all ranks alike */
		return orr_fail(err, ORR_E_DIVERGED,
				"training diverged: the updates of steps %lld to %lld, %d in a "
				"row, were left out, since losses or gradients were not finite",
				(long long)(first_step + 2 - ORR_MOST_SKIPPED),
				(long long)(first_step + 1), ORR_MOST_SKIPPED);
	return 0;
}

int orr_finite_judge(const struct orr_slots *slots, const struct orr_slot *slot, bool *finite,
		     struct orr_error *err)
{
	int64_t found[N_KINDS];
	double wild;
	int code;

	find_here(slots->data, slot, found);
	wild = found[LOSS] != NONE || found[GRADIENT] != NONE;
	code = orr_ranks_sum(&wild, 1, err);
	*finite = !(wild > 0);
	return code;
}
