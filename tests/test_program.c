/* Programs of a stage: gradients against the reference and the reference against finite
 * differences; the same bits however the graph is cut, the backward split and the gradient added
 * up. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "reference.h"
#include "sequence_models.h"
#include "small_model.h"
#include "staged.h"
#include "../codelets/device.h"
#include "../codelets/optimizer.h"
#include "runtime/devices/compile.h"
#include "suite.h"

#define N_COLUMNS 40
#define CLASS_COLUMN SMALL_MODEL_CLASS
#ifndef N_CUTS /* fewer where each kernel is run thread by thread */
#define N_CUTS 4
#endif
#define N_SAMPLES 24
#ifdef ORR_TESTS_EMULATED /* the reference is the same beside whatever device */
#define N_REFERENCES 0
#else
#define N_REFERENCES N_OF(models)
#endif

static char model_name[] = "model.dot";

/* Three rows of two columns, three of one that are not classes, and three classes below 5. */
#define ROWS \
	"digraph { x [op=input, columns=\"0:6\", rows=3]; u [op=input, columns=\"6:9\", rows=3]; " \
	"c [op=input, columns=\"39,39,39\", rows=3]; h [op=linear, features=5]; x -> h; "
#define JOINED \
	"h -> loss; c -> loss; u -> d; d [op=linear, features=5]; e [op=mse]; h -> e; d -> e }"

/* An image of 5 x 4 pixels with 1 channel, of which a 1 x 1 convolution makes `channels`; what
 * comes then ends in an image of 3 channels and as many pixels as rows are said. */
#define IMAGE(channels) \
	"digraph { x [op=input, columns=\"0:20\", rows=20]; " \
	"h [op=conv2d, features=" #channels ", kernel=1, image_height=5]; x -> h -> op; "
#define TARGET(rows, columns) \
	"t [op=input, columns=\"" columns "\", rows=" #rows "]; l [op=linear, features=3]; " \
	"t -> l; loss [op=mse]; end [op=linear, features=3]; op -> end -> loss; l -> loss }"

/* Blocks with residual connections, each sum and norm but one with a relu behind it; a norm behind
 * data alone, whose relu is apart. */
#define RESIDUAL(width) \
	"digraph { x [op=input, columns=\"0:12\", rows=4]; a [op=linear, features=" width "]; " \
	"n [op=batchnorm]; r [op=relu]; b [op=linear, features=" width "]; m [op=batchnorm]; " \
	"s [op=add]; p [op=relu]; u [op=add]; v [op=relu]; e [op=linear, features=2]; " \
	"i [op=batchnorm]; j [op=relu]; k [op=linear, features=" width "]; l [op=mse]; " \
	"t [op=input, columns=\"20:28\", rows=4]; x -> a -> n -> r -> b -> m -> s -> p -> u -> " \
	"v; " \
	"r -> s; a -> u; k -> u; x -> i -> j -> k; v -> e -> l; t -> l }"

/* Three experts for four rows, of which a few are dropped; a sum keeps those. */
#define EXPERTS(route, dispatch, combine) \
	"digraph { x [op=input, columns=\"0:12\", rows=4]; a [op=linear, features=6]; x -> a; " \
	"s [op=linear, features=3]; r [op=route, experts=3, " route "]; x -> s -> r; " \
	"node [op=dispatch]; d0 [experts=3, expert=0, " dispatch "]; " \
	"d1 [experts=3, expert=1, " dispatch "]; d2 [experts=3, expert=2, " dispatch "]; " \
	"a -> {d0 d1 d2}; r -> {d0 d1 d2}; e0 [op=linear, features=6]; " \
	"e1 [op=linear, features=6]; e2 [op=linear, features=6]; d0 -> e0; d1 -> e1; d2 -> e2; " \
	"y [op=combine, " combine "]; r -> y; e0 -> y; e1 -> y; e2 -> y; z [op=add]; " \
	"k [op=linear, features=6]; x -> k -> z; y -> z; b [op=linear, features=2]; " \
	"loss [op=mse]; t [op=input, columns=\"20:28\", rows=4]; z -> b -> loss; t -> loss; " \
	"even [op=balance, weight=0.3]; s -> even; r -> even }"

