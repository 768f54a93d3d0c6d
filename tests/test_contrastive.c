/* A contrastive loss, over all pairs of a minibatch, on its way through a run: a step against
 * finite differences of the textbook in double, and the same bits under every schedule and cut of
 * the minibatch that serves it. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "orrery/open.h"
#include "orrery/timeline.h"
#include "pipelines.h"
#include "suite.h"
#include "training.h"

#define WIDTH 6   /* of what is compared */
#define MOST 1000 /* parameters */

/* Two towers; the stage of the loss has another one, of its own microbatches. */
static const char model[] = "digraph model {\n"
			    "  left [op=input columns=\"0:8\" stage=0]\n"
			    "  l1 [op=linear features=12 stage=0]\n"
			    "  l2 [op=relu stage=0]\n"
			    "  l3 [op=linear features=6 stage=1]\n"
			    "  right [op=input columns=\"8:16\" stage=2]\n"
			    "  r1 [op=linear features=6 stage=2]\n"
			    "  target [op=input columns=\"18:24\" stage=3]\n"
			    "  pairs [op=contrastive weight=0.5 temperature=0.8 stage=3]\n"
			    "  guess [op=linear features=6 stage=3]\n"
			    "  error [op=mse stage=3]\n"
			    "  left -> l1 -> l2 -> l3 -> pairs\n"
			    "  right -> r1 -> pairs\n"
			    "  l3 -> guess -> error\n"
			    "  target -> error\n"
			    "}\n";

/* ---- the textbook ---- */

struct book {
	const struct orr_graph *graph;
	const struct orr_dataset *data;
	const int64_t *rows;
	int n;
	int correct; /* of the last loss */
};

/* The parameters of the operator of that name. */
static const double *own(const struct book *b, const double *parameters, const char *name)
{
	for (int k = 0; k < b->graph->n_operators; k++) {
		if (!strcmp(b->graph->operators[k].name, name))
			return parameters;
		parameters += b->graph->operators[k].n_parameters;
	}
	ck_abort();
	return NULL;
}

static void linear(const double *w, int in, int out, const double *x, double *y)
{
	for (int i = 0; i < out; i++) {
		y[i] = w[in * out + i];
		for (int k = 0; k < in; k++)
			y[i] += w[i * in + k] * x[k];
	}
}

/* log(sum(exp)) - own, of a row (step 1) or a column (step n). */
static double cross_entropy(const double *scores, int n, int step, int own_at, bool *hit)
{
	double sum = 0;

	*hit = true;
	for (int i = 0; i < n; i++) {
		sum += exp(scores[i * step]);
		*hit = *hit && (i == own_at || scores[i * step] < scores[own_at * step]);
	}
	return log(sum) - scores[own_at * step];
}

static double contrast(struct book *b, const double *u, const double *v, double t)
{
	double *scores = calloc((size_t)b->n * (size_t)b->n, sizeof(*scores)), loss = 0;
	bool hit;

	ck_assert_ptr_nonnull(scores);
	for (int i = 0; i < b->n * b->n; i++)
		for (int k = 0; k < WIDTH; k++)
			scores[i] += exp(t) * u[i / b->n * WIDTH + k] * v[i % b->n * WIDTH + k];
	b->correct = 0;
	for (int i = 0; i < b->n; i++) {
		loss += cross_entropy(scores + i, b->n, b->n, i, &hit) / (2 * b->n);
		loss += cross_entropy(scores + i * b->n, b->n, 1, i, &hit) / (2 * b->n);
		b->correct += hit;
	}
	free(scores);
	return loss;
}

static double loss_of(struct book *b, const double *parameters)
{
	double *u = calloc((size_t)b->n * WIDTH, sizeof(*u)),
	       *v = calloc((size_t)b->n * WIDTH, sizeof(*v)), loss = 0;

	ck_assert(u && v);
	for (int r = 0; r < b->n; r++) {
		const float *row = b->data->values + b->rows[r] * b->data->n_columns;
		double x[16], hidden[12], guess[WIDTH];

		for (int i = 0; i < 16; i++)
			x[i] = (double)row[i];
		linear(own(b, parameters, "l1"), 8, 12, x, hidden);
		for (int i = 0; i < 12; i++)
			hidden[i] = fmax(hidden[i], 0);
		linear(own(b, parameters, "l3"), 12, WIDTH, hidden, u + r * WIDTH);
		linear(own(b, parameters, "r1"), 8, WIDTH, x + 8, v + r * WIDTH);
		linear(own(b, parameters, "guess"), WIDTH, WIDTH, u + r * WIDTH, guess);
		for (int i = 0; i < WIDTH; i++)
			loss += pow(guess[i] - (double)row[18 + i], 2) / (WIDTH * b->n);
	}
	loss += 0.5 * contrast(b, u, v, *own(b, parameters, "pairs"));
	free(u), free(v);
	return loss;
}

