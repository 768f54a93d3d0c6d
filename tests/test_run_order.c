/* Runs on StarPU: the order of every worker, steps of any size, and what happens when a run stops.
 */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "simulate/simulate.h"
#include "orrery/timeline.h"
#include "by_start.h"
#include "training.h"
#include "runtime/peers/cross.h"
#include "runtime/run/parts.h"
#include "runtime/tasks/fits_host.h"
#include "suite.h"
#include "codelets/codelets.h"

/* ---- one backward pass after the other ---- */

static const char one_stage[] = "digraph one {\n"
				"  x [op=input columns=\"0:16\" stage=0]\n"
				"  h [op=linear features=12 stage=0]\n"
				"  r [op=relu stage=0]\n"
				"  z [op=linear features=5 stage=0]\n"
				"  class [op=input columns=\"20\" stage=0]\n"
				"  loss [op=softmax_cross_entropy stage=0]\n"
				"  x -> h -> r -> z -> loss\n"
				"  class -> loss\n"
				"}\n";

static starpu_cpu_func_t backward;
static const struct orr_run *asked;
static int n_passes, n_ready[8]; /* the most before each backward pass of a step */

/* The first one waits until all of the step has been submitted: 8 forward passes, as many backward,
 * what joins them, an update, and the submission itself. */
static void count_ready(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	const struct timespec pause = {0, 1000000};
	int *most = &n_ready[n_passes++ % 8], n = 0;

	for (int k = 0; k < 20000 && arg->overwrite &&
			atomic_load(&asked->watch.n_tasks) < 19 * (arg->step + 1);
	     k++)
		nanosleep(&pause, NULL);
	for (int b = arg->job / 2 + 1; b < 8; b++) {
		const struct orr_slot *slot = orr_slots_at(&asked->slots, arg->step);

		n += slot->jobs[orr_jobs_index(asked->work.jobs, 0, b, ORR_PASS_B)].task->status ==
		     STARPU_TASK_READY;
	}
	*most = n > *most ? n : *most;
	backward(buffers, cl_arg);
}

/* All jobs of a step are on one worker. While its second backward pass runs, the six others are
 * ready; under StarPU's order of writers each would be so after the one before. */
START_TEST(backward_passes_of_a_stage_wait_for_their_turn_alone)
{
	struct training t = {0};

	ck_assert_msg(!orr_choice_init(&t.choice, "gpipe", &t.err), "%s", t.err.msg);
	training_prepare(&t, one_stage, &t.choice.schedule, 1, 8);
	training_start(&t);
	ck_assert(t.run->data.owned[0].in_order);
	asked = t.run;
	backward = orr_codelets[ORR_CODELET_BACKWARD].cpu_funcs[0];
	orr_codelets[ORR_CODELET_BACKWARD].cpu_funcs[0] = count_ready;
	ck_assert_msg(!orr_run_train(t.run, N_STEPS, NULL, NULL, &t.err), "%s", t.err.msg);
	orr_codelets[ORR_CODELET_BACKWARD].cpu_funcs[0] = backward;
	ck_assert_int_eq(n_passes, 8 * N_STEPS);
	for (int k = 1; k < 8; k++)
		ck_assert_int_eq(n_ready[k], 7 - k);
	training_fini(&t);
}
END_TEST

/* What moves for an earlier job goes first, between memories as between ranks. */
START_TEST(priorities_fall_along_the_order_of_a_worker)
{
	struct training t;
	int before = INT_MAX;

	training_init(&t, "1f1b", 3, 8);
	training_start(&t);
	for (int64_t step = 0; step < 3; step++) {
		t.run->cross.step = step;
		for (int i = t.jobs->first[1]; i < t.jobs->first[2]; i++) {
			int priority = orr_cross_priority(&t.run->cross, t.jobs->by_worker[i]);

			ck_assert_int_lt(priority, before);
			before = priority;
			ck_assert_int_gt(priority, orr_cross_priority(&t.run->cross, -1));
		}
	}
	ck_assert_int_gt(orr_policy_priority(ORR_NO_TURN), orr_policy_priority(0));
	training_fini(&t);
}
END_TEST