static const struct {
	const char *name;
	const char *op; /* NULL: the towers, or the model of a file */
	int64_t in, width, out;
	const char *file;
} models[] = {
	/* by number below: new ones come behind them */
	{"towers", NULL, 0, 0, 0, NULL},
	{"towers, losses of weight 0.3, 2, 0 and 1", NULL, 1, 0, 0, NULL},
	{"towers, edges without a gradient", NULL, 2, 0, 0, NULL},
	{"linear, all widths 1", "linear", 1, 1, 1, NULL},
	{"linear", "linear", 13, 17, 5, NULL},
	{"relu", "relu", 7, 19, 3, NULL},
	{"gelu, width 1", "gelu", 3, 1, 2, NULL},
	{"gelu", "gelu", 11, 23, 1, NULL},
	{"layernorm", "layernorm", 5, 29, 2, NULL},
	{"layernorm, width 3", "layernorm", 2, 3, 7, NULL},
	{"add", "add", 3, 31, 11, NULL},
	{"concat", "concat", 17, 13, 3, NULL},
	{"classes", "softmax_cross_entropy", 11, 0, 5, NULL},
	{"one class", "softmax_cross_entropy", 3, 0, 1, NULL},
	{"mse", "mse", 0, 0, 0, NULL},
	SEQUENCE_MODELS,
	{"pairs of a minibatch", NULL, 0, 0, 0,
	 "digraph pairs { x [op=input columns=\"0:7\"]; y [op=input columns=\"8:13\"]; "
	 "z [op=input columns=\"20:29\"]; l [op=linear features=9]; r [op=linear features=9]; "
	 "n [op=layernorm]; pairs [op=contrastive weight=0.7 temperature=0.5]; "
	 "guess [op=linear features=9]; e [op=mse]; "
	 "x -> l -> pairs; y -> r -> n -> pairs; l -> guess -> e; z -> e }"},
	{"linear of rows, without a bias", NULL, 0, 0, 0,
	 "digraph { x [op=input, columns=\"0:12\", rows=3]; t [op=input, columns=\"20:26\", "
	 "rows=3]; "
	 "a [op=linear, features=5, bias=false]; g [op=gelu]; n [op=layernorm]; c [op=concat]; "
	 "b [op=linear, features=2]; l [op=mse]; x -> a -> g -> n -> c; g -> c -> b -> l; t -> l "
	 "}"},
	{"classes of rows", NULL, 0, 0, 0, ROWS "loss [op=softmax_cross_entropy]; " JOINED},
	{"classes of rows, smoothed and some ignored", NULL, 0, 0, 0,
	 ROWS "loss [op=softmax_cross_entropy, ignore=2, smoothing=0.1]; " JOINED},
	{"mse of rows", NULL, 0, 0, 0,
	 ROWS "loss [op=mse]; t [op=linear, features=5]; u -> t; h -> loss; t -> loss; "
	      "w [op=mse, weight=0]; c -> m; m [op=linear, features=5]; m -> w; h -> w }"},
	{"binary classes", NULL, 0, 0, 0,
	 ROWS "loss [op=bce]; b [op=linear, features=1]; c -> loss2; loss2 [op=mse, weight=0]; "
	      "h -> b -> loss; u -> loss; b -> loss2 }"},
	{"conv2d", NULL, 0, 0, 0,
	 IMAGE(3) "op [op=conv2d, features=4, kernel=3, padding=1, image_height=5]; " TARGET(
		 20, "17:37")},
	{"conv2d in groups, strides and without bias", NULL, 0, 0, 0,
	 IMAGE(4) "op [op=conv2d, features=6, kernel=2, stride=2, padding=1, groups=2, "
		  "bias=false, image_height=5]; " TARGET(9, "20:29")},
	{"conv2d channel by channel", NULL, 0, 0, 0,
	 IMAGE(3) "op [op=conv2d, features=3, kernel=3, groups=3, image_height=5]; " TARGET(
		 6, "20:26")},
	{"max_pool", NULL, 0, 0, 0,
	 IMAGE(2) "op [op=max_pool, kernel=3, stride=2, padding=1, image_height=5]; " TARGET(
		 6, "20:26")},
	{"mean_pool", NULL, 0, 0, 0,
	 IMAGE(2) "op [op=mean_pool, kernel=2, stride=1, padding=1, image_height=5]; " TARGET(
		 30, "9:39")},
	{"patches", NULL, 0, 0, 0,
	 "digraph { x [op=input, columns=\"0:16\", rows=16]; h [op=linear, features=3]; "
	 "x -> h -> op; op [op=patches, size=2]; " TARGET(4, "20:24")},
	{"batchnorm", NULL, 0, 0, 0,
	 IMAGE(3) "op [op=batchnorm, epsilon=0.01]; " TARGET(20, "17:37")},
	{"batchnorm of one row", NULL, 0, 0, 0,
	 "digraph { x [op=input, columns=\"0:4\"]; h [op=linear, features=5]; op [op=batchnorm]; "
	 "x -> h -> op; " TARGET(1, "20:24")},
	{"groupnorm", NULL, 0, 0, 0,
	 IMAGE(6) "op [op=groupnorm, groups=2, epsilon=0.01]; " TARGET(20, "17:37")},
	{"classes in two parts", NULL, 0, 0, 0,
	 ROWS "a [op=slice, columns=\"0:2\"]; b [op=slice, columns=\"2:5\"]; h -> a; h -> b; "
	      "p [op=softmax_part]; q [op=softmax_part, first=2]; j [op=concat]; a -> p; c -> p; "
	      "b -> q; c -> q; p -> j; q -> j; "
	      "loss [op=softmax_cross_entropy_parts, classes=5, weight=0.6]; j -> loss; "
	      "c -> loss; u -> d; d [op=linear, features=5]; e [op=mse]; h -> e; d -> e }"},
	{"classes in a part, smoothed and some ignored", NULL, 0, 0, 0,
	 ROWS "p [op=softmax_part]; h -> p; c -> p; loss [op=softmax_cross_entropy_parts, "
	      "classes=5, ignore=2, smoothing=0.1]; p -> loss; c -> loss; u -> d; "
	      "d [op=linear, features=5]; e [op=mse]; h -> e; d -> e }"},
	{"experts", NULL, 0, 0, 0, EXPERTS("top=1, capacity=1", "capacity=1", "groups=1")},
	{"experts of which two take a row", NULL, 0, 0, 0,
	 EXPERTS("top=2, capacity=0.8, groups=2", "capacity=0.8, groups=2", "groups=2")},
	{"experts of which three take a row", NULL, 0, 0, 0,
	 EXPERTS("top=3, capacity=0.7", "capacity=0.7", "groups=1")},
	/* rows of 8 and 16 columns, which kernels of a device take as bfloat16 */
	{"a block of rows of 16", NULL, 0, 0, 0,
	 "digraph { x [op=input, columns=\"0:12\", rows=3]; t [op=input, columns=\"20:26\", "
	 "rows=3]; a [op=linear, features=16]; n [op=layernorm]; u [op=linear, features=24]; "
	 "g [op=gelu]; d [op=linear, features=16]; s [op=add]; r [op=rmsnorm]; m [op=silu]; "
	 "b [op=linear, features=8, bias=false]; c [op=linear, features=2]; l [op=mse]; "
	 "x -> a -> n -> u -> g -> d -> s -> r -> m -> b -> c -> l; a -> s; n -> s; t -> l }"},
	{"relus behind norms and sums", NULL, 0, 0, 0, RESIDUAL("5")},
	{"relus behind norms and sums of rows of 16", NULL, 0, 0, 0, RESIDUAL("16")},
	/* one number, 10 classes and layers 7 wide before what a device reads 16 bytes at once */
	{"odd counts of parameters", NULL, 0, 0, 0,
	 "digraph { x [op=input, columns=\"0:12\"]; s [op=linear, features=1, bias=false]; "
	 "a [op=linear, features=10]; n [op=layernorm]; u [op=linear, features=7]; "
	 "v [op=linear, features=16]; m [op=layernorm]; b [op=linear, features=16]; "
	 "r [op=rmsnorm]; c [op=linear, features=3]; l [op=mse]; t [op=input, "
	 "columns=\"20:23\"]; j [op=concat]; x -> s -> j; x -> a -> n -> j -> u -> v -> m -> b "
	 "-> r -> c -> l; t -> l }"},
};
#define TOWERS 0
#define DETACHED 2

