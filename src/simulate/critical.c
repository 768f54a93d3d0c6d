#include <stdlib.h>
#include <string.h>

#include "idle.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"
#include "schedule/places.h"

struct walk {
	const struct orr_idle *idle;
	const struct orr_jobs *jobs;
	int *where;  /* [n_jobs * most_at] the item of a job on each of its workers */
	int *before; /* [n_jobs] the job whose place its parameters take (schedule/places.h) */
	struct orr_path_part *parts; /* from the last on: n of them are free */
	int n;
};

/* Of an item that has been reached: what it waited for to the last. */
struct reason {
	int item; /* that waited: of a job on several workers on the one that was ready last */
	bool by_worker; /* for the worker; else for what it awaits */
};

static void index_items(struct walk *walk)
{
	const struct orr_idle *idle = walk->idle;

	for (int i = 0; i < idle->first[idle->n_workers]; i++) {
		int j = idle->items[i].job, w = idle->items[i].w;

		if (j >= 0)
			walk->where[j * walk->jobs->most_at +
				    orr_jobs_number_at(walk->jobs, j, w)] = i;
	}
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
		bool first = i == idle->first[x->w];

		if (orr_item_awaits(x) && x->came_ns >= last_ns) {
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
	if (walk->n && end_ns > start_ns)
		walk->parts[--walk->n] =
			(struct orr_path_part){w, item, transfer, start_ns, end_ns};
}

/* Back over a transfer to the item that it came from; -1: from none. Parameters are asked for when
 * the job has ended whose place they take. */
static int cross(struct walk *walk, int item)
{
	const struct orr_idle *idle = walk->idle;
	const struct orr_item *x = &idle->items[item];
	int from = x->from;
	int64_t made_ns = x->made_ns;

	if (from < 0) {
		int reader = idle->timeline->transfers[x->transfer].consumer;

		from = walk->before[reader] == reader ? -1 : walk->before[reader];
		made_ns = from < 0 ? idle->start_ns : idle->timeline->end_ns[from];
	}
	add_part(walk, -1, x->transfer, x->w, made_ns, x->came_ns);
	return from < 0 ? -1 : walk->where[from * walk->jobs->most_at];
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

	/* no item twice; the count only guards against a timeline that contradicts itself */
	for (int i = 0; item >= 0 && i <= idle->first[idle->n_workers]; i++) {
		const struct orr_item *x = &idle->items[item];
		struct reason reason = find_reason(walk, item);

		add_part(walk, item, -1, x->w, x->start_ns, x->end_ns);
		if (reason.item < 0)
			return;
		item = reason.by_worker ? reason.item - 1 : cross(walk, reason.item);
	}
}

int orr_idle_path(struct orr_path_part **parts, int *n, const struct orr_idle *idle,
		  struct orr_error *err)
{
	const struct orr_jobs *jobs = idle->timeline->jobs;
	int room = 2 * idle->first[idle->n_workers] + 1;
	struct walk walk = {.idle = idle, .jobs = jobs, .n = room};
	struct orr_arrays all = {0};
	int code;

	walk.parts = calloc((size_t)room, sizeof(*walk.parts));
	orr_arrays_make(&all, walk.where, (size_t)jobs->n_jobs * (size_t)jobs->most_at);
	orr_arrays_make(&all, walk.before, jobs->n_jobs);
	code = !walk.parts || all.failed
		       ? orr_no_memory(err, "critical path")
		       : orr_places_find(walk.before, jobs, jobs->pipeline->prefetch + 1,
					 ORR_PLACE_PARAMETERS, NULL, err);
	if (code) {
		free(walk.parts);
	} else {
		index_items(&walk);
		go_back(&walk);
		*n = room - walk.n;
		memmove(walk.parts, walk.parts + walk.n, (size_t)*n * sizeof(*walk.parts));
		*parts = walk.parts;
	}
	orr_arrays_free(&all);
	return code;
}
