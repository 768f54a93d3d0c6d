#include "shard.h"

#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "model/whole.h"
#include "orrery/graph.h"
#include "orrery/run.h"
#include "tensors.h"

#define TAG ORR_RANKS_FIRST_TAG

struct piece {
	int rank;        /* where it is, or where it goes */
	const float *at; /* NULL: not here */
	int64_t n_floats;
	struct orr_pieces where; /* in the whole */
};

struct orr_shard_plan {
	const struct orr_run *run;
	bool copies; /* not a shard, but the parameters of all ranks, for rank 0 alone */
	/* [n_stages] owned: of stages whose owners keep parts of it, whole; else NULL */
	float **states;
	struct orr_whole whole;
	struct orr_whole_part *parts; /* [whole.most] of the tensor at hand */
	struct orr_floats *floats;    /* [n_stages] of every stage whose first owner is here */
	int n_acquired, n_numbered;
	/* what is written here: pieces[first[i]] up to pieces[first[i + 1]] are put together as
	 * tensor i; without any it is in memory as it is */
	struct orr_named_tensor *tensors;
	struct orr_tensor_source source;
	struct piece *pieces, *sent;
	int *first;
	int n, n_pieces, n_sent, n_asked;
	int64_t most, most_received;
	float *together, *received;
	struct orr_arrays all;
};

/* Each list for all the tensors and parts that there are. */
static int allocate(struct orr_shard_plan *x, struct orr_error *err)
{
	const struct orr_pipeline *p = x->run->work.pipeline;
	size_t n = 1;
	int code = orr_whole_init(&x->whole, p->graph, err);

	if (code)
		return code;
	for (int k = 0; k < p->graph->n_operators; k++)
		for (int i = 0; orr_whole_parameter(p->graph, k, i) >= 0; i++)
			n += ORR_MOST_KEPT;
	orr_arrays_make(&x->all, x->parts, (size_t)x->whole.most + 1);
	orr_arrays_make(&x->all, x->floats, p->n_stages);
	orr_arrays_make(&x->all, x->tensors, n);
	orr_arrays_make(&x->all, x->pieces, n);
	orr_arrays_make(&x->all, x->sent, n);
	orr_arrays_make(&x->all, x->first, n);
	return x->all.failed ? orr_no_memory(err, "checkpoint") : 0;
}

/* ---- the optimizer's state of a stage whose replicas each keep a part, put together ---- */

int orr_shard_room(float **state, const struct orr_run *run, const struct orr_owned *o,
		   struct orr_error *err)
{
	int64_t n = orr_work_n_trained(&run->work, o->s) * run->data.n_state;

	if ((*state = calloc((size_t)n + 1, sizeof(**state))))
		return 0;
	return orr_no_memory(err, "checkpoint");
}

/* Each of the n_state tensors of a part lies after the one before; so do those of the whole. */
void orr_shard_copy(const struct orr_run *run, const struct orr_owned *o, float *whole, float *part,
		    bool into)
{
	int64_t n = orr_work_n_trained(&run->work, o->s), floats = o->part.end - o->part.first;

	for (int k = 0; k < run->data.n_state; k++) {
		float *there = whole + k * n + o->part.first, *own = part + k * floats;

		memcpy(into ? there : own, into ? own : there, (size_t)floats * sizeof(*own));
	}
}

/* The part of owner o, here or elsewhere, to the rank of the first owner, if that is another. */
static int bring(float *whole, const struct orr_run *run, const struct orr_owned *o, int to,
		 struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	size_t bytes = (size_t)orr_data_n_state(&run->data, o) * sizeof(float);
	float *part = NULL;
	int code;

	if (!bytes || (!orr_work_has(work, o->w) && work->rank != to))
		return 0;
	if (!orr_work_has(work, o->w)) {
		if (!(part = malloc(bytes)))
			return orr_no_memory(err, "checkpoint");
		code = orr_ranks_receive(work->rank_of[o->w], TAG, part, bytes, err);
		if (!code)
			orr_shard_copy(run, o, whole, part, true);
		free(part);
		return code;
	}
	if ((code = orr_data_acquire(o->state, STARPU_R, &part, err)))
		return code;
	if (work->rank == to)
		orr_shard_copy(run, o, whole, part, true);
	else
		code = orr_ranks_send(to, TAG, part, bytes, err);
	orr_data_release(o->state);
	return code;
}

