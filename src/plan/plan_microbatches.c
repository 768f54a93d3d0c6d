/* Microbatches that differ, in a plan's file: "microbatch_costs" has one object each, with the
 * numbers of every stage, every edge and every output that several stages read, in the order of the
 * pipeline. */
#include "plan_file.h"

#include "base/json.h"
#include "pipeline/cost.h"
#include "pipeline/microbatches.h"
#include "orrery/pipeline.h"

enum { N_COSTS = 5, N_SIZES = 2 };

static json_t *microbatch_json(const struct orr_pipeline *p, int b)
{
	const struct orr_microbatches *x = p->microbatches;
	json_t *stages = json_array(), *edges = json_array(), *outputs = json_array();

	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_cost *c = &x->costs[b * p->n_stages + s];

		orr_json_append(&stages,
				json_pack("[IIIII]", (json_int_t)c->forward_ns,
					  (json_int_t)c->backward_ns, (json_int_t)c->weight_ns,
					  (json_int_t)c->stash_bytes, (json_int_t)c->input_bytes));
	}
	for (int e = 0; e < p->n_edges; e++)
		orr_json_append(&edges,
				json_pack("[II]", (json_int_t)x->bytes[b * p->n_edges + e],
					  (json_int_t)x->gradient_bytes[b * p->n_edges + e]));
	for (int i = 0; i < p->n_outputs; i++)
		orr_json_append(&outputs,
				json_pack("[I]", (json_int_t)x->outputs[b * p->n_outputs + i]));
	return json_pack("{s:o, s:o, s:o}", "stages", stages, "edges", edges, "outputs", outputs);
}

void orr_microbatches_json(json_t **plan, const struct orr_pipeline *p)
{
	json_t *list;

	if (!p->microbatches)
		return;
	list = json_array();
	for (int b = 0; b < p->microbatches->n; b++)
		orr_json_append(&list, microbatch_json(p, b));
	orr_json_set(plan, "microbatch_costs", list);
}

/* Row i of a list as n numbers that are not negative, and small enough for sums of them. */
static bool read_row(const json_t *list, int i, int n, int64_t *numbers)
{
	const json_t *row = json_array_get(list, (size_t)i);

	for (int k = 0; k < n; k++) {
		const json_t *cell = json_array_get(row, (size_t)k);

		numbers[k] = json_integer_value(cell);
		if (!orr_json_counts(cell, 0, INT64_C(1) << 60))
			return false;
	}
	return true;
}

static bool read_microbatch(struct orr_pipeline *p, int b, const json_t *from)
{
	const json_t *stages = json_object_get(from, "stages"),
		     *edges = json_object_get(from, "edges"),
		     *outputs = json_object_get(from, "outputs");
	struct orr_microbatches *x = p->microbatches;
	int64_t n[N_COSTS];

	if (json_array_size(stages) != (size_t)p->n_stages ||
	    json_array_size(edges) != (size_t)p->n_edges ||
	    json_array_size(outputs) != (size_t)p->n_outputs) /* of none: may be absent */
		return false;
	for (int s = 0; s < p->n_stages; s++) {
		if (!read_row(stages, s, N_COSTS, n))
			return false;
		x->costs[b * p->n_stages + s] = (struct orr_cost){n[0], n[1], n[2], n[3], n[4]};
	}
	for (int e = 0; e < p->n_edges; e++) {
		if (!read_row(edges, e, N_SIZES, n))
			return false;
		x->bytes[b * p->n_edges + e] = n[0];
		x->gradient_bytes[b * p->n_edges + e] = n[1];
	}
	for (int i = 0; i < p->n_outputs; i++)
		if (!read_row(outputs, i, 1, &x->outputs[b * p->n_outputs + i]))
			return false;
	return true;
}

int orr_plan_file_microbatches(const struct orr_plan_file *file, struct orr_pipeline *p,
			       struct orr_error *err)
{
	size_t n = json_array_size(file->microbatch_costs);
	int code;

	if (!file->microbatch_costs)
		return 0;
	if (p->split)
		return orr_fail(err, ORR_E_INPUT,
				"%s: its microbatches differ in what they cost on a stage, and the "
				"graph is split into parts of stages: take no split",
				file->path);
	if (n < 1 || n > 1000000)
		return orr_fail(err, ORR_E_INPUT,
				"%s: microbatch_costs: a list with every microbatch is wanted: "
				"make the plan anew",
				file->path);
	if ((code = orr_microbatches_create(p, p->n_microbatches, err)))
		return code;
	for (int b = 0; b < p->n_microbatches; b++)
		if (!read_microbatch(p, b, json_array_get(file->microbatch_costs, (size_t)b % n)))
			return orr_fail(err, ORR_E_INPUT,
					"%s: microbatch_costs: microbatch %zu has not the costs of "
					"%d stages and the sizes of %d edges: make the plan anew",
					file->path, (size_t)b % n, p->n_stages, p->n_edges);
	orr_microbatches_settle(p);
	return 0;
}
