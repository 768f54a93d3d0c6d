/* Rows that are not trained on, block by block through the stages, as tasks that run forward alone.
 * A stage's tasks run where its parameters are; of replicas each takes its share of the blocks.
 * Sums are of a block first, then over the blocks in their order: the same on any number of
 * workers. */
#include "orrery/run.h"

#include "base/max.h"
#include "codelets/workspace.h"
#include "orrery/graph.h"
#include "parts.h"
#include "runtime/peers/messages.h"

/* Of what lies between stages, over all blocks in flight. */
#define MOST_BYTES (INT64_C(1) << 30)

struct block {
	struct orr_flight flight;
	struct orr_task *tasks;      /* [n_stages] */
	starpu_data_handle_t *edges; /* [n_sent()] NULL: nothing moves there */
	starpu_data_handle_t *data;  /* [n_stages] columns that a stage reads; NULL: none */
};

struct evaluation {
	struct orr_run *run;
	const int64_t *rows;
	int64_t n_rows, at_once;
	int n_blocks, n_begun, n_ended;
	struct block *blocks; /* [window]; block c is number c % window of them */
	int window;
	struct orr_metrics *metrics; /* [n_blocks][n_losses], where devices can write */
	struct orr_codelet_common *common;
	struct orr_fault *fault; /* the run's, until all blocks have ended */
	struct orr_arrays all;
	struct orr_handles handles;
};

/* Rows of a block, of n_rows; what reads a whole minibatch takes them for one. Outputs of all
 * operators take half a GiB at most, by the unsplit graph: every cut gives the same figures. */
static int64_t rows_at_once(const struct orr_run *run, int64_t n_rows)
{
	const struct orr_graph *g = orr_graph_whole(run->work.pipeline->graph);
	int64_t most = orr_pipeline_gathers(run->work.pipeline) ? 1024 : 256, floats = 1;

	for (int k = 0; k < g->n_operators; k++)
		floats += g->operators[k].width;
	most = smaller(most, (1 << 27) / floats);
	return larger(smaller(most, n_rows), 1);
}

/* ---- where ---- */

static int owner_of(const struct orr_work *work, int s, int c)
{
	return work->jobs->first_owner[s] + c % orr_work_replicas(work, s);
}

static int rank_of(const struct orr_work *work, int s, int c)
{
	return work->rank_of[work->jobs->owners[owner_of(work, s, c)]];
}

/* ---- memory ---- */

/* Edges, and outputs with several readers, which follow them. */
static int n_sent(const struct orr_pipeline *p)
{
	return p->n_edges + p->n_outputs;
}

/* The first stage that rank has of block c and that reads what has this number; -1: none. */
static int reader_at(const struct orr_work *work, int number, int c, int rank)
{
	for (int s = 0; s < work->pipeline->n_stages; s++)
		for (int i = 0; i < work->programs[s]->n_in && rank_of(work, s, c) == rank; i++)
			if (orr_stage_received(&work->pipeline->stages[s], i) == number)
				return s;
	return -1;
}

/* As many as keep all workers busy and fit. */
static int find_window(const struct evaluation *x)
{
	const struct orr_pipeline *p = x->run->work.pipeline;
	int64_t floats = 1, n = 2 * (int64_t)p->n_workers;

	for (int s = 0; s < p->n_stages; s++) {
		floats += orr_program_data_columns(x->run->work.programs[s]) * x->at_once;
		for (int i = 0; i < x->run->work.programs[s]->n_out; i++)
			floats += x->at_once * x->run->work.programs[s]->out[i].columns;
	}
	n = larger(smaller(n, MOST_BYTES / (int64_t)sizeof(float) / floats), 2);
	return (int)smaller(n, x->n_blocks);
}

static void block_init(struct evaluation *x, struct block *block)
{
	const struct orr_pipeline *p = x->run->work.pipeline;

	block->flight.watch = &x->run->watch;
	orr_arrays_make(&x->all, block->tasks, p->n_stages);
	orr_arrays_make(&x->all, block->edges, n_sent(p));
	orr_arrays_make(&x->all, block->data, p->n_stages);
	for (int s = 0; s < p->n_stages && !x->all.failed; s++) {
		const struct orr_program *program = x->run->work.programs[s];
		int64_t columns = orr_program_data_columns(program);

		if (columns)
			orr_handles_floats(&x->handles, &block->data[s], columns * x->at_once);
		for (int i = 0; i < program->n_out; i++)
			if (program->out[i].columns)
				orr_handles_floats(&x->handles,
						   &block->edges[orr_stage_sent(&p->stages[s], i)],
						   program->out[i].columns * x->at_once);
	}
}

/* The workers' own devices, with memory for blocks: that of training, unless they are larger than
 * its microbatches. */
