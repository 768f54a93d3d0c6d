#include "idle.h"

#include <stdlib.h>

#include "base/max.h"
#include "gaps.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"
#include "moves.h"

const char *orr_cause_name(enum orr_cause cause)
{
	static const char *const names[ORR_CAUSES] = {[ORR_CAUSE_WARM_UP] = "warm_up",
						      [ORR_CAUSE_DRAIN] = "drain",
						      [ORR_CAUSE_TRANSFER] = "transfer",
						      [ORR_CAUSE_ORDER] = "order",
						      [ORR_CAUSE_IMBALANCE] = "imbalance"};

	return names[cause];
}

/* What is needed along the way. */
struct search {
	struct orr_idle *idle;
	const struct orr_timeline *t;
	const struct orr_jobs *jobs;
	struct orr_keyed *keyed;
	int *around;
	int *next, *to_job; /* transfers to a job: to_job[j], then next[..]; -1: no more */
	struct orr_arrays all;
};

/* ---- what each worker did ---- */

static int order_worker(struct orr_idle *idle, int w, struct orr_keyed *keyed,
			struct orr_error *err)
{
	const struct orr_timeline *t = idle->timeline;
	struct orr_item *items = idle->items + idle->first[w];
	int n, code = orr_timeline_list(keyed, &n, t, w, err);

	for (int i = 0; i < n && !code; i++) {
		int number = keyed[i].value;
		bool is_job = number < t->jobs->n_jobs;

		items[i] = (struct orr_item){.job = is_job ? number : -1,
					     .update = is_job ? -1 : number - t->jobs->n_jobs,
					     .w = w,
					     .start_ns = keyed[i].key,
					     .end_ns = orr_timeline_end(t, number),
					     .from = -1,
					     .transfer = -1};
		idle->start_ns = smaller(idle->start_ns, items[i].start_ns);
		idle->end_ns = larger(idle->end_ns, items[i].end_ns);
	}
	return code;
}

static int order_items(struct orr_idle *idle, struct orr_keyed *keyed, struct orr_error *err)
{
	int code = 0;

	idle->start_ns = INT64_MAX;
	idle->end_ns = INT64_MIN;
	for (int w = 0; w < idle->n_workers && !code; w++)
		code = order_worker(idle, w, keyed, err);
	idle->end_ns = larger(idle->end_ns, orr_timeline_gathered(idle->timeline, -1));
	if (idle->start_ns > idle->end_ns)
		idle->start_ns = idle->end_ns = 0;
	return code;
}

/* ---- what each waits for ---- */

/* Something that the item waits for, if it comes after what was found before. */
static void consider(struct orr_item *item, int from, int transfer, int64_t made_ns,
		     int64_t came_ns)
{
	if (came_ns > item->start_ns || (orr_item_awaits(item) && came_ns <= item->came_ns))
		return;
	item->from = from;
	item->transfer = transfer;
	item->made_ns = made_ns;
	item->came_ns = came_ns;
}

static void consider_transfer(const struct search *x, struct orr_item *item, int i)
{
	const struct orr_transfer *transfer = &x->t->transfers[i];
	int j = transfer->producer;

	consider(item, j, i, j >= 0 ? x->t->end_ns[j] : transfer->start_ns, transfer->end_ns);
}

/* To job k, on worker w; from job j alone, unless it is -1. */
static void consider_arrivals(const struct search *x, struct orr_item *item, int k, int w, int j)
{
	for (int i = x->to_job[k]; i >= 0; i = x->next[i])
		if ((x->t->transfers[i].to == w || x->t->transfers[i].kind == ORR_TRANSFER_PARK) &&
		    (j < 0 || x->t->transfers[i].producer == j))
			consider_transfer(x, item, i);
}