START_TEST(strict_order_is_the_simulated_one_in_every_step)
{
	static const struct {
		const char *schedule;
		int n_workers;
	} cases[] = {{"1f1b", 6}, {"eager-1f1b", 16}, {"gpipe", 3}, {"lpp:G=2,R=2", 4}};
	struct orr_timeline *predicted = NULL;
	struct watch watch = {.name = cases[_i].schedule};
	struct training t;
	int n_steps = suite_drawn(200);

	training_init(&t, cases[_i].schedule, cases[_i].n_workers, 4);
	t.hooks.delay_us = 200;
	t.hooks.delay_seed = (uint64_t)_i;
	/* distinct durations, so that the simulated starts tell the order */
	for (int s = 0; s < t.pipeline->n_stages; s++) {
		t.pipeline->stages[s].forward_ns = 1000 + s;
		t.pipeline->stages[s].backward_ns = 2000 + s;
	}
	ck_assert_msg(!orr_simulate(&predicted, t.jobs, &t.err), "%s", t.err.msg);
	ck_assert_int_eq(t.jobs->order, ORR_ORDER_STRICT);
	training_start(&t);
	watch.run = t.run;
	watch.predicted = predicted;
	ck_assert_msg(!orr_run_train(t.run, n_steps, check_step, &watch, &t.err), "%s", t.err.msg);
	ck_assert_int_eq(watch.n, n_steps);
	orr_timeline_destroy(predicted);
	training_fini(&t);
}
END_TEST

/* Two encoders into a stage that gathers, or not. */
#define JOINED \
	"digraph model {\n" \
	"  left [op=input columns=\"0:8\" stage=0]\n" \
	"  l1 [op=linear features=12 stage=0]\n" \
	"  right [op=input columns=\"8:16\" stage=1]\n" \
	"  r1 [op=linear features=10 stage=1]\n" \
	"  join [op=concat stage=2%s]\n" \
	"  scores [op=linear features=5 stage=2]\n" \
	"  class [op=input columns=\"20\" stage=2]\n" \
	"  loss [op=softmax_cross_entropy stage=2]\n" \
	"  left -> l1 -> join -> scores -> loss\n" \
	"  right -> r1 -> join\n" \
	"  class -> loss\n" \
	"}\n"

/* What waits for a whole minibatch computes what it computes without. Operators that read one are
 * the stage's alone here: these do not know. */
START_TEST(a_stage_that_gathers_waits_for_every_microbatch)
{
	double losses[2][N_STEPS];

	for (int gathers = 0; gathers < 2; gathers++) {
		struct training t = {0};
		struct training_record record;
		char text[1000];

		(void)snprintf(text, sizeof(text), JOINED, gathers ? " gather=minibatch" : "");
		ck_assert_int_eq(orr_choice_init(&t.choice, "gpipe", &t.err), 0);
		training_prepare(&t, text, &t.choice.schedule, _i + 1, 5);
		ck_assert(t.pipeline->stages[2].gather == gathers);
		for (int k = 0; k < t.graph->n_operators; k++)
			t.graph->operators[k].gather = false;
		t.hooks.delay_us = 300;
		t.options.keep_bytes = _i ? INT64_MAX : 0;
		free(training_run(&t, "gathered", &record)); /* which checks who waited for whom */
		memcpy(losses[gathers], record.losses, sizeof(losses[0]));
		training_fini(&t);
	}
	ck_assert_mem_eq(losses[0], losses[1], sizeof(losses[0]));
}
END_TEST

START_TEST(replicas_of_a_stage_that_gathers_are_refused)
{
	struct training t = {0};
	char text[1000];

	(void)snprintf(text, sizeof(text), JOINED, " gather=minibatch");
	ck_assert_int_eq(orr_choice_init(&t.choice, "ddp", &t.err), 0);
	training_prepare(&t, text, &t.choice.schedule, 2, 2);
	for (int k = 0; k < t.graph->n_operators; k++)
		t.graph->operators[k].gather = false;
	ck_assert_int_eq(orr_run_create(&t.run, t.jobs, &t.data, &t.options, &t.err), ORR_E_INPUT);
	ck_assert_str_eq(t.err.msg,
			 "schedule ddp: workers 0 and 1 both compute stage 2, which gathers the "
			 "minibatch (gather=), and train has one worker for it: take gpipe or "
			 "auto");
	training_fini(&t);
}
END_TEST

/* ---- sizes ---- */

START_TEST(a_step_larger_than_what_starpu_is_given_at_once_runs)
{
	struct training t;

	training_init(&t, "1f1b", 6, 2000);
	t.options.batch = 2000;
	training_start(&t);
	ck_assert_msg(!orr_run_train(t.run, 2, NULL, NULL, &t.err), "%s", t.err.msg);
	ck_assert_msg(!orr_timeline_check(orr_run_timeline(t.run), &t.err), "%s", t.err.msg);
	training_fini(&t);
}
END_TEST

