#include "across.h"

#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "quantity.h"
#include "runtime/ranks.h"
#include "runtime/run.h"

static void say(const char *message)
{
	fprintf(stderr, "orrery: %s\n", message);
}

int across_start(struct orr_error *err)
{
	return orr_ranks_start(say, err);
}

int across_end(int code, const struct orr_error *err)
{
	int rank = orr_ranks_rank();

	orr_ranks_stop();
	if (!rank)
		return command_end(code, err);
	return code == ORR_E_INPUT || code == ORR_E_UNSUPPORTED ? 2 : code != 0; /* rank 0 says why */
}

/* Every number of a rank's traffic, as one array; sums of whole numbers below 2^53 are exact. */
#define N_NUMBERS (4 * ORR_TRAFFIC_KINDS)

struct orr_traffic *across_traffic(struct orr_run *run, struct orr_error *err)
{
	int n_ranks = orr_ranks_count();
	struct orr_traffic *traffic = calloc((size_t)n_ranks, sizeof(*traffic)), own = {0};
	double *numbers = calloc((size_t)n_ranks * N_NUMBERS, sizeof(*numbers));
	double *mine = numbers ? numbers + (size_t)orr_ranks_rank() * N_NUMBERS : NULL;

	if (!traffic || !numbers) {
		orr_fail(err, ORR_E_NOMEM, "no memory for the traffic of %d ranks", n_ranks);
		goto fail;
	}
	orr_run_traffic(run, &own);
	for (int k = 0; k < ORR_TRAFFIC_KINDS; k++) {
		mine[4 * k] = (double)own.sent[k];
		mine[4 * k + 1] = (double)own.sent_bytes[k];
		mine[4 * k + 2] = (double)own.received[k];
		mine[4 * k + 3] = (double)own.received_bytes[k];
	}
	if (orr_ranks_sum(numbers, n_ranks * N_NUMBERS, err))
		goto fail;
	for (int i = 0; i < n_ranks * ORR_TRAFFIC_KINDS; i++) {
		struct orr_traffic *t = &traffic[i / ORR_TRAFFIC_KINDS];
		int k = i % ORR_TRAFFIC_KINDS;

		t->sent[k] = (int64_t)numbers[4 * i];
		t->sent_bytes[k] = (int64_t)numbers[4 * i + 1];
		t->received[k] = (int64_t)numbers[4 * i + 2];
		t->received_bytes[k] = (int64_t)numbers[4 * i + 3];
	}
	free(numbers);
	return traffic;
fail:
	free(traffic);
	free(numbers);
	return NULL;
}

/* {"activation": {"messages": 1, "bytes": 2}, ...}; kinds that never crossed are left out. */
static json_t *direction_json(const int64_t *messages, const int64_t *bytes)
{
	json_t *json = json_object();

	for (int k = 0; json && k < ORR_TRAFFIC_KINDS; k++)
		if (messages[k] && json_object_set_new(json, orr_traffic_name((enum orr_traffic_kind)k),
		                                       json_pack("{s:I,s:I}", "messages", (json_int_t)messages[k],
		                                                 "bytes", (json_int_t)bytes[k]))) {
			json_decref(json);
			json = NULL;
		}
	return json;
}

json_t *across_json(const struct orr_traffic *traffic)
{
	json_t *all = json_array();

	for (int r = 0; all && r < orr_ranks_count(); r++)
		if (json_array_append_new(all, json_pack("{s:i,s:o,s:o}", "rank", r, "sent",
		                                         direction_json(traffic[r].sent, traffic[r].sent_bytes),
		                                         "received",
		                                         direction_json(traffic[r].received,
		                                                        traffic[r].received_bytes)))) {
			json_decref(all);
			all = NULL;
		}
	return all;
}

void across_print(const struct orr_traffic *traffic, int64_t n_steps)
{
	int64_t messages = 0, bytes = 0;
	char size[32];

	for (int r = 0; r < orr_ranks_count(); r++)
		for (int k = 0; k < ORR_TRAFFIC_KINDS; k++) {
			messages += traffic[r].sent[k];
			bytes += traffic[r].sent_bytes[k];
		}
	orr_size_print(size, sizeof(size), bytes / n_steps);
	printf("%d ranks: %lld messages with %s a step between them\n", orr_ranks_count(),
	       (long long)(messages / n_steps), size);
}