/* Every operator keeps a reader that trains it. */
static void detach(struct small_model *m)
{
	small_model_detach(m, 7, 0);  /* left, in the sum of both towers */
	small_model_detach(m, 8, 1);  /* right, beside that sum */
	small_model_detach(m, 11, 1); /* a tensor that is added to itself */
}

static void weigh(struct small_model *m)
{
	static const double weights[] = {0.3, 2, 0, 1};
	int n = 0;

	for (int k = 0; k < m->graph.n_operators; k++)
		if (orr_operator_is_loss(&m->operators[k]))
			m->operators[k].instance->values[0] = weights[n++];
	ck_assert_int_eq(n, 4);
}

static bool is_op(int i, const char *op)
{
	return models[i].op && strcmp(models[i].op, op) == 0;
}

static void build(struct small_model *m, int i)
{
	small_model_init(m, model_name);
	if (models[i].file)
		small_model_read(m, models[i].file);
	else if (!models[i].op)
		small_model_towers(m);
	else if (is_op(i, "softmax_cross_entropy"))
		small_model_classes(m, models[i].in, models[i].out);
	else if (is_op(i, "mse"))
		small_model_around(m, "relu", 2, 3, 13);
	else
		small_model_around(m, models[i].op, models[i].in, models[i].width, models[i].out);
	if (!models[i].op && models[i].in == 1)
		weigh(m);
	else if (!models[i].op && models[i].in == 2)
		detach(m);
}

/* Cut 0 is one stage; cut c has c operators a stage, inputs where their first reader is. What
 * gathers begins another one. */
static struct orr_pipeline *cut(const struct small_model *m, int c)
{
	int stage_of[SMALL_MODEL_MAX], at = 0, first = 0;

	for (int k = 0; k < m->graph.n_operators; k++) {
		const struct orr_operator *o = &m->graph.operators[k];

		stage_of[k] = -1;
		if (orr_operator_is_input(o))
			continue;
		first += o->gather;
		at += o->gather && c ? (c - at % c) % c : 0;
		stage_of[k] = c ? at++ / c : first;
		for (int i = 0; i < o->n_inputs; i++)
			if (stage_of[o->inputs[i]] < 0)
				stage_of[o->inputs[i]] = stage_of[k];
	}
	return small_model_cut(m, stage_of);
}

/* What every test starts from. */
struct fixture {
	struct small_model model;
	float values[N_SAMPLES * N_COLUMNS];
	int64_t rows[N_SAMPLES], n_parameters;
	float *parameters;
	double *exact; /* the same */
};

static void setup(struct fixture *f, int i)
{
	struct orr_pipeline *p;
	uint64_t seed = (uint64_t)i + 77;

	build(&f->model, i);
	small_data(f->values, N_SAMPLES, N_COLUMNS, CLASS_COLUMN,
		   is_op(i, "softmax_cross_entropy") ? models[i].out : 5, 3);
	for (int64_t r = 0; r < N_SAMPLES; r++)
		for (int64_t c = 34; c < CLASS_COLUMN && models[i].file; c++) { /* ids */
			int64_t id = (r * 7 + c * 3 + r / 5) % (c < 37 ? 5 : 6) - c / 37;

			f->values[r * N_COLUMNS + c] = (float)id;
		}
	for (int64_t r = 0; r < N_SAMPLES; r++)
		f->rows[r] = r;
	f->n_parameters = reference_n_parameters(&f->model.graph);
	f->parameters = malloc((size_t)f->n_parameters * sizeof(*f->parameters));
	f->exact = malloc((size_t)f->n_parameters * sizeof(*f->exact));
	ck_assert(f->parameters && f->exact);
	p = cut(&f->model, 0);
	staged_init(p, 5, f->parameters);
	for (int64_t k = 0; k < f->n_parameters; k++) { /* biases and gains that tell them apart */
		f->parameters[k] += 0.25f * (float)small_random(&seed);
		f->exact[k] = (double)f->parameters[k];
	}
	orr_pipeline_destroy(p);
}

static void teardown(struct fixture *f)
{
	free(f->parameters);
	free(f->exact);
	small_model_fini(&f->model);
}

static struct reference_pass *nothing(int64_t n_parameters)
{
	struct reference_pass *pass = calloc(1, sizeof(*pass));

	ck_assert_ptr_nonnull(pass);
	pass->gradient = calloc((size_t)n_parameters + 1, sizeof(*pass->gradient));
	ck_assert_ptr_nonnull(pass->gradient);
	return pass;
}

static bool has_batchnorm(const struct orr_graph *g)
{
	bool has = false;

	for (int k = 0; k < g->n_operators; k++)
		has = has || strcmp(orr_operator_op(&g->operators[k]), "batchnorm") == 0;
	return has;
}

/* The mean over n_microbatches where it depends on them: batchnorm's rows are those of one. */
static struct reference_pass *run_microbatches(const struct fixture *f, int n_microbatches)
{
	struct reference_pass *sum = NULL;
	int64_t n;

	n_microbatches = has_batchnorm(&f->model.graph) ? n_microbatches : 1;
	n = N_SAMPLES / n_microbatches;

	for (int b = 0; b < n_microbatches; b++) {
		struct reference_pass *pass = NULL;

		ck_assert_int_eq(reference_pass_create(&pass, &f->model.graph, f->values, N_COLUMNS,
						       f->rows + b * n, n, f->exact),
				 0);
		if (!sum)
			sum = nothing(f->n_parameters);
		sum->loss += pass->loss / n_microbatches;
		sum->correct += pass->correct;
		sum->classified += pass->classified;
		for (int64_t k = 0; k < f->n_parameters; k++)
			sum->gradient[k] += pass->gradient[k] / n_microbatches;
		reference_pass_destroy(pass);
	}
	return sum;
}

static struct reference_pass *run_reference(const struct fixture *f)
{
	return run_microbatches(f, 1);
}

static float *run_staged(struct fixture *f, int c, struct staged_options options,
			 struct orr_metrics *metrics)
{
	struct orr_pipeline *p;
	float *gradient = malloc((size_t)f->n_parameters * sizeof(*gradient));
	struct orr_metrics ignored;

