#include "orrery/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/whole.h"
#include "orrery/dataset.h"
#include "orrery/graph.h"
#include "orrery/ranks.h"
#include "parts.h"

/* Rows that are computed at once, of n_rows; what reads a whole minibatch takes them for one.
 * Outputs of all operators take half a GiB at most, by the unsplit graph alone: every cut gives the
 * same figures. */
static int64_t rows_at_once(const struct orr_run *run, int64_t n_rows)
{
	const struct orr_graph *g = orr_graph_whole(run->work.pipeline->graph);
	int64_t most = orr_pipeline_gathers(run->work.pipeline) ? 1024 : 256, floats = 1;

	for (int k = 0; k < g->n_operators; k++)
		floats += g->operators[k].width;
	if (most > (1 << 27) / floats)
		most = (1 << 27) / floats;
	most = most < n_rows ? most : n_rows;
	return most > 1 ? most : 1;
}

/* Each stage is run by the rank of its first owner; activations go from one to the other. */
static int rank_of_stage(const struct orr_run *run, int s)
{
	return run->work.rank_of[run->work.jobs->owners[run->work.jobs->first_owner[s]]];
}

/* Memory to run the stages that are here forward over a chunk. */
struct buffers {
	float **parameters;    /* [n_stages] borrowed from StarPU */
	float **edges;         /* [n_edges] */
	float **stash, **data; /* [n_stages] */
	const float **in;
	float **out;
	float *scratch;
	struct orr_metrics *metrics; /* [n_losses] */
	struct orr_device device;
	int64_t n_done, n_all; /* stages, over all chunks */
};

static void buffers_fini(const struct orr_run *run, struct buffers *buffers)
{
	for (int e = 0; buffers->edges && e < run->work.pipeline->n_edges; e++)
		free(buffers->edges[e]);
	for (int s = 0; s < run->work.pipeline->n_stages; s++) {
		if (buffers->stash)
			free(buffers->stash[s]);
		if (buffers->data)
			free(buffers->data[s]);
	}
	free(buffers->parameters);
	free(buffers->edges);
	free(buffers->stash);
	free(buffers->data);
	free(buffers->in);
	free(buffers->out);
	free(buffers->scratch);
	free(buffers->metrics);
	free(buffers->device.workspace);
}

static bool allocate(float **floats, int64_t n)
{
	*floats = malloc(((size_t)n + 1) * sizeof(**floats));
	return *floats;
}

/* For chunks of n rows. */
static int buffers_init(const struct orr_run *run, int64_t n, struct buffers *buffers,
			struct orr_error *err)
{
	const struct orr_pipeline *p = run->work.pipeline;
	size_t n_stages = (size_t)p->n_stages, n_edges = (size_t)p->n_edges + 1;
	int64_t scratch = 0;
	size_t workspace = 0;
	bool fits;

	buffers->device = orr_device_cpu(run->options.precision);
	buffers->device.microbatch.evaluation = true;
	buffers->parameters = calloc(n_stages, sizeof(float *));
	buffers->edges = calloc(n_edges, sizeof(float *));
	buffers->stash = calloc(n_stages, sizeof(float *));
	buffers->data = calloc(n_stages, sizeof(float *));
	buffers->in = calloc(n_edges, sizeof(const float *));
	buffers->out = calloc(n_edges, sizeof(float *));
	buffers->metrics = calloc((size_t)run->work.n_losses + 1, sizeof(*buffers->metrics));
	fits = buffers->metrics && buffers->parameters && buffers->edges && buffers->stash &&
	       buffers->data && buffers->in && buffers->out;
	for (int s = 0; fits && s < p->n_stages; s++) {
		const struct orr_program *program = run->work.programs[s];
		int64_t columns = 0, floats = orr_program_scratch_floats(program, n);
		size_t bytes = orr_program_workspace_bytes(program, &buffers->device, n);
		bool here = rank_of_stage(run, s) == run->work.rank;

		for (int i = 0; fits && i < p->stages[s].n_out; i++)
			if (here || rank_of_stage(run, orr_stage_after(p, s, i)) == run->work.rank)
				fits = allocate(&buffers->edges[p->stages[s].out[i]],
						orr_program_out_floats(program, i, n));
		if (!here || !fits)
			continue;
		scratch = floats > scratch ? floats : scratch;
		workspace = bytes > workspace ? bytes : workspace;
		for (int i = 0; i < orr_program_n_inputs(program); i++)
			columns += orr_program_input_width(program, i);
		fits = allocate(&buffers->stash[s], orr_program_stash_floats(program, n, false)) &&
		       allocate(&buffers->data[s], columns * n);
	}
	if (!fits || !allocate(&buffers->scratch, scratch) ||
	    !(buffers->device.workspace = malloc(workspace + 1)))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory to evaluate %d rows at once",
				(int)n);
	return 0;
}

