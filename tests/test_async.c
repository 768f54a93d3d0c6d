/* An asynchronous run against the same training as the paper writes it (delayed.h), to the bit; and
 * the versions that its tasks have found there. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "delayed.h"
#include "frozen.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "training.h"
#include "schedule/versions.h"
#include "runtime/run/options.h"
#include "orrery/run.h"
#include "suite.h"

#define N_MICROBATCHES 12
#define SAMPLES 3 /* of a microbatch */
#define MOST_STAGES 6

static struct orr_error err;

/* ---- a model, a schedule and a run ---- */

struct training_case {
	const char *schedule; /* pipedream, with its replicas */
	const char *model;    /* NULL: a chain of so many stages */
	int n_stages, n_workers;
	enum orr_sync sync;
	int accumulate;
	enum orr_optimizer optimizer;
	int replicas[MOST_STAGES],
		ahead[MOST_STAGES]; /* as delayed.h has them; 0: depth, no replicas */
};

struct setting {
	struct training t;
	int replicas[MOST_STAGES], ahead[MOST_STAGES];
};

/* A linear and a relu a stage. */
static void write_chain(char *text, size_t size, int n_stages)
{
	int n = snprintf(text, size, "digraph chain {\nx [op=input columns=\"0:8\" stage=0]\n");

	for (int s = 0; s < n_stages; s++)
		n += snprintf(text + n, size - (size_t)n,
			      "a%d [op=linear features=%d stage=%d]\nb%d [op=%s stage=%d]\n", s,
			      s + 1 < n_stages ? 9 + s : 5, s, s, s % 2 ? "gelu" : "layernorm", s);
	n += snprintf(text + n, size - (size_t)n,
		      "y [op=input columns=\"20\" stage=%d]\n"
		      "loss [op=softmax_cross_entropy stage=%d]\nx",
		      n_stages - 1, n_stages - 1);
	for (int s = 0; s < n_stages; s++)
		n += snprintf(text + n, size - (size_t)n, " -> a%d -> b%d", s, s);
	(void)snprintf(text + n, size - (size_t)n, " -> loss\ny -> loss\n}\n");
}

static void setting_init(struct setting *x, const struct training_case *c, const char *frozen)
{
	struct training *t = &x->t;
	char text[2048];

	memset(x, 0, sizeof(*x));
	t->frozen = frozen;
	write_chain(text, sizeof(text), c->n_stages);
	ck_assert_msg(!orr_choice_init(&t->choice, c->schedule, &err), "%s", err.msg);
	training_prepare(t, c->model ? c->model : text, &t->choice.schedule, c->n_workers,
			 N_MICROBATCHES);
	/* once more, with what the pipeline says of versions */
	orr_jobs_destroy(t->jobs);
	t->jobs = NULL;
	t->pipeline->sync = c->sync;
	t->pipeline->accumulate = c->accumulate;
	ck_assert_msg(!orr_jobs_create(&t->jobs, t->pipeline, &t->choice.schedule, &err), "%s",
		      err.msg);
	t->options.batch = SAMPLES * N_MICROBATCHES;
	t->options.optimizer = c->optimizer;
	t->options.learning_rate = c->optimizer == ORR_OPTIMIZER_MOMENTUM ? 0.02 : 0.004;
	for (int s = 0; s < t->pipeline->n_stages; s++) {
		x->replicas[s] = c->replicas[s] ? c->replicas[s] : 1;
		x->ahead[s] = c->ahead[s] ? c->ahead[s] : t->pipeline->stages[s].depth;
	}
}

static void setting_fini(struct setting *x)
{
	training_fini(&x->t);
}

/* ---- against delayed training ---- */