	orr_graph_set_precision(&f->model.graph, options.precision);
	p = cut(&f->model, c);
	ck_assert_ptr_nonnull(gradient);
	staged_step(p, &options, f->values, N_COLUMNS, f->parameters, gradient,
		    metrics ? metrics : &ignored);
	orr_pipeline_destroy(p);
	return gradient;
}

static double largest(const double *x, int64_t n)
{
	double most = 0;

	for (int64_t i = 0; i < n; i++)
		most = fmax(most, fabs(x[i]));
	return most;
}

/* Floats of operator o that have a gradient; behind them lie running means. */
static int64_t n_trained(const struct orr_operator *o)
{
	int64_t n = 0;

	for (int i = 0; o->instance && i < o->instance->n_parameters; i++)
		if (o->instance->parameters[i].role != ORR_ROLE_AVERAGED)
			n += orr_parameter_floats(&o->instance->parameters[i]);
	return n;
}

/* Is parameter k of the model a running mean, which the loss of a training step does not read? */
static bool is_averaged(const struct fixture *f, int64_t k)
{
	const struct orr_operator *o = f->model.graph.operators;

	for (; k >= o->n_parameters; o++)
		k -= o->n_parameters;
	return k >= n_trained(o);
}

/* Or its gradients would be checked by nobody; and it is listed once. */
START_TEST(every_operator_is_in_a_model)
{
	bool seen[64] = {false};

	ck_assert_int_le(orr_n_ops, 64);
	for (int i = 0; i < N_OF(models); i++) {
		struct small_model m;

		build(&m, i);
		for (int k = 0; k < m.graph.n_operators; k++)
			for (int j = 0; j < orr_n_ops; j++)
				seen[j] |= m.graph.operators[k].instance->op == orr_ops[j];
		small_model_fini(&m);
	}
	for (int j = 0; j < orr_n_ops; j++) {
		ck_assert_msg(seen[j] != orr_ops[j]->opaque, /* nothing to compute: in none */
			      "no row of models has %s", orr_ops[j]->name);
		for (int k = 0; k < j; k++)
			ck_assert_msg(orr_ops[k] != orr_ops[j],
				      "%s is in operators/list.h and in formulas.h",
				      orr_ops[j]->name);
	}
}
END_TEST

START_TEST(reference_agrees_with_finite_differences)
{
	struct fixture f;
	struct reference_pass *pass;
	const double h = 1e-5;

	if (_i == DETACHED) /* no differences of the loss */
		return;
	setup(&f, _i);
	pass = run_reference(&f);
	for (int64_t k = 0; k < f.n_parameters; k++) {
		double at = f.exact[k], loss[2];

		for (int side = 0; side < 2; side++) {
			f.exact[k] = side ? at + h : at - h;
			loss[side] = reference_loss(&f.model.graph, f.values, N_COLUMNS, f.rows,
						    N_SAMPLES, f.exact);
		}
		f.exact[k] = at;
		if (is_averaged(&f, k))
			continue;
		ck_assert_msg(fabs((loss[1] - loss[0]) / (2 * h) - pass->gradient[k]) <= 1e-6,
			      "%s: parameter %lld: %.9g by differences, %.9g by formula",
			      models[_i].name, (long long)k, (loss[1] - loss[0]) / (2 * h),
			      pass->gradient[k]);
	}
	reference_pass_destroy(pass);
	teardown(&f);
}
END_TEST

/* A gradient that is stopped is that of a loss in which the tensor is data: by differences, in
 * which the readers that it is stopped for see it as it was. */
START_TEST(what_is_stopped_counts_as_data)
{
	struct small_model m;
	float values[N_SAMPLES * N_COLUMNS];
	struct reference_pass *pass, *apart;
	double parameters[200];
	int64_t rows[N_SAMPLES], n;
	int x, hidden, target, skip;

	small_model_init(&m, model_name);
	x = small_model_input(&m, 0, 3, 1.0);
	target = small_model_input(&m, 20, 3, 1.0);
	hidden = small_model_add(&m, "linear", 3, x, -1);
	skip = small_model_add(&m, "linear", 3, hidden, -1);
	small_model_add(&m, "mse", 0, small_model_add(&m, "add", 0, skip, hidden), target);
	small_data(values, N_SAMPLES, N_COLUMNS, CLASS_COLUMN, 2, 4);
	n = reference_n_parameters(&m.graph);
	for (int64_t k = 0; k < n; k++)
		parameters[k] = sin((double)k);
	for (int64_t r = 0; r < N_SAMPLES; r++)
		rows[r] = r;
	small_model_detach(&m, 4, 1);
	ck_assert_int_eq(reference_pass_create(&pass, &m.graph, values, N_COLUMNS, rows, N_SAMPLES,
					       parameters),
			 0);
	/* hidden beside the skip as a target, with the other sign: (skip + h - t) = skip - (t - h)
	 */
	for (int64_t r = 0; r < N_SAMPLES; r++)
		for (int64_t i = 0; i < 3; i++)
			values[r * N_COLUMNS + 20 + i] -= (float)pass->outputs[hidden][r * 3 + i];
	small_model_detach(&m, 4, 0);
	m.operators[5].inputs[0] = skip;
	ck_assert_int_eq(reference_pass_create(&apart, &m.graph, values, N_COLUMNS, rows, N_SAMPLES,
					       parameters),
			 0);
	for (int64_t k = 0; k < n; k++)
		ck_assert_double_eq_tol(pass->gradient[k], apart->gradient[k], 1e-6);
	reference_pass_destroy(pass);
	reference_pass_destroy(apart);
}
END_TEST

/* n floats, relative to the largest of them. */
static void check_floats(const char *what, const struct orr_operator *o, const float *x,
			 const double *expected, int64_t n)
{
	double scale = largest(expected, n);
	int64_t i = 0;

	while (i < n && fabs((double)x[i] - expected[i]) <= 1e-5 * scale)
		i++;
	if (i < n)
		ck_abort_msg("%s: %s %lld is %.9g, should be %.9g, where the largest is %.3g", what,
			     o->name, (long long)i, (double)x[i], expected[i], scale);
}

