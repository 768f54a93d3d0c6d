#include "ties.h"

#include <stdlib.h>

#include "orrery/graph.h"

static bool is_set(const struct orr_graph *g, int k)
{
	return g->operators[k].tied == k && !g->operators[k].frozen;
}

static int allocate(struct orr_ties *ties, struct orr_error *err)
{
	const struct orr_work *work = ties->cross->work;
	const struct orr_graph *g = work->pipeline->graph;
	size_t n_tasks;

	for (int k = 0; k < g->n_operators; k++)
		ties->n_sets += is_set(g, k);
	ties->n_parts = orr_work_n_ties(work);
	n_tasks = (size_t)work->window * (size_t)work->n_updates * (size_t)ties->n_parts;
	ties->sets = calloc((size_t)ties->n_sets + 1, sizeof(*ties->sets));
	ties->parts = calloc((size_t)ties->n_parts + 1, sizeof(*ties->parts));
	ties->spans = calloc((size_t)work->pipeline->n_stages, sizeof(*ties->spans));
	ties->tasks = calloc(3 * n_tasks + 1, sizeof(*ties->tasks));
	if (ties->sets && ties->parts && ties->spans && ties->tasks)
		return 0;
	return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d shared gradients", ties->n_parts);
}

/* Operator k, of every owner of its stage. */
static void add_parts(struct orr_ties *ties, struct orr_tie *set, int k)
{
	const struct orr_work *work = ties->cross->work;
	int s = work->pipeline->stage_of[k];

	for (int i = work->jobs->first_owner[s]; i < work->jobs->first_owner[s + 1]; i++) {
		ties->parts[set->first + set->n++] = (struct orr_tie_part){
			.owned = i, .at = orr_program_first_parameter(work->programs[s], k)};
		if (set->here < 0 && orr_work_has(work, work->jobs->owners[i]))
			set->here = i;
	}
	set->s = set->n && set->s != s ? -1 : s;
}

static int make_tasks(struct orr_ties *ties, const struct orr_tie *set)
{
	const struct orr_data *data = ties->slots->data;
	int n_updates = data->work->n_updates;

	for (int k = 0; k < data->work->window * n_updates; k++)
		for (int c = set->first; c < set->first + set->n; c++) {
			struct orr_task *t = &ties->tasks[3 * (k * ties->n_parts + c)];
			int w = data->owned[ties->parts[c].owned].w;

			for (int i = 0; i < 3; i++)
				orr_task_init(&t[i], ties->slots->submitter,
					      &ties->slots->slots[k / n_updates].flight,
					      orr_work_has(data->work, w) && i != 1
						      ? w
						      : data->owned[set->here].w);
		}
	return 0;
}

static int make_set(struct orr_ties *ties, struct orr_tie *set, int k, struct orr_error *err)
{
	const struct orr_graph *g = ties->cross->work->pipeline->graph;
	struct orr_data *data = ties->slots->data;
	int code = 0;

	set->n_floats = g->operators[k].n_parameters;
	set->here = -1;
	set->s = ties->cross->work->pipeline->stage_of[k];
	for (int i = k; i < g->n_operators; i++)
		if (g->operators[i].tied == k)
			add_parts(ties, set, i);
	for (int c = set->first; c < set->first + set->n && set->s < 0; c++)
		ties->spans[data->owned[ties->parts[c].owned].s] = true;
	if (set->here < 0)
		return 0;
	for (int c = set->first; c < set->first + set->n && !code; c++)
		code = orr_data_make_temporary(data, &ties->parts[c].gradient, set->n_floats, err);
	if (!code)
		code = orr_data_make_temporary(data, &set->sum, set->n_floats, err);
	return code ? code : make_tasks(ties, set);
}

int orr_ties_init(struct orr_ties *ties, struct orr_slots *slots, const struct orr_cross *cross,
		  struct orr_error *err)
{
	const struct orr_graph *g = cross->work->pipeline->graph;
	int64_t most = 0;
	int n = 0, at = 0, code;

	*ties = (struct orr_ties){.slots = slots, .cross = cross};
	if ((code = allocate(ties, err)))
		return code;
	for (int k = 0; k < g->n_operators && !code; k++) {
		struct orr_tie *set = &ties->sets[n];

		if (!is_set(g, k))
			continue;
		set->first = at;
		code = make_set(ties, set, k, err);
		at += set->n;
		most = set->n_floats > most ? set->n_floats : most;
		n++;
	}
	if (code || !n)
		return code;
	if (!(ties->zeros = calloc((size_t)most, sizeof(*ties->zeros))))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for a shared gradient");
	return orr_data_register(&ties->zero, ties->zeros, most, err);
}

