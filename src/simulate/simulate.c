#include "simulate.h"

#include "base/max.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "moves.h"
#include "orrery/timeline.h"
#include "simulation.h"

#define FULL 1000 /* pace of a worker that nothing slows */

static void leaves(void *user, int index, int64_t free_ns)
{
	orr_simulation_push(user, free_ns, ORR_EVENT_FREE, index);
}

/* ---- jobs ---- */

/* What j has made sets out to k, or is there. */
static void pass_on(struct orr_simulation *sim, int j, int k)
{
	const struct orr_jobs *jobs = sim->jobs;
	struct orr_transfer transfer;
	bool any = false;

	for (int i = 0; !sim->network.is_free && i < orr_jobs_n_at(jobs, k); i++) {
		any = any || orr_moves_number(jobs, j, k, i);
		if (orr_moves(&transfer, jobs, j, k, i))
			orr_simulation_request(sim, transfer);
	}
	if (!any)
		orr_simulation_deliver(sim, k);
}

/* Do the gradients that j has made wait for others that its worker adds to them? */
static bool holds_back(struct orr_simulation *sim, int j)
{
	struct orr_job job = orr_jobs_at(sim->jobs, j);
	const struct orr_pipeline *p = sim->jobs->pipeline;

	return p->stages[job.s].gather && job.d == ORR_PASS_B && !sim->network.is_free &&
	       --sim->unsummed[job.s * p->n_workers + sim->jobs->compute[j]];
}

static void end_job(struct orr_simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;
	bool held_back = holds_back(sim, j);
	int n = orr_jobs_successors(jobs, j, sim->around);
	int fetches = orr_foreign_after(&sim->foreign, ORR_PLACE_PARAMETERS, j);

	if (fetches >= 0)
		orr_simulation_request(sim, orr_moves_parameters(jobs, fetches));
	if (orr_jobs_parked(jobs, j))
		orr_simulation_request(sim, orr_moves_parked(jobs, j, false));
	for (int i = 0; i < n; i++)
		if (!held_back || !orr_moves_gradients(jobs, j, sim->around[i]))
			pass_on(sim, j, sim->around[i]);
	if (sim->with_updates && orr_jobs_makes_gradient(jobs, j))
		orr_updates_gradient(sim, j);
}

/* ---- what runs ---- */

/* How much of it is left when a bucket has been computed, evenly after what it recomputes. */
static orr_wide left_after(const struct orr_simulation *sim, int j, int bucket)
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
static int pace_of(const struct orr_simulation *sim, int w)
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
static void go_on(struct orr_simulation *sim, int w)
{
	struct orr_worker *x = &sim->workers[w];
	orr_wide until = x->left - left_after(sim, x->running, x->bucket);

	x->pace = pace_of(sim, w);
	x->due_ns = sim->now + (int64_t)((until + x->pace - 1) / x->pace);
	orr_simulation_push(sim, x->due_ns, ORR_EVENT_END, w);
}

static void advance(struct orr_simulation *sim, struct orr_worker *x)
{
	x->left -= (orr_wide)x->pace * (sim->now - x->since_ns);
	x->since_ns = sim->now;
}

/* It may have several workers; w is the first. */
static void run_on(struct orr_simulation *sim, int w, int running, int64_t ns, int bucket)
{
	struct orr_worker *x = &sim->workers[w];

	x->running = running;
	x->left = (orr_wide)ns * FULL;
	x->since_ns = sim->now;
	x->bucket = bucket;
	go_on(sim, w);
}

/* Streams of these workers have become busy, or free. */
static void change_paces(struct orr_simulation *sim)
{
	struct orr_network *net = &sim->network;

	for (int i = 0; i < net->n_changed; i++) {
		int w = net->changed[i], j = sim->workers[w].running;

		net->busy[w].changed = false;
		if (j < 0)
			continue;
		w = j < sim->jobs->n_jobs ? sim->jobs->compute[j] : w;
		if (pace_of(sim, w) == sim->workers[w].pace)
			continue;
		advance(sim, &sim->workers[w]);
		go_on(sim, w);
	}
	net->n_changed = 0;
}

