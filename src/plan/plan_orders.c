#include "plan_draft.h"

#include <string.h>

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

/* f->order, unless it is there. */
static void add(struct finder *f)
{
	struct orr_plan_orders *found = f->found;
	size_t n = (size_t)f->machine->n_workers;

	for (int i = 0; i < found->n; i++)
		if (!memcmp(found->list + (size_t)i * n, f->order, n * sizeof(*f->order)))
			return;
	memcpy(found->list + (size_t)found->n++ * n, f->order, n * sizeof(*f->order));
}

/* All orders that go on from the first n workers; of workers that are alike the first is next. */
static void extend(struct finder *f, int n)
{
	int n_workers = f->machine->n_workers;

	if (n == n_workers) {
		f->too_many = f->found->n == MOST_ORDERS;
		if (!f->too_many)
			add(f);
	}
	for (int w = 0; n < n_workers && w < n_workers && !f->too_many; w++) {
		bool skip = f->taken[w];

		for (int v = 0; v < w && !skip; v++)
			skip = !f->taken[v] && are_alike(f->machine, v, w);
		if (skip)
			continue;
		f->taken[w] = true;
		f->order[n] = w;
		extend(f, n + 1);
		f->taken[w] = false;
	}
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
static void add_some(struct finder *f)
{
	int n = f->machine->n_workers;

	f->found->n = 0;
	for (int i = 0; i < 4; i++) {
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
		add(f);
	}
}

int orr_plan_orders_find(struct orr_plan_orders *found, const struct orr_machine *machine,
			 struct orr_error *err)
{
	size_t n = (size_t)machine->n_workers;
	struct finder f = {.machine = machine, .found = found};
	int code;

	*found = (struct orr_plan_orders){0};
	orr_arrays_make(&found->arrays, found->list, MOST_ORDERS * n);
	orr_arrays_make(&found->arrays, f.taken, n);
	orr_arrays_make(&found->arrays, f.order, n);
	if ((code = orr_arrays_check(&found->arrays, "plan", err)))
		return code;
	extend(&f, 0);
	if (f.too_many)
		add_some(&f);
	found->all = !f.too_many;
	return 0;
}