/* Operator by operator. */
static void check_close(const struct fixture *f, const float *x, const double *expected,
			const char *what)
{
	int64_t first = 0;

	for (int k = 0; k < f->model.graph.n_operators; k++) {
		const struct orr_operator *o = &f->model.graph.operators[k];
		int64_t n = n_trained(o);

		check_floats(what, o, x + first, expected + first, n);
		check_floats(what, o, x + first + n, expected + first + n, o->n_parameters - n);
		first += o->n_parameters;
	}
	ck_assert_int_eq(first, f->n_parameters);
}

START_TEST(programs_agree_with_the_reference_under_every_cut)
{
	struct fixture f;
	struct reference_pass *pass;

	setup(&f, _i / N_CUTS);
	for (int m = 1; m <= 3; m++) {
		struct staged_options options = {.n = N_SAMPLES, .n_microbatches = m};
		struct orr_metrics metrics;
		float *gradient = run_staged(&f, _i % N_CUTS, options, &metrics);

		pass = run_microbatches(&f, m);

		check_close(&f, gradient, pass->gradient, models[_i / N_CUTS].name);
		ck_assert_double_eq_tol(metrics.loss / N_SAMPLES, pass->loss,
					1e-5 * pass->loss + 1e-12);
		ck_assert_double_eq(metrics.correct, (double)pass->correct);
		ck_assert_double_eq(metrics.classified, (double)pass->classified);
		free(gradient);
		reference_pass_destroy(pass);
	}
	teardown(&f);
}
END_TEST

START_TEST(cut_split_partial_sums_and_recomputation_leave_every_bit)
{
	struct fixture f;
	struct orr_metrics whole, metrics;
	struct staged_options options = {.n = N_SAMPLES, .n_microbatches = 3};
	float *expected;
	int n = 0;

	setup(&f, _i);
	expected = run_staged(&f, 0, options, &whole);
	for (int c = 0; c < N_CUTS; c++)
		for (int how = 0; how < 8; how++, n++) {
			float *gradient;

			/* of each model some, and everything at once in the finest cut */
			if ((c != 1 || how != 7) && !suite_takes(8 * N_CUTS * _i + n))
				continue;
			options.split = how & 1;
			options.partials = how & 2;
			options.recompute = how & 4;
			gradient = run_staged(&f, c, options, &metrics);
			ck_assert_mem_eq(gradient, expected,
					 (size_t)f.n_parameters * sizeof(*gradient));
			/* stages are visited in another order, so the sum in double may round */
			ck_assert_double_le(fabs(metrics.loss - whole.loss), 1e-12 * whole.loss);
			free(gradient);
		}
	ck_assert_int_eq(n, 8 * N_CUTS);
	free(expected);
	teardown(&f);
}
END_TEST

/* Freeze the operators with parameters whose bits are set; false: there is nothing to train. */
static bool freeze(struct small_model *m, int bits)
{
	bool trains = false;

	for (int k = 0; k < m->graph.n_operators; k++) {
		struct orr_operator *o = &m->operators[k];

		if (!o->n_parameters)
			continue;
		o->frozen = bits & 1;
		trains = trains || !o->frozen;
		bits >>= 1;
	}
	return trains;
}

/* What is frozen keeps the mark that was there, and the others have their gradients. */
static void check_frozen(const struct fixture *f, const float *gradient, const float *expected,
			 float mark)
{
	int64_t at = 0;

	for (int k = 0; k < f->model.graph.n_operators; k++) {
		const struct orr_operator *o = &f->model.operators[k];

		for (int64_t end = at + o->n_parameters; at < end; at++)
			ck_assert_msg(!memcmp(&gradient[at], o->frozen ? &mark : &expected[at],
					      sizeof(mark)),
				      "parameter %lld, of %s: %.9g", (long long)at, o->name,
				      (double)gradient[at]);
	}
}

/* Whatever is frozen, the others have the gradients that they have where nothing is. */
START_TEST(what_is_frozen_has_no_gradient_and_leaves_every_bit_of_the_others)
{
	struct fixture f;
	struct staged_options options = {.n = N_SAMPLES, .n_microbatches = 2};
	struct orr_metrics metrics;
	float *expected, *gradient;
	int n = 0;

	setup(&f, TOWERS);
	expected = run_staged(&f, 0, options, NULL);
	gradient = malloc((size_t)f.n_parameters * sizeof(*gradient));
	ck_assert_ptr_nonnull(gradient);
	for (int bits = 1 + _i; bits < 1 << 9; bits += 40)
		for (int c = 0; c < N_CUTS && freeze(&f.model, bits); c++, n++) {
			struct orr_pipeline *p;

			if (!suite_takes(N_CUTS * bits + c))
				continue;
			p = cut(&f.model, c);
			for (int64_t i = 0; i < f.n_parameters; i++)
				gradient[i] = 12345.0f;
			options.split = n & 1;
			options.partials = n & 2;
			options.recompute = n & 4;
			staged_step(p, &options, f.values, N_COLUMNS, f.parameters, gradient,
				    &metrics);
			check_frozen(&f, gradient, expected, 12345.0f);
			orr_pipeline_destroy(p);
		}
	ck_assert_int_ge(n, 12 * N_CUTS);
	free(gradient);
	free(expected);
	teardown(&f);
}
END_TEST

/* x is read by three; wherever they are, the sum keeps its order as long as what arrives together
 * begins with the last reader. */
