#include "plan_draft.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "orrery/machine.h"

#define MOST_ORDERS 24 /* of which all are tried */

struct finder {
	const struct orr_machine *machine;
	struct orr_plan_orders *found;
	bool *taken; /* [n_workers] */
	int *order;  /* [n_workers] so far */
	bool too_many;
};

/* Could each stand in the other's place? */
static bool are_alike(const struct orr_machine *m, int v, int w)
{
	const struct orr_cluster *c = m->cluster;
	bool free_links = !m->latency_ns && m->bandwidth_bytes_per_s <= 0;

	return orr_machine_speed(m, v) == orr_machine_speed(m, w) &&
	       orr_machine_memory(m, v) == orr_machine_memory(m, w) &&
	       (free_links || (!c->n_pairs && c->workers[v].group == c->workers[w].group));
}

static int add(struct orr_plan_orders *found, const int *order, int n_workers,
	       struct orr_error *err)
{
	size_t row = (size_t)n_workers;
	int *grown;

	for (int i = 0; i < found->n; i++)
		if (!memcmp(found->list + (size_t)i * row, order, row * sizeof(*order)))
			return 0;
	if (!(grown = realloc(found->list, ((size_t)found->n + 1) * row * sizeof(*grown))))
		return orr_fail(err, ORR_E_NOMEM, "plan: no memory for orders of %d workers",
				n_workers);
	found->list = grown;
	memcpy(grown + (size_t)found->n++ * row, order, row * sizeof(*order));
	return 0;
}

/* All orders that go on from the first n workers; of workers that are alike the first is next. */
static int extend(struct finder *f, int n, struct orr_error *err)
{
	int n_workers = f->machine->n_workers, code = 0;

	if (n == n_workers) {
		f->too_many = f->found->n == MOST_ORDERS;
		return f->too_many ? 0 : add(f->found, f->order, n_workers, err);
	}
	for (int w = 0; w < n_workers && !code && !f->too_many; w++) {
		bool skip = f->taken[w];

		for (int v = 0; v < w && !skip; v++)
			skip = !f->taken[v] && are_alike(f->machine, v, w);
		if (skip)
			continue;
		f->taken[w] = true;
		f->order[n] = w;
		code = extend(f, n + 1, err);
		f->taken[w] = false;
	}
	return code;
}

static void reverse(int *order, int n)
{
	for (int i = 0; i < n / 2; i++) {
		int w = order[i];

		order[i] = order[n - 1 - i];
		order[n - 1 - i] = w;
	}
}

/* The file's order, which has neighbours side by side, and by speed; and each backwards. */
static int add_some(struct finder *f, struct orr_error *err)
{
	int n = f->machine->n_workers, code = 0;

	f->found->n = 0;
	for (int i = 0; i < 4 && !code; i++) {
		for (int w = 0; w < n; w++) {
			int at = w;

			for (; i < 2 && at > 0 &&
			       orr_machine_speed(f->machine, f->order[at - 1]) <
				       orr_machine_speed(f->machine, w);
			     at--)
				f->order[at] = f->order[at - 1];
			f->order[at] = w;
		}
		if (i % 2)
			reverse(f->order, n);
		code = add(f->found, f->order, n, err);
	}
	return code;
}

int orr_plan_orders_find(struct orr_plan_orders *found, const struct orr_machine *machine,
			 struct orr_error *err)
{
	size_t n = (size_t)machine->n_workers;
	struct finder f = {.machine = machine, .found = found};
	struct orr_arrays all = {0};
	int code;

	*found = (struct orr_plan_orders){0};
	orr_arrays_make(&all, f.taken, n);
	orr_arrays_make(&all, f.order, n);
	if (!(code = orr_arrays_check(&all, "plan", err)) && !(code = extend(&f, 0, err)) &&
	    f.too_many)
		code = add_some(&f, err);
	found->all = !f.too_many;
	orr_arrays_free(&all);
	if (code)
		orr_plan_orders_fini(found);
	return code;
}

void orr_plan_orders_fini(struct orr_plan_orders *orders)
{
	free(orders->list);
	*orders = (struct orr_plan_orders){0};
}
