/* The models that ship train: each on its own data, a few steps under every built-in schedule that
 * serves it with one owner a stage, in the simulated order and to the same bits. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by_start.h"
#include "orrery/open.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/run.h"
#include "simulate/simulate.h"
#include "orrery/timeline.h"
#include "suite.h"

#define N_STEPS 2
#define BATCH 19
#define N_MICROBATCHES 8

/* n_served: schedules that serve it, at least. */
static const struct {
	const char *name, *data;
	int n_served;
} models[] = {
	{"candle_uno", ORR_MADE "/growth.csv", 20},
	{"vit", NULL, 20},
	{"gpt", NULL, 20},
	{"encoder_decoder", ORR_MADE "/names.csv", 20},
	{"resnet", NULL, 20},
	{"dlrm", ORR_MADE "/clicks.csv", 20},
	{"mmt", NULL, 20},
	{"moe", NULL, 20},
	{"clip", NULL, 1}, /* what sends a gradient back before the last forward does not */
};

struct bench {
	const char *name;
	struct orr_graph *graph;
	struct orr_dataset *data;
	float *parameters; /* of the first training */
	char first[64];
	int n_served;
};

static void bench_init(struct bench *t, int model)
{
	struct orr_error err = {""};
	char path[512];

	*t = (struct bench){.name = models[model].name};
	(void)snprintf(path, sizeof(path), ORR_SOURCE "/graphs/%s.dot", t->name);
	ck_assert_msg(!orr_graph_read(&t->graph, path, &err), "%s", err.msg);
	ck_assert_msg(!orr_dataset_read(&t->data,
					models[model].data ? models[model].data : t->graph->data,
					NULL, 0, &err),
		      "%s", err.msg);
}

static void bench_fini(struct bench *t)
{
	free(t->parameters);
	orr_dataset_destroy(t->data);
	orr_graph_destroy(t->graph);
}

static void check_same(struct bench *t, const char *name, float *parameters, int64_t n)
{
	if (!t->parameters) {
		t->parameters = parameters;
		(void)snprintf(t->first, sizeof(t->first), "%s", name);
		return;
	}
	for (int64_t k = 0; k < n; k++)
		ck_assert_msg(!memcmp(&parameters[k], &t->parameters[k], sizeof(*parameters)),
			      "%s: parameter %lld is %.9g, with %s it is %.9g", name, (long long)k,
			      (double)parameters[k], t->first, (double)t->parameters[k]);
	free(parameters);
}

static void train(struct bench *t, const char *name, const struct orr_jobs *jobs)
{
	struct orr_run_options options = orr_run_options_default();
	struct orr_timeline *predicted = NULL;
	struct watch watch = {.name = name};
	struct orr_run *run = NULL;
	struct orr_error err = {""};
	float *parameters;

	options.batch = BATCH;
	ck_assert_msg(!orr_simulate(&predicted, jobs, &err), "%s: %s", name, err.msg);
	ck_assert_msg(!orr_timeline_check(predicted, &err), "%s: %s", name, err.msg);
	ck_assert_msg(!orr_run_create(&run, jobs, t->data, &options, &err), "%s: %s", name,
		      err.msg);
	parameters = calloc((size_t)orr_run_n_parameters(run), sizeof(*parameters));
	ck_assert_ptr_nonnull(parameters);
	watch.run = run;
	watch.predicted = predicted;
	ck_assert_msg(!orr_run_train(run, N_STEPS, check_step, &watch, &err), "%s: %s", name,
		      err.msg);
	ck_assert_msg(!orr_run_parameters(run, parameters, &err), "%s: %s", name, err.msg);
	check_same(t, name, parameters, orr_run_n_parameters(run));
	orr_run_destroy(run);
	orr_timeline_destroy(predicted);
}

static bool has_replicas(const struct orr_jobs *jobs)
{
	for (int s = 0; s < jobs->pipeline->n_stages; s++)
		if (jobs->first_owner[s + 1] - jobs->first_owner[s] > 1)
			return true;
	return false;
}

/* Does schedule serve the model on so many workers? */
static bool train_under(struct bench *t, const struct orr_schedule *schedule, int n_workers,
			struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(n_workers);
	struct orr_pipeline *p = NULL;
	struct orr_jobs *jobs = NULL;
	char name[64];
	bool served;

	(void)snprintf(name, sizeof(name), "%s, %s on %d", t->name, schedule->name, n_workers);
	ck_assert_msg(!orr_partition(&p, t->graph, &machine, 0,
				     (BATCH + N_MICROBATCHES - 1) / N_MICROBATCHES, err),
		      "%s", err->msg);
	for (int s = 0; s < p->n_stages; s++) { /* none is 0: simulated starts tell the order */
		p->stages[s].forward_ns = 1000 + s;
		p->stages[s].backward_ns = 1200 + s;
		p->stages[s].weight_ns = 1100 + s;
	}
	p->has_weight = true;
	ck_assert_msg(!orr_pipeline_set_step(p, n_workers, N_MICROBATCHES, err), "%s", err->msg);
	served = !orr_jobs_create(&jobs, p, schedule, err);
	if (served && !has_replicas(jobs)) {
		train(t, name, jobs);
		t->n_served++;
	}
	orr_jobs_destroy(jobs);
	orr_pipeline_destroy(p);
	return served;
}

START_TEST(every_schedule_trains_to_the_same_parameters)
{
	static const int n_workers[] = {4, 2, 3, 6};
	struct bench t;

	bench_init(&t, _i);
	for (int i = 0; orr_schedules[i]; i++) {
		struct orr_error first = {""}, err = {""};
		struct orr_choice choice;
		bool served = false;

		if (orr_schedules[i]->asynchronous)
			continue; /* other parameters come out of it, on purpose */
		if (i && !suite_takes(100 * _i + i))
			continue;
		ck_assert_msg(!orr_choice_init(&choice, orr_schedules[i]->name, &err), "%s",
			      err.msg);
		for (int k = 0; k < N_OF(n_workers) && !served; k++)
			served = train_under(&t, &choice.schedule, n_workers[k], k ? &err : &first);
		if (!served)
			printf("%s does not serve %s: %s\n", orr_schedules[i]->name, t.name,
			       first.msg);
		orr_choice_fini(&choice);
	}
	printf("%d schedules train %s\n", t.n_served, t.name);
	ck_assert_int_ge(t.n_served, suite_drawn(models[_i].n_served) / 2);
	bench_fini(&t);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(every_schedule_trains_to_the_same_parameters, N_OF(models)),
};
SUITE("models")
