#include "orrery/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/tensor_header.h"
#include "checkpoint/weights.h"
#include "model/whole.h"
#include "orrery/graph.h"
#include "parts.h"

int64_t orr_run_n_parameters(const struct orr_run *run)
{
	const struct orr_graph *g = orr_graph_whole(run->work.pipeline->graph);
	int64_t n = 0;

	for (int k = 0; k < g->n_operators; k++)
		n += g->operators[k].n_parameters;
	return n;
}

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
