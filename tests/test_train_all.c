/* Every built-in schedule trains: a chain and two towers, on StarPU, with and without
 * recomputation, all of them trained or some of their operators frozen. The parameters are those of
 * one worker to the bit where a stage has one owner, those of every other schedule with the same
 * owners elsewhere, and the textbook's within 1e-5; those that are frozen are as they were drawn;
 * the measured order is the simulated one. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "reference.h"
#include "orrery/open.h"
#include "simulate/simulate.h"
#include "orrery/timeline.h"
#include "runtime/devices/compile.h"
#include "orrery/run.h"
#include "schedule/room.h"
#include "by_start.h"
#include "drawn_data.h"
#include "frozen.h"
#include "own_schedules.h"
#include "suite.h"

#define N_ROWS 60
#define N_COLUMNS 13
#define N_STEPS 3
#define N_STAGES 8
#define N_MICROBATCHES 8
#define BATCH 19

static const char chain[] = "digraph chain {\n"
			    "  x [op=input columns=\"0:12\" scale=0.5 stage=0]\n"
			    "  a0 [op=linear features=9 stage=0]\n"
			    "  b0 [op=relu stage=0]\n"
			    "  a1 [op=linear features=10 stage=1]\n"
			    "  b1 [op=layernorm stage=1]\n"
			    "  a2 [op=linear features=8 stage=2]\n"
			    "  b2 [op=gelu stage=2]\n"
			    "  a3 [op=linear features=7 stage=3]\n"
			    "  a4 [op=relu stage=4]\n"
			    "  d4 [op=dropout rate=0.2 stage=4]\n"
			    "  a5 [op=linear features=6 stage=5]\n"
			    "  b5 [op=linear features=9 stage=5]\n"
			    "  a6 [op=layernorm stage=6]\n"
			    "  a7 [op=linear features=5 stage=7]\n"
			    "  class [op=input columns=\"12\" stage=7]\n"
			    "  loss [op=softmax_cross_entropy stage=7]\n"
			    "  x -> a0 -> b0 -> a1 -> b1 -> a2 -> b2 -> a3 -> a4 -> d4 -> a5 -> b5 "
			    "-> a6 -> a7 -> loss\n"
			    "  class -> loss\n"
			    "}\n";

/* Two towers of three and a trunk of two, with a skip from the first tower's start to the trunk's
 * end. */
static const char towers[] =
	"digraph towers {\n"
	"  left [op=input columns=\"0:6\" stage=0]\n"
	"  l0 [op=linear features=8 stage=0]\n"
	"  l1 [op=gelu stage=1]\n"
	"  m1 [op=linear features=6 stage=1]\n"
	"  l2 [op=layernorm stage=2]\n"
	"  right [op=input columns=\"6:12\" scale=2 stage=3]\n"
	"  r0 [op=linear features=7 stage=3]\n"
	"  r1 [op=relu stage=4]\n"
	"  r2 [op=linear features=5 stage=5]\n"
	"  join [op=concat stage=6]\n"
	"  t0 [op=linear features=8 stage=6]\n"
	"  both [op=add stage=7]\n"
	"  scores [op=linear features=5 stage=7]\n"
	"  class [op=input columns=\"12\" stage=7]\n"
	"  loss [op=softmax_cross_entropy stage=7]\n"
	"  left -> l0 -> l1 -> m1 -> l2 -> join -> t0 -> both -> scores -> loss\n"
	"  right -> r0 -> r1 -> r2 -> join\n"
	"  l0 -> both\n"
	"  class -> loss\n"
	"}\n";

/* Three losses on three stages, of which one has the stages before it to itself: what comes after
 * is trained without them; data at the start, in the middle and at the end. */
static const char losses[] = "digraph losses {\n"
			     "  x [op=input columns=\"0:12\" scale=0.5]\n"
			     "  class [op=input columns=\"12\"]\n"
			     "  part [op=input columns=\"3:9\"]\n"
			     "  a0 [op=linear features=9 stage=0]\n"
			     "  a1 [op=gelu stage=1]\n"
			     "  a2 [op=linear features=5 stage=2]\n"
			     "  early [op=softmax_cross_entropy weight=0.3 stage=2]\n"
			     "  join [op=concat stage=3]\n"
			     "  a3 [op=linear features=8 stage=3]\n"
			     "  a4 [op=layernorm stage=4]\n"
			     "  a5 [op=linear features=12 stage=5]\n"
			     "  again [op=mse weight=2 stage=5]\n"
			     "  a6 [op=linear features=6 stage=6]\n"
			     "  both [op=add stage=7]\n"
			     "  a7 [op=linear features=5 stage=7]\n"
			     "  last [op=softmax_cross_entropy stage=7]\n"
			     "  x -> a0 -> a1 -> a2 -> early\n"
			     "  class -> early\n"
			     "  a1 -> join [gradient=false]\n"
			     "  x -> join -> a3 -> a4 -> a5 -> again\n"
			     "  x -> again\n"
			     "  a4 -> a6 -> both -> a7 -> last\n"
			     "  part -> both\n"
			     "  class -> last\n"
			     "}\n";