static void make_workspaces(struct evaluation *x)
{
	const struct orr_work *work = &x->run->work;
	struct orr_session *session = &x->run->session;
	struct orr_workspace_sizes sizes = {
		.precision = x->run->options.precision,
		.programs = (const struct orr_program *const *)work->programs,
		.n_programs = work->pipeline->n_stages,
		.most_samples = x->at_once,
		.n_minibatch = x->at_once,
	};
	char why[200];

	for (int s = 0; s < work->pipeline->n_stages; s++) {
		const struct orr_program *program = work->programs[s];
		sizes.scratch =
			larger(sizes.scratch, orr_program_forward_floats(program, x->at_once));
		sizes.stash =
			larger(sizes.stash, orr_program_stash_floats(program, x->at_once, false));
		sizes.n_pointers = (int)larger(sizes.n_pointers, program->n_in + program->n_out);
	}
	for (unsigned i = 0; i < starpu_worker_get_count() && !x->fault->code; i++) {
		struct orr_workspace *own = &x->common->workspaces[i];

		if (orr_policy_is_reserved(session->policy, (int)i))
			continue;
		if (orr_workspace_init(own, i, &session->common.workspaces[i], &sizes, why,
				       sizeof(why)))
			x->fault->code = orr_fail(&x->fault->err, ORR_E_NOMEM,
						  "run: to evaluate %d rows at once: worker %u: %s",
						  (int)x->at_once, i, why);
		own->device.microbatch.evaluation = true;
	}
}

static void evaluation_init(struct evaluation *x, struct orr_run *run, bool on_test)
{
	const struct orr_dataset *data = run->dataset;
	size_t n_sums;

	*x = (struct evaluation){.run = run,
				 .rows = on_test ? data->test : data->train,
				 .n_rows = on_test ? data->n_test : data->n_train,
				 .fault = run->work.fault};
	x->handles = (struct orr_handles){&x->all, x->fault, NULL};
	x->at_once = rows_at_once(run, x->n_rows);
	x->n_blocks = (int)((x->n_rows + x->at_once - 1) / x->at_once);
	x->window = find_window(x);
	n_sums = (size_t)x->n_blocks * (size_t)run->work.n_losses + 1;
	orr_arrays_make(&x->all, x->blocks, x->window);
	orr_arrays_make(&x->all, x->common, 1);
	x->metrics = orr_handles_pinned(&x->handles, n_sums, sizeof(*x->metrics));
	for (int i = 0; i < x->window && !x->all.failed; i++)
		block_init(x, &x->blocks[i]);
	if (x->all.failed && !x->fault->code)
		x->fault->code = orr_no_memory(&x->fault->err, "run");
	if (x->fault->code)
		return;
	x->common->lost = run->session.common.lost;
	make_workspaces(x);
}

static void evaluation_fini(struct evaluation *x)
{
	orr_handles_fini(&x->handles);
	for (unsigned i = 0; x->common && i < starpu_worker_get_count(); i++)
		orr_workspace_fini(&x->common->workspaces[i], i);
	orr_arrays_free(&x->all);
}

/* ---- a block ---- */

/* Over edge e, behind the numbers of all messages of training. */
static struct orr_message message_of(const struct evaluation *x, const struct block *block, int e,
				     int other)
{
	const struct orr_work *work = &x->run->work;

	return (struct orr_message){
		.handle = block->edges[e],
		.kind = ORR_RANKS_ORDER, /* the report counts those of training */
		.other = other,
		.tag = work->window * x->run->cross.n_tags +
		       (block - x->blocks) * n_sent(work->pipeline) + e,
		.waits = true,
	};
}

/* What comes from another rank, with the first that reads it here. */
static void receive_edges(const struct evaluation *x, const struct block *block, int s, int c)
{
	const struct orr_work *work = &x->run->work;
	const struct orr_pipeline *p = work->pipeline;

	for (int i = 0; i < work->programs[s]->n_in; i++) {
		int e = orr_stage_received(&p->stages[s], i);
		int maker = e < p->n_edges ? p->edges[e].from : p->outputs[e - p->n_edges].from;
		int from = rank_of(work, maker, c);

		if (from != work->rank && block->edges[e] && reader_at(work, e, c, work->rank) == s)
			orr_message_pass(work, message_of(x, block, e, from), false);
	}
}

/* To every other rank that reads it. */
static void send_edges(const struct evaluation *x, const struct block *block, int s, int c)
{
	const struct orr_work *work = &x->run->work;

	for (int i = 0; i < work->programs[s]->n_out; i++) {
		int e = orr_stage_sent(&work->pipeline->stages[s], i);

		for (int to = 0; to < work->n_ranks && block->edges[e]; to++)
			if (to != work->rank && reader_at(work, e, c, to) >= 0)
				orr_message_pass(work, message_of(x, block, e, to), true);
	}
}

static void lay_out(const struct evaluation *x, struct block *block, int s, int c, int64_t n)
{
	const struct orr_work *work = &x->run->work;
	const struct orr_program *program = work->programs[s];
	struct orr_task *t = &block->tasks[s];

	orr_task_init(t, &x->run->submitter, &block->flight,
		      work->jobs->owners[owner_of(work, s, c)]);
	t->arg = (struct orr_codelet_arg){
		.common = x->common,
		.job = -1,
		.program = program,
		.n = n,
		.n_minibatch = n,
		.n_microbatches = 1, /* nothing is gathered: the block is a minibatch */
		.has_parameters = orr_work_n_parameters(work, s) > 0,
		.has_data = block->data[s] != NULL,
		.metrics = program->n_losses ? &x->metrics[(int64_t)c * work->n_losses] : NULL,
	};
}