START_TEST(three_readers_leave_every_bit_in_whatever_stages)
{
	static const int cuts[][10] = {
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 1, 1, 1, 1, 1, 1},
		{0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 1, 1, 1, 1, 1},
		{0, 0, 0, 1, 2, 2, 2, 2, 2, 2}, {0, 0, 0, 0, 1, 2, 2, 2, 2, 2},
		{0, 0, 0, 1, 2, 3, 3, 3, 3, 3}, {0, 0, 0, 1, 2, 0, 3, 3, 3, 3},
	};
	struct small_model m;
	float values[N_SAMPLES * N_COLUMNS], parameters[400], gradient[2][400];
	struct staged_options options = {.n = N_SAMPLES, .n_microbatches = 1};
	struct orr_metrics metrics;
	int x, a, b, c, target;

	small_model_init(&m, model_name);
	x = small_model_input(&m, 0, 3, 1.0);
	target = small_model_input(&m, 20, 5, 1.0);
	x = small_model_add(&m, "linear", 5, x, -1);
	a = small_model_add(&m, "linear", 5, x, -1);
	b = small_model_add(&m, "linear", 5, x, -1);
	c = small_model_add(&m, "linear", 5, x, -1);
	a = small_model_add(&m, "add", 5, a, b);
	a = small_model_add(&m, "add", 5, a, c);
	a = small_model_add(&m, "relu", 5, a, -1);
	small_model_add(&m, "mse", 0, a, target);
	small_data(values, N_SAMPLES, N_COLUMNS, CLASS_COLUMN, 2, 9);
	ck_assert_int_le(reference_n_parameters(&m.graph), 400);
	for (int i = 0; i < N_OF(cuts); i++) {
		int stage_of[10];
		struct orr_pipeline *p;

		memcpy(stage_of, cuts[i], sizeof(stage_of));
		stage_of[1] = stage_of[9]; /* the target where the loss is */
		p = small_model_cut(&m, stage_of);
		if (i == 0)
			staged_init(p, 1, parameters);
		staged_step(p, &options, values, N_COLUMNS, parameters, gradient[i > 0], &metrics);
		ck_assert_mem_eq(gradient[i > 0], gradient[0],
				 (size_t)reference_n_parameters(&m.graph) * sizeof(float));
		orr_pipeline_destroy(p);
	}
}
END_TEST

static const struct orr_rule rules[] = {
	{ORR_OPTIMIZER_MOMENTUM, 0.05, 0.9, 0, 0, 0, 1e-3, 0, 0, NULL, 0, NULL},
	{ORR_OPTIMIZER_ADAM, 0.01, 0, 0.9, 0.999, 1e-8, 1e-3, 0, 0, NULL, 0, NULL},
	{ORR_OPTIMIZER_ADAMW, 0.01, 0, 0.9, 0.999, 1e-8, 0.01, 0, 0, NULL, 0, NULL},
};

START_TEST(thirty_steps_of_training_agree_with_the_reference)
{
	const struct orr_rule *r = &rules[_i];
	struct reference_rule exact = {(enum reference_kind)r->optimizer,
				       r->learning_rate,
				       r->momentum,
				       r->beta1,
				       r->beta2,
				       r->epsilon,
				       r->weight_decay};
	struct staged_options options = {.n = N_SAMPLES, .n_microbatches = 4};
	int64_t rows[30 * N_SAMPLES];
	double losses[30];
	struct fixture f;
	float *state;

	setup(&f, TOWERS);
	state = calloc(2 * (size_t)f.n_parameters, sizeof(*state));
	ck_assert_ptr_nonnull(state);
	for (int i = 0; i < 30 * N_SAMPLES; i++)
		rows[i] = i % N_SAMPLES;
	ck_assert_int_eq(reference_train(&f.model.graph, f.values, N_COLUMNS, rows, N_SAMPLES, 30,
					 &exact, f.exact, losses),
			 0);
	for (int step = 0; step < 30; step++) {
		struct orr_metrics metrics;
		float *gradient = run_staged(&f, 2, options, &metrics);
		const float *gradients[1] = {gradient};

		ck_assert_double_eq_tol(metrics.loss / N_SAMPLES, losses[step],
					1e-5 * losses[step]);
		orr_optimizer_cpu.step(NULL, r, step + 1, f.n_parameters, f.parameters, state,
				       gradients, 1, false);
		free(gradient);
	}
	ck_assert_double_lt(losses[29], 0.8 * losses[0]);
	check_close(&f, f.parameters, f.exact, "after 30 steps");
	free(state);
	teardown(&f);
}
END_TEST

START_TEST(parameters_are_drawn_from_the_seed_whatever_the_cut)
{
	struct fixture f;
	float *drawn[3];

	setup(&f, TOWERS);
	for (int i = 0; i < 3; i++) {
		struct orr_pipeline *p = cut(&f.model, i == 1 ? 2 : 0);

		drawn[i] = malloc((size_t)f.n_parameters * sizeof(float));
		ck_assert_ptr_nonnull(drawn[i]);
		staged_init(p, i == 2 ? 2 : 1, drawn[i]);
		orr_pipeline_destroy(p);
	}
	ck_assert_mem_eq(drawn[0], drawn[1], (size_t)f.n_parameters * sizeof(float));
	/* operator 2 is linear, 7 to 9: uniform in +-sqrt(6/7), then bias 0 */
	ck_assert_mem_ne(drawn[0], drawn[2], 63 * sizeof(float));
	for (int i = 0; i < 72; i++)
		ck_assert(i < 63 ? fabsf(drawn[0][i]) <= 0.926f : fabsf(drawn[0][i]) <= 0);
	for (int i = 0; i < 3; i++)
		free(drawn[i]);
	teardown(&f);
}
END_TEST

START_TEST(drawn_weights_spread_evenly_over_their_range)
{
	static float drawn[64 * 65];
	struct small_model m;
	struct orr_pipeline *p;
	double sum = 0, squares = 0, bound = sqrt(6.0 / 64);

	small_model_init(&m, model_name);
	small_model_add(&m, "linear", 64, small_model_input(&m, 0, 64, 1.0), -1);
	p = cut(&m, 0);
	staged_init(p, 3, drawn);
	for (int i = 0; i < 64 * 64; i++) {
		sum += (double)drawn[i] / bound;
		squares += (double)drawn[i] * (double)drawn[i] / bound / bound;
	}
	ck_assert_double_eq_tol(sum / 4096, 0, 0.03);           /* sigma is 0.009 */
	ck_assert_double_eq_tol(squares / 4096, 1.0 / 3, 0.02); /* sigma is 0.0047 */
	orr_pipeline_destroy(p);
}
END_TEST

/* Rounded for sure, and not far: a bfloat16 has 8 significant bits. The same bits under every cut.
 */