static const struct {
	const char *name, *text, *frozen; /* frozen.h */
} models[] = {
	{"chain", chain, ""},
	{"towers", towers, ""},
	/* stages 0, 2 and 6, through which gradients pass or not, and a part of stage 5 */
	{"chain, frozen in places", chain, " a0 a2 b5 a6 "},
	/* one from its start, with what has no parameters between, and one at its end */
	{"towers, one frozen", towers, " l0 m1 l2 r2 "},
	{"model of three losses", losses, ""},
};
static const char *const recomputing[] = {"none", "0,3,5", "all"};

/* ---- schedules of one's own ---- */

/* 1F1B with W right behind its B. */
static int64_t split_1f1b(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			  const void *data)
{
	(void)data;
	return 2 * one_f_one_b(p, s, b, d == ORR_PASS_F ? d : ORR_PASS_B, p->stages[s].depth) +
	       (d == ORR_PASS_W);
}

static const struct orr_schedule own[] = {
	{.name = "split",
	 .order = ORR_ORDER_STRICT,
	 .split_backward = true,
	 .compute = orr_compute_in_turn,
	 .priority = split_1f1b},
	{.name = "split, every pass elsewhere",
	 .order = ORR_ORDER_GREEDY,
	 .split_backward = true,
	 .compute = anywhere,
	 .weights = orr_compute_in_turn,
	 .priority = split_1f1b},
	{.name = "every pass elsewhere",
	 .order = ORR_ORDER_GREEDY,
	 .compute = anywhere,
	 .weights = orr_compute_in_turn,
	 .priority = split_1f1b},
};

/* ---- one training ---- */

/* What was found with these owners: signature[s * N_MICROBATCHES + b] says which replica takes the
 * gradient. */
struct found {
	int signature[N_STAGES * N_MICROBATCHES];
	float *parameters;
	char name[128];
};

/* One model, and all that does not change with the schedule. */
struct bench {
	struct orr_graph *graph;
	struct orr_dataset data;
	struct orr_run_options options;
	int64_t n_parameters;
	float *initial;   /* NULL before the first training */
	double *expected; /* by the textbook; NULL until then, too */
	struct found found[64];
	int n_found, n_trained, n_schedules;
};

static void bench_init(struct bench *t, int model)
{
	struct orr_error err = {""};

	memset(t, 0, sizeof(*t));
	ck_assert_msg(!orr_graph_parse(&t->graph, "model.dot", models[model].text, &err), "%s",
		      err.msg);
	ck_assert_msg(!freeze(t->graph, models[model].frozen, &err), "%s", err.msg);
	ck_assert(draw_data(&t->data, N_ROWS, N_COLUMNS, N_COLUMNS - 1, 0, 99));
	t->options = orr_run_options_default();
	t->options.batch = BATCH;
	t->options.optimizer = ORR_OPTIMIZER_MOMENTUM;
	t->options.learning_rate = 1e-2;
	t->n_parameters = reference_n_parameters(t->graph);
}

static void bench_fini(struct bench *t)
{
	for (int i = 0; i < t->n_found; i++)
		free(t->found[i].parameters);
	free(t->initial);
	free(t->expected);
	free_data(&t->data);
	orr_graph_destroy(t->graph);
}

static void train_by_the_book(struct bench *t)
{
	struct reference_rule rule = {.kind = REFERENCE_MOMENTUM,
				      .learning_rate = t->options.learning_rate,
				      .momentum = t->options.momentum};
	int64_t rows[N_STEPS * BATCH];

	t->expected = calloc((size_t)t->n_parameters, sizeof(*t->expected));
	ck_assert_ptr_nonnull(t->expected);
	for (int64_t i = 0; i < t->n_parameters; i++)
		t->expected[i] = (double)t->initial[i];
	ck_assert_int_eq(
		orr_dataset_rows(&t->data, t->options.seed, 0, N_STEPS * BATCH, rows, NULL), 0);
	reference_draws.seed = t->options.seed;
	ck_assert_int_eq(reference_train(t->graph, t->data.values, N_COLUMNS, rows, BATCH, N_STEPS,
					 &rule, t->expected, NULL),
			 0);
}