/* Outputs of stage `from` for stage s come from, or go to, another rank. */
static int receive_edges(const struct orr_run *run, struct buffers *buffers, int s, int64_t n,
			 struct orr_error *err)
{
	const struct orr_pipeline *p = run->work.pipeline;
	int code = 0;

	for (int i = 0; i < p->stages[s].n_in && !code; i++) {
		int e = p->stages[s].in[i], from = rank_of_stage(run, p->edges[e].from);
		size_t floats = (size_t)orr_program_in_floats(run->work.programs[s], i, n);

		if (from != run->work.rank)
			code = orr_ranks_receive(from, ORR_RANKS_FIRST_TAG + e, buffers->edges[e],
						 floats * sizeof(float), err);
	}
	return code;
}

static int send_edges(const struct orr_run *run, const struct buffers *buffers, int s, int64_t n,
		      struct orr_error *err)
{
	const struct orr_pipeline *p = run->work.pipeline;
	int code = 0;

	for (int i = 0; i < p->stages[s].n_out && !code; i++) {
		int e = p->stages[s].out[i], to = rank_of_stage(run, p->edges[e].to);
		size_t floats = (size_t)orr_program_out_floats(run->work.programs[s], i, n);

		if (to != run->work.rank)
			code = orr_ranks_start_send(to, ORR_RANKS_FIRST_TAG + e, buffers->edges[e],
						    floats * sizeof(float), err);
	}
	return code;
}

static void tell(const struct orr_run *run, struct buffers *buffers)
{
	if (run->options.tell && !run->work.rank)
		run->options.tell("evaluating", buffers->n_done, buffers->n_all);
	buffers->n_done++;
}

static int forward(const struct orr_run *run, struct buffers *buffers, const int64_t *rows,
		   int64_t n, struct orr_sums *sums, struct orr_error *err)
{
	const struct orr_pipeline *p = run->work.pipeline;
	int code;

	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_program *program = run->work.programs[s];

		tell(run, buffers);
		if (rank_of_stage(run, s) != run->work.rank)
			continue;
		if ((code = receive_edges(run, buffers, s, n, err)) ||
		    (code = orr_samples_copy(run->dataset, program, rows, n, buffers->data[s],
					     err)))
			return code;
		for (int i = 0; i < p->stages[s].n_in; i++)
			buffers->in[i] = buffers->edges[p->stages[s].in[i]];
		for (int i = 0; i < p->stages[s].n_out; i++)
			buffers->out[i] = buffers->edges[p->stages[s].out[i]];
		orr_program_forward(program, &buffers->device, n, buffers->parameters[s],
				    buffers->data[s], buffers->in, buffers->out, buffers->stash[s],
				    buffers->scratch, buffers->metrics);
		for (int l = 0; l < run->work.n_losses; l++)
			if (p->stage_of[run->work.losses[l]] == s)
				sums[l] = (struct orr_sums){buffers->metrics[l].loss,
							    (double)buffers->metrics[l].correct,
							    (double)buffers->metrics[l].classified};
		if ((code = send_edges(run, buffers, s, n, err)))
			return code;
	}
	return orr_ranks_sent(err);
}

/* The parameters of stage s, from its first owner: replicas are equal. */
static starpu_data_handle_t parameters_of(const struct orr_run *run, int s)
{
	return run->data.owned[run->work.jobs->first_owner[s]].parameters.handle;
}

static int acquire(const struct orr_run *run, int s, float **parameters, struct orr_error *err)
{
	starpu_data_handle_t handle = parameters_of(run, s);

	*parameters = NULL;
	return handle && rank_of_stage(run, s) == run->work.rank
		       ? orr_data_acquire(handle, STARPU_R, parameters, err)
		       : 0;
}