static void start_update(struct orr_simulation *sim, int w)
{
	int u = (int)orr_heap_pop(&sim->workers[w].updates).value;
	struct orr_update *update = &sim->timeline->updates[u];

	update->start_ns = sim->now;
	run_on(sim, w, sim->jobs->n_jobs + u, orr_jobs_update_ns(sim->jobs, update->s, w),
	       sim->jobs->pipeline->buckets);
}

/* The job that worker w starts next, if it may now; or -1. */
static int pick(const struct orr_simulation *sim, int w)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct orr_worker *worker = &sim->workers[w];

	if (jobs->order == ORR_ORDER_GREEDY)
		return worker->ready.n ? (int)worker->ready.entries[0].value : -1;
	if (worker->next == jobs->first[w + 1] || sim->waits[jobs->by_worker[worker->next]])
		return -1;
	return jobs->by_worker[worker->next];
}

/* Are all workers of job j free, and is it next on each? The one of least n of those that are
 * ready is, once what runs has ended. */
static bool has_workers(const struct orr_simulation *sim, int j)
{
	for (int i = 0; i < orr_jobs_n_at(sim->jobs, j); i++) {
		int w = orr_jobs_worker(sim->jobs, j, i);
		const struct orr_worker *worker = &sim->workers[w];

		if (worker->running >= 0 || worker->updates.n || pick(sim, w) != j)
			return false;
	}
	return true;
}

/* Worker w is one of those of j, which starts. */
static void take_worker(struct orr_simulation *sim, int w, int j)
{
	struct orr_worker *worker = &sim->workers[w];

	worker->running = j;
	if (sim->jobs->order == ORR_ORDER_GREEDY)
		(void)orr_heap_pop(&worker->ready);
	else
		worker->next++;
}

static void start(struct orr_simulation *sim, int w)
{
	int j, comes;

	if (sim->workers[w].running >= 0)
		return;
	if (sim->workers[w].updates.n) {
		start_update(sim, w);
		return;
	}
	if ((j = pick(sim, w)) < 0 || !has_workers(sim, j))
		return;
	sim->timeline->start_ns[j] = sim->now;
	for (int i = 0; i < orr_jobs_n_at(sim->jobs, j); i++)
		take_worker(sim, orr_jobs_worker(sim->jobs, j, i), j);
	if ((comes = orr_jobs_parked_beside(sim->jobs, j, true)) >= 0)
		orr_simulation_request(sim, orr_moves_parked(sim->jobs, comes, true));
	run_on(sim, sim->jobs->compute[j], j, sim->jobs->duration_ns[j],
	       orr_updates_first_bucket(sim, j));
}

/* ---- the clock ---- */

/* Jobs of stage s, of microbatch b or if it gathers of all, that wait on worker w for the transfer
 * from j to job `to`. */
static void deliver_to(struct orr_simulation *sim, int s, int j, int to, int w)
{
	const struct orr_jobs *jobs = sim->jobs;
	bool gather = jobs->pipeline->stages[s].gather;
	int b = gather ? 0 : orr_jobs_at(jobs, j).b,
	    end = gather ? jobs->pipeline->n_microbatches : b + 1;

	for (; b < end; b++) {
		int k = orr_jobs_index(jobs, s, b, ORR_PASS_F);

		if (orr_jobs_number_at(jobs, k, w) >= 0 && orr_jobs_awaits(jobs, j, k, to, w))
			orr_simulation_deliver(sim, k);
	}
}

/* What F makes is for all jobs there that read it. */
static void arrive(struct orr_simulation *sim, const struct orr_transfer *transfer)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	int j = transfer->producer, to = transfer->consumer, s;

	if (to < 0) {
		orr_updates_arrive(sim, transfer);
		return;
	}
	if (transfer->kind == ORR_TRANSFER_PARK || j < 0 ||
	    !orr_moves_activations(sim->jobs, j, to)) {
		orr_simulation_deliver(sim, to);
		return;
	}
	s = orr_jobs_at(sim->jobs, j).s;
	for (int i = 0; i < p->stages[s].n_out; i++)
		deliver_to(sim, orr_stage_after(p, s, i), j, to, transfer->to);
}

