/* DualPipeV: DualPipe folded to a V, one copy of the parameters. Worker r has stage r on the way
 * down and stage 2P-1-r on the way up, and treats the two as DualPipe treats its two directions.
 * The main part pairs a forward of one with a backward of the other, which DeepSeek runs as one to
 * overlap what they send. Here they are jobs, one after the other; of a split, on a machine with
 * streams, the parts of one run while the other's exchange (simulate/try.c). */
#include <stdbool.h>
#include <stdlib.h>

#include "base/arrays.h"
#include "base/max.h"
#include "direct.h"

enum { DOWN, UP };

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_stages == 2 * p->n_workers)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"dualpipe-v: %d stages on %d workers: it needs two stages a worker; set "
			"[workers] to half of the stages, or cut the model into %d",
			p->n_stages, p->n_workers, 2 * p->n_workers);
}

/* One worker's order as it is written down: n counts up. Microbatches that the step does not have
 * are left out; what remains of a valid order is one. */
struct writer {
	const struct orr_pipeline *p;
	int64_t *n, next;
	int r;
	int forwards[2], backwards[2]; /* done, on the way down and up */
	struct waiting {
		int way, b;
	} * waiting; /* weight gradients, oldest first */
	int n_waiting, n_done;
};

static void put(struct writer *o, int way, int b, enum orr_pass d)
{
	int s = way == UP ? 2 * o->p->n_workers - 1 - o->r : o->r;

	if (b < o->p->n_microbatches)
		o->n[((int64_t)b * o->p->n_stages + s) * ORR_N_PASSES + (int)d] = o->next++;
}

static void forward(struct writer *o, int way)
{
	put(o, way, o->forwards[way]++, ORR_PASS_F);
}

/* The input gradient; W at once, or when its turn comes. */
static void backward(struct writer *o, int way, bool later)
{
	int b = o->backwards[way]++;

	put(o, way, b, ORR_PASS_B);
	if (later)
		o->waiting[o->n_waiting++] = (struct waiting){way, b};
	else
		put(o, way, b, ORR_PASS_W);
}

static void weight(struct writer *o)
{
	if (o->n_done < o->n_waiting) {
		put(o, o->waiting[o->n_done].way, o->waiting[o->n_done].b, ORR_PASS_W);
		o->n_done++;
	}
}

/* The eight steps of DualPipeV; m microbatches, at least twice the workers. */
static void write_worker(struct writer *o, int m)
{
	int below = o->p->n_workers - 1 - o->r, here = o->r + 1;

	for (int i = 0; i < 2 * below; i++)
		forward(o, DOWN);
	for (int i = 0; i < here; i++) {
		forward(o, DOWN);
		forward(o, UP);
	}
	for (int i = 0; i < below; i++) {
		backward(o, UP, true);
		weight(o);
		forward(o, UP);
	}
	for (int i = 0; i < m - 2 * o->p->n_workers + here; i++) { /* the pairs */
		forward(o, DOWN);
		backward(o, UP, false);
		forward(o, UP);
		backward(o, DOWN, false);
	}
	for (int i = 0; i < below; i++) {
		backward(o, UP, false);
		forward(o, UP);
		backward(o, DOWN, false);
	}
	/* from half of the rest on, W waits, to fill idle time at the end */
	for (int i = 0; i < 2 * here; i++)
		backward(o, i % 2 ? DOWN : UP, i >= here);
	for (int i = 0; i < below; i++) {
		weight(o);
		backward(o, DOWN, true);
	}
	while (o->n_done < o->n_waiting)
		weight(o);
}

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	int m = (int)larger(p->n_microbatches, 2 * p->n_workers);
	struct waiting *waiting = malloc(2 * (size_t)m * sizeof(*waiting));

	(void)data;
	if (!waiting)
		return orr_no_memory(err, "dualpipe-v");
	for (int r = 0; r < p->n_workers; r++) {
		struct writer o = {.p = p, .n = out->n, .r = r, .waiting = waiting};

		write_worker(&o, m);
	}
	free(waiting);
	return 0;
}

const struct orr_schedule orr_schedule_dualpipe_v = {
	.name = "dualpipe-v",
	.summary = "split backward; two stages a worker as a V, forwards of one paired with "
		   "backwards of the other",
	.paper = "DeepSeek-AI 2024 (DeepSeek-V3, DualPipe), cut in half",
	.split_backward = true,
	.check = check,
	.compute = orr_compute_folded,
	.place = place,
};
