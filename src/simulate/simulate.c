#include "simulate.h"

#include "base/arrays.h"
#include "base/heap.h"
#include "base/max.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "foreign.h"
#include "moves.h"
#include "network.h"
#include "orrery/timeline.h"
#include "updates.h"

enum event {
	EVENT_END,     /* what runs on worker `id` ends, or has computed a bucket, if it is due */
	EVENT_FREE,    /* transfer `id` has left its links, if nothing has come between */
	EVENT_ARRIVAL, /* transfer `id` arrives */
	EVENT_UPDATE   /* update `id` has all gradients */
};
#define N_EVENTS 4
#define FULL 1000 /* pace of a worker that nothing slows */

struct worker {
	int running; /* a job, n_jobs + an update, or -1; a job on several workers on all of them */
	/* of what runs, on the first of its workers: thousandths of ns that are left, as of
	 * since_ns, and how many of them it does in a ns */
	orr_wide left;
	int64_t since_ns, due_ns;
	int pace;
	int bucket; /* of the gradient, that it computes next; the last, when it ends */
	int next;   /* STRICT: place in by_worker */
	bool touched;
	struct orr_heap ready; /* GREEDY: jobs */
	struct orr_heap updates;
};

struct simulation {
	const struct orr_jobs *jobs;
	struct orr_timeline *timeline;
	struct orr_error *err;
	struct orr_network network;
	bool with_updates;
	bool keeps_updates; /* they take time: the timeline has them */
	int64_t now;
	struct orr_heap events;
	int *waits; /* [n_jobs] things that a job still waits for */
	struct orr_foreign foreign;
	struct orr_updates updates;
	struct worker *workers;
	int *touched_workers, n_touched_workers;
	/* [n_stages * n_workers] where stages gather: Bs of it that have yet to add to the
	 * worker's sum of gradients */
	int *unsummed;
	int *around; /* room for predecessors and successors */
	struct orr_arrays all;
};

static int push_event(struct simulation *sim, int64_t time, enum event event, int64_t id)
{
	return orr_heap_push(&sim->events, time, 0, id * N_EVENTS + event, sim->err);
}

static void touch(struct simulation *sim, int w)
{
	if (!sim->workers[w].touched) {
		sim->workers[w].touched = true;
		sim->touched_workers[sim->n_touched_workers++] = w;
	}
}

/* ---- transfers ---- */

/* Ask for a transfer; of those asked for at one instant the consumer of lowest n comes first, and
 * what has no consumer last. */
static int request(struct simulation *sim, struct orr_transfer transfer)
{
	int j = transfer.consumer < 0 ? transfer.producer : transfer.consumer;
	int64_t n = transfer.consumer < 0 ? INT64_MAX : sim->jobs->priority[j];

	return orr_network_request(&sim->network, &transfer, sim->now, n, j, sim->err);
}

/* What the network says of a transfer or a ring that is under way. */
static int leaves(void *user, int index, int64_t free_ns)
{
	return push_event(user, free_ns, EVENT_FREE, index);
}

/* ---- jobs ---- */

static void touch_all(struct simulation *sim, int j)
{
	for (int i = 0; i < orr_jobs_n_at(sim->jobs, j); i++)
		touch(sim, orr_jobs_worker(sim->jobs, j, i));
}

/* GREEDY: j may start as soon as its workers are free. */
static int make_ready(struct simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;
	int code = 0;

	for (int i = 0; i < orr_jobs_n_at(jobs, j) && !code; i++)
		code = orr_heap_push(&sim->workers[orr_jobs_worker(jobs, j, i)].ready,
				     jobs->priority[j], 0, j, sim->err);
	return code;
}

/* One thing less for job j to wait for. */
static int deliver(struct simulation *sim, int j)
{
	bool greedy = sim->jobs->order == ORR_ORDER_GREEDY;

	if (--sim->waits[j])
		return 0;
	touch_all(sim, j);
	return greedy ? make_ready(sim, j) : 0;
}