START_TEST(bf16_gradients_are_near_and_do_not_follow_the_cut)
{
	struct staged_options plain = {.n = N_SAMPLES, .n_microbatches = 2};
	struct staged_options rounded = plain;
	double difference = 0, norm = 0;
	struct fixture f;
	float *exact, *near;

	setup(&f, _i);
	rounded.precision = ORR_PRECISION_BF16;
	exact = run_staged(&f, 0, plain, NULL);
	near = run_staged(&f, 0, rounded, NULL);
	for (int64_t k = 0; k < f.n_parameters; k++) {
		difference += pow((double)near[k] - (double)exact[k], 2);
		norm += pow((double)exact[k], 2);
	}
	/* one class: all gradients are zero */
	ck_assert_msg(sqrt(difference) < 0.03 * sqrt(norm) + 1e-30, "%s: %g of %g", models[_i].name,
		      sqrt(difference), sqrt(norm));
	ck_assert(difference > 0 || norm <= 0);
	for (int c = 0; c < N_CUTS; c++) {
		float *again;

		rounded.split = c <= 1;
		rounded.recompute = c == 2;
		rounded.partials = c == 3;
		again = run_staged(&f, c, rounded, NULL);
		ck_assert_mem_eq(near, again, (size_t)f.n_parameters * sizeof(*near));
		free(again);
	}
	free(exact);
	free(near);
	teardown(&f);
}
END_TEST

/* input 3 -> linear 5 -> relu -> linear 2 -> mse: the stash is x (3), relu's output (5) and the
 * slope of the loss (2); a split backward also keeps the gradients of both linears (5 + 2). */
START_TEST(the_stash_holds_what_the_backward_reads_and_no_more)
{
	struct small_model m;
	struct orr_pipeline *p;
	struct orr_program *program = NULL;

	small_model_init(&m, model_name);
	small_model_around(&m, "relu", 3, 5, 2);
	p = cut(&m, 0);
	ck_assert_int_eq(orr_program_create(&program, p, 0, NULL), 0);
	ck_assert_int_eq(orr_program_stash_floats(program, 7, false), 7 * (3 + 5 + 2));
	ck_assert_int_eq(orr_program_stash_floats(program, 7, true), 7 * (3 + 5 + 2 + 5 + 2));
	ck_assert_int_eq(program->n_parameters, 64 + 5 * 2 + 2);
	ck_assert_int_eq(program->n_inputs, 2);
	ck_assert_int_eq(program->inputs[1].width, 2);
	ck_assert_int_eq(program->inputs[1].columns[1], 21);
	ck_assert(program->n_losses > 0);
	orr_program_destroy(program);
	orr_program_destroy(NULL);
	orr_pipeline_destroy(p);
}
END_TEST

#define LAYER(n, x) \
	"h" #n " [op=linear, features=32]; r" #n " [op=relu]; " x " -> h" #n " -> r" #n "; "
#define CHAIN(layers, last) \
	"digraph { x [op=input, columns=\"0:32\"]; c [op=input, columns=\"32\"]; " layers \
	"y [op=linear, features=8]; l [op=softmax_cross_entropy]; " last " -> y -> l; c -> l }"
#define TABLE(more) \
	"digraph { t [op=input, columns=\"0:4\", rows=4]; c [op=input, columns=\"4:8\", rows=4]; " \
	"e [op=embedding, vocabulary=20000, features=16" more "]; " \
	"y [op=linear, features=20000, bias=false" more "]; l [op=softmax_cross_entropy]; " \
	"t -> e -> y -> l; c -> l }"
enum { SLICE = (1 << 18) / 16 }; /* rows of 16 columns that a product of a gradient writes */

static const struct {
	const char *text;
	int64_t each, once; /* floats a sample, and whatever they are */
} worked[] = {
	/* a relu's gradient becomes its linear's, however many there are; beside it the gradient
	 * of the largest layer, to be added */
	{CHAIN(LAYER(0, "x") LAYER(1, "r0"), "r1"), 2 * 32, 32 * 32},
	{CHAIN(LAYER(0, "x") LAYER(1, "r0") LAYER(2, "r1") LAYER(3, "r2"), "r3"), 2 * 32, 32 * 32},
	/* a slice of the head's gradient, and a row of the table's */
	{TABLE(""), 4 * 16, SLICE * 16},
	{TABLE(", share=e"), 4 * 16, SLICE * 16},
};

START_TEST(scratch_is_what_is_in_use_at_once)
{
	struct orr_program *program = NULL;
	struct orr_pipeline *p;
	struct small_model m;

	small_model_init(&m, model_name);
	small_model_read(&m, worked[_i].text);
	p = cut(&m, 0);
	ck_assert_int_eq(orr_program_create(&program, p, 0, NULL), 0);
	for (int n = 1; n < 4; n++)
		ck_assert_int_eq(orr_program_scratch_floats(program, n),
				 n * worked[_i].each + worked[_i].once);
	orr_program_destroy(program);
	orr_pipeline_destroy(p);
	small_model_fini(&m);
}
END_TEST

#define BEHIND(op, more) \
	"digraph { x [op=input, columns=\"0:4\"]; a [op=linear, features=4]; " op \
	" r [op=relu]; b [op=linear, features=4]; l [op=mse]; x -> a -> o; r -> b -> l; x -> " \
	"l; " more " }"

static const struct {
	const char *graph;
	int cut, layers;
} behind[] = {
	{BEHIND("o [op=batchnorm];", "o -> r"), 0, 4},
	{BEHIND("o [op=add];", "x -> o; o -> r"), 0, 4},
	{BEHIND("o [op=batchnorm];", "o -> r"), 1, 5}, /* in stages apart */
	{BEHIND("o [op=layernorm];", "o -> r"), 0, 5},
	{BEHIND("o [op=batchnorm];", "o -> r; m [op=mse]; o -> m; x -> m"), 0, 6},
	{BEHIND("o [op=batchnorm, frozen=true];",
		"o -> r [gradient=false]; m [op=mse]; a -> m; x -> m"),
	 0, 5},
	/* B of the norm has no turn */
	{BEHIND("o [op=batchnorm];", "o -> r; a [frozen=true]"), 0, 5},
	/* nothing has a backward */
	{BEHIND("o [op=batchnorm];", "o -> r; a [frozen=true]; o [frozen=true]"), 0, 4},
};

START_TEST(a_relu_that_alone_reads_a_norm_or_a_sum_is_no_layer)
{
	struct orr_pipeline *p;
	struct small_model m;
	int layers = 0;

	small_model_init(&m, model_name);
	small_model_read(&m, behind[_i].graph);
	p = cut(&m, behind[_i].cut);
	for (int s = 0; s < p->n_stages; s++) {
		struct orr_program *program = NULL;

		ck_assert_int_eq(orr_program_create(&program, p, s, NULL), 0);
		layers += program->n_layers;
		orr_program_destroy(program);
	}
	ck_assert_int_eq(layers, behind[_i].layers);
	orr_pipeline_destroy(p);
	small_model_fini(&m);
}
END_TEST

