#include <stdlib.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/run.h"
#include "orrery/figures.h"

/* Does a stage run forward here? Evaluation takes every owner's rank. */
static bool runs_here(const struct orr_jobs *jobs, const int *rank_of, int s)
{
	int rank = orr_ranks_rank();

	for (int b = 0; b < jobs->pipeline->n_microbatches; b++)
		if (rank_of[jobs->compute[orr_jobs_index(jobs, s, b, ORR_PASS_F)]] == rank)
			return true;
	for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1]; i++)
		if (rank_of[jobs->owners[i]] == rank)
			return true;
	return false;
}

static bool is_read_here(const struct orr_pipeline *p, const bool *here, int k)
{
	for (int i = k + 1; i < p->graph->n_operators; i++)
		for (int j = 0; j < p->graph->operators[i].n_inputs; j++)
			if (p->graph->operators[i].inputs[j] == k && here[p->stage_of[i]])
				return true;
	return false;
}

int orr_run_columns(struct orr_data_columns **columns, int *n, const struct orr_jobs *jobs,
		    const struct orr_run_options *options, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int *rank_of = calloc((size_t)p->n_workers, sizeof(*rank_of));
	bool *here = calloc((size_t)p->n_stages, sizeof(*here));
	int code = 0;

	*columns = calloc((size_t)p->graph->n_operators + 1, sizeof(**columns));
	*n = 0;
	if (!rank_of || !here || !*columns)
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for the columns of %d stages",
				p->n_stages);
	if (!code)
		code = orr_ranks_of_workers(rank_of, p->n_workers, orr_ranks_count(),
					    options->ranks_workers, err);
	for (int s = 0; s < p->n_stages && !code; s++)
		here[s] = runs_here(jobs, rank_of, s);
	for (int k = 0; k < p->graph->n_operators && !code; k++) {
		const struct orr_operator *o = &p->graph->operators[k];

		if (orr_operator_is_input(o) && is_read_here(p, here, k))
			(*columns)[(*n)++] =
				(struct orr_data_columns){o->tensor, o->columns, o->width};
	}
	if (code) {
		free(*columns);
		*columns = NULL;
	}
	free(rank_of);
	free(here);
	return code;
}