/* A gradient that has left the link has left its place. */
static void leave(struct orr_simulation *sim, int index)
{
	const struct orr_transfer *transfer = &sim->timeline->transfers[index];
	int j = transfer->kind == ORR_TRANSFER_WEIGHT_GRADIENT
			? orr_foreign_after(&sim->foreign, ORR_PLACE_GRADIENT, transfer->producer)
			: -1;

	orr_simulation_push(sim, transfer->end_ns, ORR_EVENT_ARRIVAL, index);
	if (j >= 0)
		orr_simulation_deliver(sim, j);
}

static void end_running(struct orr_simulation *sim, int w)
{
	struct orr_worker *x = &sim->workers[w];
	int j = x->running;

	if (j < 0 || x->due_ns != sim->now)
		return; /* its pace has changed since */
	advance(sim, x);
	if (x->bucket < sim->jobs->pipeline->buckets) {
		orr_updates_bucket(sim, j, x->bucket++);
		go_on(sim, w);
		return;
	}
	x->running = -1;
	x->due_ns = -1;
	orr_simulation_touch_worker(sim, w);
	if (j >= sim->jobs->n_jobs) {
		sim->timeline->updates[j - sim->jobs->n_jobs].end_ns = sim->now;
		orr_updates_end(sim, j - sim->jobs->n_jobs);
		return;
	}
	sim->timeline->end_ns[j] = sim->now;
	for (int i = 1; i < orr_jobs_n_at(sim->jobs, j); i++)
		sim->workers[orr_jobs_worker(sim->jobs, j, i)].running = -1;
	orr_simulation_touch(sim, j);
	end_job(sim, j);
}

static void handle(struct orr_simulation *sim, enum orr_event event, int id)
{
	switch (event) {
	case ORR_EVENT_END:
		end_running(sim, id);
		break;
	case ORR_EVENT_FREE:
		if (orr_network_release(&sim->network, id, sim->now))
			leave(sim, id);
		break;
	case ORR_EVENT_ARRIVAL:
		arrive(sim, &sim->timeline->transfers[id]);
		break;
	case ORR_EVENT_UPDATE:
		orr_simulation_touch_worker(sim, sim->timeline->updates[id].w);
		orr_failure_push(&sim->failure, &sim->workers[sim->timeline->updates[id].w].updates,
				 (struct orr_heap_entry){id, 0, id});
		break;
	}
}

/* All that becomes possible at one instant starts after all that ends then. */
static void start_touched(struct orr_simulation *sim)
{
	for (int i = 0; i < sim->n_touched_workers; i++) {
		sim->workers[sim->touched_workers[i]].touched = false;
		start(sim, sim->touched_workers[i]);
	}
	sim->n_touched_workers = 0;
	if (!sim->network.links)
		return;
	orr_network_start(&sim->network, sim->now);
	change_paces(sim);
}

/* For its own stash, and for one that leaves. */
static int parked_waits(const struct orr_jobs *jobs, int j)
{
	int before = orr_jobs_pass_before(jobs, j);

	return (before >= 0 && orr_jobs_parked(jobs, before)) +
	       (orr_jobs_parked_beside(jobs, j, false) >= 0);
}

static int count_waits(const struct orr_simulation *sim, int j)
{
	const struct orr_jobs *jobs = sim->jobs;
	int waits = orr_foreign_waits(&sim->foreign, j) + parked_waits(jobs, j) +
		    (sim->with_updates && orr_updates_read(sim, j) >= 0);

	for (int i = orr_jobs_predecessors(jobs, j, sim->around) - 1; i >= 0; i--)
		waits += sim->network.is_free ? 1 : orr_moves_count(jobs, sim->around[i], j);
	return waits;
}