static void check_close(const struct bench *t, const char *name, const float *parameters)
{
	double worst = 0, largest = 0;

	for (int64_t i = 0; i < t->n_parameters; i++) {
		worst = fmax(worst, fabs((double)parameters[i] - t->expected[i]));
		largest = fmax(largest, fabs(t->expected[i]));
	}
	ck_assert_msg(worst <= 1e-5 * largest, "%s: %g off, the largest is %g", name, worst,
		      largest);
}

/* Which replica takes each gradient; where there is none, any. */
static void sign(int *signature, const struct orr_jobs *jobs)
{
	for (int s = 0; s < N_STAGES; s++)
		for (int b = 0; b < N_MICROBATCHES; b++) {
			int w = jobs->weights[orr_jobs_index(jobs, s, b,
							     orr_jobs_last_pass(jobs, s))],
			    i = 0;

			while (jobs->owners[jobs->first_owner[s] + i] != w)
				i++;
			signature[s * N_MICROBATCHES + b] =
				jobs->pipeline->stages[s].frozen ? 0 : i;
		}
}

/* Equal to what was found with the same owners; takes parameters. */
static void check_same(struct bench *t, const char *name, const struct orr_jobs *jobs,
		       float *parameters)
{
	struct found *found = &t->found[t->n_found];

	ck_assert_int_lt(t->n_found, 64);
	sign(found->signature, jobs);
	for (int i = 0; i < t->n_found; i++) {
		if (memcmp(t->found[i].signature, found->signature, sizeof(found->signature)) != 0)
			continue;
		for (int64_t k = 0; k < t->n_parameters; k++)
			ck_assert_msg(!memcmp(&parameters[k], &t->found[i].parameters[k],
					      sizeof(*parameters)),
				      "%s: parameter %lld is %.9g, with %s it is %.9g", name,
				      (long long)k, (double)parameters[k], t->found[i].name,
				      (double)t->found[i].parameters[k]);
		free(parameters);
		return;
	}
	found->parameters = parameters;
	(void)snprintf(found->name, sizeof(found->name), "%s", name);
	t->n_found++;
}

static void train(struct bench *t, const char *name, const struct orr_jobs *jobs)
{
	float *parameters = calloc((size_t)t->n_parameters, sizeof(*parameters));
	struct watch watch = {.name = name};
	struct orr_timeline *predicted = NULL;
	struct orr_run *run = NULL;
	struct orr_error err = {""};

	ck_assert_ptr_nonnull(parameters);
	ck_assert_msg(!orr_simulate(&predicted, jobs, &err), "%s: %s", name, err.msg);
	ck_assert_msg(!orr_timeline_check(predicted, &err), "%s: %s", name, err.msg);
	t->options.keep_bytes = t->n_trained++ % 2 ? 0 : orr_run_options_default().keep_bytes;
	ck_assert_msg(!orr_run_create(&run, jobs, &t->data, &t->options, &err), "%s: %s", name,
		      err.msg);
	ck_assert_int_eq(orr_run_n_parameters(run), t->n_parameters);
	if (!t->expected) {
		t->initial = calloc((size_t)t->n_parameters, sizeof(*t->initial));
		ck_assert_ptr_nonnull(t->initial);
		ck_assert_int_eq(orr_run_parameters(run, t->initial, &err), 0);
		train_by_the_book(t);
	}
	watch.run = run;
	watch.predicted = predicted;
	ck_assert_msg(!orr_run_train(run, N_STEPS, check_step, &watch, &err), "%s: %s", name,
		      err.msg);
	ck_assert_int_eq(watch.n, N_STEPS);
	ck_assert_msg(!orr_run_parameters(run, parameters, &err), "%s: %s", name, err.msg);
	check_close(t, name, parameters);
	ck_assert_msg(!find_thawed(t->graph, t->initial, parameters), "%s: %s is frozen", name,
		      find_thawed(t->graph, t->initial, parameters));
	check_same(t, name, jobs, parameters);
	orr_run_destroy(run);
	orr_timeline_destroy(predicted);
}

/* Train with no, some and all stages recomputed, in the suite with no and in turn some or all.
 * Negative: schedule does not serve the model on so many workers, and err says why. */