/* All gradients have arrived for update `first` and those of the stage's other owners. */
static int release_updates(struct simulation *sim, int s, int first)
{
	const struct orr_jobs *jobs = sim->jobs;
	int r = jobs->first_owner[s + 1] - jobs->first_owner[s], code = 0;

	for (int u = first; !code && u < first + r; u++)
		code = push_event(sim, sim->now, EVENT_UPDATE, u);
	return code;
}

/* The owners of a set have its sum, of which j made a part. */
static int end_sum(struct simulation *sim, int set, int j)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	const struct orr_tied *tied = set < p->n_stages ? NULL : &p->tied[set - p->n_stages];
	int code = 0;

	for (int i = 0; i < (tied ? tied->n_stages : 1) && !code; i++) {
		int s = tied ? tied->stages[i] : set;

		if (orr_updates_sum(&sim->updates, s))
			code = release_updates(sim, s,
					       tied ? sim->updates.first[s]
						    : orr_updates_of(&sim->updates, j));
	}
	return code;
}

/* Ask for the sums of the first n buckets of the gradient of stage s. */
static int sum_buckets(struct simulation *sim, int s, int j, int n)
{
	int *asked = &sim->updates.asked[orr_updates_of(&sim->updates, j)], code = 0;
	int all = sim->jobs->pipeline->buckets;

	for (; *asked < n && !code; ++*asked) {
		struct orr_transfer ring = orr_moves_ring(sim->jobs, s, j);

		ring.bytes = ring.bytes / all + (*asked < ring.bytes % all);
		code = request(sim, ring);
	}
	return code;
}

/* One more stage has all gradients of a set for the update of job j. */
static int sum(struct simulation *sim, int set, int j)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;

	if (!orr_updates_complete(&sim->updates, set))
		return 0;
	if (orr_jobs_ring_size(sim->jobs, set) > 1 && !sim->network.is_free &&
	    orr_set_trained_bytes(p, set))
		return set < p->n_stages ? sum_buckets(sim, set, j, p->buckets)
					 : request(sim, orr_moves_ring(sim->jobs, set, j));
	return end_sum(sim, set, j);
}

/* The gradient of job j is with its owner; after the last one they are added up. */
static int deliver_gradient(struct simulation *sim, int j)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	int s = orr_jobs_at(sim->jobs, j).s, code;

	if (p->buckets > 1)
		sim->updates.unmade[orr_updates_at_owner(&sim->updates, j)]--;
	if (--sim->updates.gradients[orr_updates_of(&sim->updates, j)] > 0)
		return 0;
	code = sum(sim, s, j);
	for (int set = orr_set_after(p, s, s); set >= 0 && !code; set = orr_set_after(p, s, set))
		if (!p->tied[set - p->n_stages].frozen)
			code = sum(sim, set, j);
	return code;
}

/* What j has made sets out to k, or is there. */
static int pass_on(struct simulation *sim, int j, int k)
{
	const struct orr_jobs *jobs = sim->jobs;
	struct orr_transfer transfer;
	bool any = false;
	int code = 0;

	for (int i = 0; !sim->network.is_free && i < orr_jobs_n_at(jobs, k) && !code; i++) {
		any = any || orr_moves_number(jobs, j, k, i);
		if (orr_moves(&transfer, jobs, j, k, i))
			code = request(sim, transfer);
	}
	return code || any ? code : deliver(sim, k);
}

/* Do the gradients that j has made wait for others that its worker adds to them? */
static bool holds_back(struct simulation *sim, int j)
{
	struct orr_job job = orr_jobs_at(sim->jobs, j);
	const struct orr_pipeline *p = sim->jobs->pipeline;

	return p->stages[job.s].gather && job.d == ORR_PASS_B && !sim->network.is_free &&
	       --sim->unsummed[job.s * p->n_workers + sim->jobs->compute[j]];
}