static void begin(struct orr_simulation *sim)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct orr_foreign *x = &sim->foreign;

	for (int j = 0; j < jobs->n_jobs; j++) {
		if (!orr_jobs_has(jobs, j))
			continue;
		sim->waits[j] = count_waits(sim, j);
		if (sim->unsummed)
			sim->unsummed[orr_jobs_at(jobs, j).s * jobs->pipeline->n_workers +
				      jobs->compute[j]] += orr_jobs_at(jobs, j).d == ORR_PASS_B;
		if (jobs->order == ORR_ORDER_GREEDY && !sim->waits[j])
			orr_simulation_ready(sim, j);
		if (x->unsent && x->before[ORR_PLACE_PARAMETERS][j] == j)
			orr_simulation_request(sim, orr_moves_parameters(jobs, j));
	}
	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		sim->workers[w].running = -1;
		sim->workers[w].next = jobs->first[w];
		orr_simulation_touch_worker(sim, w);
	}
	start_touched(sim);
}

static void run(struct orr_simulation *sim)
{
	begin(sim);
	while (!sim->failure.code && sim->events.n) {
		sim->now = sim->events.entries[0].key;
		while (sim->events.n && sim->events.entries[0].key == sim->now) {
			int64_t value = orr_heap_pop(&sim->events).value;

			handle(sim, (enum orr_event)(value % ORR_EVENTS),
			       (int)(value / ORR_EVENTS));
		}
		start_touched(sim);
	}
}

/* Do updates take time or, without a flush, delay jobs? */
static void find_updates(struct orr_simulation *sim)
{
	const struct orr_pipeline *p = sim->jobs->pipeline;
	bool replicas = sim->jobs->first_owner[p->n_stages] > p->n_stages;

	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].has_weight_gradient &&
		    (p->stages[s].update_ns > 0 ||
		     (!sim->network.is_free && p->stages[s].parameter_bytes > 0)))
			sim->keeps_updates = true;
	sim->with_updates = sim->keeps_updates || (sim->jobs->async && replicas);
}

static int prepare(struct orr_simulation *sim)
{
	const struct orr_jobs *jobs = sim->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int code;

	orr_network_init(&sim->network);
	find_updates(sim);
	orr_arrays_make(&sim->all, sim->waits, jobs->n_jobs);
	orr_arrays_make(&sim->all, sim->workers, p->n_workers);
	orr_arrays_make(&sim->all, sim->touched_workers, p->n_workers);
	orr_arrays_make(&sim->all, sim->around, orr_jobs_most_around(jobs));
	if (orr_pipeline_gathers(p))
		orr_arrays_make(&sim->all, sim->unsummed,
				(size_t)p->n_stages * (size_t)p->n_workers);
	if (sim->all.failed)
		return orr_no_memory(sim->failure.err, "simulate");
	if (!sim->network.is_free && (code = orr_foreign_init(sim)))
		return code;
	return sim->with_updates ? orr_updates_init(sim) : 0;
}

static void finish(struct orr_simulation *sim)
{
	for (int w = 0; sim->workers && w < sim->jobs->pipeline->n_workers; w++) {
		orr_heap_fini(&sim->workers[w].ready);
		orr_heap_fini(&sim->workers[w].updates);
	}
	orr_network_fini(&sim->network);
	orr_heap_fini(&sim->events);
	orr_arrays_free(&sim->all);
	orr_timeline_destroy(sim->timeline);
}

int orr_simulate(struct orr_timeline **out, const struct orr_jobs *jobs, struct orr_error *err)
{
	struct orr_simulation sim = {.jobs = jobs, .failure.err = err};
	int code;

	if ((code = orr_timeline_create(&sim.timeline, jobs, err)))
		return code;
	sim.network = (struct orr_network){
		.timeline = sim.timeline, .failure = &sim.failure, .leaves = leaves, .user = &sim};
	if (!(code = prepare(&sim)) && !(code = sim.failure.code)) {
		run(&sim);
		code = sim.failure.code;
	}
	if (!code) {
		if (!sim.keeps_updates)
			sim.timeline->n_updates = 0;
		*out = sim.timeline;
		sim.timeline = NULL;
	}
	finish(&sim);
	return code;
}
