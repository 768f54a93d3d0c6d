#include "policy.h"

#include <stdatomic.h>
#include <starpu.h>
#include <starpu_scheduler.h>
#include "base/heap.h"
#include "compat.h"

/* A logical worker. */
struct queue {
	struct orr_heap ready; /* tasks by turn: their struct orr_queued; it has room for all */
	int64_t next;          /* STRICT: the turn that it waits for */
};

/* A StarPU worker and the logical workers that it serves: first, first + n_servers, ... */
struct server {
	int id;                        /* StarPU's number */
	unsigned node;                 /* its memory */
	int device, stream;            /* of a CUDA worker, else 0 */
	int first, w;                  /* w: whom it looks at next, so that none starves */
	struct starpu_task_list ready; /* tasks without a turn */
};

struct orr_policy {
	int n_workers, n_servers;
	enum orr_order order;
	struct queue *queues;   /* [n_workers] */
	struct server *servers; /* [n_servers], and behind them those that are reserved */
	bool reserves;
	int n_reserved;
	int server_of[STARPU_NMAXWORKERS]; /* StarPU's number -> server */
	bool fetches;                      /* not all is in main memory */
	atomic_bool any_order;
	int depth; /* -1: nothing is fetched ahead */
	struct hook {
		void (*visit)(void *user, const struct orr_queued *queued);
		void *user;
	} on_start, on_end;
};

static struct orr_policy *newest; /* StarPU's init_sched takes no argument of ours */

/* Which StarPU worker serves w: the one place that knows. */
static struct server *server_of(const struct orr_policy *p, int w)
{
	return &p->servers[w % p->n_servers];
}

/* And which one its collectives. */
static struct server *reserved_for(const struct orr_policy *p, int w)
{
	struct server *v = server_of(p, w), *reserved = &p->servers[p->n_servers];

	for (int k = 0; k < p->n_reserved && p->fetches; k++)
		if (reserved[k].device == v->device)
			return &reserved[k];
	return &reserved[v->first % p->n_reserved];
}

static void init_sched(unsigned context)
{
	starpu_sched_ctx_set_policy_data(context, newest);
}

static void deinit_sched(unsigned context)
{
	starpu_sched_ctx_set_policy_data(context, NULL);
}

/* Devices first, and if there are any, alone. Every device before any second stream of one. */
static void take_workers(struct orr_policy *p, const int *ids, unsigned n)
{
	bool devices = starpu_cuda_worker_get_count() > 0;
	int n_all;

	for (unsigned i = 0; i < n; i++) {
		struct server v = {.id = ids[i]};
		int at = p->n_servers;

		if (starpu_worker_get_type(ids[i]) !=
		    (devices ? STARPU_CUDA_WORKER : STARPU_CPU_WORKER))
			continue;
		v.node = starpu_worker_get_memory_node((unsigned)ids[i]);
		v.device = devices ? starpu_worker_get_devid(ids[i]) : 0;
		for (int k = 0; devices && k < p->n_servers; k++)
			v.stream += p->servers[k].device == v.device;
		for (; at > 0 && p->servers[at - 1].stream > v.stream; at--)
			p->servers[at] = p->servers[at - 1];
		p->servers[at] = v;
		p->n_servers++;
		p->fetches |= v.node != STARPU_MAIN_RAM;
	}
	n_all = p->n_servers;
	for (int i = 0; i < n_all && p->reserves; i++)
		p->n_reserved +=
			devices ? p->servers[i].stream == p->servers[n_all - 1].stream : i % 2;
	p->n_servers -= p->n_reserved;
	for (int i = 0; i < n_all; i++) {
		p->servers[i].first = p->servers[i].w = i < p->n_servers ? i : p->n_workers;
		starpu_task_list_init(&p->servers[i].ready);
		p->server_of[p->servers[i].id] = i;
	}
}

static void add_workers(unsigned context, int *ids, unsigned n)
{
	struct orr_policy *p = starpu_sched_ctx_get_policy_data(context);

	take_workers(p, ids, n);
}

/* Is the task among the next ones of its worker, as far as what it needs is fetched ahead? */
static bool is_near(const struct orr_policy *p, const struct server *v,
		    const struct orr_queued *queued)
{
	int64_t next;

	starpu_worker_lock(v->id);
	next = p->queues[queued->w].next;
	starpu_worker_unlock(v->id);
	return queued->turn <= next + p->depth;
}

/* What a ready task reads moves to its memory while others run, and that of earlier turns first.
 * Of what it only writes 1.4.10 would count that it is wanted there, and never take that back, so
 * that it could not be evicted any more: StarPU sees that as scratch, which it leaves out. */
static void fetch_inputs(const struct orr_policy *p, const struct server *v,
			 struct starpu_task *task, const struct orr_queued *queued)
{
	int n = (int)STARPU_TASK_GET_NBUFFERS(task);
	bool far = queued->ahead && p->depth >= 0 && !is_near(p, v, queued);
	enum starpu_data_access_mode *modes = task->dyn_modes ? task->dyn_modes : task->modes,
				     first = n ? modes[0] : STARPU_NONE;

	for (int i = 0; i < n; i++)
		if (modes[i] == STARPU_W || (!i && far))
			modes[i] |= STARPU_SCRATCH;
	starpu_prefetch_task_input_on_node_prio(task, v->node, orr_policy_priority(queued->turn));
	for (int i = 0; i < n; i++)
		modes[i] = i ? modes[i] & ~(unsigned)STARPU_SCRATCH : first;
}

