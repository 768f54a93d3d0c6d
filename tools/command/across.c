#include "across.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/dataset.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "base/quantity.h"
#include "orrery/run.h"
#include "orrery/timeline.h"
#include "session.h"

/* Nothing but numbers. */
#define N_NUMBERS ((int)(sizeof(struct across_numbers) / sizeof(int64_t)))

int across_gather(struct across_rank **out, struct orr_run *run, const struct orr_dataset *data,
		  struct session *s)
{
	struct across_rank *ranks = calloc((size_t)s->n_ranks, sizeof(*ranks));
	int64_t *all = calloc((size_t)s->n_ranks, sizeof(struct across_numbers));
	struct across_numbers own;
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

int across_predict(struct across_rank *ranks, int n_ranks, const struct orr_timeline *t,
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
		ranks[k].predicted = footprint[k];
	free(footprint);
	free(rank_of);
	return code;
}

/* {"activation": {"messages": 1, "bytes": 2}, ...}; kinds that never crossed are left out. */
static json_t *direction_json(const int64_t *messages, const int64_t *bytes)
{
	json_t *json = json_object();

	for (int k = 0; k < ORR_TRANSFER_KINDS; k++)
		if (messages[k])
			orr_json_set(&json, orr_transfer_name((enum orr_transfer_kind)k),
				     json_pack("{s:I,s:I}", "messages", (json_int_t)messages[k],
					       "bytes", (json_int_t)bytes[k]));
	return json;
}

json_t *across_json(const struct across_rank *ranks, int n_ranks)
{
	json_t *all = json_array();

	for (int k = 0; k < n_ranks; k++) {
		const struct across_numbers *m = &ranks[k].measured;
		const struct orr_traffic *t = &m->traffic;

		orr_json_append(&all,
				json_pack("{s:i,s:o,s:o,s:I,s:I,s:I}", "rank", k, "sent",
					  direction_json(t->sent, t->sent_bytes), "received",
					  direction_json(t->received, t->received_bytes),
					  "data_bytes", (json_int_t)m->data_bytes, "peak_bytes",
					  (json_int_t)m->peak_bytes, "predicted_peak_bytes",
					  (json_int_t)ranks[k].predicted.all));
	}
	return all;
}

void across_print(const struct across_rank *ranks, int n_ranks, int64_t n_steps)
{
	int64_t messages = 0, bytes = 0;

	for (int r = 0; r < n_ranks; r++)
		for (int k = 0; k < ORR_TRANSFER_KINDS; k++) {
			messages += ranks[r].measured.traffic.sent[k];
			bytes += ranks[r].measured.traffic.sent_bytes[k];
		}
	printf("%d ranks: %lld messages with %s a step between them\n", n_ranks,
	       (long long)(messages / n_steps), orr_size_text(bytes / n_steps));
	printf("Memory of each rank at its peak:");
	for (int r = 0; r < n_ranks; r++)
		printf("%s %s (predicted %s)", r ? "," : "",
		       orr_size_text(ranks[r].measured.peak_bytes),
		       orr_size_text(ranks[r].predicted.all));
	printf("\n");
}