/* What F j makes and the item reads on worker w may come with other jobs. */
static void consider_shared(const struct search *x, struct orr_item *item, int j, int w)
{
	const struct orr_pipeline *p = x->jobs->pipeline;
	int s = orr_jobs_at(x->jobs, j).s;

	for (int i = 0; i < p->stages[s].n_out; i++) {
		int to = orr_jobs_receiver(x->jobs, j, orr_stage_after(p, s, i), w);

		if (to >= 0 && to != item->job && orr_jobs_awaits(x->jobs, j, item->job, to, w))
			consider_arrivals(x, item, to, w, j);
	}
}

static void consider_end(const struct search *x, struct orr_item *item, int j)
{
	consider(item, j, -1, x->t->end_ns[j], x->t->end_ns[j]);
}

static void find_awaited(const struct search *x, struct orr_item *item, int w)
{
	const struct orr_jobs *jobs = x->jobs;
	int n = orr_jobs_predecessors(jobs, item->job, x->around);
	int i = orr_jobs_number_at(jobs, item->job, w);

	consider_arrivals(x, item, item->job, w, -1);
	for (int k = 0; k < n; k++) {
		consider_end(x, item, x->around[k]);
		if (orr_moves_activations(jobs, x->around[k], item->job))
			consider_shared(x, item, x->around[k], w);
	}
	/* a run records no transfers: what was made elsewhere while the worker was idle is on its
	 * way until the job starts */
	if (x->t->measured && item->from >= 0 && item->made_ns >= item->free_ns &&
	    orr_moves_number(jobs, item->from, item->job, i))
		item->came_ns = item->start_ns;
}

static bool shares(const struct orr_pipeline *p, int s, int set)
{
	for (int other = s; other >= 0; other = orr_set_after(p, s, other))
		if (other == set)
			return true;
	return false;
}

/* An update waits for the gradients of its stage, and for their sums. */
static void find_gradients(const struct search *x, struct orr_item *item)
{
	const struct orr_pipeline *p = x->jobs->pipeline;
	const struct orr_update *u = &x->t->updates[item->update];
	int every = orr_jobs_each_update(x->jobs, u->s);

	for (int i = 0; i < x->t->n_transfers; i++) {
		const struct orr_transfer *transfer = &x->t->transfers[i];

		if (transfer->kind == ORR_TRANSFER_ALL_REDUCE
			    ? transfer->ring != ORR_RING_ALL_GATHER &&
				      shares(p, u->s, transfer->set)
			    : transfer->kind == ORR_TRANSFER_WEIGHT_GRADIENT &&
				      transfer->to == u->w &&
				      orr_jobs_at(x->jobs, transfer->producer).s == u->s)
			consider_transfer(x, item, i);
	}
	for (int b = (u->version - 1) * every; b < u->version * every; b++)
		consider_end(x, item,
			     orr_jobs_index(x->jobs, u->s, b, orr_jobs_last_pass(x->jobs, u->s)));
}

static void find_all_awaited(const struct search *x)
{
	struct orr_idle *idle = x->idle;

	for (int w = 0; w < idle->n_workers; w++) {
		int64_t free_ns = idle->start_ns;

		for (int i = idle->first[w]; i < idle->first[w + 1]; i++) {
			struct orr_item *item = &idle->items[i];

			item->free_ns = free_ns;
			free_ns = item->end_ns;
			if (item->job >= 0)
				find_awaited(x, item, w);
			else
				find_gradients(x, item);
		}
	}
}

/* ---- phases ---- */

struct phases {
	int64_t filled_ns, drains_ns; /* until when it fills, and from when on it drains */
};

/* A worker without a backward fills until its first job; one without a job does neither. */
static struct phases find_phases(const struct orr_idle *idle, int w, int64_t first_backward_ns)
{
	const struct orr_item *items = idle->items + idle->first[w];
	int n = idle->first[w + 1] - idle->first[w];
	struct phases x = {n ? items[0].start_ns : idle->start_ns,
			   n ? items[n - 1].end_ns : idle->end_ns};
	bool backward = false, forward = false;