/* One thing less for the gradient of job j to wait for before it goes to its owner. */
static int send_gradient(struct simulation *sim, int j)
{
	return sim->foreign.unsent && --sim->foreign.unsent[j]
		       ? 0
		       : request(sim, orr_moves_weight_gradient(sim->jobs, j));
}

/* The gradient of job j is with its owner, which adds it and those that have waited for it. */
static int add_gradient(struct simulation *sim, int j)
{
	struct orr_foreign *x = &sim->foreign;
	int code = deliver_gradient(sim, j);

	for (; x->unsent && j >= 0 && !code && !--x->unadded[j]; j = x->added_next[j])
		if (x->after[ORR_PLACE_COMING][j] >= 0)
			code = send_gradient(sim, x->after[ORR_PLACE_COMING][j]);
	return code;
}

static int end_job(struct simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;
	bool held_back = holds_back(sim, j);
	int n = orr_jobs_successors(jobs, j, sim->around), code = 0;
	int fetches = orr_foreign_after(&sim->foreign, ORR_PLACE_PARAMETERS, j);

	if (fetches >= 0)
		code = request(sim, orr_moves_parameters(jobs, fetches));
	if (!code && orr_jobs_parked(jobs, j))
		code = request(sim, orr_moves_parked(jobs, j, false));
	for (int i = 0; i < n && !code; i++)
		if (!held_back || !orr_moves_gradients(jobs, j, sim->around[i]))
			code = pass_on(sim, j, sim->around[i]);
	if (code || !sim->with_updates || !orr_jobs_makes_gradient(jobs, j))
		return code;
	return sim->network.is_free || jobs->weights[j] == jobs->compute[j] ? add_gradient(sim, j)
									    : send_gradient(sim, j);
}

/* The passes that read the new version of n owners from update u on may start. */
static int end_updates(struct simulation *sim, int u, int n)
{
	int code = 0;

	for (int i = sim->updates.first_reader[u]; !code && i < sim->updates.first_reader[u + n];
	     i++)
		code = deliver(sim, sim->updates.readers[i]);
	return code;
}

/* All owners of a stage have the new version, of which each has made a part. */
static int end_gather(struct simulation *sim, int s, int version)
{
	int r = sim->jobs->first_owner[s + 1] - sim->jobs->first_owner[s];

	return end_updates(sim, sim->updates.first[s] + (version - 1) * r, r);
}

static int end_update(struct simulation *sim, int u)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct orr_update *update = &sim->timeline->updates[u];

	if (!orr_jobs_shards(jobs, update->s))
		return end_updates(sim, u, 1);
	if (!orr_updates_end(&sim->updates, u))
		return 0;
	if (!sim->network.is_free && orr_set_trained_bytes(jobs->pipeline, update->s))
		return request(sim, orr_moves_gather(jobs, update->s, update->version));
	return end_gather(sim, update->s, update->version);
}

/* ---- what runs ---- */

/* How much of it is left when a bucket has been computed, evenly after what it recomputes. */
static orr_wide left_after(const struct simulation *sim, int j, int bucket)
{
	const struct orr_jobs *jobs = sim->jobs;
	int n = jobs->pipeline->buckets;
	struct orr_job job;
	int64_t ns;

	if (bucket == n)
		return 0;
	job = orr_jobs_at(jobs, j);
	ns = jobs->duration_ns[j];
	if (jobs->recompute[job.s] && job.d == orr_jobs_first_backward(jobs, job.s))
		ns = larger(0,
			    ns - jobs->duration_ns[orr_jobs_index(jobs, job.s, job.b, ORR_PASS_F)]);
	return (orr_wide)ns * FULL * (n - bucket) / n;
}