/* Twelve encoders into one stage, each with its own replicas: more buffers than a task has room
 * for. */
START_TEST(a_stage_with_many_edges_and_owners_trains)
{
	static const char *const schedules[] = {"1f1b", "ddp"};
	char text[4096];
	int n = snprintf(text, sizeof(text),
			 "digraph many {\n  join [op=concat stage=12]\n"
			 "  out [op=linear features=3 stage=12]\n  target [op=input "
			 "columns=\"21:24\" stage=12]\n"
			 "  loss [op=mse stage=12]\n  join -> out -> loss\n  target -> loss\n");

	for (int i = 0; i < 12; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "  x%d [op=input columns=\"%d\" stage=%d]\n"
			      "  e%d [op=linear features=2 stage=%d]\n  x%d -> e%d -> join\n",
			      i, i, i, i, i, i, i);
	(void)snprintf(text + n, sizeof(text) - (size_t)n, "}\n");
	for (int i = 0; i < 2; i++) {
		struct training_record record = {0};
		struct training t = {0};

		ck_assert_int_eq(orr_choice_init(&t.choice, schedules[i], &t.err), 0);
		training_prepare(&t, text, &t.choice.schedule, 13, 16);
		t.options.learning_rate = 0.02;
		record.t = &t;
		record.name = schedules[i];
		training_start(&t);
		ck_assert_msg(!orr_run_train(t.run, N_STEPS, training_check_step, &record, &t.err),
			      "%s", t.err.msg);
		ck_assert_msg(record.losses[N_STEPS - 1] < 0.9 * record.losses[0], "%g, then %g",
			      record.losses[0], record.losses[N_STEPS - 1]);
		training_fini(&t);
	}
}
END_TEST

/* ---- what goes wrong ---- */

static void refuse(struct training *t, int code, const char *message)
{
	struct orr_run *run = NULL;

	ck_assert_int_eq(orr_run_create(&run, t->jobs, &t->data, &t->options, &t->err), code);
	ck_assert_str_eq(t->err.msg, message);
	ck_assert_ptr_null(run);
}

START_TEST(what_cannot_run_is_refused_in_one_line)
{
	struct training t, second;

	training_init(&t, "1f1b", 2, 20);
	refuse(&t, ORR_E_INPUT,
	       "run: a batch of 19 cannot be cut into 20 microbatches; take a batch of 20 at "
	       "least, or fewer microbatches");
	t.options.batch = 20;
	t.options.timeout_s = 0;
	refuse(&t, ORR_E_INPUT, "run: a timeout of 0 s; it must be above 0");
	t.options.timeout_s = 60;
	t.data.values[3 * N_COLUMNS + CLASS_COLUMN] = 7;
	ck_assert_int_eq(orr_run_create(&t.run, t.jobs, &t.data, &t.options, &t.err), ORR_E_INPUT);
	ck_assert_msg(strstr(t.err.msg, "row 3 of the data") == t.err.msg, "%s", t.err.msg);
	t.data.values[3 * N_COLUMNS + CLASS_COLUMN] = 4;
	training_start(&t);
	training_init(&second, "gpipe", 2, 4);
	refuse(&second, ORR_E_RUNTIME,
	       "run: this process has a run already; destroy it first (one that hung stays "
	       "until the process ends)");
	training_fini(&second);
	training_fini(&t);
}
END_TEST

