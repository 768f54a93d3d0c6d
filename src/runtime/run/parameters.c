#include "orrery/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/tensor_header.h"
#include "checkpoint/weights.h"
#include "model/whole.h"
#include "orrery/graph.h"
#include "parts.h"

/* The replica whose parameters are asked for: all are equal. */
static const struct orr_owned *first_owner(const struct orr_run *run, int s)
{
	return &run->data.owned[run->work.jobs->first_owner[s]];
}

int64_t orr_run_n_parameters(const struct orr_run *run)
{
	const struct orr_graph *g = orr_graph_whole(run->work.pipeline->graph);
	int64_t n = 0;

	for (int k = 0; k < g->n_operators; k++)
		n += g->operators[k].n_parameters;
	return n;
}

/* Where those of every operator of the unsplit graph begin in a copy of all; NULL: no memory. */
static int64_t *find_firsts(const struct orr_graph *g)
{
	int64_t *first = calloc((size_t)g->n_operators + 1, sizeof(*first));

	for (int k = 0; k < g->n_operators && first; k++)
		first[k + 1] = first[k] + g->operators[k].n_parameters;
	return first;
}

/* Parameter i of operator k, to where it lies in a copy of those of its origin. */
static void scatter_tensor(const struct orr_graph *g, int k, int i, const float *from, float *to)
{
	const struct orr_instance *whole =
		orr_graph_whole(g)->operators[orr_graph_origin(g, k)].instance;
	struct orr_pieces pieces = orr_whole_pieces(g, k, i);

	for (int j = orr_whole_parameter(g, k, i) - 1; j >= 0; j--)
		to += orr_parameter_floats(&whole->parameters[j]);
	for (int64_t n = 0; n < pieces.n; n++)
		memcpy(to + pieces.first + n * pieces.apart, from + n * pieces.floats,
		       (size_t)pieces.floats * sizeof(*to));
}

/* A stage's parameters, to where those of the unsplit model lie; copies over copies. */
static void scatter(const struct orr_work *work, int s, const int64_t *first, const float *from,
		    float *to)
{
	const struct orr_graph *g = work->pipeline->graph;
	struct orr_parameter_place at;

	for (int k = 0; k < g->n_operators; k++)
		for (int i = 0; work->pipeline->stage_of[k] == s &&
				orr_program_parameter(work->programs[s], k, i, &at);
		     i++)
			scatter_tensor(g, k, i, from + at.first,
				       to + first[orr_graph_origin(g, k)]);
}

static int receive_stage(const struct orr_run *run, int s, const int64_t *first, float *parameters,
			 struct orr_error *err)
{
	size_t n = (size_t)orr_work_n_parameters(&run->work, s);
	float *floats = malloc((n + 1) * sizeof(*floats));
	int code;

	if (!floats)
		return orr_no_memory(err, "run");
	code = orr_ranks_receive(run->work.rank_of[first_owner(run, s)->w], ORR_RANKS_FIRST_TAG + s,
				 floats, n * sizeof(*floats), err);
	if (!code)
		scatter(&run->work, s, first, floats, parameters);
	free(floats);
	return code;
}

int orr_run_parameters(struct orr_run *run, float *parameters, struct orr_error *err)
{
	const struct orr_pipeline *p = run->work.pipeline;
	int64_t *first = find_firsts(orr_graph_whole(p->graph));
	int code = orr_run_check_whole(run, err);

	if (!code && !first)
		code = orr_no_memory(err, "run");
	for (int s = 0; !code && s < p->n_stages; s++) {
		size_t bytes = (size_t)orr_work_n_parameters(&run->work, s) * sizeof(float);
		const struct orr_owned *o = first_owner(run, s);
		bool here = orr_work_has(&run->work, o->w);
		starpu_data_handle_t handle = o->parameters;
		float *from = NULL;

		if (!here && !run->work.rank)
			code = receive_stage(run, s, first, parameters, err);
		if (!here || (handle && (code = orr_data_acquire(handle, STARPU_R, &from, err))))
			continue;
		if (!run->work.rank)
			scatter(&run->work, s, first, from, parameters);
		else
			code = orr_ranks_send(0, ORR_RANKS_FIRST_TAG + s, from, bytes, err);
		if (handle)
			orr_data_release(handle);
	}
	free(first);
	return code;
}

/* ---- from a file ---- */

/* One owner's parameters, as far as the file has them; replicas each read their own. */
static int read_owned(struct orr_run *run, const struct orr_owned *o,
		      const struct orr_tensor_file *w, struct orr_error *err)
{
	const struct orr_graph *g = run->work.pipeline->graph;
	struct orr_parameter_place at;
	float *parameters;
	int code;

	if (!o->parameters)
		return 0;
	if ((code = orr_data_acquire(o->parameters, STARPU_RW, &parameters, err)))
		return code;
	for (int k = 0; k < g->n_operators; k++)
		for (int i = 0; !code && orr_program_parameter(run->work.programs[o->s], k, i, &at);
		     i++)
			code = orr_weights_read(w, orr_graph_whole(g), orr_graph_origin(g, k),
						orr_whole_parameter(g, k, i),
						&g->operators[k].instance->parameters[i],
						parameters + at.first, err);
	orr_data_release(o->parameters);
	return code;
}

int orr_run_begin(struct orr_run *run, const char *path, bool partly, char *text, size_t size,
		  struct orr_error *err)
{
	struct orr_tensor_file w = {.fd = -1};
	int code = orr_weights_open(&w, path, orr_graph_whole(run->work.pipeline->graph), partly,
				    text, size, err);

	code = orr_ranks_agree(code, err);
	for (int i = 0; i < run->data.n_owned && !code; i++)
		code = read_owned(run, &run->data.owned[i], &w, err);
	orr_tensor_file_close(&w);
	return orr_ranks_agree(code, err);
}
