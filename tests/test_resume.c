/* A training that goes on from a checkpoint is the one that was not interrupted: losses and
 * parameters are the same to the bit, under every schedule, on any number of workers, however the
 * model is cut. */
#include <check.h>
#include <math.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "newest.h"
#include "drawn_data.h"
#include "frozen.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/open.h"
#include "rewrite/rewrite.h"
#include "runtime/run/parts.h"
#include "orrery/run.h"
#include "suite.h"

#define N_ROWS 60
#define N_COLUMNS 13
#define N_MICROBATCHES 8
#define BATCH 19
#define N_BEFORE 2
#define N_STEPS 5

static const char model[] =
	"digraph chain {\n"
	"  x [op=input columns=\"0:12\" scale=0.5]\n"
	"  a0 [op=linear features=9]\n"
	"  a1 [op=linear features=10]\n"
	"  b1 [op=layernorm]\n"
	"  a2 [op=linear features=8]\n"
	"  b2 [op=gelu]\n"
	"  a3 [op=linear features=7]\n"
	"  a4 [op=relu]\n"
	"  a5 [op=linear features=6]\n"
	"  b5 [op=linear features=9]\n"
	"  a6 [op=layernorm]\n"
	"  a7 [op=linear features=5]\n"
	"  class [op=input columns=\"12\"]\n"
	"  loss [op=softmax_cross_entropy]\n"
	"  x -> a0 -> a1 -> b1 -> a2 -> b2 -> a3 -> a4 -> a5 -> b5 -> a6 -> a7 -> loss\n"
	"  class -> loss\n"
	"}\n";

static char folder[] = "resume-XXXXXX"; /* in the folder that the test runs in */
static struct orr_graph *graph;
static struct orr_dataset data;
static struct orr_run_options options;
static struct orr_run_hooks hooks;
static struct orr_error err;