static void study(struct small_model *m)
{
	small_model_add(m, NULL, 1, small_model_input(m, 0, 3, 1.0), -1);
}

static void loss_is_read(struct small_model *m)
{
	small_model_classes(m, 3, 2);
	small_model_add(m, "relu", 0, m->graph.n_operators - 1, -1);
}

static void classes_are_computed(struct small_model *m)
{
	int x = small_model_input(m, 0, 3, 1.0), one = small_model_add(m, "linear", 1, x, -1);

	small_model_add(m, "softmax_cross_entropy", 0, x, one);
}

static void wide(struct small_model *m)
{
	small_model_add(m, "linear", INT64_C(1) << 39, small_model_input(m, 0, 3, 1.0), -1);
}

static void missing_column(struct small_model *m)
{
	small_model_add(m, "relu", 0, small_model_input(m, 38, 3, 1.0), -1);
}

static void too_few_scores(struct small_model *m)
{
	small_model_classes(m, 3, 4);
}

static void scaled_classes(struct small_model *m)
{
	small_model_classes(m, 3, 5);
	m->operators[1].instance->values[0] = 0.5;
}

#define OF_IDS(op) \
	"digraph { x [op=input, columns=\"39\"]; e [" op "]; b [op=linear, features=1];" \
	"t [op=input, columns=\"20\"]; loss [op=mse]; x -> e -> b -> loss; t -> loss; }"

static void unknown_id(struct small_model *m)
{
	small_model_read(m, OF_IDS("op=embedding, vocabulary=4, features=2"));
}

static void unknown_id_in_a_bag(struct small_model *m)
{
	small_model_read(m, OF_IDS("op=bag, vocabulary=4, features=2"));
}

static const struct {
	void (*build)(struct small_model *m);
	bool data; /* refused when the data is seen */
	const char *message;
} refused[] = {
	{study, false,
	 "model.dot:2: op1 has costs and nothing to compute; give it an op to train it"},
	{loss_is_read, false,
	 "model.dot:5: op4 reads the loss op3; losses are summed by themselves, end the graph "
	 "there"},
	{classes_are_computed, false,
	 "model.dot:3: op2 takes its classes from op1; they must come from an input"},
	{wide, false, "model.dot:2: op1: width 549755813888; it must be 1 to 274877906944"},
	{missing_column, true,
	 "model.dot:1: node op0: takes column 40, and the data has columns 0 to 39: "
	 "correct columns=, or name other data ([data])"},
	{too_few_scores, true,
	 "row 2 of the data (from 0) has class 4 in op1; op3 (model.dot:4) needs whole numbers "
	 "from 0 to 3"},
	{scaled_classes, true,
	 "row 5 of the data (from 0) has class 0.5 in op1; op3 (model.dot:4) needs whole numbers "
	 "from 0 to 4"},
	{unknown_id, true,
	 "row 2 of the data (from 0) has the number 4 in x; e (model.dot:1) needs whole numbers "
	 "from 0 to 3"},
	{unknown_id_in_a_bag, true,
	 "row 2 of the data (from 0) has the number 4 in x; e (model.dot:1) needs whole numbers "
	 "from 0 to 3, or any below 0 for none"},
};

START_TEST(what_cannot_be_trained_is_refused_in_one_line)
{
	static float values[N_SAMPLES * N_COLUMNS];
	struct orr_dataset data = {.n_rows = N_SAMPLES, .n_columns = N_COLUMNS, .values = values};
	struct small_model m;
	struct orr_pipeline *p;
	struct orr_program *program = NULL;
	struct orr_error err = {""};

	small_data(values, N_SAMPLES, N_COLUMNS, CLASS_COLUMN, 5, 3);
	small_model_init(&m, model_name);
	refused[_i].build(&m);
	p = cut(&m, 0);
	if (refused[_i].data) {
		ck_assert_int_eq(orr_program_create(&program, p, 0, &err), 0);
	} else {
		ck_assert_int_eq(orr_program_create(&program, p, 0, &err), ORR_E_INPUT);
		ck_assert_ptr_null(program);
		ck_assert_str_eq(err.msg, refused[_i].message);
	}
	ck_assert_int_eq(orr_program_check_data(&m.graph, &data, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, refused[_i].message);
	orr_program_destroy(program);
	orr_pipeline_destroy(p);
	small_model_fini(&m);
}
END_TEST

START_TEST(data_that_fits_is_accepted)
{
	struct fixture f;
	struct orr_dataset data = {.n_rows = N_SAMPLES, .n_columns = N_COLUMNS};

	setup(&f, _i);
	data.values = f.values;
	ck_assert_int_eq(orr_program_check_data(&f.model.graph, &data, NULL), 0);
	teardown(&f);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(every_operator_is_in_a_model),
	EACH(reference_agrees_with_finite_differences, N_REFERENCES),
	ONCE(what_is_stopped_counts_as_data),
	EACH(programs_agree_with_the_reference_under_every_cut, N_OF(models) * N_CUTS),
	EACH(cut_split_partial_sums_and_recomputation_leave_every_bit, N_OF(models)),
	EACH(what_is_frozen_has_no_gradient_and_leaves_every_bit_of_the_others, 8),
	ONCE(three_readers_leave_every_bit_in_whatever_stages),
	EACH(thirty_steps_of_training_agree_with_the_reference, N_OF(rules)),
	ONCE(parameters_are_drawn_from_the_seed_whatever_the_cut),
	ONCE(drawn_weights_spread_evenly_over_their_range),
	EACH(bf16_gradients_are_near_and_do_not_follow_the_cut, N_OF(models)),
	ONCE(the_stash_holds_what_the_backward_reads_and_no_more),
	EACH(scratch_is_what_is_in_use_at_once, N_OF(worked)),
	EACH(a_relu_that_alone_reads_a_norm_or_a_sum_is_no_layer, N_OF(behind)),
	EACH(what_cannot_be_trained_is_refused_in_one_line, N_OF(refused)),
	EACH(data_that_fits_is_accepted, N_OF(models)),
};
SUITE("program")