static void submit_stage(const struct evaluation *x, struct block *block, int s, int c, int64_t n)
{
	struct orr_run *run = x->run;
	const struct orr_stage *stage = &run->work.pipeline->stages[s];
	struct orr_submitter *submitter = &run->submitter;
	struct orr_fault *fault = x->fault;
	int n_in = run->work.programs[s]->n_in, n_out = run->work.programs[s]->n_out;

	lay_out(x, block, s, c, n);
	receive_edges(x, block, s, c);
	if (!fault->code)
		fault->code = orr_samples_fill(block->data[s], run->dataset, run->work.programs[s],
					       x->rows + c * x->at_once, n, &fault->err);
	if (block->tasks[s].arg.has_parameters)
		orr_task_add(submitter, run->data.owned[owner_of(&run->work, s, c)].parameters,
			     STARPU_R);
	orr_task_add(submitter, block->data[s], STARPU_R);
	for (int i = 0; i < n_in; i++)
		orr_task_add(submitter, block->edges[orr_stage_received(stage, i)], STARPU_R);
	for (int i = 0; i < n_out; i++)
		orr_task_add(submitter, block->edges[orr_stage_sent(stage, i)], STARPU_W);
	orr_task_submit(submitter, &block->tasks[s], ORR_CODELET_FORWARD);
	send_edges(x, block, s, c);
}

static void submit_block(struct evaluation *x, int c)
{
	const struct orr_work *work = &x->run->work;
	struct block *block = &x->blocks[c % x->window];
	int64_t n = c + 1 < x->n_blocks ? x->at_once : x->n_rows - (int64_t)c * x->at_once;

	orr_watch_begin(&block->flight, 0);
	x->n_begun++;
	for (int s = 0; s < work->pipeline->n_stages; s++)
		if (rank_of(work, s, c) == work->rank)
			submit_stage(x, block, s, c, n);
	for (int e = 0; e < n_sent(work->pipeline); e++) /* all readers have been submitted */
		if (block->edges[e] && !x->fault->code)
			starpu_data_invalidate_submit(block->edges[e]);
	orr_watch_done(&block->flight);
}

static void tell(const struct evaluation *x)
{
	if (x->run->options.tell && !x->run->work.rank)
		x->run->options.tell("evaluating", x->n_ended, x->n_blocks);
}

/* Wait for the oldest block in flight: for as long as it takes, since a block is larger than what
 * the timeout is meant for. */
static void end_block(struct evaluation *x)
{
	const struct block *block = &x->blocks[x->n_ended % x->window];

	while (!orr_watch_wait(&x->run->watch, &block->flight, 0, x->run->options.timeout_s))
		;
	x->n_ended++;
	tell(x);
}

/* ---- all of them ---- */

static void run_blocks(struct evaluation *x)
{
	struct orr_fault *fault = x->fault;
	const char *failure;

	tell(x);
	while (!fault->code && x->n_begun < x->n_blocks) {
		if (x->n_begun == x->n_ended + x->window)
			end_block(x);
		submit_block(x, x->n_begun);
	}
	if (fault->code)
		atomic_store(&x->common->cancelled, true);
	while (x->n_ended < x->n_begun)
		end_block(x);
	if (!fault->code && (failure = atomic_load(&x->common->failure)))
		fault->code = orr_fail(&fault->err, ORR_E_RUNTIME, "run: %s", failure);
}

/* Of every block and loss, on the rank that computed it; then on all. */
static int add_up(struct evaluation *x, struct orr_error *err)
{
	struct orr_scoring *scoring = &x->run->scoring;
	int n = x->run->work.n_losses, code;

	if ((code = orr_ranks_sum(&x->metrics->loss, 3 * x->n_blocks * n, err)))
		return code;
	for (int l = 0; l < n; l++) {
		scoring->sums[l] = (struct orr_metrics){0};
		for (int c = 0; c < x->n_blocks; c++)
			orr_metrics_add(&scoring->sums[l], &x->metrics[c * n + l]);
	}
	return 0;
}

int orr_run_evaluate(struct orr_run *run, bool on_test, struct orr_scores *scores,
		     struct orr_error *err)
{
	struct evaluation x;
	int code = orr_run_check_whole(run, err);

	if (code)
		return code;
	evaluation_init(&x, run, on_test);
	if (!x.fault->code)
		run_blocks(&x);
	code = orr_fault_tell(x.fault, err);
	x.fault->code = 0; /* it is none of training */
	if (!code && !(code = add_up(&x, err)))
		*scores = orr_scores_of(&run->scoring, x.n_rows);
	if (code)
		orr_ranks_fail(1, err ? err->msg : "evaluation failed"); /* the others wait */
	evaluation_fini(&x);
	orr_reduce_starts_anew(&run->sum.reduce);
	return code;
}