static void setup(void)
{
	strcpy(folder + sizeof(folder) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_msg(!orr_graph_parse(&graph, "model.dot", model, &err), "%s", err.msg);
	ck_assert(draw_data(&data, N_ROWS, N_COLUMNS, N_COLUMNS - 1, 0, 7));
	options = orr_run_options_default();
	options.batch = BATCH;
	options.optimizer = ORR_OPTIMIZER_MOMENTUM;
	options.learning_rate = 1e-2;
}

static void teardown(void)
{
	char command[80];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	ck_assert_int_eq(system(command), 0);
	orr_graph_destroy(graph);
	free_data(&data);
}

/* ---- one training ---- */

struct training {
	struct orr_pipeline *pipeline;
	struct orr_jobs *jobs;
	struct orr_run *run;
	double losses[N_STEPS];
	float *parameters;
	int64_t n_parameters;
};

/* Negative: the schedule does not serve the model so. */
static int training_init(struct training *t, const char *schedule, int n_workers, int n_stages)
{
	struct orr_machine machine = orr_machine_default(n_workers);
	struct orr_choice choice;
	int code;

	memset(t, 0, sizeof(*t));
	ck_assert_msg(!orr_partition(&t->pipeline, graph, &machine, n_stages, 3, &err), "%s",
		      err.msg);
	ck_assert_msg(!orr_pipeline_set_step(t->pipeline, n_workers, N_MICROBATCHES, &err), "%s",
		      err.msg);
	ck_assert_msg(!orr_choice_init(&choice, schedule, &err), "%s", err.msg);
	code = orr_jobs_create(&t->jobs, t->pipeline, &choice.schedule, &err);
	orr_choice_fini(&choice);
	if (code)
		return code;
	ck_assert_msg(!orr_run_create_hooked(&t->run, t->jobs, &data, &options, &hooks, &err), "%s",
		      err.msg);
	t->n_parameters = orr_run_n_parameters(t->run);
	t->parameters = calloc((size_t)t->n_parameters, sizeof(*t->parameters));
	ck_assert_ptr_nonnull(t->parameters);
	return 0;
}

static void training_stop(struct training *t)
{
	orr_run_destroy(t->run);
	t->run = NULL;
	orr_jobs_destroy(t->jobs);
	orr_pipeline_destroy(t->pipeline);
}

static void training_fini(struct training *t)
{
	training_stop(t);
	free(t->parameters);
}

static void note_loss(void *user, const struct orr_step *step)
{
	struct training *t = user;

	ck_assert_int_lt(step->step, N_STEPS);
	t->losses[step->step] = step->scores.loss;
}

static void train(struct training *t, int64_t n)
{
	ck_assert_msg(!orr_run_train(t->run, n, note_loss, t, &err), "%s", err.msg);
	ck_assert_msg(!orr_run_parameters(t->run, t->parameters, &err), "%s", err.msg);
}

/* One that draws nothing that it would not keep. */
static int bare_init(struct training *t, const char *schedule, int n_workers, int n_stages)
{
	int code;

	options.loads = true;
	code = training_init(t, schedule, n_workers, n_stages);
	options.loads = false;
	if (!code)
		ck_assert_msg(!orr_run_parameters(t->run, t->parameters, &err), "%s", err.msg);
	for (int64_t i = 0; i < t->n_parameters && !code; i++)
		ck_assert(t->parameters[i] == 0);
	return code;
}

static void load(struct training *t)
{
	struct orr_checkpoint *c = NULL;

	ck_assert_msg(!open_newest(&c, folder, NULL, &err), "%s", err.msg);
	ck_assert_msg(!orr_run_load(t->run, c, NULL, &err), "%s", err.msg);
	ck_assert_int_eq(orr_run_step(t->run), N_BEFORE);
	orr_checkpoint_close(c);
}

static void check_same(const struct training *t, const struct training *expected, const char *name)
{
	for (int i = N_BEFORE; i < N_STEPS; i++)
		ck_assert_msg(!memcmp(&t->losses[i], &expected->losses[i], sizeof(double)),
			      "%s: the loss of step %d is %.17g instead of %.17g", name, i,
			      t->losses[i], expected->losses[i]);
	ck_assert_int_eq(t->n_parameters, expected->n_parameters);
	for (int64_t i = 0; i < t->n_parameters; i++)
		ck_assert_msg(!memcmp(&t->parameters[i], &expected->parameters[i], sizeof(float)),
			      "%s: parameter %lld is %.9g instead of %.9g", name, (long long)i,
			      (double)t->parameters[i], (double)expected->parameters[i]);
}

/* A training that nothing interrupts; it saves on its way. Stopped: what it found is there. */
static int undisturbed(struct training *t, const char *schedule, int n_workers, int n_stages)
{
	int code = training_init(t, schedule, n_workers, n_stages);

	if (code) {
		training_fini(t);
		return code;
	}
	train(t, N_BEFORE);
	ck_assert_msg(!orr_run_save(t->run, folder, 1, &err), "%s", err.msg);
	train(t, N_STEPS - N_BEFORE);
	training_stop(t);
	t->jobs = NULL;
	t->pipeline = NULL;
	return 0;
}

/* ---- */

static bool has_replicas(const struct orr_jobs *jobs)
{
	return jobs->first_owner[jobs->pipeline->n_stages] > jobs->pipeline->n_stages;
}

/* Go on from the shared checkpoint where no stage has replicas; else from one of the schedule's
 * own. */
static int resume_under(const char *schedule, int n_workers, int n_stages,
			const struct training *shared)
{
	char name[80];
	struct training t;
	int code = bare_init(&t, schedule, n_workers, n_stages);

	(void)snprintf(name, sizeof(name), "%s, %d workers, %d stages", schedule, n_workers,
		       n_stages);
	if (!code && !has_replicas(t.jobs)) {
		load(&t);
		train(&t, N_STEPS - N_BEFORE);
		check_same(&t, shared, name);
	}
	training_fini(&t);
	return code;
}

START_TEST(every_schedule_goes_on_where_1f1b_stopped)
{
	static const struct {
		int n_workers, n_stages;
	} shapes[] = {{4, 4}, {4, 8}, {8, 8}};
	struct training shared;
	int n_served = 0;

	ck_assert_int_eq(undisturbed(&shared, "1f1b", 2, 5), 0);
	for (int i = 0; orr_schedules[i]; i++) {
		bool served = false;

		for (int k = 0; k < 3 && !served && !orr_schedules[i]->asynchronous; k++)
			served = !resume_under(orr_schedules[i]->name, shapes[k].n_workers,
					       shapes[k].n_stages, &shared);
		n_served += served;
	}
	ck_assert_int_ge(n_served, 15);
	free(shared.parameters);
}
END_TEST

START_TEST(workers_and_cut_may_change)
{
	static const int workers[] = {1, 2, 3, 7, 16}, stages[] = {1, 2, 3, 8};
	struct training shared;

	ck_assert_int_eq(undisturbed(&shared, "1f1b", 4, 4), 0);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(resume_under("1f1b", workers[i], stages[i % 4], &shared), 0);
	ck_assert_int_eq(resume_under("gpipe", 2, 8, &shared), 0);
	free(shared.parameters);
}
END_TEST

/* From the checkpoint of the expected training, whose parameters are then freed. */
static void go_on(struct training *expected, const char *name, const char *schedule, int n_workers,
		  int n_stages)
{
	struct training t;

	ck_assert_int_eq(bare_init(&t, schedule, n_workers, n_stages), 0);
	load(&t);
	train(&t, N_STEPS - N_BEFORE);
	check_same(&t, expected, name);
	training_fini(&t);
	free(expected->parameters);
}

START_TEST(replicas_go_on_to_the_bit)
{
	static const char *const names[] = {"ddp", "lpp", "chimera", "gems"};
	struct training expected;
	int code, n_workers;

	for (n_workers = 4; n_workers <= 8; n_workers *= 2)
		if (!(code = undisturbed(&expected, names[_i], n_workers, n_workers)))
			break;
	ck_assert_msg(!code, "%s", err.msg);
	go_on(&expected, names[_i], names[_i], n_workers, n_workers);
}
END_TEST

START_TEST(every_optimizer_goes_on_to_the_bit)
{
	struct training expected;

	options.optimizer = (enum orr_optimizer)_i;
	options.weight_decay = 0.01;
	ck_assert_int_eq(undisturbed(&expected, "1f1b", 2, 4), 0);
	go_on(&expected, "1f1b", "gpipe", 3, 3);
}
END_TEST

/* The second step, after which it goes on, is in the warm-up, in the fall, or past it. */
static const struct {
	int warmup, decay_steps;
	enum orr_decay decay;
} courses[] = {{4, 0, ORR_DECAY_NONE},
	       {3, 6, ORR_DECAY_COSINE},
	       {1, 5, ORR_DECAY_LINEAR},
	       {0, 2, ORR_DECAY_COSINE}};

START_TEST(the_rate_and_clipping_go_on_to_the_bit)
{
	struct training expected;

	options.warmup = courses[_i].warmup;
	options.decay_steps = courses[_i].decay_steps;
	options.decay = courses[_i].decay;
	options.final_rate = 1e-3;
	options.clip = 0.1;
	ck_assert_int_eq(undisturbed(&expected, "1f1b", 2, 4), 0);
	go_on(&expected, "1f1b", "gpipe", 3, 3);
}
END_TEST

/* Stages and parts of stages, as they are cut here or there. */
START_TEST(frozen_operators_are_there_and_the_others_go_on_to_the_bit)
{
	static const struct {
		const char *schedule;
		int n_workers, n_stages;
	} ways[] = {
		{"1f1b", 3, 8}, {"gpipe", 1, 1}, {"zb-h1", 4, 4}, {"fsdp", 4, 8}, {"v-half", 4, 8}};
	float values[9 * 12];
	struct orr_named_tensor there = {.name = "a0.weight",
					 .n_dims = 2,
					 .shape = {9, 12},
					 .values = values},
				absent = there;
	struct orr_checkpoint *c = NULL;
	struct training shared;

	absent.name = "a0.weight.momentum";
	ck_assert_int_eq(freeze(graph, " a0 a2 b5 a6 ", &err), 0);
	ck_assert_int_eq(undisturbed(&shared, "1f1b", 2, 5), 0);
	ck_assert_msg(!open_newest(&c, folder, NULL, &err), "%s", err.msg);
	ck_assert_msg(!orr_checkpoint_read(c, &there, &err), "%s", err.msg);
	ck_assert_mem_eq(values, shared.parameters, sizeof(values)); /* as they still are */
	ck_assert_int_ne(orr_checkpoint_read(c, &absent, &err), 0);
	orr_checkpoint_close(c);
	for (int i = 0; i < N_OF(ways); i++)
		ck_assert_msg(!resume_under(ways[i].schedule, ways[i].n_workers, ways[i].n_stages,
					    &shared),
			      "%s: %s", ways[i].schedule, err.msg);
	free(shared.parameters);
}
END_TEST

START_TEST(tensors_are_named_after_operators)
{
	static const struct orr_named_tensor shapes[] = {
		{.name = "a0.weight", .n_dims = 2, .shape = {9, 12}},
		{.name = "a0.bias", .n_dims = 1, .shape = {9, 1}},
		{.name = "a0.weight.momentum", .n_dims = 2, .shape = {9, 12}},
		{.name = "b1.gain", .n_dims = 1, .shape = {10, 1}},
		{.name = "b1.gain.momentum", .n_dims = 1, .shape = {10, 1}},
		{.name = "a7.bias.momentum", .n_dims = 1, .shape = {5, 1}},
	};
	float values[9 * 12], expected[9 * 12 + 9];
	struct orr_checkpoint *c = NULL;
	struct training t;

	ck_assert_int_eq(training_init(&t, "1f1b", 2, 4), 0);
	train(&t, N_BEFORE);
	memcpy(expected, t.parameters, sizeof(expected));
	ck_assert_msg(!orr_run_save(t.run, folder, 1, &err), "%s", err.msg);
	training_fini(&t);
	ck_assert_msg(!open_newest(&c, folder, NULL, &err), "%s", err.msg);
	for (int i = 0; i < N_OF(shapes); i++) {
		struct orr_named_tensor tensor = shapes[i];
		double sum = 0;

		tensor.values = values;
		ck_assert_msg(!orr_checkpoint_read(c, &tensor, &err), "%s", err.msg);
		for (int64_t k = 0; k < orr_named_tensor_floats(&tensor); k++)
			sum += fabs((double)values[k]);
		ck_assert_msg(sum > 0, "%s is all zero", tensor.name);
		if (i < 2)
			ck_assert(
				!memcmp(values, expected + (i ? 9 * 12 : 0),
					(size_t)orr_named_tensor_floats(&tensor) * sizeof(float)));
	}
	orr_checkpoint_close(c);
}
END_TEST

/* ---- splits ---- */

/* Parts that are even and uneven, some of all, in groups of their own, and none. */
static const char *const splits[] = {"1", "2", "3:copied", "a1=2,a2=2,b1=2:copied,a5=3", "4"};

static void split_graph(const char *text)
{
	struct orr_graph *whole = NULL;

	orr_graph_destroy(graph);
	ck_assert_msg(!orr_graph_parse(&whole, "model.dot", model, &err), "%s", err.msg);
	ck_assert_msg(!orr_graph_split(&graph, whole, text, &err), "%s: %s", text, err.msg);
}

/* Tensors of the unsplit model, and of Adam's; each of the size that it has there. */
static void check_same_tensors(const char *before, const char *after, const char *name)
{
	static const char *const ends[] = {"", ".first_moment", ".second_moment"};
	const struct orr_graph *g = orr_graph_whole(graph);
	struct orr_checkpoint *c[2] = {NULL, NULL};
	float values[2][12 * 12];
	const char *parameter;
	const int64_t *dims;
	char text[80];
	int n = 0, n_dims;

	ck_assert_msg(!open_newest(&c[0], before, NULL, &err), "%s", err.msg);
	ck_assert_msg(!open_newest(&c[1], after, NULL, &err), "%s", err.msg);
	for (int k = 0; k < g->n_operators; k++)
		for (int i = 0;
		     (parameter = orr_operator_parameter(&g->operators[k], i, &n_dims, &dims)); i++)
			for (int e = 0; e < 3; e++, n++) {
				struct orr_named_tensor tensor = {.name = text, .n_dims = n_dims};

				(void)snprintf(text, sizeof(text), "%s.%s%s", g->operators[k].name,
					       parameter, ends[e]);
				memcpy(tensor.shape, dims, (size_t)n_dims * sizeof(*dims));
				for (int f = 0; f < 2; f++) {
					tensor.values = values[f];
					ck_assert_msg(!orr_checkpoint_read(c[f], &tensor, &err),
						      "%s: %s", name, err.msg);
				}
				ck_assert_msg(!memcmp(values[0], values[1],
						      (size_t)orr_named_tensor_floats(&tensor) *
							      sizeof(float)),
					      "%s: %s", name, text);
			}
	ck_assert_int_eq(n, 3 * 18);
	orr_checkpoint_close(c[0]);
	orr_checkpoint_close(c[1]);
}

/* What is saved under one split is there under another, and is saved as it was. */
static void check_under(const char *split, const struct training *before)
{
	struct training after;
	char again[40], command[112];

	(void)snprintf(again, sizeof(again), "%s/again", folder);
	split_graph(split);
	ck_assert_msg(!training_init(&after, "gpipe", 12, 3), "%s", err.msg);
	load(&after);
	ck_assert_msg(!orr_run_parameters(after.run, after.parameters, &err), "%s", err.msg);
	ck_assert_int_eq(after.n_parameters, before->n_parameters);
	ck_assert_mem_eq(after.parameters, before->parameters,
			 (size_t)after.n_parameters * sizeof(float));
	(void)snprintf(command, sizeof(command), "rm -rf '%s' && mkdir '%s'", again, again);
	ck_assert_int_eq(system(command), 0);
	ck_assert_msg(!orr_run_save(after.run, again, 1, &err), "%s", err.msg);
	check_same_tensors(folder, again, split);
	train(&after, 1);
	training_fini(&after);
}

START_TEST(the_split_may_change)
{
	struct training before;

	options.optimizer = ORR_OPTIMIZER_ADAM;
	split_graph(splits[_i]);
	ck_assert_msg(!training_init(&before, "1f1b", 8, 2), "%s", err.msg);
	train(&before, N_BEFORE);
	ck_assert_msg(!orr_run_save(before.run, folder, 1, &err), "%s", err.msg);
	training_stop(&before);
	for (int to = 0; to < N_OF(splits); to++)
		check_under(splits[to], &before);
	free(before.parameters);
}
END_TEST

START_TEST(every_split_begins_with_the_same_values)
{
	struct training whole, split;

	ck_assert_msg(!training_init(&whole, "1f1b", 2, 2), "%s", err.msg);
	ck_assert_msg(!orr_run_parameters(whole.run, whole.parameters, &err), "%s", err.msg);
	training_stop(&whole);
	split_graph(splits[_i]);
	ck_assert_msg(!training_init(&split, "1f1b", 8, 2), "%s", err.msg);
	ck_assert_msg(!orr_run_parameters(split.run, split.parameters, &err), "%s", err.msg);
	ck_assert_int_eq(split.n_parameters, whole.n_parameters);
	ck_assert_mem_eq(split.parameters, whole.parameters,
			 (size_t)whole.n_parameters * sizeof(float));
	training_fini(&split);
	free(whole.parameters);
}
END_TEST

/* ---- what does not fit ---- */

static const char *const refusals[] = {
	"optimizer name is \"momentum\" there and \"adam\" here",
	"optimizer momentum is 0.9 there and 0.5 here",
	"batch is 19 there and 20 here",
	"seed is 1 there and 2 here",
	"data training_rows is 60 there and 59 here",
	"graph a7 is \"linear 5 of a6\" there and \"linear 6 of a6\" here",
	"graph a2 is \"linear 8 of b1\" there and \"linear 8 of b1, frozen\" here",
	"optimizer warmup is missing there and 3 here",
	"optimizer decay is missing there and \"cosine\" here",
	"optimizer clip is missing there and 0.5 here"};

START_TEST(another_training_is_refused)
{
	struct orr_checkpoint *c = NULL;
	struct training t;
	char *text;

	ck_assert_int_eq(undisturbed(&t, "1f1b", 2, 4), 0);
	free(t.parameters);
	options.optimizer = _i == 0 ? ORR_OPTIMIZER_ADAM : ORR_OPTIMIZER_MOMENTUM;
	options.momentum = _i == 1 ? 0.5 : options.momentum;
	options.batch += _i == 2;
	options.seed += _i == 3;
	data.n_train -= _i == 4;
	if (_i == 5) {
		orr_graph_destroy(graph);
		ck_assert_ptr_nonnull(text = strdup(model));
		strstr(text, "features=5")[9] = '6';
		ck_assert_int_eq(orr_graph_parse(&graph, "model.dot", text, &err), 0);
		free(text);
	}
	if (_i == 6)
		ck_assert_int_eq(freeze(graph, " a2 ", &err), 0);
	options.warmup = _i == 7 ? 3 : 0;
	options.decay = _i == 8 ? ORR_DECAY_COSINE : ORR_DECAY_NONE;
	options.decay_steps = 9;
	options.clip = _i == 9 ? 0.5 : 0;
	ck_assert_int_eq(training_init(&t, "1f1b", 2, 4), 0);
	ck_assert_msg(!open_newest(&c, folder, NULL, &err), "%s", err.msg);
	ck_assert_int_eq(orr_run_load(t.run, c, NULL, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, refusals[_i]) != NULL, "%s", err.msg);
	ck_assert_int_eq(orr_run_step(t.run), 0);
	train(&t, 1);
	orr_checkpoint_close(c);
	training_fini(&t);
}
END_TEST

START_TEST(a_checkpoint_that_cannot_be_written_stops_nothing)
{
	struct training expected, t;

	ck_assert_int_eq(undisturbed(&expected, "1f1b", 2, 4), 0);
	ck_assert_int_eq(training_init(&t, "1f1b", 2, 4), 0);
	train(&t, N_BEFORE);
	ck_assert_int_eq(orr_run_save(t.run, "resume-no/such/folder", 1, &err), ORR_E_IO);
	train(&t, N_STEPS - N_BEFORE);
	check_same(&t, &expected, "after a failure");
	training_fini(&t);
	free(expected.parameters);
}
END_TEST

/* What another holds would be waited for. */
START_TEST(weights_are_taken_without_the_optimizers_state)
{
	const struct orr_data *of;
	struct training t;
	float *state;

	ck_assert_int_eq(training_init(&t, "1f1b", 2, 4), 0);
	train(&t, 1);
	of = &t.run->data;
	for (int i = 0; i < of->n_owned; i++)
		if (of->owned[i].state)
			ck_assert(!orr_data_acquire(of->owned[i].state, STARPU_W, &state, &err));
	ck_assert_int_eq(orr_run_parameters(t.run, t.parameters, &err), 0);
	for (int i = 0; i < of->n_owned; i++)
		if (of->owned[i].state)
			orr_data_release(of->owned[i].state);
	training_fini(&t);
}
END_TEST

/* ---- copies, behind the next step ---- */

static sem_t may_copy;

/* All that the next step computes has ended long before. */
static void dawdle(void)
{
	sem_wait(&may_copy);
	usleep(100000);
}

/* The newest that is whole, or -1. */
static int64_t newest(void)
{
	struct orr_checkpoint *c = NULL;
	int64_t step = open_newest(&c, folder, NULL, &err) ? -1 : orr_checkpoint_step(c);

	orr_checkpoint_close(c);
	return step;
}

static const char *const copied_under[] = {"1f1b", "gpipe", "ddp", "pipedream"};

START_TEST(a_copy_behind_the_next_step_is_of_its_own)
{
	const char *schedule = copied_under[_i];
	struct orr_copy_made made;
	struct training t, after;

	hooks.copying = dawdle;
	options.batch = 2 * N_MICROBATCHES;
	ck_assert_int_eq(sem_init(&may_copy, 0, 0), 0);
	ck_assert_int_eq(training_init(&t, schedule, 2, _i == 2 ? 1 : 2), 0);
	train(&t, N_BEFORE);
	ck_assert_msg(!orr_run_copy(t.run, folder, &err), "%s", err.msg);
	ck_assert_int_eq(newest(), -1); /* it counts once it is whole */
	sem_post(&may_copy);
	train(&t, N_STEPS - N_BEFORE);
	ck_assert_msg(!orr_run_copied(t.run, &made, &err), "%s", err.msg);
	ck_assert_int_eq(made.step, N_BEFORE);
	ck_assert_int_gt(made.n_bytes, t.n_parameters * 2 * (int64_t)sizeof(float));
	ck_assert_int_eq(newest(), N_BEFORE);
	training_stop(&t);
	ck_assert_int_eq(training_init(&after, schedule, 2, _i == 2 ? 1 : 2), 0);
	load(&after);
	train(&after, N_STEPS - N_BEFORE);
	check_same(&after, &t, schedule);
	training_fini(&after);
	free(t.parameters);
	hooks.copying = NULL;
}
END_TEST

START_TEST(a_copy_that_cannot_be_written_says_so_and_leaves_the_one_before)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	const struct rlimit limit = {100, RLIM_INFINITY};
	struct orr_copy_made made;
	struct training t;

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(sem_init(&may_copy, 0, 1), 0);
	hooks.copying = dawdle;
	ck_assert_int_eq(training_init(&t, "1f1b", 2, 4), 0);
	train(&t, 1);
	ck_assert_msg(!orr_run_copy(t.run, folder, &err), "%s", err.msg);
	train(&t, 1);
	ck_assert_msg(!orr_run_copied(t.run, NULL, &err), "%s", err.msg);
	ck_assert_msg(!orr_run_copy(t.run, folder, &err), "%s", err.msg);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	sem_post(&may_copy);
	train(&t, 1);
	ck_assert_int_eq(orr_run_copied(t.run, &made, &err), ORR_E_IO);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0); /* Check writes files, too */
	ck_assert_ptr_nonnull(strstr(err.msg, "cannot be written"));
	ck_assert_int_eq(made.step, 2);
	ck_assert_int_eq(newest(), 1);
	ck_assert_msg(!orr_run_copied(t.run, &made, &err), "%s", err.msg); /* there is none now */
	ck_assert_int_eq(made.step, 0);
	training_fini(&t);
	hooks.copying = NULL;
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(every_schedule_goes_on_where_1f1b_stopped),
	ONCE(workers_and_cut_may_change),
	EACH(replicas_go_on_to_the_bit, 4),
	EACH(every_optimizer_goes_on_to_the_bit, ORR_N_OPTIMIZERS),
	EACH(the_rate_and_clipping_go_on_to_the_bit, N_OF(courses)),
	ONCE(frozen_operators_are_there_and_the_others_go_on_to_the_bit),
	ONCE(tensors_are_named_after_operators),
	EACH(every_split_begins_with_the_same_values, N_OF(splits)),
	EACH(the_split_may_change, N_OF(splits)),
	EACH(another_training_is_refused, N_OF(refusals)),
	ONCE(a_checkpoint_that_cannot_be_written_stops_nothing),
	ONCE(weights_are_taken_without_the_optimizers_state),
	EACH(a_copy_behind_the_next_step_is_of_its_own, N_OF(copied_under)),
	ONCE(a_copy_that_cannot_be_written_says_so_and_leaves_the_one_before),
};
SUITE_WITH("resume", setup, teardown)