/* ---- a run ---- */

static void prepare(struct training *t, const char *schedule, int n_workers, int n_microbatches)
{
	memset(t, 0, sizeof(*t));
	ck_assert_msg(!orr_choice_init(&t->choice, schedule, &t->err), "%s", t->err.msg);
	training_prepare(t, model, &t->choice.schedule, n_workers, n_microbatches);
	t->options.optimizer = ORR_OPTIMIZER_SGD;
	t->options.learning_rate = 0.05;
	t->options.weight_decay = 0;
}

static void read_parameters(struct training *t, float *parameters)
{
	ck_assert_int_le(orr_run_n_parameters(t->run), MOST);
	ck_assert_msg(!orr_run_parameters(t->run, parameters, &t->err), "%s", t->err.msg);
}

static void keep_scores(void *user, const struct orr_step *step)
{
	struct orr_scores *scores = user;

	*scores = step->scores;
}

START_TEST(a_step_is_that_of_the_textbook)
{
	static const int n_microbatches[] = {1, 5, 19};
	float before[MOST], after[MOST];
	double at[MOST];
	int64_t rows[19], n;
	struct orr_scores scores;
	struct training t;
	struct book b;

	prepare(&t, "gpipe", 2, n_microbatches[_i]);
	training_start(&t);
	n = orr_run_n_parameters(t.run);
	read_parameters(&t, before);
	ck_assert_int_eq(orr_dataset_rows(&t.data, t.options.seed, 0, 19, rows, NULL), 0);
	b = (struct book){t.graph, &t.data, rows, 19, 0};
	for (int64_t i = 0; i < n; i++)
		at[i] = (double)before[i];
	ck_assert(fabs(*own(&b, at, "pairs") - log(1 / 0.8)) < 1e-6);
	ck_assert_msg(!orr_run_train(t.run, 1, keep_scores, &scores, &t.err), "%s", t.err.msg);
	read_parameters(&t, after);
	ck_assert_msg(fabs(scores.loss - loss_of(&b, at)) < 1e-5, "loss %g, should be %g",
		      scores.loss, loss_of(&b, at));
	ck_assert(fabs(scores.accuracy * 19 - b.correct) < 1e-9);
	for (int64_t i = 0; i < n; i++) {
		double step = 1e-5, middle = at[i], slope, moved;

		at[i] = middle + step;
		slope = loss_of(&b, at) / (2 * step);
		at[i] = middle - step;
		slope -= loss_of(&b, at) / (2 * step);
		at[i] = middle;
		moved = ((double)before[i] - (double)after[i]) / t.options.learning_rate;
		ck_assert_msg(fabs(moved - slope) < 1e-5 + 1e-4 * fabs(slope),
			      "parameter %lld: gradient %g, should be %g", (long long)i, moved,
			      slope);
	}
	training_fini(&t);
}
END_TEST

/* What is compared in evaluation is a block of rows: here, all of them. */
START_TEST(an_evaluation_compares_the_rows_of_a_block)
{
	float parameters[MOST];
	double at[MOST];
	struct orr_scores scores;
	struct training t;
	struct book b;

	prepare(&t, "gpipe", 3, 4);
	training_start(&t);
	ck_assert_int_eq(orr_run_train(t.run, 3, NULL, NULL, &t.err), 0);
	read_parameters(&t, parameters);
	for (int64_t i = 0; i < orr_run_n_parameters(t.run); i++)
		at[i] = (double)parameters[i];
	ck_assert_msg(!orr_run_evaluate(t.run, false, &scores, &t.err), "%s", t.err.msg);
	b = (struct book){t.graph, &t.data, t.data.train, (int)t.data.n_train, 0};
	ck_assert_msg(fabs(scores.loss - loss_of(&b, at)) < 1e-5, "loss %g, should be %g",
		      scores.loss, loss_of(&b, at));
	ck_assert(fabs(scores.accuracy * b.n - b.correct) < 1e-9);
	training_fini(&t);
}
END_TEST

/* ---- schedules ---- */

#define STEPS 4

static void check_step(void *user, const struct orr_step *step)
{
	const struct training *t = user;
	struct orr_error err = {""};

	ck_assert_msg(!orr_timeline_check(orr_run_timeline(t->run), &err), "step %lld: %s",
		      (long long)step->step, err.msg);
}

/* false: the schedule does not serve it, and says why. */
static bool train(const char *name, int n_workers, int n_microbatches, const char *recompute,
		  float *parameters)
{
	struct training t = {0};
	bool served = false;

	if (orr_choice_init(&t.choice, name, &t.err))
		return false;
	if (!training_try(&t, model, &t.choice.schedule, n_workers, n_microbatches, recompute)) {
		t.hooks.delay_us = 200;
		t.options.keep_bytes = n_workers % 2 ? INT64_MAX : 0;
		served = !orr_run_create_hooked(&t.run, t.jobs, &t.data, &t.options, &t.hooks,
						&t.err);
	}
	if (served) {
		ck_assert_msg(!orr_run_train(t.run, STEPS, check_step, &t, &t.err), "%s: %s", name,
			      t.err.msg);
		read_parameters(&t, parameters);
	} else {
		ck_assert_msg(t.err.msg[0], "%s", name);
	}
	training_fini(&t);
	return served;
}