/* That of operator k, which is kept with the first one of its set alone. */
static int copy_state(const struct orr_shard_plan *x, int k, struct orr_error *err)
{
	const struct orr_work *work = &x->run->work;
	const struct orr_graph *g = work->pipeline->graph;
	int tied = g->operators[k].tied, s = work->pipeline->stage_of[k];
	int from = work->pipeline->stage_of[tied];
	const struct orr_owned *o = &x->run->data.owned[work->jobs->first_owner[from]];
	int64_t n = orr_work_n_trained(work, s), n_kept = o->part.end - o->part.first;
	float *state, *to = x->states[s] + orr_program_first_parameter(work->programs[s], k);
	int code = orr_data_acquire(o->state, STARPU_R, &state, err);

	if (code)
		return code;
	for (int e = 0; e < x->run->data.n_state; e++)
		memcpy(to + e * n,
		       state + e * n_kept + orr_program_first_parameter(work->programs[from], tied),
		       (size_t)g->operators[k].n_parameters * sizeof(*to));
	orr_data_release(o->state);
	return 0;
}

/* Collective. */
static int gather_states(struct orr_shard_plan *x, struct orr_error *err)
{
	const struct orr_work *work = &x->run->work;
	const struct orr_owned *owned = x->run->data.owned;
	const int *first = work->jobs->first_owner;
	int n_stages = work->pipeline->n_stages, code = 0;

	if (!(x->states = calloc((size_t)n_stages, sizeof(*x->states))))
		code = orr_no_memory(err, "checkpoint");
	for (int s = 0; s < n_stages && !code; s++)
		if (owned[first[s]].partial && orr_work_has(work, owned[first[s]].w))
			code = orr_shard_room(&x->states[s], x->run, &owned[first[s]], err);
	if ((code = orr_ranks_agree(code, err)))
		return code;
	for (int i = 0; i < x->run->data.n_owned && !code; i++)
		if (owned[i].partial)
			code = bring(x->states[owned[i].s], x->run, &owned[i],
				     work->rank_of[owned[first[owned[i].s]].w], err);
	for (int k = 0; k < work->pipeline->graph->n_operators && !code; k++)
		if (orr_work_is_copied(work, k))
			code = copy_state(x, k, err);
	return orr_ranks_agree(code, err);
}

/* ---- what is written where ---- */

/* That of the first owner of operator k. */
static int rank_of(const struct orr_shard_plan *x, int k)
{
	const struct orr_work *work = &x->run->work;
	int first = work->jobs->first_owner[work->pipeline->stage_of[k]];

	return work->rank_of[work->jobs->owners[first]];
}

/* Of all stages whose first owner is here. */
static int acquire(struct orr_shard_plan *x, struct orr_error *err)
{
	const struct orr_run *run = x->run;
	int code = 0;

	while (x->n_acquired < run->work.pipeline->n_stages && !code) {
		int s = x->n_acquired++;

		code = orr_floats_acquire(&x->floats[s], &run->work,
					  &run->data.owned[run->work.jobs->first_owner[s]],
					  STARPU_R, !x->copies, err);
		if (!code && x->states && x->states[s])
			x->floats[s].state = x->states[s];
	}
	return code;
}

