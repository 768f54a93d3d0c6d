#include "training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drawn_data.h"
#include "frozen.h"
#include "suite.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/timeline.h"

const char training_model[] = "digraph model {\n"
			      "  left [op=input columns=\"0:8\" stage=0]\n"
			      "  l1 [op=linear features=12 stage=0]\n"
			      "  l2 [op=relu stage=0]\n"
			      "  right [op=input columns=\"8:16\" scale=0.5 stage=1]\n"
			      "  r1 [op=linear features=10 stage=1]\n"
			      "  r2 [op=gelu stage=1]\n"
			      "  join [op=concat stage=2]\n"
			      "  t1 [op=linear features=16 stage=2]\n"
			      "  t2 [op=layernorm stage=2]\n"
			      "  t3 [op=relu stage=3]\n"
			      "  scores [op=linear features=5 stage=4]\n"
			      "  class [op=input columns=\"20\" stage=4]\n"
			      "  loss [op=softmax_cross_entropy stage=4]\n"
			      "  guess [op=linear features=3 stage=5]\n"
			      "  target [op=input columns=\"21:24\" stage=5]\n"
			      "  error [op=mse stage=5]\n"
			      "  left -> l1 -> l2 -> join -> t1 -> t2 -> t3 -> scores -> loss\n"
			      "  right -> r1 -> r2 -> join\n"
			      "  class -> loss\n"
			      "  l2 -> guess -> error\n"
			      "  target -> error\n"
			      "}\n";

int training_try(struct training *t, const char *text, const struct orr_schedule *schedule,
		 int n_workers, int n_microbatches, const char *recompute)
{
	struct orr_machine machine = orr_machine_default(n_workers);
	struct orr_error *err = &t->err;
	int code;

	ck_assert(draw_data(&t->data, N_ROWS, N_COLUMNS, CLASS_COLUMN, 5, 12345));
	t->options = orr_run_options_default();
	t->options.batch = 19;
	if ((code = orr_graph_parse(&t->graph, "model.dot", text, err)) ||
	    (t->frozen && (code = freeze(t->graph, t->frozen, err))) ||
	    (code = orr_partition(&t->pipeline, t->graph, &machine, 0, 4, err)) ||
	    (code = orr_pipeline_set_step(t->pipeline, n_workers, n_microbatches, err)) ||
	    (code = orr_pipeline_set_recompute(t->pipeline, recompute, err)))
		return code;
	return orr_jobs_create(&t->jobs, t->pipeline, schedule, err);
}

/* Everything before the run; options may be changed after. */
void training_prepare(struct training *t, const char *text, const struct orr_schedule *schedule,
		      int n_workers, int n_microbatches)
{
	ck_assert_msg(!training_try(t, text, schedule, n_workers, n_microbatches, "none"), "%s",
		      t->err.msg);
}

void training_init(struct training *t, const char *schedule, int n_workers, int n_microbatches)
{
	memset(t, 0, sizeof(*t));
	ck_assert_msg(!orr_choice_init(&t->choice, schedule, &t->err), "%s", t->err.msg);
	training_prepare(t, training_model, &t->choice.schedule, n_workers, n_microbatches);
}

void training_start(struct training *t)
{
	ck_assert_msg(
		!orr_run_create_hooked(&t->run, t->jobs, &t->data, &t->options, &t->hooks, &t->err),
		"%s", t->err.msg);
}

void training_fini(struct training *t)
{
	orr_run_destroy(t->run);
	orr_jobs_destroy(t->jobs);
	orr_pipeline_destroy(t->pipeline);
	orr_graph_destroy(t->graph);
	orr_choice_fini(&t->choice);
	free_data(&t->data);
}

void training_check_step(void *user, const struct orr_step *step)
{
	struct training_record *record = user;
	const struct orr_timeline *t = orr_run_timeline(record->t->run);
	struct orr_error err = {""};

	ck_assert_msg(!orr_timeline_check(t, &err), "%s, step %lld: %s", record->name,
		      (long long)step->step, err.msg);
	ck_assert(t->measured);
	ck_assert_int_gt(t->n_updates, 0);
	ck_assert_msg(step->step == record->n, "%s", record->name);
	ck_assert(step->seconds > 0);
	record->losses[record->n++] = step->scores.loss;
}

/* Train N_STEPS steps and return the parameters. */
float *training_parameters(struct training *t)
{
	float *parameters = calloc((size_t)orr_run_n_parameters(t->run), sizeof(*parameters));

	ck_assert_ptr_nonnull(parameters);
	ck_assert_msg(!orr_run_parameters(t->run, parameters, &t->err), "%s", t->err.msg);
	return parameters;
}

float *training_run(struct training *t, const char *name, struct training_record *record)
{
	struct training_record unwanted;

	record = record ? record : &unwanted;
	memset(record, 0, sizeof(*record));
	record->t = t;
	record->name = name;
	training_start(t);
	ck_assert_msg(!orr_run_train(t->run, N_STEPS, training_check_step, record, &t->err),
		      "%s: %s", name, t->err.msg);
	ck_assert_int_eq(record->n, N_STEPS);
	return training_parameters(t);
}

static FILE *out;

void training_write(const struct training *t, const float *parameters)
{
	size_t n = (size_t)orr_run_n_parameters(t->run);

	ck_assert(!out || fwrite(parameters, sizeof(*parameters), n, out) == n);
}

int training_on_ranks(const char *name, const struct suite_test *tests, int n_tests,
		      const char *path)
{
	struct orr_error err = {""};
	int failed;

	if (orr_ranks_start(NULL, &err) || (!orr_ranks_rank() && !(out = fopen(path, "wb")))) {
		fprintf(stderr, "%s\n", err.msg);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	failed = suite_run(name, tests, n_tests);
	if (failed) /* the others may wait for this one */
		orr_ranks_fail(1, "a test has failed");
	if (out && fclose(out))
		return 1;
	orr_ranks_stop();
	return failed;
}