	for (int i = 0; i < n; i++) {
		if (items[i].job < 0)
			continue;
		if (orr_jobs_at(idle->timeline->jobs, items[i].job).d == ORR_PASS_F) {
			x.drains_ns = items[i].end_ns;
			forward = true;
		} else if (!backward) {
			x.filled_ns = items[i].start_ns;
			backward = true;
		}
	}
	if (!forward && n)
		x.drains_ns = items[n - 1].end_ns;
	if (x.filled_ns > x.drains_ns)
		x.drains_ns = x.filled_ns =
			smaller(x.filled_ns, larger(first_backward_ns, x.drains_ns));
	return x;
}

static int64_t find_first_backward(const struct orr_idle *idle)
{
	const struct orr_jobs *jobs = idle->timeline->jobs;
	int64_t first_ns = INT64_MAX;

	for (int j = 0; j < jobs->n_jobs; j++)
		if (orr_jobs_has(jobs, j) && orr_jobs_at(jobs, j).d != ORR_PASS_F)
			first_ns = smaller(first_ns, idle->timeline->start_ns[j]);
	return first_ns;
}

static void add_gap(struct orr_idle *idle, int w, enum orr_cause phase, int64_t start_ns,
		    int64_t end_ns)
{
	if (start_ns >= end_ns)
		return;
	idle->gaps[idle->n_gaps++] = (struct orr_gap){w, phase, start_ns, end_ns};
	idle->causes[w][phase] += end_ns - start_ns;
}

/* No transfer: by its phases. */
static void add_gaps(struct orr_idle *idle, int w, const struct phases *x, int64_t start_ns,
		     int64_t end_ns)
{
	add_gap(idle, w, ORR_CAUSE_WARM_UP, start_ns, smaller(end_ns, x->filled_ns));
	add_gap(idle, w, ORR_CAUSE_ORDER, larger(start_ns, x->filled_ns),
		smaller(end_ns, x->drains_ns));
	add_gap(idle, w, ORR_CAUSE_DRAIN, larger(start_ns, x->drains_ns), end_ns);
}

/* At most seven for an item, and four at the end. */
#define MOST_GAPS 7

static void find_gaps(struct orr_idle *idle)
{
	int64_t first_backward_ns = find_first_backward(idle), worked_ns = idle->start_ns;

	for (int i = 0; i < idle->first[idle->n_workers]; i++)
		worked_ns = larger(worked_ns, idle->items[i].end_ns);
	for (int w = 0; w < idle->n_workers; w++) {
		struct phases x = find_phases(idle, w, first_backward_ns);
		int64_t free_ns = idle->start_ns;

		for (int i = idle->first[w]; i < idle->first[w + 1]; i++) {
			const struct orr_item *item = &idle->items[i];
			int64_t made_ns = item->start_ns, came_ns = item->start_ns;

			if (orr_item_awaits(item)) {
				came_ns = larger(item->came_ns, item->free_ns);
				made_ns = item->from < 0 ? item->free_ns
							 : smaller(came_ns, larger(item->made_ns,
										   item->free_ns));
			}
			add_gaps(idle, w, &x, item->free_ns, made_ns);
			add_gap(idle, w, ORR_CAUSE_TRANSFER, made_ns, came_ns);
			add_gaps(idle, w, &x, came_ns, item->start_ns);
			free_ns = item->end_ns;
		}
		add_gaps(idle, w, &x, free_ns, worked_ns);
		/* updated parameters are on their way */
		add_gap(idle, w, ORR_CAUSE_TRANSFER, worked_ns, idle->end_ns);
	}
}

/* ---- causes ---- */

static int64_t busy_ns(const struct orr_idle *idle, int w)
{
	int64_t sum = 0;

	for (int i = idle->first[w]; i < idle->first[w + 1]; i++)
		sum += idle->items[i].end_ns - idle->items[i].start_ns;
	return sum;
}

