/* The learning rate of a step, and gradients that are clipped by the norm of all of them. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "pipeline/partition.h"
#include "runtime/run/options.h"
#include "runtime/run/parts.h"
#include "suite.h"
#include "training.h"

/* ---- the rate ---- */

static const struct {
	int warmup, steps;
	enum orr_decay decay;
	double final;
	double rates[7]; /* of the first steps, of a learning rate of 8 */
} courses[] = {
	{0, 0, ORR_DECAY_NONE, 0, {8, 8, 8, 8, 8, 8, 8}},
	{4, 0, ORR_DECAY_NONE, 3, {2, 4, 6, 8, 8, 8, 8}},
	{0, 4, ORR_DECAY_LINEAR, 0, {8, 6, 4, 2, 0, 0, 0}},
	{2, 6, ORR_DECAY_LINEAR, 4, {4, 8, 8, 7, 6, 5, 4}},
	{0, 2, ORR_DECAY_COSINE, 0, {8, 4, 0, 0, 0, 0, 0}},
	{1, 4, ORR_DECAY_COSINE, 2, {8, 8, 6.5, 3.5, 2, 2, 2}}, /* cos 60 degrees is 1/2 */
	{4, 7, ORR_DECAY_COSINE, 0, {2, 4, 6, 8, 8, 6, 2}},
};

START_TEST(the_rate_has_a_closed_form)
{
	struct orr_run_options o = orr_run_options_default();

	o.learning_rate = 8;
	o.warmup = courses[_i].warmup;
	o.decay_steps = courses[_i].steps;
	o.decay = courses[_i].decay;
	o.final_rate = courses[_i].final;
	for (int k = 0; k < 7; k++)
		ck_assert_msg(fabs(orr_run_rate(&o, k) - courses[_i].rates[k]) < 1e-14,
			      "step %d: %.17g", k, orr_run_rate(&o, k));
}
END_TEST

static struct orr_run_options plain(double rate)
{
	struct orr_run_options o = orr_run_options_default();

	o.batch = 18;
	o.optimizer = ORR_OPTIMIZER_SGD;
	o.learning_rate = rate;
	return o;
}

/* Step k of a warm-up is a step of that rate; without a flush, too, where stages are at different
 * steps at once. */
START_TEST(every_stage_takes_the_rate_of_its_step)
{
	static const char *const schedules[] = {"1f1b", "pipedream"};
	struct training t;
	float *drawn, *first, *alike;

	training_init(&t, schedules[_i], 6, 6);
	t.options = plain(1);
	t.options.warmup = 8;
	training_start(&t);
	drawn = training_parameters(&t);
	ck_assert_msg(!orr_run_train(t.run, 1, NULL, NULL, &t.err), "%s", t.err.msg);
	first = training_parameters(&t);
	training_fini(&t);
	training_init(&t, schedules[_i], 6, 6);
	t.options = plain(0.125);
	training_start(&t);
	ck_assert_msg(!orr_run_train(t.run, 1, NULL, NULL, &t.err), "%s", t.err.msg);
	alike = training_parameters(&t);
	ck_assert_mem_eq(first, alike, (size_t)orr_run_n_parameters(t.run) * sizeof(*first));
	ck_assert_mem_ne(first, drawn, (size_t)orr_run_n_parameters(t.run) * sizeof(*first));
	training_fini(&t);
	/* a rate that has come to 0: as many steps as before, and no more */
	training_init(&t, schedules[_i], 6, 6);
	t.options = plain(1);
	t.options.decay = ORR_DECAY_LINEAR;
	t.options.decay_steps = 1;
	training_start(&t);
	ck_assert_msg(!orr_run_train(t.run, 1, NULL, NULL, &t.err), "%s", t.err.msg);
	free(alike);
	alike = training_parameters(&t);
	ck_assert_msg(!orr_run_train(t.run, 12, NULL, NULL, &t.err), "%s", t.err.msg);
	free(first);
	first = training_parameters(&t);
	ck_assert_mem_eq(first, alike, (size_t)orr_run_n_parameters(t.run) * sizeof(*first));
	training_fini(&t);
	free(drawn);
	free(first);
	free(alike);
}
END_TEST