/* Before any of it is allocated: the second of two workers is another rank, or the same. */
START_TEST(what_is_too_large_for_a_message_is_refused)
{
	static const struct {
		const char *schedule;
		int features, more, batch; /* of stage 0 */
		const char *says;
	} cases[] = {
		{"1f1b", 1, 536871, 4000,
		 "run: a microbatch's activation of stage 0, 2.00 GiB, goes to another rank, and "
		 "MPI takes less than 2 GiB in a message: take more [microbatches] or a smaller "
		 "batch"},
		{"1f1b", 1, 536870, 4000, NULL},
		{"fsdp", 40000, 15000, 4,
		 "run: a copy of the parameters of stage 0, 2.24 GiB, goes to another rank, and "
		 "MPI takes less than 2 GiB in a message: cut the graph into more stages"},
		{"fsdp", 40000, 13000, 4, NULL},
	};
	char text[600];

	(void)snprintf(text, sizeof(text),
		       "digraph large {\n"
		       "  x [op=input columns=\"0:8\" stage=0]\n"
		       "  a [op=linear features=%d stage=0]\n"
		       "  b [op=linear features=%d stage=0]\n"
		       "  c [op=linear features=5 stage=1]\n"
		       "  class [op=input columns=\"20\" stage=1]\n"
		       "  loss [op=softmax_cross_entropy stage=1]\n"
		       "  x -> a -> b -> c -> loss\n"
		       "  class -> loss\n"
		       "}\n",
		       cases[_i].features, cases[_i].more);
	for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
		bool refused = n_ranks > 1 && cases[_i].says;
		struct orr_work work = {0};
		struct training t = {0};

		ck_assert_int_eq(orr_choice_init(&t.choice, cases[_i].schedule, &t.err), 0);
		training_prepare(&t, text, &t.choice.schedule, 2, 4);
		ck_assert_msg(
			!orr_work_init(&work, t.jobs, cases[_i].batch, 0, n_ranks, NULL, &t.err),
			"%s", t.err.msg);
		ck_assert_int_eq(orr_fits_check(&work, &t.err), refused ? ORR_E_UNSUPPORTED : 0);
		if (refused)
			ck_assert_str_eq(t.err.msg, cases[_i].says);
		orr_work_fini(&work);
		training_fini(&t);
	}
}
END_TEST

static void write_in(const char *folder, const char *name, const char *text)
{
	char path[400];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s%s", folder, name);
	(void)mkdir(folder, 0700);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	(void)fputs(text, f);
	(void)fclose(f);
}

/* A group below another takes the smaller of both. */
START_TEST(a_control_group_limits_the_memory)
{
	static const struct {
		const char *groups, *own, *above, *old;
		int64_t least;
	} cases[] = {
		{"0::/a/b\n", "5000\n", "max\n", "7", 5000},
		{"0::/a/b\n", "max\n", "4000\n", "7", 4000},
		{"0::/a/b\n", "5000\n", "4000\n", "7", 4000},
		{"3:cpu:/a/b\n9:memory:/\n0::/a\n", "5000\n", "max\n", "3000\n", 3000},
		{"3:cpu:/a/b\n", "5000\n", "4000\n", "7", INT64_MAX},
		{"no group\n0::\n", "5000\n", "4000\n", "7", INT64_MAX},
	};
	char root[] = "groups-XXXXXX", path[300]; /* in the folder that the test runs in */

	ck_assert_ptr_nonnull(mkdtemp(root));
	write_in(root, "/groups", cases[_i].groups);
	(void)snprintf(path, sizeof(path), "%s/memory", root);
	write_in(path, "/memory.limit_in_bytes", cases[_i].old);
	(void)snprintf(path, sizeof(path), "%s/a", root);
	write_in(path, "/memory.max", cases[_i].above);
	(void)snprintf(path, sizeof(path), "%s/a/b", root);
	write_in(path, "/memory.max", cases[_i].own);
	(void)snprintf(path, sizeof(path), "%s/groups", root);
	ck_assert_int_eq(orr_group_bytes(path, root), cases[_i].least);
	(void)snprintf(path, sizeof(path), "rm -r %s", root);
	ck_assert_int_eq(system(path), 0);
}
END_TEST

/* With a byte less than what is needed, before any of it is allocated. */
START_TEST(what_does_not_fit_a_host_is_refused)
{
	/* parameters, gradients and velocities; what B works in: in stage 0 room for the bias's
	 * gradient and the gradient of its output, in stage 1 room for a row of its weights'
	 * gradient and the gradients of its input and output; and what stage 1 keeps, its input */
	const int64_t wide = 10000000, first = 10 * wide, last = 5 * wide + 5;
	const int64_t owned = 12 * (first + last);
	const int64_t jobs = 4 * (wide + 4 * wide) + 4 * (wide + 4 * wide + 4 * 5) + 4 * 4 * wide;
	struct orr_work work = {0};
	struct training t = {0};

	ck_assert_int_eq(orr_choice_init(&t.choice, "1f1b", &t.err), 0);
	training_prepare(&t,
			 "digraph large { x [op=input columns=\"0:9\" stage=0]\n"
			 "a [op=linear features=10000000 stage=0]\n"
			 "c [op=linear features=5 stage=1]\n"
			 "class [op=input columns=\"20\" stage=1]\n"
			 "loss [op=softmax_cross_entropy stage=1] x -> a -> c -> loss\n"
			 "class -> loss }",
			 &t.choice.schedule, 2, 4);
	ck_assert_msg(!orr_work_init(&work, t.jobs, 16, 0, 1, NULL, &t.err), "%s", t.err.msg);
	ck_assert_int_eq(orr_fits_host(&work, 1, -1, &t.err), 0);
	ck_assert_int_eq(orr_fits_host(&work, 1, owned + jobs, &t.err), 0);
	ck_assert_int_eq(orr_fits_host(&work, 1, owned + jobs - 1, &t.err), ORR_E_NOMEM);
	ck_assert_int_eq(orr_fits_host(&work, 1, 2000000000, &t.err), ORR_E_NOMEM);
	ck_assert_str_eq(t.err.msg,
			 "run: 2.36 GB are needed, 1.8 GB of parameters, 400 MB that workers work "
			 "in and 160 MB that a microbatch of 4 keeps in stage 1, and this host has "
			 "2 GB: take more [microbatches], a smaller batch or more hosts");
	orr_work_fini(&work);
	training_fini(&t);
}
END_TEST

