#include "profile.h"
#include "runtime/devices/devices.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/sort.h"
#include "runtime/devices/compile.h"
#include "schedule/table.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "orrery/open.h"
#include "orrery/timeline.h"
#include "hooks.h"
#include "simulate/gaps.h"

#define N_ROWS 64
#define N_WARM 2
#define FEWEST_STEPS 5
#define MOST_STEPS 100
#define SECONDS 2.0 /* of measuring, within those */

/* Of one thing that happens again and again. */
struct times {
	int64_t *ns;
	int n;
};

struct profiling {
	struct orr_run *run;
	const struct orr_jobs *jobs;
	struct times *passes;  /* [n_stages * 2] F and B */
	struct times *updates; /* [n_stages] */
	struct times gaps;
	struct times starts; /* what F or B of a stage takes above what it takes alone */
	double seconds;      /* of the last step */
	struct orr_error *err;
	int code; /* of the first failure */
	bool measuring;
	struct orr_arrays all;
};

/* Sorts them; returns the percentile. */
static int64_t percentile(struct times *t, int percent)
{
	if (!t->n)
		return 0;
	qsort(t->ns, (size_t)t->n, sizeof(*t->ns), orr_compare_numbers);
	return t->ns[(int64_t)(t->n - 1) * percent / 100];
}

/* ---- a step ---- */

static void visit(void *user, const struct orr_step *step)
{
	struct profiling *x = user;
	const struct orr_timeline *t = orr_run_timeline(x->run);
	int n_gaps;

	x->seconds = step->seconds;
	if (!x->measuring)
		return;
	for (int j = 0; j < x->jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(x->jobs, j);
		struct times *pass = &x->passes[2 * job.s + (job.d == ORR_PASS_B)];

		if (!orr_jobs_has(x->jobs, j))
			continue;
		pass->ns[pass->n++] = t->end_ns[j] - t->start_ns[j];
	}
	for (int u = 0; u < t->n_updates; u++) {
		struct times *update = &x->updates[t->updates[u].s];

		update->ns[update->n++] = t->updates[u].end_ns - t->updates[u].start_ns;
	}
	if (!x->code && !(x->code = orr_timeline_gaps(x->gaps.ns + x->gaps.n, &n_gaps, t, x->err)))
		x->gaps.n += n_gaps;
}

/* ---- what runs ---- */

/* Where the table has a job of an operator, which is stage s: in its block's place, in the order in
 * which a stage computes its operators. */
static void place_job(struct orr_table *table, const struct orr_pipeline *operators, int s,
		      const struct orr_jobs *jobs, int block, int b, enum orr_pass d)
{
	int n_stages = operators->n_stages, j = (b * n_stages + s) * 2 + (int)d;
	int of = orr_jobs_index(jobs, block, b, d);

	if (!orr_pipeline_has_pass(operators, s, d, false)) {
		table->compute[j] = -1;
		return;
	}
	/* what comes before all that is trained may have a backward in a block that has none */
	if (!orr_jobs_has(jobs, of))
		of = orr_jobs_index(jobs, block, b, ORR_PASS_F);
	table->compute[j] = jobs->compute[of];
	table->priority[j] = (2 * (int64_t)jobs->position[of] + (int)d) * n_stages +
			     (d == ORR_PASS_B ? n_stages - 1 - s : s);
}

/* Each job of a block becomes the jobs of its operators. */
static int lay_out(struct orr_table **out, const struct orr_pipeline *operators,
		   const struct orr_pipeline *blocks, struct orr_error *err)
{
	int n_stages = operators->n_stages, m = operators->n_microbatches, code;
	struct orr_choice choice = {0};
	struct orr_jobs *jobs = NULL;

	if ((code = orr_choice_init(&choice, orr_pipeline_gathers(blocks) ? "gpipe" : "1f1b",
				    err)) ||
	    (code = orr_jobs_create(&jobs, blocks, &choice.schedule, err)) ||
	    (code = orr_table_create(out, "profile", n_stages, operators->n_workers, m, false,
				     err)))
		goto out;
	for (int i = 0; i < operators->graph->n_operators; i++) {
		int s = operators->stage_of[i], block = blocks->stage_of[i];

		if (orr_operator_is_input(&operators->graph->operators[i]))
			continue;
		for (int b = 0; b < m; b++)
			for (int d = 0; d < 2; d++)
				place_job(*out, operators, s, jobs, block, b, (enum orr_pass)d);
	}
out:
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	return code;
}

