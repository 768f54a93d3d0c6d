#include "simulation.h"

#include "orrery/jobs.h"
#include "orrery/timeline.h"

void orr_simulation_push(struct orr_simulation *sim, int64_t time, enum orr_event event, int id)
{
	int64_t value = (int64_t)id * ORR_EVENTS + (int64_t)event;

	orr_failure_push(&sim->failure, &sim->events, (struct orr_heap_entry){time, 0, value});
}

void orr_simulation_request(struct orr_simulation *sim, struct orr_transfer transfer)
{
	int j = transfer.consumer < 0 ? transfer.producer : transfer.consumer;
	int64_t n = transfer.consumer < 0 ? INT64_MAX : sim->jobs->priority[j];

	orr_network_request(&sim->network, &transfer, sim->now, n, j);
}

void orr_simulation_touch_worker(struct orr_simulation *sim, int w)
{
	if (!sim->workers[w].touched) {
		sim->workers[w].touched = true;
		sim->touched_workers[sim->n_touched_workers++] = w;
	}
}

void orr_simulation_touch(struct orr_simulation *sim, int j)
{
	for (int i = 0; i < orr_jobs_n_at(sim->jobs, j); i++)
		orr_simulation_touch_worker(sim, orr_jobs_worker(sim->jobs, j, i));
}

void orr_simulation_ready(struct orr_simulation *sim, int j)
{
	struct orr_heap_entry entry = {sim->jobs->priority[j], 0, j};

	for (int i = 0; i < orr_jobs_n_at(sim->jobs, j); i++)
		orr_failure_push(&sim->failure,
				 &sim->workers[orr_jobs_worker(sim->jobs, j, i)].ready, entry);
}

void orr_simulation_deliver(struct orr_simulation *sim, int j)
{
	if (--sim->waits[j])
		return;
	orr_simulation_touch(sim, j);
	if (sim->jobs->order == ORR_ORDER_GREEDY)
		orr_simulation_ready(sim, j);
}