/* While anything is on its streams, a worker computes slower. */
static int pace_of(const struct simulation *sim, int w)
{
	const struct orr_network *net = &sim->network;
	int j = sim->workers[w].running, n;

	if (!net->busy)
		return FULL;
	n = j < sim->jobs->n_jobs ? orr_jobs_n_at(sim->jobs, j) : 1;
	for (int i = 0; i < n; i++)
		if (net->busy[n > 1 ? orr_jobs_worker(sim->jobs, j, i) : w].n)
			return FULL - net->machine->cluster->slowdown;
	return FULL;
}

/* Until its next bucket, or its end, if nothing else happens before. */
static int go_on(struct simulation *sim, int w)
{
	struct worker *x = &sim->workers[w];
	orr_wide until = x->left - left_after(sim, x->running, x->bucket);

	x->pace = pace_of(sim, w);
	x->due_ns = sim->now + (int64_t)((until + x->pace - 1) / x->pace);
	return push_event(sim, x->due_ns, EVENT_END, w);
}

static void advance(struct simulation *sim, struct worker *x)
{
	x->left -= (orr_wide)x->pace * (sim->now - x->since_ns);
	x->since_ns = sim->now;
}

/* It may have several workers; w is the first. */
static int run_on(struct simulation *sim, int w, int running, int64_t ns, int bucket)
{
	struct worker *x = &sim->workers[w];

	x->running = running;
	x->left = (orr_wide)ns * FULL;
	x->since_ns = sim->now;
	x->bucket = bucket;
	return go_on(sim, w);
}

/* Streams of these workers have become busy, or free. */
static int change_paces(struct simulation *sim)
{
	struct orr_network *net = &sim->network;
	int code = 0;

	for (int i = 0; i < net->n_changed; i++) {
		int w = net->changed[i], j = sim->workers[w].running;

		net->busy[w].changed = false;
		if (j < 0)
			continue;
		w = j < sim->jobs->n_jobs ? sim->jobs->compute[j] : w;
		if (pace_of(sim, w) == sim->workers[w].pace)
			continue;
		advance(sim, &sim->workers[w]);
		if (!code)
			code = go_on(sim, w);
	}
	net->n_changed = 0;
	return code;
}

/* The bucket that job j makes first: of a stage that its owners sum, the last of one of them makes
 * them one after the other. */
static int first_bucket(const struct simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;
	int s = orr_jobs_at(jobs, j).s, n = jobs->pipeline->buckets;

	return n > 1 && sim->with_updates && !sim->network.is_free &&
			       orr_jobs_makes_gradient(jobs, j) &&
			       jobs->weights[j] == jobs->compute[j] &&
			       orr_jobs_ring_size(jobs, s) > 1 &&
			       orr_set_trained_bytes(jobs->pipeline, s) &&
			       sim->updates.unmade[orr_updates_at_owner(&sim->updates, j)] == 1
		       ? 1
		       : n;
}

static int end_bucket(struct simulation *sim, int w)
{
	struct worker *x = &sim->workers[w];
	int j = x->running, n = sim->jobs->pipeline->buckets, bucket = x->bucket++, code = 0;
	int *uncomputed =
		&sim->updates.uncomputed[orr_updates_of(&sim->updates, j) * n + bucket - 1];

	if (!--*uncomputed)
		code = sum_buckets(sim, orr_jobs_at(sim->jobs, j).s, j, bucket);
	return code ? code : go_on(sim, w);
}

static int start_update(struct simulation *sim, int w)
{
	struct orr_timeline *t = sim->timeline;
	int u = (int)orr_heap_pop(&sim->workers[w].updates).value;

	t->updates[u].start_ns = sim->now;
	return run_on(sim, w, sim->jobs->n_jobs + u,
		      orr_jobs_update_ns(sim->jobs, t->updates[u].s, w),
		      sim->jobs->pipeline->buckets);
}

/* The job that worker w starts next, if it may now; or -1. */
static int pick(const struct simulation *sim, int w)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct worker *worker = &sim->workers[w];

	if (jobs->order == ORR_ORDER_GREEDY)
		return worker->ready.n ? (int)worker->ready.entries[0].value : -1;
	if (worker->next == jobs->first[w + 1] || sim->waits[jobs->by_worker[worker->next]])
		return -1;
	return jobs->by_worker[worker->next];
}