static int push_task(struct starpu_task *task)
{
	struct orr_policy *p = starpu_sched_ctx_get_policy_data(task->sched_ctx);
	struct orr_queued *queued = task->sched_data;
	struct server *v =
		queued && queued->apart && p->n_reserved
			? reserved_for(p, queued->w)
			: server_of(p, queued ? queued->w : 0); /* StarPU's own have no place */
	int code;

	if (p->fetches && queued)
		fetch_inputs(p, v, task, queued);
	starpu_worker_lock(v->id);
	if (queued && queued->turn != ORR_NO_TURN) {
		queued->task = task;
		(void)orr_heap_push(&p->queues[queued->w].ready, queued->turn, 0, (intptr_t)queued,
				    NULL);
	} else {
		starpu_task_list_push_back(&v->ready, task);
	}
	code = starpu_push_task_end(task);
	starpu_wake_worker_locked(v->id);
	starpu_worker_unlock(v->id);
	return code;
}

static struct starpu_task *pop_task(unsigned context)
{
	struct orr_policy *p = starpu_sched_ctx_get_policy_data(context);
	struct server *v = &p->servers[p->server_of[starpu_worker_get_id()]];
	int w = v->w;
	bool any;

	if (!starpu_task_list_empty(&v->ready))
		return starpu_task_list_pop_front(&v->ready);
	if (v->first >= p->n_workers)
		return NULL;
	any = p->order == ORR_ORDER_GREEDY ||
	      atomic_load_explicit(&p->any_order, memory_order_relaxed);
	do {
		struct queue *q = &p->queues[w];

		w += p->n_servers;
		if (w >= p->n_workers)
			w = v->first;
		if (q->ready.n && (any || q->ready.entries->key == q->next)) {
			v->w = w;
			q->next++;
			return ((struct orr_queued *)(intptr_t)orr_heap_pop(&q->ready).value)->task;
		}
	} while (w != v->w);
	return NULL;
}

static void tell(const struct hook *hook, const struct starpu_task *task)
{
	const struct orr_queued *queued = task->sched_data;

	if (hook->visit && queued && queued->turn != ORR_NO_TURN)
		hook->visit(hook->user, queued);
}

static void pre_exec(struct starpu_task *task, unsigned context)
{
	const struct orr_policy *p = starpu_sched_ctx_get_policy_data(context);

	tell(&p->on_start, task);
}

static void post_exec(struct starpu_task *task, unsigned context)
{
	const struct orr_policy *p = starpu_sched_ctx_get_policy_data(context);

	tell(&p->on_end, task);
}

static struct starpu_sched_policy starpu_policy = {
	.init_sched = init_sched,
	.deinit_sched = deinit_sched,
	.add_workers = add_workers,
	.push_task = push_task,
	.pop_task = pop_task,
	.pre_exec_hook = pre_exec,
	.post_exec_hook = post_exec,
	.policy_name = "orrery",
	.policy_description = "the placement and the order of a schedule",
	.worker_type = STARPU_WORKER_LIST,
	ORR_POLICY_OF_THIS_VERSION};

struct orr_policy *orr_policy_create(const struct orr_work *work)
{
	const int *first = work->jobs->first;
	struct orr_arrays *all = work->arrays;
	struct orr_policy *p;

	orr_arrays_make(all, p, 1);
	if (!p)
		return NULL;
	p->n_workers = work->pipeline->n_workers;
	p->order = work->jobs->order;
	p->depth = -1;
	orr_arrays_make(all, p->servers, STARPU_NMAXWORKERS);
	orr_arrays_make(all, p->queues, p->n_workers);
	for (int w = 0; w < p->n_workers && p->queues; w++) {
		struct orr_heap *ready = &p->queues[w].ready;

		/* the jobs of all steps in flight */
		ready->room = orr_work_has(work, w) * work->window * (first[w + 1] - first[w]) + 1;
		orr_arrays_make(all, ready->entries, ready->room);
	}
	newest = p;
	return all->failed ? NULL : p;
}

void orr_policy_reserve(struct orr_policy *p)
{
	p->reserves = true;
}

bool orr_policy_is_reserved(const struct orr_policy *p, int id)
{
	for (int k = p->n_servers; k < p->n_servers + p->n_reserved; k++)
		if (p->servers[k].id == id)
			return true;
	return false;
}

struct starpu_sched_policy *orr_policy_starpu(void)
{
	return &starpu_policy;
}

bool orr_policy_started(const struct orr_policy *p)
{
	return p->n_servers > 0;
}

void orr_policy_stand_by(struct orr_policy *p)
{
	int ids[STARPU_NMAXWORKERS];

	for (unsigned i = 0; i < starpu_worker_get_count(); i++)
		ids[i] = (int)i;
	take_workers(p, ids, starpu_worker_get_count());
}

int orr_policy_worker(const struct orr_policy *p, int w)
{
	return server_of(p, w)->id;
}

unsigned orr_policy_node(const struct orr_policy *p, int w)
{
	return server_of(p, w)->node;
}

void orr_policy_on_start(struct orr_policy *p, int depth,
			 void (*started)(void *user, const struct orr_queued *queued), void *user)
{
	p->depth = depth;
	p->on_start = (struct hook){started, user};
}

void orr_policy_on_end(struct orr_policy *p,
		       void (*ended)(void *user, const struct orr_queued *queued), void *user)
{
	p->on_end = (struct hook){ended, user};
}

void orr_policy_begin(struct orr_policy *p, int w, int64_t turn)
{
	int id = server_of(p, w)->id;

	starpu_worker_lock(id);
	p->queues[w].next = turn;
	starpu_worker_unlock(id);
}

void orr_policy_release(struct orr_policy *p)
{
	atomic_store(&p->any_order, true);
	starpu_wake_all_blocked_workers();
}
