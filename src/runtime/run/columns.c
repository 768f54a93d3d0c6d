#include <stdlib.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/ranks.h"
#include "orrery/traffic.h"
#include "orrery/run.h"

/* Does a stage run forward here? Evaluation takes the first owner's rank. */
static bool runs_here(const struct orr_jobs *jobs, const int *rank_of, int s)
{
	int rank = orr_ranks_rank();

	for (int b = 0; b < jobs->pipeline->n_microbatches; b++)
		if (rank_of[jobs->compute[orr_jobs_index(jobs, s, b, ORR_PASS_F)]] == rank)
			return true;
	return rank_of[jobs->owners[jobs->first_owner[s]]] == rank;
}

/* Does a stage that runs here read operator k? */
static bool is_read_here(const struct orr_pipeline *p, const bool *here, int k)
{
	for (int i = k + 1; i < p->graph->n_operators; i++)
		for (int j = 0; j < p->graph->operators[i].n_inputs; j++)
			if (p->graph->operators[i].inputs[j] == k && here[p->stage_of[i]])
				return true;
	return false;
}

/* Append those of the inputs of the stages that run here, or, without a place for them, count them.
 */
static int64_t collect(int64_t *to, const struct orr_pipeline *p, const bool *here)
{
	int64_t n = 0;

	for (int k = 0; k < p->graph->n_operators; k++) {
		const struct orr_operator *o = &p->graph->operators[k];

		if (!orr_operator_is_input(o) || !is_read_here(p, here, k))
			continue;
		for (int64_t i = 0; to && i < o->width; i++)
			to[n + i] = o->columns[i];
		n += o->width;
	}
	return n;
}

int orr_run_columns(int64_t **columns, int64_t *n, const struct orr_jobs *jobs,
		    const struct orr_run_options *options, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int *rank_of = calloc((size_t)p->n_workers, sizeof(*rank_of));
	bool *here = calloc((size_t)p->n_stages, sizeof(*here));
	int code = ORR_E_NOMEM;

	*columns = NULL;
	if (!rank_of || !here)
		goto no_memory;
	if ((code = orr_ranks_of_workers(rank_of, p->n_workers, orr_ranks_count(),
					 options->ranks_workers, err)))
		goto out;
	for (int s = 0; s < p->n_stages; s++)
		here[s] = runs_here(jobs, rank_of, s);
	*n = collect(NULL, p, here);
	if ((*columns = calloc((size_t)*n + 1, sizeof(**columns)))) {
		collect(*columns, p, here);
		goto out;
	}
no_memory:
	code = orr_fail(err, ORR_E_NOMEM, "run: no memory for the columns of %d stages",
			p->n_stages);
out:
	free(rank_of);
	free(here);
	return code;
}