/* ---- the norm ---- */

struct norms {
	int n;
	double at[N_STEPS];
};

static void note_norm(void *user, const struct orr_step *step)
{
	struct norms *norms = user;

	ck_assert_int_lt(norms->n, N_STEPS);
	norms->at[norms->n++] = step->norm;
}

/* The gradient of the last step, of stages with one owner, as it lies in their owners: the squares
 * of all tensors but those of operators that share another's. */
static double exact_norm(struct training *t)
{
	const struct orr_graph *g = t->graph;
	double sum = 0;

	for (int k = 0; k < g->n_operators; k++) {
		int s = t->pipeline->stage_of[k];
		const struct orr_owned *o = &t->run->data.owned[t->jobs->first_owner[s]];
		int64_t at = orr_program_first_parameter(t->run->work.programs[s], k);
		float *gradient;

		if (at < 0 || g->operators[k].frozen ||
		    (g->operators[k].tied >= 0 && g->operators[k].tied != k))
			continue;
		ck_assert(!orr_data_acquire(o->gradient, STARPU_R, &gradient, &t->err));
		for (int64_t i = at; i < at + g->operators[k].n_parameters; i++)
			sum += (double)gradient[i] * (double)gradient[i];
		orr_data_release(o->gradient);
	}
	return sqrt(sum);
}

static const char tied_model[] = "digraph tied {\n"
				 "  x [op=input columns=\"0:8\" stage=0]\n"
				 "  a [op=linear features=8 share=w stage=0]\n"
				 "  b [op=linear features=8 share=w stage=1]\n"
				 "  c [op=relu stage=1]\n"
				 "  d [op=linear features=8 share=w stage=2]\n"
				 "  e [op=linear features=8 share=w stage=2]\n"
				 "  y [op=input columns=\"8:16\" stage=2]\n"
				 "  loss [op=mse stage=2]\n"
				 "  x -> a -> b -> c -> d -> e -> loss\n"
				 "  y -> loss\n"
				 "}\n";

/* One step at a rate of 1 goes by the gradient, clipped: what is shared counts once, what is frozen
 * does not count. */
START_TEST(it_is_that_of_a_plain_computation)
{
	const char *const models[] = {training_model, training_model, tied_model};
	struct training t;
	float *before, *after;
	struct norms norms = {0};
	double exact, scale, sum = 0;
	int64_t at = 0;

	memset(&t, 0, sizeof(t));
	t.frozen = _i == 1 ? " l1 t2 " : NULL;
	ck_assert(!orr_choice_init(&t.choice, "1f1b", &t.err));
	training_prepare(&t, models[_i], &t.choice.schedule, 3, 6);
	t.options = plain(1);
	t.options.clip = 0.05;
	training_start(&t);
	before = training_parameters(&t);
	ck_assert_msg(!orr_run_train(t.run, 1, note_norm, &norms, &t.err), "%s", t.err.msg);
	exact = exact_norm(&t);
	ck_assert_msg(fabs(norms.at[0] - exact) < 1e-12 * exact, "%.17g instead of %.17g",
		      norms.at[0], exact);
	ck_assert(exact > 0.1);
	after = training_parameters(&t);
	for (int k = 0; k < t.graph->n_operators; k++) {
		const struct orr_operator *o = &t.graph->operators[k];

		for (int64_t i = at; i < at + o->n_parameters && (o->tied < 0 || o->tied == k);
		     i++) {
			double moved = (double)after[i] - (double)before[i];

			sum += moved * moved;
		}
		at += o->n_parameters;
	}
	scale = sqrt(sum) / exact; /* of all, as far as parameters keep it */
	ck_assert_msg(fabs(scale * (exact + 1e-6) / 0.05 - 1) < 1e-4, "by %.9g", scale);
	free(before);
	free(after);
	training_fini(&t);
}
END_TEST

