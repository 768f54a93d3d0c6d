#include "simulation.h"

#include <stdlib.h>

#include "moves.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"
#include "schedule/versions.h"

static int n_owners(const struct orr_jobs *jobs, int s)
{
	return jobs->first_owner[s + 1] - jobs->first_owner[s];
}

/* The update, by the first owner, that job j's gradient goes into. */
static int update_of(const struct orr_simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;
	struct orr_job job = orr_jobs_at(jobs, j);

	return sim->updates.first[job.s] +
	       (jobs->versions ? job.b / jobs->versions->every[job.s] * n_owners(jobs, job.s) : 0);
}

/* The same by the owner that it goes to. */
static int update_at_owner(const struct orr_simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;

	return update_of(sim, j) +
	       orr_jobs_owner_number(jobs, orr_jobs_at(jobs, j).s, jobs->weights[j]);
}

int orr_updates_read(const struct orr_simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;
	struct orr_job job = orr_jobs_at(jobs, j);
	int64_t version =
		jobs->versions ? orr_versions_read(jobs->versions, job.s, job.b, job.d) : 0;

	if (!version || !orr_jobs_has(jobs, j))
		return -1;
	return sim->updates.first[job.s] + (int)(version - 1) * n_owners(jobs, job.s) +
	       orr_jobs_owner_number(jobs, job.s, jobs->compute[j]);
}

/* ---- the end of an update ---- */

/* The passes that read the new version of n owners from update u on may start. */
static void end_updates(struct orr_simulation *sim, int u, int n)
{
	const struct orr_update *update = &sim->timeline->updates[u];
	const struct orr_versions *v = sim->jobs->versions;
	int s = update->s, every = v ? v->every[s] : 0,
	    end = v ? (update->version + v->most[s] + 1) * every : 0;

	for (int b = update->version * every; b < end && b < v->n_microbatches; b++)
		for (int d = 0; d < sim->jobs->n_passes; d++) {
			int j = orr_jobs_index(sim->jobs, s, b, (enum orr_pass)d),
			    reads = orr_updates_read(sim, j);

			if (reads >= u && reads < u + n)
				orr_simulation_deliver(sim, j);
		}
}

void orr_updates_end(struct orr_simulation *sim, int u)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct orr_update *update = &sim->timeline->updates[u];
	int n = n_owners(jobs, update->s),
	    first = sim->updates.first[update->s] + (update->version - 1) * n;

	if (!orr_jobs_shards(jobs, update->s))
		end_updates(sim, u, 1);
	else if (--sim->updates.of[first].running)
		; /* other owners have not made their parts of the version */
	else if (!sim->network.is_free && orr_set_trained_bytes(jobs->pipeline, update->s))
		orr_simulation_request(sim, orr_moves_gather(jobs, update->s, update->version));
	else
		end_updates(sim, first, n);
}

/* ---- gradients and their sums ---- */

/* The owners of a set have its sum, of which j made a part: those of its stages whose gradients are
 * all there update. */
static void end_sum(struct orr_simulation *sim, int set, int j)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	const struct orr_tied *tied = set < p->n_stages ? NULL : &p->tied[set - p->n_stages];

	for (int i = 0; i < (tied ? tied->n_stages : 1); i++) {
		int s = tied ? tied->stages[i] : set,
		    first = tied ? sim->updates.first[s] : update_of(sim, j);

		if (--sim->updates.sums[s])
			continue;
		sim->updates.sums[s] = 1;
		for (int u = first; u < first + n_owners(sim->jobs, s); u++)
			orr_simulation_push(sim, sim->now, ORR_EVENT_UPDATE, u);
	}
}

/* Ask for the sums of the first n buckets of the gradient of stage s. */
static void sum_buckets(struct orr_simulation *sim, int s, int j, int n)
{
	int *asked = &sim->updates.of[update_of(sim, j)].asked;
	int all = sim->jobs->pipeline->buckets;

	for (; *asked < n; ++*asked) {
		struct orr_transfer ring = orr_moves_ring(sim->jobs, s, j);

		ring.bytes = ring.bytes / all + (*asked < ring.bytes % all);
		orr_simulation_request(sim, ring);
	}
}

/* Does a ring over its owners sum the gradient of a set? */
static bool has_ring(const struct orr_simulation *sim, int set)
{
	return orr_jobs_ring_size(sim->jobs, set) > 1 && !sim->network.is_free &&
	       orr_set_trained_bytes(sim->jobs->pipeline, set);
}

/* One more stage has all gradients of a set for the update of job j. */
static void sum(struct orr_simulation *sim, int set, int j)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;

	if (--sim->updates.incomplete[set])
		return;
	sim->updates.incomplete[set] = 1; /* of a stage's own, for its next version */
	if (!has_ring(sim, set))
		end_sum(sim, set, j);
	else if (set < p->n_stages)
		sum_buckets(sim, set, j, p->buckets);
	else
		orr_simulation_request(sim, orr_moves_ring(sim->jobs, set, j));
}

/* The gradient of job j is with its owner; after the last one they are added up. */
static void deliver_gradient(struct orr_simulation *sim, int j)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	int s = orr_jobs_at(sim->jobs, j).s;

	if (p->buckets > 1)
		sim->updates.of[update_at_owner(sim, j)].unmade--;
	if (--sim->updates.of[update_of(sim, j)].gradients > 0)
		return;
	sum(sim, s, j);
	for (int set = orr_set_after(p, s, s); set >= 0; set = orr_set_after(p, s, set))
		if (!p->tied[set - p->n_stages].frozen)
			sum(sim, set, j);
}