static int train_under(struct bench *t, const struct orr_schedule *schedule, int n_workers,
		       struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(n_workers);
	struct orr_pipeline *p = NULL;
	int code = 0;

	ck_assert_msg(!orr_partition(&p, t->graph, &machine, 0, (BATCH + 7) / 8, err), "%s",
		      err->msg);
	ck_assert_int_eq(p->n_stages, N_STAGES);
	for (int s = 0; s < N_STAGES;
	     s++) { /* none is 0, so that the simulated starts tell the order */
		p->stages[s].forward_ns = 1000 + s;
		p->stages[s].backward_ns = 1200 + s;
		p->stages[s].weight_ns = 1100 + s;
	}
	p->has_weight = true;
	ck_assert_msg(!orr_pipeline_set_step(p, n_workers, N_MICROBATCHES, err), "%s", err->msg);
	t->n_schedules++;
	for (int i = 0; i < 3 && !code; i++) {
		struct orr_jobs *jobs = NULL;
		char name[128];

		if (i && i % 2 == t->n_schedules % 2 && !suite_takes_all())
			continue;
		ck_assert_int_eq(orr_pipeline_set_recompute(p, recomputing[i], err), 0);
		if ((code = orr_jobs_create(&jobs, p, schedule, err))) {
			ck_assert_msg(i == 0,
				      "%s serves the model, but not with --recompute %s: %s",
				      schedule->name, recomputing[i], err->msg);
			break;
		}
		(void)snprintf(name, sizeof(name), "%s on %d workers, recomputing %s",
			       schedule->name, n_workers, recomputing[i]);
		train(t, name, jobs);
		if (i == 1 && jobs->order == ORR_ORDER_STRICT) {
			(void)snprintf(name, sizeof(name), "%s on %d workers, greedily",
				       schedule->name, n_workers);
			ck_assert_msg(!orr_jobs_free(jobs, err), "%s: %s", name, err->msg);
			train(t, name, jobs);
		}
		orr_jobs_destroy(jobs);
	}
	orr_pipeline_destroy(p);
	return code;
}

/* ---- tests ---- */

START_TEST(every_schedule_trains_to_the_same_parameters)
{
	static const int n_workers[] = {4, 8, 2};
	int n_served = 0, n_refused = 0;
	struct orr_choice alone;
	struct bench t;

	bench_init(&t, _i);
	ck_assert_int_eq(orr_choice_init(&alone, "ddp", NULL), 0);
	ck_assert_int_eq(train_under(&t, &alone.schedule, 1, &(struct orr_error){""}), 0);
	orr_choice_fini(&alone);
	for (int i = 0; i < N_OF(own); i++)
		for (int k = 0; k < 3; k++) {
			struct orr_error err = {""};

			if (strcmp(models[_i].name, "towers") && k != (_i + i) % 3 &&
			    !suite_takes_all())
				continue;
			ck_assert_msg(!train_under(&t, &own[i], n_workers[k], &err), "%s: %s",
				      own[i].name, err.msg);
		}
	for (int i = 0; orr_schedules[i]; i++) {
		if (orr_schedules[i]->asynchronous)
			continue; /* other parameters come out of it, on purpose */
		if (strcmp(models[_i].name, "towers") && !suite_takes(100 * _i + i))
			continue;
		struct orr_error first = {""}, err = {""};
		struct orr_choice choice;
		int code = 1;

		ck_assert_msg(!orr_choice_init(&choice, orr_schedules[i]->name, &err), "%s",
			      err.msg);
		for (int k = 0; k < 3 && code; k++)
			code = train_under(&t, &choice.schedule, n_workers[k], k ? &err : &first);
		if (code)
			printf("%s does not train the %s: %s\n", choice.schedule.name,
			       models[_i].name, first.msg);
		n_served += !code;
		n_refused += code != 0;
		orr_choice_fini(&choice);
	}
	printf("%d schedules train the %s\n", n_served, models[_i].name);
	ck_assert_int_ge(n_served, suite_drawn(20) / 2);
	/* 1f1b-star and k-periodic serve chains alone */
	ck_assert_int_le(n_refused, models[_i].text == chain ? 0 : 2);
	bench_fini(&t);
}
END_TEST

/* The model's estimate of what F keeps is what it keeps. */
START_TEST(inputs_take_the_bytes_that_the_pipeline_says)
{
	struct orr_machine machine = orr_machine_default(1);
	struct orr_program *program = NULL;
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};
	struct bench t;

	bench_init(&t, _i);
	ck_assert_msg(!orr_partition(&p, t.graph, &machine, 0, 6, &err), "%s", err.msg);
	for (int s = 0; s < p->n_stages; s++) {
		ck_assert_msg(!orr_program_create(&program, p, s, &err), "%s", err.msg);
		ck_assert_int_eq(p->stages[s].input_bytes,
				 4 * orr_program_input_floats(program, 6));
		orr_program_destroy(program);
	}
	orr_pipeline_destroy(p);
	bench_fini(&t);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(inputs_take_the_bytes_that_the_pipeline_says, N_OF(models)),
	EACH(every_schedule_trains_to_the_same_parameters, N_OF(models)),
};
SUITE("train-all")
