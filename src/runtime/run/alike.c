#include "alike.h"

#include <stdlib.h>
#include <string.h>
#include "checkpoint/checksum.h"
#include "orrery/graph.h"
#include "orrery/pipeline.h"
#include "orrery/ranks.h"

enum { MODEL, DATA, SCHEDULE, OPTIONS, N };

static const char *const what[N] = {
	[MODEL] = "model or cut: every host needs the same files",
	[DATA] = "data: every host needs the same file",
	[SCHEDULE] =
		"schedule: every host needs the same file, and a plug-in's functions must be pure",
	[OPTIONS] = "options: give all ranks the same",
};

/* 32 bits of a checksum: sums of those over ranks are exact. */
static double digest(const void *bytes, size_t n)
{
	char text[ORR_CHECKSUM];

	orr_checksum(text, bytes, n);
	text[8] = '\0';
	return (double)strtoul(text, NULL, 16);
}

static double digest_schedule(const struct orr_jobs *jobs)
{
	size_t n = (size_t)jobs->n_jobs;
	int sizes[] = {jobs->pipeline->n_workers,
		       jobs->pipeline->n_microbatches,
		       jobs->n_passes,
		       (int)jobs->order,
		       (int)jobs->pipeline->sync,
		       jobs->pipeline->accumulate,
		       jobs->pipeline->numerics.shard_optimizer};

	return digest(sizes, sizeof(sizes)) + digest(jobs->compute, n * sizeof(*jobs->compute)) +
	       digest(jobs->weights, n * sizeof(*jobs->weights)) +
	       digest(jobs->by_worker, n * sizeof(*jobs->by_worker)) +
	       digest(jobs->recompute, (size_t)jobs->pipeline->n_stages * sizeof(*jobs->recompute));
}

static double digest_options(const struct orr_run_options *o)
{
	double numbers[] = {o->batch,
			    (double)o->optimizer,
			    o->learning_rate,
			    o->momentum,
			    o->beta1,
			    o->beta2,
			    o->epsilon,
			    o->weight_decay,
			    (double)o->precision,
			    (double)o->warmup,
			    (double)o->decay_steps,
			    (double)o->decay,
			    o->final_rate,
			    o->clip,
			    o->spare,
			    o->prefetch,
			    (double)o->seed,
			    (double)o->on_nan};
	const char *workers = o->ranks_workers ? o->ranks_workers : "";

	return digest(numbers, sizeof(numbers)) + digest(workers, strlen(workers));
}

int orr_run_check_alike(const struct orr_jobs *jobs, const struct orr_dataset *data,
			const struct orr_run_options *options, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	double mine[N], sums[N];
	char graph[24] = "";
	int code;

	orr_graph_fingerprint(p->graph, graph);
	mine[MODEL] = digest(graph, sizeof(graph)) +
		      digest(p->stage_of, (size_t)p->graph->n_operators * sizeof(*p->stage_of));
	mine[DATA] = digest(&data->checksum, sizeof(data->checksum));
	mine[SCHEDULE] = digest_schedule(jobs);
	mine[OPTIONS] = digest_options(options);
	memcpy(sums, mine, sizeof(sums));
	if ((code = orr_ranks_sum(sums, N, err)))
		return code;
	for (int k = 0; k < N && !code; k++)
		if (sums[k] != orr_ranks_count() * mine[k])
			code = orr_fail(err, ORR_E_INPUT, "the ranks do not have the same %s",
					what[k]);
	return orr_ranks_agree(code, err);
}