static const struct training_case cases[] = {
	{"pipedream", NULL, 2, 2, ORR_SYNC_STASHING, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	{"pipedream", NULL, 3, 3, ORR_SYNC_STASHING, 1, ORR_OPTIMIZER_ADAM, {0}, {0}},
	{"pipedream", NULL, 4, 4, ORR_SYNC_STASHING, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	{"pipedream", NULL, 5, 5, ORR_SYNC_STASHING, 1, ORR_OPTIMIZER_ADAMW, {0}, {0}},
	{"pipedream", NULL, 6, 6, ORR_SYNC_STASHING, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	{"pipedream", NULL, 2, 2, ORR_SYNC_VERTICAL, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	{"pipedream", NULL, 3, 3, ORR_SYNC_VERTICAL, 1, ORR_OPTIMIZER_ADAM, {0}, {0}},
	{"pipedream", NULL, 4, 4, ORR_SYNC_VERTICAL, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	{"pipedream", NULL, 5, 5, ORR_SYNC_VERTICAL, 1, ORR_OPTIMIZER_ADAMW, {0}, {0}},
	{"pipedream", NULL, 6, 6, ORR_SYNC_VERTICAL, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	{"pipedream", NULL, 4, 4, ORR_SYNC_NONE, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	/* two stages on a worker */
	{"pipedream", NULL, 4, 2, ORR_SYNC_STASHING, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	/* 2BW: two versions are enough */
	{"pipedream", NULL, 4, 4, ORR_SYNC_STASHING, 4, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	{"pipedream", NULL, 4, 4, ORR_SYNC_VERTICAL, 2, ORR_OPTIMIZER_ADAM, {0}, {0}},
	/* [Narayanan19] figure 8: of three workers two have the input, ceil(3/2) microbatches each
	 */
	{"pipedream:replicas=2-1",
	 NULL,
	 2,
	 3,
	 ORR_SYNC_STASHING,
	 1,
	 ORR_OPTIMIZER_MOMENTUM,
	 {2, 1},
	 {2, 1}},
	{"pipedream:replicas=2-1",
	 NULL,
	 2,
	 3,
	 ORR_SYNC_VERTICAL,
	 1,
	 ORR_OPTIMIZER_ADAM,
	 {2, 1},
	 {2, 1}},
	{"pipedream:replicas=2-1",
	 NULL,
	 2,
	 3,
	 ORR_SYNC_NONE,
	 1,
	 ORR_OPTIMIZER_MOMENTUM,
	 {2, 1},
	 {2, 1}},
	{"pipedream:replicas=2-1",
	 NULL,
	 2,
	 3,
	 ORR_SYNC_STASHING,
	 2,
	 ORR_OPTIMIZER_MOMENTUM,
	 {2, 1},
	 {2, 1}},
	/* ceil(6/3), ceil(3/2) and 1 on each replica */
	{"pipedream:replicas=3-2-1",
	 NULL,
	 3,
	 6,
	 ORR_SYNC_STASHING,
	 1,
	 ORR_OPTIMIZER_ADAM,
	 {3, 2, 1},
	 {2, 2, 1}},
	{"pipedream:replicas=3-2-1",
	 NULL,
	 3,
	 6,
	 ORR_SYNC_VERTICAL,
	 2,
	 ORR_OPTIMIZER_MOMENTUM,
	 {3, 2, 1},
	 {2, 2, 1}},
	/* and on too few workers */
	{"pipedream:replicas=1-3-2",
	 NULL,
	 3,
	 3,
	 ORR_SYNC_STASHING,
	 1,
	 ORR_OPTIMIZER_MOMENTUM,
	 {1, 3, 2},
	 {6, 2, 1}},
	{"pipedream:slack=1",
	 NULL,
	 3,
	 3,
	 ORR_SYNC_VERTICAL,
	 1,
	 ORR_OPTIMIZER_MOMENTUM,
	 {0},
	 {5, 3, 1}},
	/* no chain, and a stage without parameters */
	{"pipedream", training_model, 0, 6, ORR_SYNC_STASHING, 1, ORR_OPTIMIZER_MOMENTUM, {0}, {0}},
	{"pipedream", training_model, 0, 6, ORR_SYNC_VERTICAL, 1, ORR_OPTIMIZER_ADAM, {0}, {0}},
};
/* In the benchmark; of the suite, a fifth: far more than any stage is behind. */
#define N_UPDATES 200

static int n_updates(void)
{
	return suite_takes_all() ? N_UPDATES : N_UPDATES / 5;
}

struct record {
	double losses[N_UPDATES];
	int64_t n, samples;
};

static void note_loss(void *user, const struct orr_step *step)
{
	struct record *record = user;

	ck_assert_int_lt(step->step, n_updates());
	ck_assert_int_eq(step->step, record->n++);
	ck_assert_int_eq(step->samples, record->n * record->samples);
	record->losses[step->step] = step->scores.loss;
}

static void check_losses(const struct record *record, const double *losses, int in_step)
{
	for (int64_t i = 0; i < record->n; i++) {
		double sum = 0;

		for (int b = 0; b < in_step; b++)
			sum += losses[i * in_step + b];
		ck_assert_msg(fabs(record->losses[i] - sum / in_step) < 1e-12,
			      "loss %lld is %.17g instead of %.17g", (long long)i,
			      record->losses[i], sum / in_step);
	}
}

/* Every pass has read what versions.h says, and the delays are those of [Narayanan19] section 3.3.
 */
static void check_versions(struct setting *x, const struct training_case *c)
{
	struct orr_run_versions measured[MOST_STAGES];
	const struct orr_versions *v = x->t.jobs->versions;
	int n = x->t.pipeline->n_stages;

	ck_assert_msg(!orr_run_versions(x->t.run, measured, &err), "%s", err.msg);
	for (int s = 0; s < n; s++) {
		const struct orr_run_versions *m = &measured[s];

		if (!m->n_read) /* without parameters */
			continue;
		ck_assert_int_eq(m->n_wrong, 0);
		if (v->every[s] == ORR_NEVER) {
			ck_assert_int_eq(m->least, -1);
			ck_assert_int_eq(m->held, 1);
			continue;
		}
		ck_assert_int_eq(m->least, v->least[s]);
		ck_assert_int_eq(m->most, v->most[s]);
		ck_assert_int_eq(m->held, v->peak[s]);
		if (!c->model && !c->ahead[0] && c->accumulate == 1) {
			ck_assert_int_eq(m->least,
					 c->sync == ORR_SYNC_VERTICAL ? n - 1 : n - 1 - s);
			ck_assert_int_eq(m->most, m->least);
		}
		if (c->replicas[0] == 2 && c->accumulate == 1) {
			/* a version behind at the input, which vertical sync hands on: its two
			 * microbatches are two versions of stage 1, and to the second of them three
			 */
			ck_assert_int_eq(m->least, s && c->sync == ORR_SYNC_VERTICAL ? 2 : 1 - s);
			ck_assert_int_eq(m->most, s && c->sync == ORR_SYNC_VERTICAL ? 3 : 1 - s);
		}
	}
}

static void check_case(const struct training_case *c, const char *frozen, int delay_us)
{
	struct setting x;
	struct record record = {.n = 0};
	struct delayed_options delayed;
	float *parameters, *expected, *drawn;
	double *losses;
	int64_t n;
	int in_step;

	setting_init(&x, c, frozen);
	x.t.hooks.delay_us = delay_us;
	in_step = orr_versions_step(x.t.jobs->versions);
	record.samples = (int64_t)in_step * SAMPLES;
	ck_assert_int_eq(orr_run_step_samples(x.t.jobs, &x.t.options), record.samples);
	training_start(&x.t);
	n = orr_run_n_parameters(x.t.run);
	drawn = calloc((size_t)n, sizeof(*drawn));
	ck_assert(drawn && !orr_run_parameters(x.t.run, drawn, &err));
	ck_assert_msg(!orr_run_train(x.t.run, n_updates(), note_loss, &record, &err), "%s",
		      err.msg);
	ck_assert_int_eq(record.n, n_updates());
	parameters = calloc((size_t)n, sizeof(*parameters));
	expected = calloc((size_t)n, sizeof(*expected));
	losses = calloc((size_t)n_updates() * (size_t)in_step, sizeof(*losses));
	ck_assert(parameters && expected && losses);
	ck_assert_msg(!orr_run_parameters(x.t.run, parameters, &err), "%s", err.msg);
	delayed = (struct delayed_options){(enum delayed_sync)c->sync,
					   c->accumulate,
					   x.replicas,
					   x.ahead,
					   SAMPLES,
					   x.t.options.seed,
					   orr_run_rule(&x.t.options)};
	delayed_train(x.t.pipeline, &x.t.data, &delayed, (int64_t)n_updates() * in_step, expected,
		      losses);
	for (int64_t i = 0; i < n; i++)
		ck_assert_msg(!memcmp(&parameters[i], &expected[i], sizeof(float)),
			      "parameter %lld is %.9g instead of %.9g", (long long)i,
			      (double)parameters[i], (double)expected[i]);
	ck_assert_ptr_null(find_thawed(x.t.graph, drawn, parameters));
	check_losses(&record, losses, in_step);
	check_versions(&x, c);
	free(drawn);
	free(parameters);
	free(expected);
	free(losses);
	setting_fini(&x);
}

START_TEST(updates_are_those_of_delayed_training)
{
	check_case(&cases[_i], NULL, _i % 3 ? 0 : 100);
}
END_TEST

/* At the start, in the middle, a part of a stage; one tower of two; all inputs. */
static const struct {
	struct training_case c;
	const char *frozen;
} frozen_cases[] = {
	{{.schedule = "pipedream",
	  .n_stages = 4,
	  .n_workers = 4,
	  .accumulate = 1,
	  .optimizer = ORR_OPTIMIZER_ADAM},
	 " a0 b0 a2 "},
	{{.schedule = "pipedream",
	  .n_stages = 4,
	  .n_workers = 2,
	  .sync = ORR_SYNC_VERTICAL,
	  .accumulate = 2,
	  .optimizer = ORR_OPTIMIZER_MOMENTUM},
	 " a0 b0 b2 "},
	{{.schedule = "pipedream",
	  .n_stages = 5,
	  .n_workers = 5,
	  .sync = ORR_SYNC_NONE,
	  .accumulate = 1,
	  .optimizer = ORR_OPTIMIZER_ADAMW},
	 " a1 a2 b2 "},
	{{.schedule = "pipedream",
	  .model = training_model,
	  .n_workers = 6,
	  .accumulate = 1,
	  .optimizer = ORR_OPTIMIZER_ADAM},
	 " r1 t1 "},
	{{.schedule = "pipedream",
	  .model = training_model,
	  .n_workers = 6,
	  .sync = ORR_SYNC_VERTICAL,
	  .accumulate = 1,
	  .optimizer = ORR_OPTIMIZER_MOMENTUM},
	 " l1 r1 "},
	{{.schedule = "pipedream:replicas=2-1",
	  .n_stages = 2,
	  .n_workers = 3,
	  .accumulate = 1,
	  .optimizer = ORR_OPTIMIZER_MOMENTUM,
	  .replicas = {2, 1},
	  .ahead = {2, 1}},
	 " a0 b0 "},
	{{.schedule = "pipedream:replicas=2-1",
	  .n_stages = 2,
	  .n_workers = 3,
	  .accumulate = 2,
	  .optimizer = ORR_OPTIMIZER_ADAM,
	  .replicas = {2, 1},
	  .ahead = {2, 1}},
	 " a0 a1 "},
};

START_TEST(frozen_operators_stay_and_the_others_are_those_of_delayed_training)
{
	check_case(&frozen_cases[_i].c, frozen_cases[_i].frozen, _i % 2 ? 0 : 100);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(updates_are_those_of_delayed_training, N_OF(cases)),
	EACH(frozen_operators_stay_and_the_others_are_those_of_delayed_training,
	     N_OF(frozen_cases)),
};
SUITE("async")