/* The last of the n numbers that they hold, as of keys that all count; the first where they are
 * scaled. */
static void set_numbers(struct orr_dataset *data, const struct orr_operator *input, int64_t n)
{
	double factor = orr_operator_factor(input);

	for (int64_t r = 0; r < data->n_rows; r++)
		for (int64_t k = 0; k < input->width; k++)
			data->values[r * data->n_columns + input->columns[k]] =
				factor < 1 || factor > 1 ? 0 : (float)(n - 1);
}

/* Every tensor that the graph names has all the columns there are. */
static int name_tensors(struct orr_dataset *data, const struct orr_graph *g)
{
	struct orr_data_tensor found, all = {.n_columns = data->n_columns,
					     .n_kept = data->n_columns,
					     .stride = data->n_columns,
					     .elements = data->values};

	if (!(data->tensors = calloc((size_t)g->n_operators, sizeof(*data->tensors))))
		return -1;
	for (int i = 0; i < g->n_operators; i++) {
		const char *name = g->operators[i].tensor;

		if (!name || orr_dataset_find(&found, data, name))
			continue;
		if (!(all.name = strdup(name)))
			return -1;
		data->tensors[data->n_tensors++] = all;
	}
	return 0;
}

/* Numbers of both signs, so that what depends on them takes its usual time; and ids. */
static int make_data(struct orr_dataset **out, const struct orr_graph *g, struct orr_error *err)
{
	struct orr_dataset *data = calloc(1, sizeof(*data));
	int64_t n = 1;

	for (int i = 0; i < g->n_operators; i++)
		for (int64_t k = 0; g->operators[i].columns && k < g->operators[i].width; k++)
			n = g->operators[i].columns[k] >= n ? g->operators[i].columns[k] + 1 : n;
	if (data) {
		*data = (struct orr_dataset){
			.n_rows = N_ROWS, .n_columns = n, .n_train = N_ROWS, .n_test = 0};
		data->values = calloc((size_t)n * N_ROWS, sizeof(*data->values));
		data->train = calloc(N_ROWS, sizeof(*data->train));
		data->test = calloc(1, sizeof(*data->test));
	}
	if (!data || !data->values || !data->train || !data->test || name_tensors(data, g)) {
		orr_dataset_destroy(data);
		return orr_fail(err, ORR_E_NOMEM, "profile: no memory for %lld columns",
				(long long)n);
	}
	for (int64_t i = 0; i < n * N_ROWS; i++)
		data->values[i] = (float)(i * 7919 % 2000) * 1e-3f - 1;
	for (int r = 0; r < N_ROWS; r++)
		data->train[r] = r;
	for (int i = 0; i < g->n_operators; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++) {
			const struct orr_operator *input = &g->operators[g->operators[i].inputs[k]];
			int64_t n_ids = orr_program_n_ids(&g->operators[i], k);

			if (n_ids && orr_operator_is_input(input))
				set_numbers(data, input, n_ids);
		}
	*out = data;
	return 0;
}

static struct times times_of(struct profiling *x, int64_t room)
{
	return (struct times){orr_arrays_add(&x->all, (size_t)room + 1, sizeof(int64_t)), 0};
}

static int profiling_init(struct profiling *x, const struct orr_jobs *jobs, int64_t n_steps,
			  struct orr_error *err)
{
	int n_stages = jobs->pipeline->n_stages, n_microbatches = jobs->pipeline->n_microbatches;

	x->jobs = jobs;
	orr_arrays_make(&x->all, x->passes, 2 * (size_t)n_stages);
	orr_arrays_make(&x->all, x->updates, n_stages);
	for (int s = 0; s < n_stages && !x->all.failed; s++) {
		x->passes[2 * s] = times_of(x, n_steps * n_microbatches);
		x->passes[2 * s + 1] = times_of(x, n_steps * n_microbatches);
		x->updates[s] = times_of(x, n_steps);
	}
	x->gaps = times_of(x, n_steps * (jobs->n_jobs + (int64_t)n_stages));
	x->starts = times_of(x, 2 * n_stages);
	return x->all.failed ? orr_no_memory(err, "profile") : 0;
}

/* ---- what comes out ---- */

static void note_spread(struct orr_profile *out, struct profiling *x, int s)
{
	struct times *forward = &x->passes[2 * s];
	int64_t median = percentile(forward, 50);

	if (median > 0)
		out->spread_percent[s] =
			(int)(100 * (percentile(forward, 75) - percentile(forward, 25)) / median);
}