/* Are all workers of job j free, and is it next on each? The one of least n of those that are
 * ready is, once what runs has ended. */
static bool has_workers(const struct simulation *sim, int j)
{
	for (int i = 0; i < orr_jobs_n_at(sim->jobs, j); i++) {
		int w = orr_jobs_worker(sim->jobs, j, i);
		const struct worker *worker = &sim->workers[w];

		if (worker->running >= 0 || worker->updates.n || pick(sim, w) != j)
			return false;
	}
	return true;
}

/* Worker w is one of those of j, which starts. */
static void take_worker(struct simulation *sim, int w, int j)
{
	struct worker *worker = &sim->workers[w];

	worker->running = j;
	if (sim->jobs->order == ORR_ORDER_GREEDY)
		(void)orr_heap_pop(&worker->ready);
	else
		worker->next++;
}

static int start(struct simulation *sim, int w)
{
	int j, comes, code = 0;

	if (sim->workers[w].running >= 0)
		return 0;
	if (sim->workers[w].updates.n)
		return start_update(sim, w);
	if ((j = pick(sim, w)) < 0 || !has_workers(sim, j))
		return 0;
	sim->timeline->start_ns[j] = sim->now;
	for (int i = 0; i < orr_jobs_n_at(sim->jobs, j); i++)
		take_worker(sim, orr_jobs_worker(sim->jobs, j, i), j);
	if ((comes = orr_jobs_parked_beside(sim->jobs, j, true)) >= 0)
		code = request(sim, orr_moves_parked(sim->jobs, comes, true));
	return code ? code
		    : run_on(sim, sim->jobs->compute[j], j, sim->jobs->duration_ns[j],
			     first_bucket(sim, j));
}

/* ---- the clock ---- */

/* Jobs of stage s, of microbatch b or if it gathers of all, that wait on worker w for the transfer
 * from j to job `to`. */
static int deliver_to(struct simulation *sim, int s, int j, int to, int w)
{
	const struct orr_jobs *jobs = sim->jobs;
	bool gather = jobs->pipeline->stages[s].gather;
	int b = gather ? 0 : orr_jobs_at(jobs, j).b,
	    end = gather ? jobs->pipeline->n_microbatches : b + 1, code = 0;

	for (; b < end && !code; b++) {
		int k = orr_jobs_index(jobs, s, b, ORR_PASS_F);

		if (orr_jobs_number_at(jobs, k, w) >= 0 && orr_jobs_awaits(jobs, j, k, to, w))
			code = deliver(sim, k);
	}
	return code;
}

/* What F makes is for all jobs there that read it. */
static int arrive_at(struct simulation *sim, const struct orr_transfer *transfer)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	int j = transfer->producer, to = transfer->consumer, w = transfer->to, s, code = 0;

	if (j < 0 || !orr_moves_activations(sim->jobs, j, to))
		return deliver(sim, to);
	s = orr_jobs_at(sim->jobs, j).s;
	for (int i = 0; i < p->stages[s].n_out && !code; i++)
		code = deliver_to(sim, orr_stage_after(p, s, i), j, to, w);
	return code;
}

/* A gradient that has left the link has left its place. */
static int leave(struct simulation *sim, int index)
{
	const struct orr_transfer *transfer = &sim->timeline->transfers[index];
	int j = transfer->kind == ORR_TRANSFER_WEIGHT_GRADIENT
			? orr_foreign_after(&sim->foreign, ORR_PLACE_GRADIENT, transfer->producer)
			: -1;
	int code = push_event(sim, transfer->end_ns, EVENT_ARRIVAL, index);

	return code || j < 0 ? code : deliver(sim, j);
}