void orr_ties_fini(struct orr_ties *ties)
{
	for (int c = 0; ties->parts && c < ties->n_parts; c++)
		orr_data_forget(ties->parts[c].gradient);
	for (int i = 0; ties->sets && i < ties->n_sets; i++)
		orr_data_forget(ties->sets[i].sum);
	if (ties->zero)
		starpu_data_unregister(ties->zero);
	free(ties->zeros);
	free(ties->sets);
	free(ties->parts);
	free(ties->spans);
	free(ties->tasks);
}

/* ---- a step ---- */

/* Update q of the slot's step. */
struct at {
	struct orr_ties *ties;
	const struct orr_slot *slot;
	int q;
	struct orr_error *err;
};

/* The k-th of the tasks for part c: out of the owner's gradient, into the sum, and back. */
static struct orr_task *task_of(const struct at *x, int c, int k)
{
	int update = x->slot->number * x->ties->cross->work->n_updates + x->q;

	return &x->ties->tasks[3 * (update * x->ties->n_parts + c) + k];
}

/* Has rank k an owner in the set? */
static bool takes_part(const struct orr_ties *ties, const struct orr_tie *set, int k)
{
	const struct orr_work *work = ties->cross->work;
	int c = 0;

	while (c < set->n &&
	       work->rank_of[work->jobs->owners[ties->parts[set->first + c].owned]] != k)
		c++;
	return c < set->n;
}

/* Part c comes to all ranks that have owners of the set. */
static int share(const struct at *x, const struct orr_tie *set, int c)
{
	const struct orr_work *work = x->ties->cross->work;
	const struct orr_tie_part *part = &x->ties->parts[c];
	const struct orr_owned *o = &x->ties->slots->data->owned[part->owned];
	int64_t tag = ((int64_t)x->q * x->ties->n_parts + c) * work->n_ranks;
	struct orr_message m;
	int code;

	if (!orr_work_has(work, o->w)) {
		m = orr_cross_message(x->ties->cross, x->slot->number, ORR_TAG_TIED,
				      tag + work->rank, part->gradient, work->rank_of[o->w]);
		return orr_ranks_receive_data(&m, NULL, NULL, x->err);
	}
	code = orr_task_submit_add(x->ties->slots->submitter, task_of(x, c, 0), o->gradient.handle,
				   part->gradient, true, part->at, set->n_floats, x->err);
	for (int k = 0; k < work->n_ranks && !code; k++) {
		if (k == work->rank || !takes_part(x->ties, set, k))
			continue;
		m = orr_cross_message(x->ties->cross, x->slot->number, ORR_TAG_TIED, tag + k,
				      part->gradient, k);
		code = orr_ranks_send_data(&m, x->err);
	}
	return code;
}

/* The sum, or zeros, in place of part c. */
static int put_back(const struct at *x, const struct orr_tie *set, int c)
{
	const struct orr_tie_part *part = &x->ties->parts[c];
	const struct orr_data *data = x->ties->slots->data;
	const struct orr_owned *o = &data->owned[part->owned];
	bool first = part->owned == data->work->jobs->first_owner[o->s];

	if (!orr_work_has(data->work, o->w))
		return 0;
	return orr_task_submit_put(x->ties->slots->submitter, task_of(x, c, 2),
				   first ? set->sum : x->ties->zero, o->gradient.handle, 0,
				   part->at, set->n_floats, x->err);
}

static int submit_set(const struct at *x, const struct orr_tie *set)
{
	const struct orr_data *data = x->ties->slots->data;
	bool any = false;
	int code = 0;

	for (int c = set->first; c < set->first + set->n && !code; c++) {
		const struct orr_tie_part *part = &x->ties->parts[c];

		if (!data->owned[part->owned].n_contributors) /* it has made none */
			continue;
		if (!(code = share(x, set, c)))
			code = orr_task_submit_add(x->ties->slots->submitter, task_of(x, c, 1),
						   part->gradient, set->sum, !any, 0, set->n_floats,
						   x->err);
		orr_data_drop(data, part->gradient);
		any = true;
	}
	for (int c = set->first; c < set->first + set->n && !code; c++)
		code = put_back(x, set, c);
	orr_data_drop(data, set->sum);
	return code;
}

int orr_ties_submit(struct orr_ties *ties, const struct orr_slot *slot, int s, int q,
		    struct orr_error *err)
{
	const struct at x = {ties, slot, q, err};
	int code = 0;

	for (int i = 0; i < ties->n_sets && !code; i++)
		if (ties->sets[i].here >= 0 && ties->sets[i].s == s)
			code = submit_set(&x, &ties->sets[i]);
	return code;
}
