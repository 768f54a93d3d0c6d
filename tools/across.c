#include "across.h"

#include <stdio.h>
#include <stdlib.h>

#include "orrery/dataset.h"
#include "orrery/jobs.h"
#include "orrery/quantity.h"
#include "orrery/ranks.h"
#include "orrery/run.h"
#include "orrery/timeline.h"

/* All numbers of a rank: of its traffic, by kind, and of its memory. As double, in which whole
 * numbers below 2^53 are exact. */
#define N_NUMBERS (4 * ORR_TRAFFIC_KINDS + 2)

static void to_numbers(double *numbers, const struct across_rank *rank)
{
	const struct orr_traffic *t = &rank->traffic;

	for (int k = 0; k < ORR_TRAFFIC_KINDS; k++) {
		*numbers++ = (double)t->sent[k];
		*numbers++ = (double)t->sent_bytes[k];
		*numbers++ = (double)t->received[k];
		*numbers++ = (double)t->received_bytes[k];
	}
	*numbers++ = (double)rank->data_bytes;
	*numbers = (double)rank->peak_bytes;
}

static void from_numbers(struct across_rank *rank, const double *numbers)
{
	struct orr_traffic *t = &rank->traffic;

	for (int k = 0; k < ORR_TRAFFIC_KINDS; k++) {
		t->sent[k] = (int64_t)*numbers++;
		t->sent_bytes[k] = (int64_t)*numbers++;
		t->received[k] = (int64_t)*numbers++;
		t->received_bytes[k] = (int64_t)*numbers++;
	}
	rank->data_bytes = (int64_t)*numbers++;
	rank->peak_bytes = (int64_t)*numbers;
}

int across_gather(struct across_rank **out, struct orr_run *run, const struct orr_dataset *data,
		  struct orr_error *err)
{
	int n_ranks = orr_ranks_count(), code;
	struct across_rank *ranks, own = {0};
	double *numbers;

	if (n_ranks == 1)
		return 0;
	ranks = calloc((size_t)n_ranks, sizeof(*ranks));
	numbers = calloc((size_t)n_ranks * N_NUMBERS, sizeof(*numbers));
	if (!ranks || !numbers) {
		code = orr_fail(err, ORR_E_NOMEM, "no memory for what %d ranks say", n_ranks);
		goto out;
	}
	orr_run_traffic(run, &own.traffic);
	own.data_bytes = orr_dataset_bytes(data);
	own.peak_bytes = orr_run_peak_bytes(run);
	to_numbers(numbers + (size_t)orr_ranks_rank() * N_NUMBERS, &own);
	if ((code = orr_ranks_sum(numbers, n_ranks * N_NUMBERS, err)))
		goto out;
	for (int k = 0; k < n_ranks; k++)
		from_numbers(&ranks[k], numbers + (size_t)k * N_NUMBERS);
	*out = ranks;
	ranks = NULL;
out:
	free(ranks);
	free(numbers);
	return code;
}

int across_predict(struct across_rank *ranks, const struct orr_timeline *t,
		   const struct orr_run_options *options, struct orr_error *err)
{
	int n_ranks = orr_ranks_count(), n_workers = t->jobs->pipeline->n_workers, code;
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

	for (int k = 0; json && k < ORR_TRAFFIC_KINDS; k++)
		if (messages[k] &&
		    json_object_set_new(json, orr_traffic_name((enum orr_traffic_kind)k),
					json_pack("{s:I,s:I}", "messages", (json_int_t)messages[k],
						  "bytes", (json_int_t)bytes[k]))) {
			json_decref(json);
			json = NULL;
		}
	return json;
}

json_t *across_json(const struct across_rank *ranks)
{
	json_t *all = json_array();

	for (int k = 0; all && k < orr_ranks_count(); k++) {
		const struct orr_traffic *t = &ranks[k].traffic;

		if (json_array_append_new(
			    all,
			    json_pack("{s:i,s:o,s:o,s:I,s:I,s:I}", "rank", k, "sent",
				      direction_json(t->sent, t->sent_bytes), "received",
				      direction_json(t->received, t->received_bytes), "data_bytes",
				      (json_int_t)ranks[k].data_bytes, "peak_bytes",
				      (json_int_t)ranks[k].peak_bytes, "predicted_peak_bytes",
				      (json_int_t)ranks[k].predicted.all))) {
			json_decref(all);
			all = NULL;
		}
	}
	return all;
}

void across_print(const struct across_rank *ranks, int64_t n_steps)
{
	int64_t messages = 0, bytes = 0;
	char size[32];

	for (int r = 0; r < orr_ranks_count(); r++)
		for (int k = 0; k < ORR_TRAFFIC_KINDS; k++) {
			messages += ranks[r].traffic.sent[k];
			bytes += ranks[r].traffic.sent_bytes[k];
		}
	orr_size_print(size, sizeof(size), bytes / n_steps);
	printf("%d ranks: %lld messages with %s a step between them\n", orr_ranks_count(),
	       (long long)(messages / n_steps), size);
	printf("Memory of each rank at its peak:");
	for (int r = 0; r < orr_ranks_count(); r++) {
		char predicted[32];

		orr_size_print(size, sizeof(size), ranks[r].peak_bytes);
		orr_size_print(predicted, sizeof(predicted), ranks[r].predicted.all);
		printf("%s %s (predicted %s)", r ? "," : "", size, predicted);
	}
	printf("\n");
}