/* Where a cap upstream is below the microbatches, or replicas would gather, it is refused; what
 * serves it comes to the same bits, whichever stages are to run again. */
START_TEST(every_schedule_that_serves_it_trains_to_the_same_bits)
{
	static const int n_microbatches[] = {2, 5};
	float expected[MOST] = {0}, found[MOST] = {0};
	int n_served = 0, m = n_microbatches[_i];

	ck_assert(train("gpipe", 1, m, "none", expected));
	for (int i = 0; orr_schedules[i]; i++) {
		const char *name = quick_schedule(i);
		bool served = false;

		for (int w = 1; w <= 4; w++) {
			if (!train(name, w, m, w % 2 ? "all" : "none", found))
				continue;
			served = true;
			ck_assert_msg(!memcmp(expected, found, sizeof(found)),
				      "%s on %d workers: other parameters", name, w);
		}
		n_served += served;
		if (served)
			printf("%s serves %d microbatches\n", name, m);
	}
	ck_assert_int_ge(n_served, m == 2 ? 10 : 2);
}
END_TEST

/* What gathers is cut from what it reads, into as few stages as that takes or as many as asked. */
START_TEST(any_cut_trains_to_the_same_bits)
{
	float expected[MOST] = {0}, found[MOST] = {0};
	char text[sizeof(model)];

	ck_assert(train("gpipe", 1, 5, "none", expected));
	memcpy(text, model, sizeof(text));
	for (char *at = text; (at = strstr(at, " stage="));)
		memset(at, ' ', strlen(" stage=0"));
	for (int w = 1; w <= 6; w++) {
		struct training t = {0};

		ck_assert_int_eq(orr_choice_init(&t.choice, "gpipe", &t.err), 0);
		training_prepare(&t, text, &t.choice.schedule, w, 5);
		ck_assert_int_eq(t.pipeline->n_stages, w < 4 ? 4 : w);
		training_start(&t);
		ck_assert_msg(!orr_run_train(t.run, STEPS, check_step, &t, &t.err), "%s",
			      t.err.msg);
		read_parameters(&t, found);
		ck_assert_msg(!memcmp(expected, found, sizeof(found)), "other parameters on %d", w);
		training_fini(&t);
	}
}
END_TEST

static const struct {
	const char *from, *to, *schedule, *why; /* of the model a part, and what takes its place */
} refused[] = {
	{"l3 [op=linear features=6 stage=1]", "l3 [op=linear features=5 stage=1]", "gpipe",
	 "contrastive reads equal widths"},
	{"left [op=input columns=\"0:8\" stage=0]", "left [op=input columns=\"0:8\" stage=0]",
	 "1f1b", "gathers the minibatch (gather=)"},
	{"right -> r1 -> pairs", "r2 [op=relu stage=3]; right -> r1 -> r2 -> pairs", "gpipe",
	 "what it reads is made in its own stage"},
	{"guess [op=linear features=6 stage=3]",
	 "guess [op=linear features=6 stage=3 gather=minibatch]", "gpipe",
	 "guess gathers a minibatch"},
	{"right -> r1 -> pairs",
	 "data [op=input columns=\"0:6\"]; other [op=mse stage=3]; right -> r1 -> other; "
	 "data -> other; data -> pairs",
	 "gpipe", "put an operator between them"},
};

START_TEST(what_cannot_gather_is_refused)
{
	const char *at = strstr(model, refused[_i].from);
	struct training t = {0};
	char text[2000];
	int code;

	ck_assert_ptr_nonnull(at);
	(void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - model), model, refused[_i].to,
		       at + strlen(refused[_i].from));
	ck_assert_int_eq(orr_choice_init(&t.choice, refused[_i].schedule, &t.err), 0);
	code = training_try(&t, text, &t.choice.schedule, 4, 5, "none");
	if (!code)
		code = orr_run_create(&t.run, t.jobs, &t.data, &t.options, &t.err);
	ck_assert_int_eq(code, ORR_E_INPUT);
	ck_assert_msg(strstr(t.err.msg, refused[_i].why) != NULL, "%s", t.err.msg);
	training_fini(&t);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_step_is_that_of_the_textbook, 3),
	ONCE(an_evaluation_compares_the_rows_of_a_block),
	EACH(every_schedule_that_serves_it_trains_to_the_same_bits, 2),
	ONCE(any_cut_trains_to_the_same_bits),
	EACH(what_cannot_gather_is_refused, N_OF(refused)),
};
SUITE("contrastive")
