#include "across.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/run.h"
#include "orrery/timeline.h"
#include "report/training.h"
#include "session.h"
#include "simulate/footprint.h"

#define N_NUMBERS ((int)(sizeof(struct orr_rank_numbers) / sizeof(int64_t)))

int across_gather(struct orr_training_rank **out, struct orr_run *run,
		  const struct orr_dataset *data, struct session *s)
{
	struct orr_training_rank *ranks = calloc((size_t)s->n_ranks, sizeof(*ranks));
	int64_t *all = calloc((size_t)s->n_ranks, sizeof(struct orr_rank_numbers));
	struct orr_rank_numbers own;
	int code;

	if (!ranks || !all) {
		code = orr_fail(&s->err, ORR_E_NOMEM, "no memory for what %d ranks say",
				s->n_ranks);
		goto out;
	}
	orr_run_traffic(run, &own.traffic);
	own.data_bytes = orr_dataset_bytes(data);
	own.peak_bytes = orr_run_peak_bytes(run);
	if ((code = session_gather(s, all, (const int64_t *)&own, N_NUMBERS)))
		goto out;
	for (int k = 0; k < s->n_ranks; k++)
		memcpy(&ranks[k].measured, all + k * N_NUMBERS, sizeof(own));
	*out = ranks;
	ranks = NULL;
out:
	free(ranks);
	free(all);
	return code;
}

int across_predict(struct orr_training_rank *ranks, int n_ranks, const struct orr_timeline *t,
		   const struct orr_run_options *options, struct orr_error *err)
{
	int n_workers = t->jobs->pipeline->n_workers, code;
	struct orr_footprint *footprint = calloc((size_t)n_ranks, sizeof(*footprint));
	int *rank_of = calloc((size_t)n_workers, sizeof(*rank_of));

	if (!footprint || !rank_of)
		code = orr_fail(err, ORR_E_NOMEM, "no memory for %d ranks", n_ranks);
	else if (!(code = orr_ranks_of_workers(rank_of, n_workers, n_ranks, options->ranks_workers,
					       err)))
		code = orr_footprint_predict(footprint, t, rank_of, n_ranks, err);
	for (int k = 0; k < n_ranks && !code; k++)
		ranks[k].predicted_bytes = footprint[k].all;
	free(footprint);
	free(rank_of);
	return code;
}