/* 90 floats of a and of c; 9 of d and zeros up to 64 before c; in the second zeros up to 192, where
 * what follows c begins, which has 20. */
static const struct {
	const char *more;
	int n_ranks;
	int64_t kept[2];
} tied[] = {
	{"r -> d -> c -> l", 1, {90, 64}},
	{"f [op=linear features=2 stage=1] r -> d -> c -> f -> l", 1, {90, 192 + 20}},
	{"r -> d -> c -> l", 2, {90, 64 + 90}},
};

START_TEST(what_is_tied_has_one_state_where_both_ends_are_owned_here)
{
	struct orr_work work = {0};
	struct training t = {0};
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "digraph tied { x [op=input columns=\"0:9\" stage=0]\n"
		       "a [op=linear features=9 share=w stage=0] r [op=relu stage=0]\n"
		       "d [op=rmsnorm stage=1] c [op=linear features=9 share=w stage=1]\n"
		       "class [op=input columns=\"20\" stage=1]\n"
		       "l [op=softmax_cross_entropy stage=1] x -> a -> r %s; class -> l }",
		       tied[_i].more);
	ck_assert_int_eq(orr_choice_init(&t.choice, "1f1b", &t.err), 0);
	training_prepare(&t, text, &t.choice.schedule, 2, 4);
	ck_assert_msg(!orr_work_init(&work, t.jobs, 16, 0, tied[_i].n_ranks, NULL, &t.err), "%s",
		      t.err.msg);
	for (int s = 0; s < 2; s++)
		ck_assert_int_eq(orr_work_n_kept(&work, s), tied[_i].kept[s]);
	orr_work_fini(&work);
	training_fini(&t);
}
END_TEST

START_TEST(a_study_graph_is_not_trained)
{
	struct training t = {0};

	ck_assert_int_eq(orr_choice_init(&t.choice, "1f1b", &t.err), 0);
	training_prepare(&t, "digraph study { a [forward=1] b [forward=1] a -> b }",
			 &t.choice.schedule, 2, 4);
	ck_assert_int_eq(orr_run_create(&t.run, t.jobs, &t.data, &t.options, &t.err), ORR_E_INPUT);
	ck_assert_msg(strstr(t.err.msg, "has costs and nothing to compute"), "%s", t.err.msg);
	training_fini(&t);
}
END_TEST

START_TEST(a_run_that_stops_says_who_waits_for_what)
{
	struct training t;
	float parameter;

	training_init(&t, "1f1b", 2, 4);
	/* 0F0 and 1F0 both sleep 1.2 s and more */
	t.options.timeout_s = 0.4;
	t.hooks.delay_us = 1500000;
	t.hooks.delay_seed = 34;
	training_start(&t);
	ck_assert_int_eq(orr_run_train(t.run, 5, NULL, NULL, &t.err), ORR_E_RUNTIME);
	ck_assert_msg(!strncmp(t.err.msg, "run: no job has ended for 0.4 s in step 0", 41), "%s",
		      t.err.msg);
	ck_assert_msg(strstr(t.err.msg, "; worker 0 "), "%s", t.err.msg);
	ck_assert_msg(strstr(t.err.msg, "; worker 1 "), "%s", t.err.msg);
	ck_assert_msg(strstr(t.err.msg, " runs "), "%s", t.err.msg);
	ck_assert_int_eq(orr_run_train(t.run, 5, NULL, NULL, &t.err), ORR_E_RUNTIME);
	ck_assert_str_eq(t.err.msg, "run: it has failed before and cannot go on");
	ck_assert_int_eq(orr_run_parameters(t.run, &parameter, &t.err), ORR_E_RUNTIME);
	training_fini(&t);

	/* and the process can go on */
	training_init(&t, "1f1b", 2, 4);
	free(training_run(&t, "1f1b after a run that stopped", NULL));
	training_fini(&t);
}
END_TEST

