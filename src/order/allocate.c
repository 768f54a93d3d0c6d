#include "allocate.h"

#include <math.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"

#define A_LIGHT_PART 50 /* of a worker: lighter layers fill the remaining space */

static bool differ(const struct orr_layers *l)
{
	return l->machine && l->machine->cluster;
}

/* What so much work takes worker w. */
static int64_t time_on(const struct orr_layers *l, int w, int64_t work_ns)
{
	return differ(l) ? orr_machine_work_ns(l->machine, w, work_ns) : work_ns;
}

static bool fits(const struct orr_layers *l, int w, int64_t bytes, int64_t memory_bytes)
{
	int64_t limit = differ(l) ? orr_machine_memory(l->machine, w) : memory_bytes;

	return !limit || bytes <= limit;
}

static int64_t bytes_of(const struct orr_layers *l, int i)
{
	return l->bytes ? l->bytes[i] : 0;
}

static bool are_alike(const struct orr_layers *l, int v, int w)
{
	return !differ(l) ||
	       (orr_machine_speed(l->machine, v) == orr_machine_speed(l->machine, w) &&
		orr_machine_memory(l->machine, v) == orr_machine_memory(l->machine, w));
}

/* Times are rounded, and may be half a nanosecond less than they are. */
static int64_t bound_of_speeds(const struct orr_layers *l, int n_workers, int64_t sum,
			       int64_t largest)
{
	struct orr_machine workers = *l->machine;
	double ns;

	workers.n_workers = n_workers;
	ns = fmax((double)sum / orr_machine_speeds(&workers),
		  (double)largest / orr_machine_fastest(&workers));
	return (int64_t)(ns * (1 - 1e-12) - 0.5);
}

static int64_t bound_of(const struct orr_layers *l, int n_workers)
{
	int64_t sum = 0, largest = 0;

	for (int i = 0; i < l->n; i++) {
		sum += l->work_ns[i];
		largest = larger(largest, l->work_ns[i]);
	}
	return differ(l) ? bound_of_speeds(l, n_workers, sum, largest)
			 : larger((sum + n_workers - 1) / n_workers, largest);
}

/* The least largest piece of some layers on some workers, and where the last piece begins. */
struct cell {
	int64_t time;
	int from;
};

/* cells[w * (n + 1) + i]: of the first i layers on w workers. */
int orr_allocate_contiguous(struct orr_allocation *out, int *worker_of, const struct orr_layers *l,
			    int n_workers, int64_t memory_bytes, struct orr_error *err)
{
	size_t row = (size_t)l->n + 1, n_cells = row * ((size_t)n_workers + 1);
	struct orr_arrays all = {0};
	struct cell *cells = orr_arrays_add(&all, n_cells, sizeof(*cells)), *last;
	int code = orr_arrays_check(&all, "allocate", err);

	if (code)
		return code;
	for (size_t i = 0; i < n_cells; i++)
		cells[i].time = i % row ? INT64_MAX : 0;
	for (int w = 0; w < n_workers; w++) {
		struct cell *without = cells + (size_t)w * row, *here = without + row;

		for (int i = 1; i <= l->n; i++) {
			int64_t work = 0, bytes = 0, time;

			here[i] = (struct cell){without[i].time, i}; /* nothing on this worker */
			for (int k = i - 1; k >= 0; k--) {
				work += l->work_ns[k];
				bytes += bytes_of(l, k);
				time = time_on(l, w, work);
				if (!fits(l, w, bytes, memory_bytes) || time >= here[i].time)
					break;
				time = larger(time, without[k].time);
				if (time < here[i].time)
					here[i] = (struct cell){time, k};
			}
		}
	}
	last = &cells[n_cells - 1];
	*out = (struct orr_allocation){last->time == INT64_MAX ? -1 : last->time,
				       bound_of(l, n_workers), !differ(l)};
	for (int w = n_workers, end = l->n; w > 0 && worker_of && out->period_ns >= 0; w--) {
		int begin = cells[(size_t)w * row + (size_t)end].from;

		while (end > begin)
			worker_of[--end] = w - 1;
	}
	orr_arrays_free(&all);
	return 0;
}

struct branching {
	const struct orr_layers *layers;
	int n_workers;
	int64_t memory_bytes, bound_ns, best_ns, steps;
	int n_heavy;                   /* layers that are tried on every worker */
	const struct orr_keyed *order; /* layers, the heaviest first */
	int64_t *work_ns, *bytes;      /* [n_workers] so far */
	int *worker_of, *best_of;      /* [n] by layer; best_ns -1: none yet */
};

static int64_t period_of(const struct branching *b)
{
	int64_t most = 0;

	for (int k = 0; k < b->n_workers; k++)
		most = larger(most, time_on(b->layers, k, b->work_ns[k]));
	return most;
}

static int64_t time_with(const struct branching *b, int w, int i)
{
	return time_on(b->layers, w, b->work_ns[w] + b->layers->work_ns[i]);
}