/* The bits of norms and parameters, of schedules with one owner a stage, and in one stage. */
static void clip(const char *schedule, int n_workers, const char *model, double limit,
		 struct norms *norms, float **parameters, struct training *t)
{
	memset(t, 0, sizeof(*t));
	norms->n = 0;
	ck_assert(!orr_choice_init(&t->choice, schedule, &t->err));
	training_prepare(t, model, &t->choice.schedule, n_workers, 6);
	t->options.batch = 18;
	t->options.clip = limit;
	training_start(t);
	ck_assert_msg(!orr_run_train(t->run, N_STEPS, note_norm, norms, &t->err), "%s: %s",
		      schedule, t->err.msg);
	*parameters = training_parameters(t);
}

static void in_one_stage(char *model)
{
	for (char *at = model; (at = strstr(at, "stage=")); at += 6)
		at[6] = '0';
}

START_TEST(bits_do_not_depend_on_schedule_and_cut)
{
	static const struct {
		const char *schedule;
		int n_workers;
		bool one_stage;
	} ways[] = {{"gpipe", 1, false},  {"gpipe", 1, true}, {"1f1b", 6, false},
		    {"zb-h1", 6, false},  {"fsdp", 1, false}, {"eager-1f1b", 2, false},
		    {"1f1b-r", 2, false}, {"auto", 3, false}};
	char *one = strdup(training_model);
	struct training t;
	struct norms expected, norms;
	float *parameters, *others;
	size_t bytes;
	int n_clipped = 0;

	ck_assert_ptr_nonnull(one);
	in_one_stage(one);
	clip("1f1b", 2, training_model, 2, &expected, &parameters, &t);
	bytes = (size_t)orr_run_n_parameters(t.run) * sizeof(*parameters);
	training_fini(&t);
	for (int k = 0; k < N_STEPS; k++)
		n_clipped += expected.at[k] > 2;
	ck_assert(n_clipped > 0 && n_clipped < N_STEPS);
	for (int i = 0; i < N_OF(ways); i++) {
		clip(ways[i].schedule, ways[i].n_workers, ways[i].one_stage ? one : training_model,
		     2, &norms, &others, &t);
		training_fini(&t);
		ck_assert_msg(!memcmp(norms.at, expected.at, sizeof(norms.at)), "norms of %s",
			      ways[i].schedule);
		ck_assert_msg(!memcmp(others, parameters, bytes), "parameters of %s",
			      ways[i].schedule);
		free(others);
	}
	free(parameters);
	free(one);
}
END_TEST

/* Replicas: as close to one owner as sums in another order are, on the way that ranks take too. */
START_TEST(replicas_have_the_norm_of_their_sum)
{
	static const struct {
		const char *schedule;
		int n_workers;
		bool reduce_alone;
	} ways[] = {{"ddp", 3, false}, {"chimera", 6, false}, {"lpp:G=2,R=2", 4, true}};
	struct training t;
	struct norms expected, norms;
	float *parameters;

	clip("1f1b", 2, training_model, 0.5, &expected, &parameters, &t);
	free(parameters);
	training_fini(&t);
	memset(&t, 0, sizeof(t));
	norms.n = 0;
	training_init(&t, ways[_i].schedule, ways[_i].n_workers, 6);
	t.options.batch = 18;
	t.options.clip = 0.5;
	t.hooks.reduce_alone = ways[_i].reduce_alone;
	training_start(&t);
	ck_assert_msg(!orr_run_train(t.run, 5, note_norm, &norms, &t.err), "%s", t.err.msg);
	for (int k = 0; k < 5; k++)
		ck_assert_msg(fabs(norms.at[k] / expected.at[k] - 1) < 1e-3,
			      "%s, step %d: %.9g instead of %.9g", ways[_i].schedule, k,
			      norms.at[k], expected.at[k]);
	training_fini(&t);
}
END_TEST

START_TEST(a_limit_that_is_not_reached_changes_nothing)
{
	struct training t;
	struct norms norms = {0};
	float *parameters, *others;

	clip("zb-h1", 6, training_model, 1e9, &norms, &parameters, &t);
	training_fini(&t);
	clip("zb-h1", 6, training_model, 0, &norms, &others, &t);
	ck_assert_mem_eq(parameters, others,
			 (size_t)orr_run_n_parameters(t.run) * sizeof(*parameters));
	ck_assert(isnan(norms.at[0])); /* nobody asked */
	training_fini(&t);
	free(parameters);
	free(others);
}
END_TEST

