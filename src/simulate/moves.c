#include "moves.h"

bool orr_moves_activations(const struct orr_jobs *jobs, int j, int k)
{
	return orr_jobs_at(jobs, j).s != orr_jobs_at(jobs, k).s &&
	       orr_jobs_at(jobs, j).d == ORR_PASS_F && !orr_jobs_is_cap(jobs, j, k);
}

bool orr_moves_gradients(const struct orr_jobs *jobs, int j, int k)
{
	struct orr_job from = orr_jobs_at(jobs, j), to = orr_jobs_at(jobs, k);

	return from.s != to.s && from.d != ORR_PASS_F && jobs->pipeline->stages[from.s].gather &&
	       !orr_jobs_is_cap(jobs, j, k);
}

/* Of the jobs whose gradients make one sum on j's worker the one that stands for all, the first. */
static int first_of_sum(const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	int b = 0;

	while (jobs->compute[orr_jobs_index(jobs, job.s, b, job.d)] != jobs->compute[j])
		b++;
	return orr_jobs_index(jobs, job.s, b, job.d);
}

bool orr_moves(struct orr_transfer *out, const struct orr_jobs *jobs, int j, int k, int i)
{
	int producer = orr_moves_gradients(jobs, j, k) ? first_of_sum(jobs, j) : j,
	    sender = orr_jobs_sender(jobs, producer, k, i);
	struct orr_job from = orr_jobs_at(jobs, j), to = orr_jobs_at(jobs, k);

	if (sender < 0)
		return false;
	*out = (struct orr_transfer){.kind = from.s == to.s         ? ORR_TRANSFER_STASH
					     : from.d == ORR_PASS_F ? ORR_TRANSFER_ACTIVATION
								    : ORR_TRANSFER_GRADIENT,
				     .producer = j,
				     .consumer = k,
				     .from = sender,
				     .to = orr_jobs_worker(jobs, k, i),
				     .bytes = from.s == to.s ? orr_jobs_moved_bytes(jobs, j)
							     : orr_jobs_sent_bytes(jobs, j, k, i)};
	return true;
}

int orr_moves_number(const struct orr_jobs *jobs, int j, int k, int i)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int w = orr_jobs_worker(jobs, k, i), s = orr_jobs_at(jobs, j).s, n = 0;
	struct orr_transfer transfer;

	if (!orr_moves_activations(jobs, j, k))
		return orr_moves(&transfer, jobs, j, k, i);
	if (orr_jobs_number_at(jobs, j, w) >= 0)
		return 0;
	for (int e = 0; e < p->stages[s].n_out; e++) {
		int to = orr_jobs_receiver(jobs, j, orr_stage_after(p, s, e), w);

		n += to >= 0 && orr_jobs_awaits(jobs, j, k, to, w);
	}
	return n;
}

int orr_moves_count(const struct orr_jobs *jobs, int j, int k)
{
	int n = 0;

	if (orr_moves_gradients(jobs, j, k) && first_of_sum(jobs, j) != j)
		return 0;
	for (int i = 0; i < orr_jobs_n_at(jobs, k); i++)
		n += orr_moves_number(jobs, j, k, i);
	return n ? n : 1;
}

struct orr_transfer orr_moves_parked(const struct orr_jobs *jobs, int j, bool back)
{
	int park = orr_jobs_parked(jobs, j), place = park == ORR_HOST ? park : park - 1,
	    reader = orr_jobs_next_pass(jobs, j), ahead = orr_jobs_park_ahead(jobs);

	return (struct orr_transfer){
		.kind = ORR_TRANSFER_PARK,
		.producer = back ? orr_jobs_beside(jobs, reader, 0, -ahead) : j,
		.consumer = back ? reader : orr_jobs_beside(jobs, j, 0, ahead + 1),
		.from = back ? place : jobs->compute[j],
		.to = back ? jobs->compute[j] : place,
		.bytes = orr_jobs_stash_bytes(jobs, j)};
}

struct orr_transfer orr_moves_parameters(const struct orr_jobs *jobs, int j)
{
	const struct orr_stage *stage = &jobs->pipeline->stages[orr_jobs_at(jobs, j).s];

	return (struct orr_transfer){.kind = ORR_TRANSFER_PARAMETER,
				     .producer = -1,
				     .consumer = j,
				     .from = jobs->weights[j],
				     .to = jobs->compute[j],
				     .bytes = stage->parameter_bytes};
}

struct orr_transfer orr_moves_weight_gradient(const struct orr_jobs *jobs, int j)
{
	const struct orr_stage *stage = &jobs->pipeline->stages[orr_jobs_at(jobs, j).s];

	return (struct orr_transfer){.kind = ORR_TRANSFER_WEIGHT_GRADIENT,
				     .producer = j,
				     .consumer = -1,
				     .from = jobs->compute[j],
				     .to = jobs->weights[j],
				     .bytes = orr_stage_trained_bytes(stage)};
}

struct orr_transfer orr_moves_ring(const struct orr_jobs *jobs, int set, int j)
{
	const struct orr_pipeline *p = jobs->pipeline;
	const struct orr_tied *tied = set < p->n_stages ? NULL : &p->tied[set - p->n_stages];
	int s = tied ? tied->stages[tied->n_stages - 1] : set;
	int every = orr_jobs_each_update(jobs, s);
	int last = orr_jobs_at(jobs, j).b / every * every + every - 1;
	const int *owners = orr_jobs_ring(jobs, set);

	return (struct orr_transfer){
		.kind = ORR_TRANSFER_ALL_REDUCE,
		.producer = orr_jobs_index(jobs, s, last, orr_jobs_last_pass(jobs, s)),
		.consumer = -1,
		.ring = !tied && orr_jobs_shards(jobs, s) ? ORR_RING_REDUCE_SCATTER
							  : ORR_RING_ALL_REDUCE,
		.set = set,
		.from = owners[0],
		.to = owners[1],
		.bytes = orr_set_trained_bytes(p, set)};
}

struct orr_transfer orr_moves_gather(const struct orr_jobs *jobs, int s, int version)
{
	int every = orr_jobs_each_update(jobs, s);
	struct orr_transfer transfer = orr_moves_ring(
		jobs, s,
		orr_jobs_index(jobs, s, (version - 1) * every, orr_jobs_last_pass(jobs, s)));

	transfer.ring = ORR_RING_ALL_GATHER;
	return transfer;
}