static bool has_room(const struct branching *b, int w, int i)
{
	return fits(b->layers, w, b->bytes[w] + bytes_of(b->layers, i), b->memory_bytes);
}

/* Layer i to worker w, or with sign -1 off it. */
static void put(struct branching *b, int w, int i, int sign)
{
	b->work_ns[w] += sign * b->layers->work_ns[i];
	b->bytes[w] += sign * bytes_of(b->layers, i);
	b->worker_of[i] = w;
}

/* Layer i of the order and those after it, each to the least busy worker with room; kept if better.
 */
static void spread(struct branching *b, int i)
{
	int n = i;

	for (; n < b->layers->n; n++) {
		int layer = b->order[n].value, w = -1;

		for (int k = 0; k < b->n_workers; k++)
			if (has_room(b, k, layer) &&
			    (w < 0 || time_with(b, k, layer) < time_with(b, w, layer)))
				w = k;
		if (w < 0)
			break; /* branching may find room */
		put(b, w, layer, 1);
	}
	if (n == b->layers->n && (b->best_ns < 0 || period_of(b) < b->best_ns)) {
		b->best_ns = period_of(b);
		memcpy(b->best_of, b->worker_of, (size_t)n * sizeof(*b->best_of));
	}
	while (n-- > i)
		put(b, b->worker_of[b->order[n].value], b->order[n].value, -1);
}

/* Place layer i of the order and all after it, those after the heavy ones as they come. Of workers
 * that look alike only the first is tried. */
static void branch(struct branching *b, int i)
{
	int layer;

	if (b->steps-- <= 0 || b->best_ns == b->bound_ns)
		return;
	if (i == b->n_heavy) {
		spread(b, i);
		return;
	}
	layer = b->order[i].value;
	/* the fullest worker that takes it first: what fits exactly closes a worker */
	for (int64_t below = INT64_MAX;;) {
		int64_t most = -1;
		int w = -1;

		for (int k = 0; k < b->n_workers; k++) {
			/* distinct loads are told apart by work, then memory */
			int64_t key = b->work_ns[k];

			if ((b->best_ns < 0 || time_with(b, k, layer) < b->best_ns) &&
			    has_room(b, k, layer) && key < below && key > most) {
				most = key;
				w = k;
			}
		}
		if (w < 0)
			return;
		below = most;
		for (int k = w; k < b->n_workers; k++) {
			bool seen = b->work_ns[k] != most || !has_room(b, k, layer);

			for (int e = w; e < k && !seen; e++)
				seen = b->work_ns[e] == most && b->bytes[e] == b->bytes[k] &&
				       are_alike(b->layers, e, k);
			if (seen || (b->best_ns >= 0 && time_with(b, k, layer) >= b->best_ns))
				continue;
			put(b, k, layer, 1);
			branch(b, i + 1);
			put(b, k, layer, -1);
		}
	}
}

int orr_allocate_any(struct orr_allocation *out, int *worker_of, const struct orr_layers *l,
		     int n_workers, int64_t memory_bytes, int64_t most_steps, struct orr_error *err)
{
	struct orr_keyed *order;
	struct orr_arrays all = {0};
	struct branching b = {.layers = l,
			      .n_workers = n_workers,
			      .memory_bytes = memory_bytes,
			      .steps = most_steps,
			      .bound_ns = bound_of(l, n_workers)};
	int code;

	orr_arrays_make(&all, order, (size_t)l->n + 1);
	orr_arrays_make(&all, b.work_ns, n_workers);
	orr_arrays_make(&all, b.bytes, n_workers);
	orr_arrays_make(&all, b.worker_of, (size_t)l->n + 1);
	orr_arrays_make(&all, b.best_of, (size_t)l->n + 1);
	if ((code = orr_arrays_check(&all, "allocate", err)))
		return code;
	for (int i = 0; i < l->n; i++)
		order[i] = (struct orr_keyed){-l->work_ns[i], i};
	if ((code = orr_sort(order, l->n, err)) ||
	    (code = orr_allocate_contiguous(out, b.best_of, l, n_workers, memory_bytes, err)))
		goto out;
	b.order = order;
	b.best_ns = out->period_ns;
	spread(&b, 0);
	/* what is light hides how the heavy ones go together: these first, for half of the steps */
	b.steps = most_steps / 2;
	while (b.n_heavy < l->n && l->work_ns[order[b.n_heavy].value] > b.bound_ns / A_LIGHT_PART)
		b.n_heavy++;
	branch(&b, 0);
	b.steps = most_steps - most_steps / 2;
	b.n_heavy = l->n;
	branch(&b, 0);
	*out = (struct orr_allocation){b.best_ns, b.bound_ns,
				       b.best_ns == b.bound_ns || b.steps >= 0};
	if (worker_of)
		memcpy(worker_of, b.best_of, (size_t)l->n * sizeof(*worker_of));
out:
	orr_arrays_free(&all);
	return code;
}