/* ---- weight decay ---- */

/* The parameters after a step, where nothing decays, all of it, or all but what is spared. */
static float *decay(struct training *t, double weight_decay, bool spare)
{
	training_init(t, "1f1b", 3, 6);
	t->options = plain(0.1);
	t->options.weight_decay = weight_decay;
	t->options.spare = spare;
	training_start(t);
	ck_assert_msg(!orr_run_train(t->run, 1, NULL, NULL, &t->err), "%s", t->err.msg);
	return training_parameters(t);
}

START_TEST(biases_and_norms_can_be_spared)
{
	struct training t;
	float *none = decay(&t, 0, true), *all, *some;
	int64_t at = 0, n_gains = 0;
	const char *name;
	const int64_t *dims;
	int n_dims;

	training_fini(&t);
	all = decay(&t, 0.5, false);
	training_fini(&t);
	some = decay(&t, 0.5, true);
	for (int k = 0; k < t.graph->n_operators; k++)
		for (int i = 0;
		     (name = orr_operator_parameter(&t.graph->operators[k], i, &n_dims, &dims));
		     i++) {
			bool weight = !strcmp(name, "weight");
			size_t n = (size_t)(dims[0] * (weight ? dims[1] : 1));

			ck_assert(weight || !strcmp(name, "bias") || !strcmp(name, "gain"));
			ck_assert_mem_eq(some + at, (weight ? all : none) + at, n * sizeof(*some));
			if (strcmp(name, "bias") != 0) /* which begin with 0 */
				ck_assert_mem_ne(all + at, none + at, n * sizeof(*some));
			n_gains += !strcmp(name, "gain");
			at += (int64_t)n;
		}
	ck_assert_int_eq(n_gains, 1);
	ck_assert_int_eq(at, orr_run_n_parameters(t.run));
	training_fini(&t);
	free(none);
	free(all);
	free(some);
}
END_TEST

/* ---- refusals ---- */

static const struct {
	const char *schedule;
	double clip, final;
	int warmup, decay_steps;
	const char *message;
} refused[] = {
	{"pipedream", 1, 0, 0, 0,
	 "run: schedule pipedream never flushes, so there is no norm of a step's gradients to "
	 "clip; take one that flushes, or clip nothing"},
	{"1f1b", -1, 0, 0, 0,
	 "run: a warm-up of 0 steps, a final rate of 0, gradients clipped to -1: none can be "
	 "below 0"},
	{"1f1b", 0, -2, 0, 0,
	 "run: a warm-up of 0 steps, a final rate of -2, gradients clipped to 0: none can be "
	 "below 0"},
	{"1f1b", 0, 0, 10, 10,
	 "run: the learning rate falls after a warm-up of 10 steps, and there are only 10 steps: "
	 "take a shorter warm-up or no decay"},
};

START_TEST(what_makes_no_sense_is_refused)
{
	struct training t;

	training_init(&t, refused[_i].schedule, 6, 6);
	t.options.batch = 18;
	t.options.clip = refused[_i].clip;
	t.options.final_rate = refused[_i].final;
	t.options.warmup = refused[_i].warmup;
	t.options.decay_steps = refused[_i].decay_steps;
	t.options.decay = refused[_i].decay_steps ? ORR_DECAY_COSINE : ORR_DECAY_NONE;
	ck_assert_int_eq(orr_run_create(&t.run, t.jobs, &t.data, &t.options, &t.err), ORR_E_INPUT);
	ck_assert_str_eq(t.err.msg, refused[_i].message);
	training_fini(&t);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(the_rate_has_a_closed_form, N_OF(courses)),
	EACH(every_stage_takes_the_rate_of_its_step, 2),
	EACH(it_is_that_of_a_plain_computation, 3),
	ONCE(bits_do_not_depend_on_schedule_and_cut),
	EACH(replicas_have_the_norm_of_their_sum, 3),
	ONCE(a_limit_that_is_not_reached_changes_nothing),
	ONCE(biases_and_norms_can_be_spared),
	EACH(what_makes_no_sense_is_refused, N_OF(refused)),
};
SUITE("clip")