static int arrive(struct simulation *sim, const struct orr_transfer *transfer)
{
	int j = transfer->producer;

	if (transfer->kind == ORR_TRANSFER_PARK)
		return deliver(sim, transfer->consumer);
	if (transfer->consumer >= 0)
		return arrive_at(sim, transfer);
	if (transfer->ring == ORR_RING_ALL_GATHER)
		return end_gather(sim, transfer->set,
				  sim->timeline->updates[orr_updates_of(&sim->updates, j)].version);
	if (transfer->kind == ORR_TRANSFER_ALL_REDUCE)
		return transfer->set < sim->jobs->pipeline->n_stages &&
				       --sim->updates.unsummed[orr_updates_of(&sim->updates, j)]
			       ? 0
			       : end_sum(sim, transfer->set, j);
	return add_gradient(sim, j);
}

static int end_running(struct simulation *sim, int w)
{
	struct worker *x = &sim->workers[w];
	int j = x->running;

	if (j < 0 || x->due_ns != sim->now)
		return 0; /* its pace has changed since */
	advance(sim, x);
	if (x->bucket < sim->jobs->pipeline->buckets)
		return end_bucket(sim, w);
	x->running = -1;
	x->due_ns = -1;
	touch(sim, w);
	if (j >= sim->jobs->n_jobs) {
		sim->timeline->updates[j - sim->jobs->n_jobs].end_ns = sim->now;
		return end_update(sim, j - sim->jobs->n_jobs);
	}
	sim->timeline->end_ns[j] = sim->now;
	for (int i = 1; i < orr_jobs_n_at(sim->jobs, j); i++)
		sim->workers[orr_jobs_worker(sim->jobs, j, i)].running = -1;
	touch_all(sim, j);
	return end_job(sim, j);
}

static int handle(struct simulation *sim, enum event event, int id)
{
	switch (event) {
	case EVENT_END:
		return end_running(sim, id);
	case EVENT_FREE:
		return orr_network_release(&sim->network, id, sim->now) ? leave(sim, id) : 0;
	case EVENT_ARRIVAL:
		return arrive(sim, &sim->timeline->transfers[id]);
	case EVENT_UPDATE:
		touch(sim, sim->timeline->updates[id].w);
		return orr_heap_push(&sim->workers[sim->timeline->updates[id].w].updates, id, 0, id,
				     sim->err);
	}
	return 0;
}

/* All that becomes possible at one instant starts after all that ends then. */
static int start_touched(struct simulation *sim)
{
	int code;

	for (int i = 0; i < sim->n_touched_workers; i++) {
		sim->workers[sim->touched_workers[i]].touched = false;
		if ((code = start(sim, sim->touched_workers[i])))
			return code;
	}
	sim->n_touched_workers = 0;
	if (!sim->network.links)
		return 0;
	code = orr_network_start(&sim->network, sim->now, leaves, sim, sim->err);
	return code ? code : change_paces(sim);
}

/* For its own stash, and for one that leaves. */
static int parked_waits(const struct orr_jobs *jobs, int j)
{
	int before = orr_jobs_pass_before(jobs, j);

	return (before >= 0 && orr_jobs_parked(jobs, before)) +
	       (orr_jobs_parked_beside(jobs, j, false) >= 0);
}

static int begin(struct simulation *sim)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct orr_foreign *x = &sim->foreign;
	int code = 0;

	for (int j = 0; j < jobs->n_jobs && !code; j++) {
		if (!orr_jobs_has(jobs, j))
			continue;
		sim->waits[j] = orr_foreign_waits(x, j) + parked_waits(jobs, j) +
				(sim->with_updates && orr_updates_read(&sim->updates, j) >= 0);
		for (int i = orr_jobs_predecessors(jobs, j, sim->around) - 1; i >= 0; i--)
			sim->waits[j] +=
				sim->network.is_free ? 1 : orr_moves_count(jobs, sim->around[i], j);
		if (sim->unsummed)
			sim->unsummed[orr_jobs_at(jobs, j).s * jobs->pipeline->n_workers +
				      jobs->compute[j]] += orr_jobs_at(jobs, j).d == ORR_PASS_B;
		if (jobs->order == ORR_ORDER_GREEDY && !sim->waits[j])
			code = make_ready(sim, j);
		if (x->unsent && x->before[ORR_PLACE_PARAMETERS][j] == j)
			code = request(sim, orr_moves_parameters(jobs, j));
	}
	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		sim->workers[w].running = -1;
		sim->workers[w].next = jobs->first[w];
		touch(sim, w);
	}
	return code ? code : start_touched(sim);
}