/* One thing less for the gradient of job j to wait for before it goes to its owner. */
static void send_gradient(struct orr_simulation *sim, int j)
{
	if (!sim->foreign.unsent || !--sim->foreign.unsent[j])
		orr_simulation_request(sim, orr_moves_weight_gradient(sim->jobs, j));
}

/* The gradient of job j is with its owner, which adds it and those that have waited for it. */
static void add_gradient(struct orr_simulation *sim, int j)
{
	struct orr_foreign *x = &sim->foreign;

	deliver_gradient(sim, j);
	for (; x->unsent && j >= 0 && !--x->unadded[j]; j = x->added_next[j])
		if (x->after[ORR_PLACE_COMING][j] >= 0)
			send_gradient(sim, x->after[ORR_PLACE_COMING][j]);
}

void orr_updates_gradient(struct orr_simulation *sim, int j)
{
	if (sim->network.is_free || sim->jobs->weights[j] == sim->jobs->compute[j])
		add_gradient(sim, j);
	else
		send_gradient(sim, j);
}

void orr_updates_arrive(struct orr_simulation *sim, const struct orr_transfer *transfer)
{
	int j = transfer->producer, set = transfer->set;

	if (transfer->kind != ORR_TRANSFER_ALL_REDUCE)
		add_gradient(sim, j);
	else if (transfer->ring == ORR_RING_ALL_GATHER)
		end_updates(sim, update_of(sim, j), n_owners(sim->jobs, set));
	else if (set >= sim->jobs->pipeline->n_stages ||
		 !--sim->updates.of[update_of(sim, j)].unsummed)
		end_sum(sim, set, j);
}

int orr_updates_first_bucket(const struct orr_simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;
	int n = jobs->pipeline->buckets;

	return n > 1 && sim->with_updates && orr_jobs_makes_gradient(jobs, j) &&
			       jobs->weights[j] == jobs->compute[j] &&
			       has_ring(sim, orr_jobs_at(jobs, j).s) &&
			       sim->updates.of[update_at_owner(sim, j)].unmade == 1
		       ? 1
		       : n;
}

void orr_updates_bucket(struct orr_simulation *sim, int j, int bucket)
{
	int n = sim->jobs->pipeline->buckets;

	if (!--sim->updates.uncomputed[update_of(sim, j) * n + bucket - 1])
		sum_buckets(sim, orr_jobs_at(sim->jobs, j).s, j, bucket);
}

/* ---- all of them ---- */

/* Every set that is trained is summed up, when all of its stages have their gradients. */
static void count_sums(struct orr_updates *x, const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++)
		x->sums[s] = x->incomplete[s] = 1;
	for (int t = 0; t < p->n_tied; t++)
		for (int i = 0; i < p->tied[t].n_stages && !p->tied[t].frozen; i++) {
			x->incomplete[p->n_stages + t]++;
			x->sums[p->tied[t].stages[i]]++;
		}
}

static void lay_out(struct orr_updates *x, struct orr_timeline *t)
{
	const struct orr_jobs *jobs = t->jobs;
	int buckets = jobs->pipeline->buckets;

	for (int s = 0, u = 0; s < jobs->pipeline->n_stages; s++)
		for (int i = 0; i < orr_jobs_n_updates(jobs, s); i++) {
			x->of[u].gradients = orr_jobs_each_update(jobs, s);
			x->of[u].running = n_owners(jobs, s);
			x->of[u].unsummed = buckets;
			for (int k = 0; k < buckets; k++)
				x->uncomputed[u * buckets + k] = x->of[u].running;
			for (int k = jobs->first_owner[s]; k < jobs->first_owner[s + 1]; k++)
				t->updates[u++] =
					(struct orr_update){s, jobs->owners[k], i + 1, -1, -1};
		}
}

static int allocate(struct orr_simulation *sim, int n)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	struct orr_updates *x = &sim->updates;
	struct orr_arrays *all = &sim->all;

	if ((int64_t)n * p->buckets > INT32_MAX / (int)sizeof(*x->uncomputed))
		return orr_fail(sim->failure.err, ORR_E_INPUT,
				"simulate: [buckets]=%d for each of %d updates are too many: take "
				"fewer",
				p->buckets, n);
	sim->timeline->updates = calloc((size_t)n, sizeof(*sim->timeline->updates));
	orr_arrays_make(all, x->of, n);
	orr_arrays_make(all, x->uncomputed, n * p->buckets);
	orr_arrays_make(all, x->incomplete, orr_pipeline_n_sets(p));
	orr_arrays_make(all, x->sums, p->n_stages);
	return sim->timeline->updates && !all->failed ? 0
						      : orr_no_memory(sim->failure.err, "simulate");
}

int orr_updates_init(struct orr_simulation *sim)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int *first = orr_arrays_make(&sim->all, sim->updates.first, p->n_stages + 1), code;

	if (!first)
		return orr_no_memory(sim->failure.err, "simulate");
	for (int s = 0; s < p->n_stages; s++)
		first[s + 1] = first[s] + orr_jobs_n_updates(jobs, s) * n_owners(jobs, s);
	if ((code = allocate(sim, first[p->n_stages])))
		return code;
	sim->timeline->n_updates = first[p->n_stages];
	count_sums(&sim->updates, p);
	lay_out(&sim->updates, sim->timeline);
	for (int j = 0; p->buckets > 1 && j < jobs->n_jobs; j++)
		if (orr_jobs_has(jobs, j) && orr_jobs_makes_gradient(jobs, j))
			sim->updates.of[update_at_owner(sim, j)].unmade++;
	return 0;
}