static struct piece piece_of(const struct orr_shard_plan *x, const struct orr_whole_part *part,
			     int e, int n)
{
	const struct orr_pipeline *p = x->run->work.pipeline;
	const struct orr_parameter_tensor *tensor =
		&p->graph->operators[part->k].instance->parameters[part->i];
	struct piece piece = {.rank = rank_of(x, part->k),
			      .n_floats = orr_parameter_floats(tensor),
			      .where = orr_whole_pieces(p->graph, part->k, part->i)};
	float *values[ORR_MOST_KEPT];

	if (orr_tensors_find(values, n, &x->floats[p->stage_of[part->k]], part->k, part->i))
		piece.at = values[e];
	return piece;
}

/* The last of the tensors, of these parts; e: which of the n that are kept of it. */
static void add_written(struct orr_shard_plan *x, int n_parts, int e, int n)
{
	struct orr_named_tensor *tensor = &x->tensors[x->n];
	int64_t floats = orr_named_tensor_floats(tensor);
	struct piece piece = piece_of(x, x->parts, e, n);

	x->first[x->n++] = x->n_pieces;
	if (n_parts == 1 && piece.at) {
		tensor->values = (float *)(uintptr_t)piece.at;
		return;
	}
	for (int i = 0; i < n_parts; i++) {
		piece = x->pieces[x->n_pieces++] = piece_of(x, &x->parts[i], e, n);
		if (!piece.at)
			x->most_received = larger(x->most_received, piece.n_floats);
		tensor->source = &x->source;
		x->most = larger(x->most, floats);
	}
}

/* Parts that are here go to the rank that writes them. */
static void add_sent(struct orr_shard_plan *x, int to, int n_parts, int e, int n)
{
	for (int i = 0; i < n_parts; i++) {
		struct piece piece = piece_of(x, &x->parts[i], e, n);

		piece.rank = to;
		if (piece.at)
			x->sent[x->n_sent++] = piece;
	}
}

/* Parameter j of operator o of the unsplit graph; ranks that have parts of such take turns. */
static int add_parameter(struct orr_shard_plan *x, int o, int j, struct orr_error *err)
{
	const struct orr_graph *whole = orr_graph_whole(x->run->work.pipeline->graph);
	int n_parts = orr_whole_parts(&x->whole, o, j, x->parts), writer, n;
	struct orr_named_tensor named[ORR_MOST_KEPT];

	if (!n_parts)
		return orr_fail(err, ORR_E_RUNTIME, "checkpoint: no worker has all of %s.%s",
				whole->operators[o].name,
				whole->operators[o].instance->parameters[j].name);
	writer = x->copies ? 0 : rank_of(x, x->parts[x->n_numbered % n_parts].k);
	x->n_numbered += n_parts > 1;
	if ((n = orr_tensors_name(named, whole, o, j,
				  x->copies ? ORR_OPTIMIZER_NONE : x->run->options.optimizer)) < 0)
		return orr_no_memory(err, "checkpoint");
	for (int e = 0; e < n; e++) {
		if (writer != x->run->work.rank) {
			add_sent(x, writer, n_parts, e, n);
			continue;
		}
		x->tensors[x->n] = named[e];
		add_written(x, n_parts, e, n);
	}
	if (writer != x->run->work.rank)
		orr_tensors_drop_names(named, n);
	return 0;
}

static int lay_out(struct orr_shard_plan *x, struct orr_error *err)
{
	const struct orr_graph *whole = orr_graph_whole(x->run->work.pipeline->graph);
	int code = allocate(x, err);

	if (code || (code = acquire(x, err)))
		return code;
	for (int o = 0; o < whole->n_operators && !code; o++)
		for (int j = 0; j < whole->operators[o].instance->n_parameters && !code; j++)
			code = add_parameter(x, o, j, err);
	x->first[x->n] = x->n_pieces;
	orr_arrays_make(&x->all, x->together, x->most);
	orr_arrays_make(&x->all, x->received, x->most_received);
	return code || !x->all.failed ? code : orr_no_memory(err, "checkpoint");
}

