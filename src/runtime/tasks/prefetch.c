#include "prefetch.h"

#include <sched.h>
#include <unistd.h>
#include "compat.h"

/* A worker has copies of the parameters of other owners for the job that runs and the `depth` jobs
 * after it, and no others: the simulator counts as many (simulate/footprint.h). In STRICT order
 * these jobs are known. In GREEDY order they are a guess: copies that go too early come again. */

/* The owner whose parameters worker w copies for the job at a turn, or -1: none. What is updated
 * between turn `from` and that one would be copied in vain. */
static int copied_at(const struct orr_prefetch *x, int w, int64_t from, int64_t turn)
{
	const struct orr_data *data = x->data;
	const struct orr_jobs *jobs = data->work->jobs;
	int n = jobs->first[w + 1] - jobs->first[w];
	int j = jobs->by_worker[jobs->first[w] + turn % n], i = data->owned_of[j];
	const struct orr_owned *o = &data->owned[i];

	if (!o->parameters || data->fetched[j] || o->node == orr_policy_node(x->policy, w) ||
	    (o->update >= 0 && turn / n != from / n))
		return -1;
	return i;
}

static void note(struct orr_copied *copied, int i)
{
	int k = 0;

	while (k < copied->n && copied->owned[k] != i)
		k++;
	copied->owned[k] = i;
	copied->n += k == copied->n;
}

static void fetch_ahead(void *user, const struct orr_queued *queued)
{
	struct orr_prefetch *x = user;
	const struct orr_jobs *jobs = x->data->work->jobs;
	int w = queued->w, n = jobs->first[w + 1] - jobs->first[w];
	int depth = jobs->order == ORR_ORDER_STRICT ? x->depth : 0;

	for (int64_t k = 0; k <= depth; k++) {
		int64_t turn = queued->turn + k;
		int i = copied_at(x, w, queued->turn, turn);
		const struct orr_owned *o = &x->data->owned[i >= 0 ? i : 0];

		if (i < 0)
			continue;
		/* not before an update of this step that is still to come */
		if (k && o->update >= 0 && atomic_load(&o->version) != turn / n)
			continue;
		note(&x->copied[w], i);
		if (!k)
			continue;
		starpu_data_prefetch_on_node_prio(o->parameters, orr_policy_node(x->policy, w), 1,
						  orr_policy_priority(turn));
		atomic_fetch_add(&x->n_fetched, 1);
	}
}

/* Does a worker at this memory read the parameters of owner i in one of its next jobs? */
static bool is_read_soon(const struct orr_prefetch *x, unsigned node, int i)
{
	const struct orr_work *work = x->data->work;
	const struct orr_jobs *jobs = work->jobs;

	for (int w = 0; w < work->pipeline->n_workers; w++) {
		int64_t next = atomic_load(&x->next[w]);

		if (!orr_work_has(work, w) || jobs->first[w] == jobs->first[w + 1] ||
		    orr_policy_node(x->policy, w) != node)
			continue;
		for (int64_t turn = next; turn <= next + x->depth; turn++)
			if (copied_at(x, w, next ? next - 1 : 0, turn) == i)
				return true;
	}
	return false;
}

/* StarPU does not give back what another thread looks at in this moment, which is soon over. */
static bool give_back(const struct orr_prefetch *x, int i, unsigned node)
{
	for (int k = 0; k < 20; k++) {
		if (orr_give_back(x->data->owned[i].parameters, node))
			return true;
		sched_yield();
	}
	return false;
}

/* Of what worker w has had copied, what is not read soon. */
static void drop(struct orr_prefetch *x, int w, bool all)
{
	struct orr_copied *copied = &x->copied[w];
	unsigned node = orr_policy_node(x->policy, w);
	int n = copied->n;

	copied->n = 0;
	for (int k = 0; k < n; k++) {
		int i = copied->owned[k];

		/* what cannot be given back now may be after the next job */
		if ((!all && is_read_soon(x, node, i)) || !give_back(x, i, node))
			copied->owned[copied->n++] = i;
	}
}

void orr_prefetch_drop(void *user, const struct orr_queued *queued)
{
	struct orr_prefetch *x = user;

	atomic_store(&x->next[queued->w], queued->turn + 1);
	drop(x, queued->w, false);
}

void orr_prefetch_settle(struct orr_prefetch *x)
{
	if (!x->copied)
		return;
	/* a step ends with its tasks' callbacks, and the policy hears of their end after these */
	starpu_task_wait_for_all();
	for (int w = 0; w < x->data->work->pipeline->n_workers; w++)
		for (int k = 0; x->copied[w].n && k < 1000; k++) {
			if (k)
				usleep(1000);
			drop(x, w, true);
		}
}

void orr_prefetch_init(struct orr_prefetch *prefetch, const struct orr_data *data,
		       struct orr_policy *policy, int depth)
{
	const struct orr_work *work = data->work;
	size_t n_workers = (size_t)work->pipeline->n_workers;
	int *owned;

	*prefetch = (struct orr_prefetch){.data = data, .policy = policy, .depth = depth};
	if (work->jobs->async || starpu_memory_nodes_get_count() < 2)
		return;
	orr_arrays_make(work->arrays, prefetch->next, n_workers);
	orr_arrays_make(work->arrays, prefetch->copied, n_workers);
	orr_arrays_make(work->arrays, owned, n_workers * (size_t)data->n_owned);
	if (orr_work_fails(work))
		return;
	for (int w = 0; w < work->pipeline->n_workers; w++)
		prefetch->copied[w].owned = owned + (int64_t)w * data->n_owned;
	orr_policy_on_start(policy, work->jobs->order == ORR_ORDER_STRICT ? depth : -1, fetch_ahead,
			    prefetch);
	orr_policy_on_end(policy, orr_prefetch_drop, prefetch);
}

bool orr_prefetch_copies(const struct orr_prefetch *x)
{
	const struct orr_work *work = x->data->work;
	const struct orr_jobs *jobs = work->jobs;

	for (int w = 0; x->next && w < work->pipeline->n_workers; w++)
		for (int i = 0; orr_work_has(work, w) && i < jobs->first[w + 1] - jobs->first[w];
		     i++)
			if (copied_at(x, w, i, i) >= 0)
				return true;
	return false;
}
