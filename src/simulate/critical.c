#include <stdbool.h>
#include <stdlib.h>

#include "idle.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"

struct walk {
	const struct orr_idle *idle;
	const struct orr_jobs *jobs;
	int *where; /* [n_jobs * most_at] the item of a job on each of its workers */
	struct orr_path_part *parts;
	int n, room;
};

/* Of an item that has been reached: what it waited for to the last. */
struct reason {
	int item; /* that waited: of a job on several workers on the one that was ready last */
	bool by_worker; /* for the worker; else for what it awaits */
};

static int worker_of(const struct orr_idle *idle, int item)
{
	int w = 0;

	while (item >= idle->first[w + 1])
		w++;
	return w;
}

static void index_items(struct walk *walk)
{
	const struct orr_idle *idle = walk->idle;

	for (int w = 0; w < idle->n_workers; w++)
		for (int i = idle->first[w]; i < idle->first[w + 1]; i++) {
			int j = idle->items[i].job;

			if (j >= 0)
				walk->where[j * walk->jobs->most_at +
					    orr_jobs_number_at(walk->jobs, j, w)] = i;
		}
}

static bool awaits(const struct orr_item *item)
{
	return item->from >= 0 || item->transfer >= 0;
}

/* What comes at the same time as the worker gets free counts: the path follows the data. */
static struct reason find_reason(const struct walk *walk, int item)
{
	const struct orr_idle *idle = walk->idle;
	int j = idle->items[item].job, n = j >= 0 ? orr_jobs_n_at(walk->jobs, j) : 1;
	struct reason reason = {-1, false};
	int64_t last_ns = INT64_MIN;

	for (int k = 0; k < n; k++) {
		int i = j >= 0 ? walk->where[j * walk->jobs->most_at + k] : item;
		const struct orr_item *x = &idle->items[i];
		bool first = i == idle->first[worker_of(idle, i)];

		if (awaits(x) && x->came_ns >= last_ns) {
			reason = (struct reason){i, false};
			last_ns = x->came_ns;
		}
		if (!first && x->free_ns > last_ns) {
			reason = (struct reason){i, true};
			last_ns = x->free_ns;
		}
	}
	return reason;
}

static void add_part(struct walk *walk, int item, int transfer, int w, int64_t start_ns,
		     int64_t end_ns)
{
	if (walk->n < walk->room && end_ns > start_ns)
		walk->parts[walk->n++] =
			(struct orr_path_part){w, item, transfer, start_ns, end_ns};
}

/* Back over a transfer to the item that it came from; -1: from none. Parameters set out when the
 * job before on the worker starts: the path goes on with what that one waited for. */
static int cross(struct walk *walk, int item, bool *skip)
{
	const struct orr_idle *idle = walk->idle;
	const struct orr_item *x = &idle->items[item];
	int w = worker_of(idle, item);
	const struct orr_item *before = item > idle->first[w] ? x - 1 : NULL;

	if (x->from >= 0) {
		add_part(walk, -1, x->transfer, w, x->made_ns, x->came_ns);
		return walk->where[x->from * walk->jobs->most_at];
	}
	*skip = before && before->start_ns <= x->made_ns;
	add_part(walk, -1, x->transfer, w, *skip ? before->start_ns : idle->start_ns, x->came_ns);
	return *skip ? item - 1 : -1;
}

static int find_last(const struct orr_idle *idle)
{
	int last = -1;

	for (int w = 0; w < idle->n_workers; w++) {
		int i = idle->first[w + 1] - 1;

		if (i >= idle->first[w] &&
		    (last < 0 || idle->items[i].end_ns > idle->items[last].end_ns))
			last = i;
	}
	return last;
}

/* The last update of the stage whose parameters arrive last, where that is the end; or the last
 * item. */
static int begin_at(struct walk *walk)
{
	const struct orr_idle *idle = walk->idle;
	const struct orr_timeline *t = idle->timeline;
	int last = find_last(idle), item = -1, transfer = 0;

	if (last < 0 || orr_timeline_gathered(t, -1) <= idle->items[last].end_ns)
		return last;
	while (t->transfers[transfer].ring != ORR_RING_ALL_GATHER ||
	       t->transfers[transfer].end_ns != orr_timeline_gathered(t, -1))
		transfer++;
	for (int i = 0; i < idle->first[idle->n_workers]; i++)
		if (idle->items[i].update >= 0 &&
		    t->updates[idle->items[i].update].s == t->transfers[transfer].set &&
		    (item < 0 || idle->items[i].end_ns > idle->items[item].end_ns))
			item = i;
	if (item < 0)
		return last;
	add_part(walk, -1, transfer, t->transfers[transfer].to, idle->items[item].end_ns,
		 t->transfers[transfer].end_ns);
	return item;
}

static void go_back(struct walk *walk)
{
	const struct orr_idle *idle = walk->idle;
	int item = begin_at(walk);
	bool skip = false;

	/* no item twice; the count only guards against a timeline that contradicts itself */
	for (int i = 0; item >= 0 && i <= idle->first[idle->n_workers]; i++) {
		const struct orr_item *x = &idle->items[item];
		struct reason reason = find_reason(walk, item);

		if (!skip)
			add_part(walk, item, -1, worker_of(idle, item), x->start_ns, x->end_ns);
		skip = false;
		if (reason.item < 0)
			return;
		item = reason.by_worker ? reason.item - 1 : cross(walk, reason.item, &skip);
	}
}

int orr_idle_path(struct orr_path_part **parts, int *n, const struct orr_idle *idle,
		  struct orr_error *err)
{
	const struct orr_jobs *jobs = idle->timeline->jobs;
	struct walk walk = {
		.idle = idle, .jobs = jobs, .room = 2 * idle->first[idle->n_workers] + 1};

	walk.parts = calloc((size_t)walk.room, sizeof(*walk.parts));
	walk.where = calloc((size_t)jobs->n_jobs * (size_t)jobs->most_at, sizeof(*walk.where));
	if (!walk.parts || !walk.where) {
		free(walk.parts);
		free(walk.where);
		return orr_fail(err, ORR_E_NOMEM, "critical path: no memory for %d jobs",
				jobs->n_jobs);
	}
	index_items(&walk);
	go_back(&walk);
	for (int i = 0; i < walk.n / 2; i++) {
		struct orr_path_part part = walk.parts[i];

		walk.parts[i] = walk.parts[walk.n - 1 - i];
		walk.parts[walk.n - 1 - i] = part;
	}
	free(walk.where);
	*parts = walk.parts;
	*n = walk.n;
	return 0;
}