static void release(const struct orr_run *run, int s)
{
	if (parameters_of(run, s) && rank_of_stage(run, s) == run->work.rank)
		orr_data_release(parameters_of(run, s));
}

static int refuse_failed(const struct orr_run *run, struct orr_error *err)
{
	if (!run->trained.failed)
		return 0;
	return orr_fail(err, run->trained.failed,
			"run: it has failed before; its parameters are not whole");
}

int orr_run_evaluate(struct orr_run *run, bool on_test, struct orr_scores *scores,
		     struct orr_error *err)
{
	const struct orr_dataset *data = run->dataset;
	const int64_t *rows = on_test ? data->test : data->train;
	int64_t n_rows = on_test ? data->n_test : data->n_train;
	int64_t at_once = rows_at_once(run, n_rows);
	int n_chunks = (int)((n_rows + at_once - 1) / at_once), n = run->work.n_losses;
	/* of every chunk and loss: added up in one order */
	struct orr_sums *sums = calloc((size_t)n_chunks * (size_t)n + 1, sizeof(*sums));
	struct buffers buffers = {0};
	int n_acquired = 0, code;

	if (!sums) {
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory to evaluate");
		goto out;
	}
	if ((code = refuse_failed(run, err)) || (code = buffers_init(run, at_once, &buffers, err)))
		goto out;
	for (; n_acquired < run->work.pipeline->n_stages; n_acquired++)
		if ((code = acquire(run, n_acquired, &buffers.parameters[n_acquired], err)))
			goto out;
	buffers.n_all = (int64_t)n_chunks * run->work.pipeline->n_stages;
	for (int c = 0; c < n_chunks; c++)
		if ((code = forward(run, &buffers, rows + (int64_t)c * at_once,
				    c + 1 < n_chunks ? at_once : n_rows - (int64_t)c * at_once,
				    sums + (int64_t)c * n, err)))
			goto out;
	if ((code = orr_ranks_sum(&sums->loss, 3 * n_chunks * n, err)))
		goto out;
	tell(run, &buffers);
	for (int l = 0; l < n; l++) {
		struct orr_sums *sum = &run->scoring.sums[l];

		*sum = (struct orr_sums){0};
		for (int c = 0; c < n_chunks; c++) {
			sum->loss += sums[c * n + l].loss;
			sum->correct += sums[c * n + l].correct;
			sum->classified += sums[c * n + l].classified;
		}
	}
	*scores = orr_scores_of(&run->scoring, n_rows);
out:
	while (n_acquired > 0)
		release(run, --n_acquired);
	buffers_fini(run, &buffers);
	free(sums);
	return code;
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

/* Stage s comes from another rank. */
static int receive_stage(const struct orr_run *run, int s, const int64_t *first, float *parameters,
			 struct orr_error *err)
{
	size_t n = (size_t)orr_work_n_parameters(&run->work, s);
	float *floats = malloc((n + 1) * sizeof(*floats));
	int code;

	if (!floats)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for the parameters of stage %d",
				s);
	code = orr_ranks_receive(rank_of_stage(run, s), ORR_RANKS_FIRST_TAG + s, floats,
				 n * sizeof(*floats), err);
	if (!code)
		scatter(&run->work, s, first, floats, parameters);
	free(floats);
	return code;
}

int orr_run_parameters(struct orr_run *run, float *parameters, struct orr_error *err)
{
	const struct orr_pipeline *p = run->work.pipeline;
	int64_t *first = find_firsts(orr_graph_whole(p->graph));
	int code = refuse_failed(run, err);

	if (!code && !first)
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for a copy of the parameters");
	for (int s = 0; !code && s < p->n_stages; s++) {
		size_t bytes = (size_t)orr_work_n_parameters(&run->work, s) * sizeof(float);
		bool here = rank_of_stage(run, s) == run->work.rank;
		float *from;

		if (!here && !run->work.rank)
			code = receive_stage(run, s, first, parameters, err);
		if (!here || (code = acquire(run, s, &from, err)))
			continue;
		if (!run->work.rank)
			scatter(&run->work, s, first, from, parameters);
		else
			code = orr_ranks_send(0, ORR_RANKS_FIRST_TAG + s, from, bytes, err);
		release(run, s);
	}
	free(first);
	return code;
}