static int run(struct simulation *sim)
{
	int code = begin(sim);

	while (!code && sim->events.n) {
		sim->now = sim->events.entries[0].key;
		while (!code && sim->events.n && sim->events.entries[0].key == sim->now) {
			int64_t value = orr_heap_pop(&sim->events).value;

			code = handle(sim, (enum event)(value % N_EVENTS), (int)(value / N_EVENTS));
		}
		if (!code)
			code = start_touched(sim);
	}
	return code;
}

/* Do updates take time or, without a flush, delay jobs? */
static bool has_updates(const struct simulation *sim, bool *last)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	bool replicas = sim->jobs->first_owner[p->n_stages] > p->n_stages;

	*last = false;
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].has_weight_gradient &&
		    (p->stages[s].update_ns > 0 ||
		     (!sim->network.is_free && p->stages[s].parameter_bytes > 0)))
			*last = true;
	return *last || (sim->jobs->async && replicas);
}

static int prepare(struct simulation *sim)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	size_t n_workers = (size_t)p->n_workers;
	int code;

	if ((code = orr_network_init(&sim->network, sim->timeline, sim->err)))
		return code;
	sim->with_updates = has_updates(sim, &sim->keeps_updates);
	sim->waits = orr_arrays_add(&sim->all, (size_t)jobs->n_jobs, sizeof(*sim->waits));
	sim->workers = orr_arrays_add(&sim->all, n_workers, sizeof(*sim->workers));
	sim->touched_workers = orr_arrays_add(&sim->all, n_workers, sizeof(*sim->touched_workers));
	sim->around = orr_arrays_add(&sim->all, orr_jobs_most_around(jobs), sizeof(*sim->around));
	if (orr_pipeline_gathers(p))
		sim->unsummed = orr_arrays_add(&sim->all, (size_t)p->n_stages * n_workers,
					       sizeof(*sim->unsummed));
	if (sim->all.failed)
		return orr_fail(sim->err, ORR_E_NOMEM,
				"simulate: no memory for %d jobs on %d workers", jobs->n_jobs,
				p->n_workers);
	if (!sim->network.is_free &&
	    (code = orr_foreign_init(&sim->foreign, &sim->all, jobs, sim->err)))
		return code;
	return sim->with_updates
		       ? orr_updates_init(&sim->updates, &sim->all, sim->timeline, sim->err)
		       : 0;
}

static void finish(struct simulation *sim)
{
	for (int w = 0; sim->workers && w < sim->jobs->pipeline->n_workers; w++) {
		orr_heap_fini(&sim->workers[w].ready);
		orr_heap_fini(&sim->workers[w].updates);
	}
	orr_network_fini(&sim->network);
	orr_heap_fini(&sim->events);
	orr_arrays_free(&sim->all);
}

int orr_simulate(struct orr_timeline **out, const struct orr_jobs *jobs, struct orr_error *err)
{
	struct simulation sim = {.jobs = jobs, .err = err};
	int code;

	if ((code = orr_timeline_create(&sim.timeline, jobs, err)) || (code = prepare(&sim)) ||
	    (code = run(&sim)))
		goto out;
	if (!sim.keeps_updates)
		sim.timeline->n_updates = 0;
	*out = sim.timeline;
	sim.timeline = NULL;
out:
	finish(&sim);
	orr_timeline_destroy(sim.timeline);
	return code;
}