static int get(void *user, int i, const float **values, struct orr_error *err)
{
	struct orr_shard_plan *x = user;
	int code = 0;

	x->n_asked = i + 1;
	*values = x->together;
	for (int k = x->first[i]; k < x->first[i + 1] && !code; k++) {
		const struct piece *piece = &x->pieces[k];
		const float *from = piece->at ? piece->at : x->received;

		if (!piece->at)
			code = orr_ranks_receive(piece->rank, TAG, x->received,
						 (size_t)piece->n_floats * sizeof(*from), err);
		for (int64_t n = 0; n < piece->where.n; n++)
			memcpy(x->together + piece->where.first + n * piece->where.apart,
			       from + n * piece->where.floats,
			       (size_t)piece->where.floats * sizeof(*from));
	}
	return code;
}

/* What others write; received whatever becomes of it. */
static int send_all(struct orr_shard_plan *x, struct orr_error *err)
{
	int code = 0;

	for (int i = 0; i < x->n_sent && !code; i++)
		code = orr_ranks_start_send(x->sent[i].rank, TAG, x->sent[i].at,
					    (size_t)x->sent[i].n_floats * sizeof(float), err);
	return code;
}

/* After a failure, too. */
static void end_all(struct orr_shard_plan *x, int code)
{
	const float *unwanted;

	for (int i = x->n_asked; i < x->n && code; i++)
		(void)get(x, i, &unwanted, NULL);
	if (x->n_sent)
		orr_ranks_sent();
}

static void shard_fini(struct orr_shard_plan *x)
{
	while (x->n_acquired > 0)
		orr_floats_release(&x->floats[--x->n_acquired]);
	if (x->tensors)
		orr_tensors_drop_names(x->tensors, x->n);
	for (int s = 0; x->states && s < x->run->work.pipeline->n_stages; s++)
		free(x->states[s]);
	free(x->states);
	orr_whole_fini(&x->whole);
	orr_arrays_free(&x->all);
}

int orr_shard_begin(struct orr_shard_plan **out, const struct orr_run *run, struct orr_error *err)
{
	struct orr_shard_plan *x = calloc(1, sizeof(*x));
	int code = orr_ranks_agree(x ? 0 : orr_no_memory(err, "checkpoint"), err);

	if (code) {
		free(x);
		return code;
	}
	*x = (struct orr_shard_plan){.run = run, .source = {get, x}};
	if (!(code = gather_states(x, err)) && !(code = orr_ranks_agree(lay_out(x, err), err))) {
		*out = x;
		return 0;
	}
	shard_fini(x);
	free(x);
	return code;
}

bool orr_shard_is_alone(const struct orr_shard_plan *x)
{
	const struct orr_data *data = &x->run->data;
	bool alone = !x->n_sent && !x->most_received;

	for (int i = 0; i < data->n_owned; i++)
		alone = alone &&
			(!data->owned[i].parameters || data->owned[i].node == STARPU_MAIN_RAM);
	return alone;
}

int orr_shard_write(struct orr_shard_plan *x, const char *folder, int64_t step,
		    struct orr_shard *shard, struct orr_error *err)
{
	int code = send_all(x, err);

	if (!code)
		code = orr_checkpoint_write(folder, step, x->run->work.rank, x->tensors, x->n,
					    shard, err);
	end_all(x, code);
	shard_fini(x);
	free(x);
	return code;
}

int orr_run_parameters(struct orr_run *run, float *parameters, struct orr_error *err)
{
	struct orr_shard_plan x = {.run = run, .copies = true, .source = {get, &x}};
	int code = orr_run_check_whole(run, err);

	if (!code && !(code = orr_ranks_agree(lay_out(&x, err), err))) {
		code = send_all(&x, err);
		for (int i = 0; i < x.n && !code; i++) {
			int64_t n = orr_named_tensor_floats(&x.tensors[i]);
			const float *values = x.tensors[i].values;

			if (!values)
				code = get(&x, i, &values, err);
			if (!code)
				memcpy(parameters, values, (size_t)n * sizeof(*parameters));
			parameters += n;
		}
		end_all(&x, code);
	}
	shard_fini(&x);
	return code;
}
