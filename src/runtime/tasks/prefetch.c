#include "prefetch.h"

/* Not what is to be updated in this step before it is read: it would move in vain. */
static void fetch_ahead(void *user, const struct orr_queued *queued)
{
	struct orr_prefetch *x = user;
	const struct orr_data *data = x->data;
	const struct orr_jobs *jobs = data->work->jobs;
	int w = queued->w, n = jobs->first[w + 1] - jobs->first[w];
	int64_t step = queued->turn / n, position = queued->turn % n;
	unsigned node = starpu_worker_get_memory_node((unsigned)orr_policy_worker(x->policy, w));

	for (int64_t i = position + 1; i <= position + x->depth && i < n; i++) {
		int j = jobs->by_worker[jobs->first[w] + i];
		const struct orr_owned *o = &data->owned[data->owned_of[j]];

		if (o->parameters.handle && !data->fetched[j] && o->node != node &&
		    (o->update < 0 || atomic_load(&o->version) == step)) {
			starpu_data_prefetch_on_node(o->parameters.handle, node, 1);
			atomic_fetch_add(&x->n_fetched, 1);
		}
	}
}

void orr_prefetch_init(struct orr_prefetch *prefetch, const struct orr_data *data,
		       struct orr_policy *policy, int depth)
{
	const struct orr_jobs *jobs = data->work->jobs;

	*prefetch = (struct orr_prefetch){.data = data, .policy = policy, .depth = depth};
	if (depth > 0 && jobs->order == ORR_ORDER_STRICT && !jobs->async &&
	    starpu_memory_nodes_get_count() > 1)
		orr_policy_on_start(policy, fetch_ahead, prefetch);
}
