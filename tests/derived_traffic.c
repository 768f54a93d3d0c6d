#include "derived_traffic.h"

#include <stdlib.h>
#include <string.h>
#include "orrery/graph.h"

static void note(struct orr_traffic *traffic, enum orr_transfer_kind kind, int from, int to,
		 int64_t bytes)
{
	if (from == to)
		return;
	traffic[from].sent[kind]++;
	traffic[from].sent_bytes[kind] += bytes;
	traffic[to].received[kind]++;
	traffic[to].received_bytes[kind] += bytes;
}

/* F k reads what F j makes: its own, and outputs of which it is the first reader on its rank. */
static void derive_forward(struct orr_traffic *traffic, const struct orr_jobs *jobs,
			   const int *rank_of, int j, int k)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job from = orr_jobs_at(jobs, j), to = orr_jobs_at(jobs, k);
	int there = rank_of[jobs->compute[j]], here = rank_of[jobs->compute[k]], n = 0;
	int64_t own = orr_jobs_edge_bytes(jobs, j, k);

	for (int o = 0; o < p->n_outputs; o++) {
		const struct orr_fanout *x = &p->outputs[o];
		int64_t bytes = orr_pipeline_output_bytes(p, p->n_edges + o, from.b);
		bool first = true;

		if (x->from != from.s || !orr_pipeline_reads(p, to.s, p->n_edges + o))
			continue;
		n++;
		own -= bytes;
		for (int i = 0; i < x->n_readers && x->readers[i] < to.s; i++)
			first &= rank_of[jobs->compute[orr_jobs_index(jobs, x->readers[i], from.b,
								      ORR_PASS_F)]] != here;
		if (first)
			note(traffic, ORR_TRANSFER_ACTIVATION, there, here, bytes);
	}
	if (own || !n)
		note(traffic, ORR_TRANSFER_ACTIVATION, there, here, own);
}

/* Of the parameters of stage s, or of those that are trained: as simulated, or as they lie in a
 * run, each operator's from a multiple of 64 floats on, those that are trained first. */
static int64_t parameter_bytes(const struct orr_pipeline *p, int s, bool all, bool padded)
{
	const struct orr_stage *stage = &p->stages[s];
	int64_t floats = 0;

	for (int frozen = 0; frozen <= all && padded; frozen++)
		for (int k = 0; k < p->graph->n_operators; k++) {
			const struct orr_operator *o = &p->graph->operators[k];

			if (p->stage_of[k] == s && o->n_parameters && o->frozen == frozen)
				floats = (floats + 63) / 64 * 64 + o->n_parameters;
		}
	if (padded)
		return floats * (int64_t)sizeof(float);
	return all ? stage->parameter_bytes : orr_stage_trained_bytes(stage);
}

static void derive_job(struct orr_traffic *traffic, const struct orr_jobs *jobs, const int *rank_of,
		       int j, const int *before, int n, bool padded)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	int here = rank_of[jobs->compute[j]], owner = rank_of[jobs->weights[j]];
	int64_t parameters = parameter_bytes(p, job.s, true, padded);

	for (int i = 0; i < n; i++) {
		struct orr_job from = orr_jobs_at(jobs, before[i]);
		int there = rank_of[jobs->compute[before[i]]];

		if (from.b != job.b)
			continue; /* a cap: no data */
		if (from.s == job.s && !orr_jobs_moved_bytes(jobs, before[i]))
			continue; /* W of a stage that has nothing to train */
		if (from.s == job.s)
			note(traffic, ORR_TRANSFER_STASH, there, here,
			     orr_jobs_moved_bytes(jobs, before[i]));
		else if (job.d == ORR_PASS_F)
			derive_forward(traffic, jobs, rank_of, before[i], j);
		else
			note(traffic, ORR_TRANSFER_GRADIENT, there, here,
			     orr_jobs_edge_bytes(jobs, before[i], j));
	}
	if (!parameters)
		return;
	note(traffic, ORR_TRANSFER_PARAMETER, owner, here, parameters);
	if (orr_jobs_makes_gradient(jobs, j))
		note(traffic, ORR_TRANSFER_WEIGHT_GRADIENT, here, owner,
		     parameter_bytes(p, job.s, false, padded));
}

static void derive_ring(struct orr_traffic *traffic, const struct orr_jobs *jobs,
			const int *rank_of, int s, bool padded)
{
	const int *owners = jobs->owners + jobs->first_owner[s];
	int r = jobs->first_owner[s + 1] - jobs->first_owner[s];
	int64_t floats = parameter_bytes(jobs->pipeline, s, false, padded) / (int64_t)sizeof(float);

	/* Chunk c passes every link of the ring twice but for those where its sum and its way round
	 * end: so much goes from owner i to the next. */
	for (int c = 0; c < r; c++) {
		int64_t bytes = (floats / r + (c < floats % r)) * (int64_t)sizeof(float);

		for (int k = 1; k < r && bytes; k++) {
			int i = (c + k) % r, next = (i + 1) % r;

			note(traffic, ORR_TRANSFER_ALL_REDUCE, rank_of[owners[i]],
			     rank_of[owners[next]], bytes);
			i = (c + k - 1) % r, next = (i + 1) % r;
			note(traffic, ORR_TRANSFER_ALL_REDUCE, rank_of[owners[i]],
			     rank_of[owners[next]], bytes);
		}
	}
}

void derive_traffic(struct orr_traffic *traffic, const struct orr_jobs *jobs, const int *rank_of,
		    int n_ranks, bool padded)
{
	int *before = calloc(orr_jobs_most_around(jobs), sizeof(*before));

	if (!before)
		abort();
	memset(traffic, 0, (size_t)n_ranks * sizeof(*traffic));
	for (int j = 0; j < jobs->n_jobs; j++)
		if (orr_jobs_has(jobs, j))
			derive_job(traffic, jobs, rank_of, j, before,
				   orr_jobs_predecessors(jobs, j, before), padded);
	for (int s = 0; s < jobs->pipeline->n_stages; s++)
		for (int i = 0; i < orr_jobs_n_updates(jobs, s); i++)
			derive_ring(traffic, jobs, rank_of, s, padded);
	free(before);
}