/* The halves of the backward keep the proportion that they have alone. */
static void settle_shared(struct profiling *x, struct orr_stage *stage, int s)
{
	int64_t alone = stage->backward_ns + stage->weight_ns;
	int64_t whole = percentile(&x->passes[2 * s + 1], 50);

	stage->forward_ns = percentile(&x->passes[2 * s], 50);
	stage->weight_ns =
		alone > 0 ? (int64_t)((double)whole * (double)stage->weight_ns / (double)alone) : 0;
	stage->backward_ns = whole - stage->weight_ns;
	stage->update_ns = percentile(&x->updates[s], 50);
}

static void note_starts(struct profiling *x, const struct orr_stage *stage, int s)
{
	const int64_t alone[] = {stage->forward_ns, stage->backward_ns + stage->weight_ns};

	for (int d = 0; d < 2; d++)
		if (x->passes[2 * s + d].n)
			x->starts.ns[x->starts.n++] =
				percentile(&x->passes[2 * s + d], 50) - alone[d];
}

/* apart: operators keep the durations that they have alone. */
static void settle(struct orr_profile *out, struct profiling *x, struct orr_pipeline *p, bool apart)
{
	int64_t between_ns;

	for (int s = 0; s < p->n_stages; s++) {
		note_spread(out, x, s);
		if (apart)
			note_starts(x, &p->stages[s], s);
		else
			settle_shared(x, &p->stages[s], s);
	}
	between_ns = percentile(&x->gaps, 50) + percentile(&x->starts, 50);
	out->overhead_ns = between_ns > 0 ? between_ns : 0;
	orr_pipeline_set_overhead(p, 0); /* the stages have what operators take alone */
}

static int train(struct profiling *x, struct orr_profile *out, struct orr_error *err)
{
	int code = orr_run_train(x->run, N_WARM, visit, x, err);
	double wanted = x->seconds > 0 ? SECONDS / x->seconds : MOST_STEPS;

	if (code)
		return code;
	out->n_steps = wanted < FEWEST_STEPS ? FEWEST_STEPS
		       : wanted > MOST_STEPS ? MOST_STEPS
					     : (int)wanted;
	x->measuring = true;
	x->err = err;
	code = orr_run_train(x->run, out->n_steps, visit, x, err);
	return code ? code : x->code;
}

int orr_profile_run(struct orr_profile *out, struct orr_pipeline *operators,
		    const struct orr_pipeline *blocks, const struct orr_run_options *options,
		    bool apart, struct orr_error *err)
{
	struct orr_run_options still = *options;
	struct orr_table *table = NULL;
	struct orr_jobs *jobs = NULL;
	struct orr_dataset *data = NULL;
	struct orr_run *run = NULL;
	struct profiling x = {0};
	struct orr_schedule schedule;
	int code;

	*out = (struct orr_profile){.spread_percent = calloc((size_t)operators->n_stages,
							     sizeof(*out->spread_percent))};
	still.learning_rate = 0; /* as fast, and nothing comes to be too small or too large */
	if (!out->spread_percent) {
		code = orr_no_memory(err, "profile");
		goto out;
	}
	if ((code = lay_out(&table, operators, blocks, err)) ||
	    (code = make_data(&data, operators->graph, err)))
		goto out;
	orr_table_schedule(&schedule, table);
	if ((code = orr_jobs_create(&jobs, operators, &schedule, err)) ||
	    (code = profiling_init(&x, jobs, MOST_STEPS, err)) ||
	    (code = orr_run_create(&run, jobs, data, &still, err)))
		goto out;
	x.run = run;
	if ((code = train(&x, out, err)))
		goto out;
	settle(out, &x, operators, apart);
out:
	if (code)
		orr_profile_fini(out);
	orr_arrays_free(&x.all);
	orr_run_destroy(run);
	orr_dataset_destroy(data);
	orr_jobs_destroy(jobs);
	orr_table_destroy(table);
	return code;
}

int orr_run_profile(struct orr_profile *out, struct orr_pipeline *operators,
		    const struct orr_pipeline *blocks, const struct orr_run_options *options,
		    struct orr_error *err)
{
	bool on_devices = options->hardware != ORR_HARDWARE_CPU && orr_run_devices(NULL, 0) > 0;

	return orr_profile_run(out, operators, blocks, options, on_devices, err);
}

void orr_profile_fini(struct orr_profile *profile)
{
	free(profile->spread_percent);
	profile->spread_percent = NULL;
}