/* How much of it is there, at most `want`. */
static int64_t take(int64_t *from, int64_t want)
{
	int64_t taken = larger(0, smaller(*from, want));

	*from -= taken;
	return taken;
}

static void find_imbalance(struct orr_idle *idle)
{
	int64_t busiest = 0;

	for (int w = 0; w < idle->n_workers; w++)
		busiest = larger(busiest, busy_ns(idle, w));
	for (int w = 0; w < idle->n_workers; w++) {
		int64_t *causes = idle->causes[w], want = busiest - busy_ns(idle, w), taken, late;
		int64_t *fill = &causes[ORR_CAUSE_WARM_UP], *drain = &causes[ORR_CAUSE_DRAIN];

		if (idle->first[w] == idle->first[w + 1])
			want = idle->end_ns - idle->start_ns;
		taken = take(&causes[ORR_CAUSE_ORDER], want);
		want = smaller(want - taken, *fill + *drain);
		late = want ? (int64_t)((double)want * ((double)*drain / (double)(*fill + *drain)))
			    : 0;
		late = take(drain, late);
		taken += late + take(fill, want - late);
		causes[ORR_CAUSE_IMBALANCE] = taken;
	}
}

/* ---- all of it ---- */

static void index_transfers(const struct search *x)
{
	for (int j = 0; j < x->jobs->n_jobs; j++)
		x->to_job[j] = -1;
	for (int i = x->t->n_transfers - 1; i >= 0; i--) {
		int j = x->t->transfers[i].consumer;

		x->next[i] = j >= 0 ? x->to_job[j] : -1;
		if (j >= 0)
			x->to_job[j] = i;
	}
}

static int allocate(struct search *x, struct orr_error *err)
{
	struct orr_idle *idle = x->idle;
	size_t n_workers = (size_t)idle->n_workers, n;

	if (!orr_arrays_make(&idle->all, idle->first, n_workers + 1))
		return orr_no_memory(err, "idle time");
	for (int w = 0; w < idle->n_workers; w++)
		idle->first[w + 1] = x->jobs->first[w + 1] - x->jobs->first[w];
	for (int u = 0; u < x->t->n_updates; u++)
		idle->first[x->t->updates[u].w + 1]++;
	for (int w = 0; w < idle->n_workers; w++)
		idle->first[w + 1] += idle->first[w];
	n = (size_t)idle->first[n_workers];
	orr_arrays_make(&idle->all, idle->items, n + 1);
	orr_arrays_make(&idle->all, idle->gaps, MOST_GAPS * n + 4 * n_workers);
	orr_arrays_make(&idle->all, idle->causes, n_workers);
	orr_arrays_make(&x->all, x->keyed, n + 1);
	orr_arrays_make(&x->all, x->around, orr_jobs_most_around(x->jobs));
	orr_arrays_make(&x->all, x->to_job, x->jobs->n_jobs);
	orr_arrays_make(&x->all, x->next, x->t->n_transfers + 1);
	return idle->all.failed || x->all.failed ? orr_no_memory(err, "idle time") : 0;
}

int orr_idle_create(struct orr_idle **out, const struct orr_timeline *t, struct orr_error *err)
{
	struct search x = {.t = t, .jobs = t->jobs};
	int code;

	if (!(x.idle = calloc(1, sizeof(*x.idle))))
		return orr_no_memory(err, "idle time");
	x.idle->timeline = t;
	x.idle->n_workers = t->jobs->pipeline->n_workers;
	if ((code = allocate(&x, err)) || (code = order_items(x.idle, x.keyed, err)))
		goto out;
	index_transfers(&x);
	find_all_awaited(&x);
	find_gaps(x.idle);
	find_imbalance(x.idle);
	*out = x.idle;
	x.idle = NULL;
out:
	orr_arrays_free(&x.all);
	orr_idle_destroy(x.idle);
	return code;
}

void orr_idle_destroy(struct orr_idle *idle)
{
	if (!idle)
		return;
	orr_arrays_free(&idle->all);
	free(idle);
}