/* As a device says it: nothing more is computed, and the run ends with the message. */
START_TEST(a_kernel_that_does_not_start_ends_the_run_with_its_message)
{
	static const char failure[] = "CUDA, product: invalid device function";
	struct training t;

	training_init(&t, "1f1b", 2, 4);
	training_start(&t);
	ck_assert_int_eq(orr_run_train(t.run, 2, NULL, NULL, &t.err), 0);
	t.run->session.common.workspaces[orr_policy_worker(t.run->session.policy, 1)]
		.device.failure = failure;
	ck_assert_int_eq(orr_run_train(t.run, 5, NULL, NULL, &t.err), ORR_E_RUNTIME);
	ck_assert_str_eq(t.err.msg, "run: CUDA, product: invalid device function");
	ck_assert(t.run->trained.drained);
	training_fini(&t);
}
END_TEST

START_TEST(the_report_names_what_a_job_waits_for)
{
	struct training t;

	training_init(&t, "gpipe", 6, 1);
	t.options.timeout_s = 0.4;
	t.hooks.delay_us = 1500000;
	t.hooks.delay_seed = 34;
	training_start(&t);
	ck_assert_int_eq(orr_run_train(t.run, 1, NULL, NULL, &t.err), ORR_E_RUNTIME);
	ck_assert_msg(strstr(t.err.msg, "; worker 4 waits to run 4F0 after 3F0"), "%s", t.err.msg);
	training_fini(&t);
}
END_TEST

/* A job that never ends: the run gives up on it, and destroying the run does not hang. Last of its
 * process, which keeps the job. */
START_TEST(a_job_that_never_ends_does_not_hold_the_process)
{
	static struct training t; /* the job still reads it */
	struct training second;

	training_init(&t, "1f1b", 2, 4);
	t.options.timeout_s = 0.2;
	t.hooks.delay_us = 2000000000;
	training_start(&t);
	ck_assert_int_eq(orr_run_train(t.run, 1, NULL, NULL, &t.err), ORR_E_RUNTIME);
	ck_assert_msg(strstr(t.err.msg, " runs "), "%s", t.err.msg);
	orr_run_destroy(t.run);
	training_init(&second, "1f1b", 2, 4);
	refuse(&second, ORR_E_RUNTIME,
	       "run: this process has a run already; destroy it first (one that hung stays "
	       "until the process ends)");
	training_fini(&second);
}
END_TEST

/* Check's own fork would take StarPU's threads away: CK_FORK=no in meson.build. */
int main(int argc, char **argv)
{
	const struct suite_test stuck = ONCE(a_job_that_never_ends_does_not_hold_the_process);
	const struct suite_test tests[] = {
		EACH(strict_order_is_the_simulated_one_in_every_step, 4),
		ONCE(priorities_fall_along_the_order_of_a_worker),
		ONCE(backward_passes_of_a_stage_wait_for_their_turn_alone),
		EACH(a_stage_that_gathers_waits_for_every_microbatch, 3),
		ONCE(replicas_of_a_stage_that_gathers_are_refused),
		ONCE(a_step_larger_than_what_starpu_is_given_at_once_runs),
		ONCE(a_stage_with_many_edges_and_owners_trains),
		ONCE(what_cannot_run_is_refused_in_one_line),
		EACH(what_is_too_large_for_a_message_is_refused, 4),
		EACH(a_control_group_limits_the_memory, 6),
		EACH(what_is_tied_has_one_state_where_both_ends_are_owned_here, N_OF(tied)),
		ONCE(what_does_not_fit_a_host_is_refused),
		ONCE(a_study_graph_is_not_trained),
		ONCE(a_run_that_stops_says_who_waits_for_what),
		ONCE(a_kernel_that_does_not_start_ends_the_run_with_its_message),
		ONCE(the_report_names_what_a_job_waits_for),
	};

	if (argc > 1 && !strcmp(argv[1], "stuck"))
		return suite_run("run_stuck", &stuck, 1);
	return suite_run("run_order", tests, N_OF(tests));
}
