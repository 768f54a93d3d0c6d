/* What bf16 keeps in half is read and written as it lies: a step converts what comes from data and
 * goes to a loss, and no more; and the bits are those of passes over floats, rounded afterwards. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codelets/shapes.h"
#include "graphs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "runtime/devices/compile.h"
#include "staged.h"
#include "suite.h"

enum { N = 4, MICROBATCHES = 2, COLUMNS = 80 };

static struct orr_kernels kernels;
static struct orr_element_kernels elements;
static struct {
	int64_t widened, narrowed;
} passes; /* values, by passes that convert */

static void count_widen(struct orr_device *d, int64_t count, const void *x, float *y)
{
	passes.widened += count;
	orr_elements_cpu.widen(d, count, x, y);
}

static void count_narrow(struct orr_device *d, int64_t count, int64_t end, const float *x, bool add,
			 void *y)
{
	passes.narrowed += count;
	orr_elements_cpu.narrow(d, count, end, x, add, y);
}

/* ---- steps ---- */

#define BLOCK \
	"digraph { x [op=input, columns=\"0:60\", rows=5]; a [op=linear, features=16]; " \
	"n [op=layernorm]; q [op=linear, features=16]; k [op=linear, features=8]; " \
	"v [op=linear, features=8, bias=false]; t [op=attention, heads=4, kv_heads=2, " \
	"causal=true]; s [op=add]; r [op=rmsnorm]; f [op=linear, features=64]; g [op=gelu]; " \
	"h [op=linear, features=8]; y [op=input, columns=\"20:60\", rows=5]; l [op=mse]; " \
	"x -> a -> n -> {q k v} -> t -> s -> r -> f -> g -> h -> l; a -> s; y -> l }"
/* Behind learned positions the sums between blocks are floats. */
#define FLOATS \
	"digraph { x [op=input, columns=\"0:60\", rows=5]; a [op=linear, features=16]; " \
	"p [op=positions]; n [op=layernorm]; q [op=linear, features=16]; " \
	"t [op=attention, heads=4]; s [op=add]; r [op=rmsnorm]; f [op=linear, features=64]; " \
	"g [op=gelu]; e [op=linear, features=16]; u [op=add]; m [op=layernorm]; " \
	"h [op=linear, features=8]; y [op=input, columns=\"20:60\", rows=5]; l [op=mse]; " \
	"k [op=linear, features=16]; v [op=linear, features=16]; n -> {q k v} -> t -> s; " \
	"x -> a -> p -> {n s}; s -> r -> f -> g -> e -> u -> m -> h -> l; s -> u; y -> l }"
#define MLP(act) \
	"digraph { x [op=input, columns=\"0:64\"]; a [op=linear, features=2048]; b [op=" act \
	"]; c [op=linear, features=1024]; d [op=" act "]; e [op=linear, features=8]; " \
	"y [op=input, columns=\"64:72\"]; l [op=mse]; x -> a -> b -> c -> d -> e -> l; y -> l }"

/* Of images of 4 x 4 pixels; a convolution of windows adds up what its pixels' gradients are in
 * floats, and one in groups takes floats. */
#define IMAGES \
	"digraph { x [op=input, columns=\"0:48\", rows=16]; a [op=conv2d, features=16, kernel=3, " \
	"padding=1]; b [op=batchnorm]; c [op=relu]; d [op=conv2d, features=24, kernel=1, " \
	"bias=false]; e [op=batchnorm]; f [op=conv2d, features=8, kernel=2, stride=2]; " \
	"s [op=conv2d, features=8, kernel=1, stride=2]; t [op=add]; h [op=linear, features=8]; " \
	"y [op=input, columns=\"28:60\", rows=4]; l [op=mse]; y -> l; " \
	"x -> a -> b -> c -> d -> e -> f -> t -> h -> l; c -> s -> t }"
/* Of a sample: values that linear layers make of data, and that losses read. A linear's output is
 * rounded in a pass, and its gradient made floats; of scores the other way round. Of what is added
 * to floats the gradient is rounded; so is that of what windows of several pixels see, from floats
 * of their output's. */
static const struct {
	const char *name, *graph;
	int64_t made, scores, added, windows;
} models[] = {
	{"a block of a transformer", BLOCK, 5 * 16, 5 * 8, 0, 0},
	{"a block on sums of floats", FLOATS, 2 * 5 * 16, 5 * 8, 2 * 5 * 16, 0},
	{"relu", MLP("relu"), 2048, 8, 0, 0},
	{"silu", MLP("silu"), 2048, 8, 0, 0},
	{"tanh", MLP("tanh"), 2048, 8, 0, 0},
	{"images", IMAGES, 16 * 16, 4 * 8, 16 * 24 + 16 * 16, 2 * 4 * 8},
};

/* The gradient of a step from the same parameters. */
static float *step(int model, bool halves, bool split, int64_t *n)
{
	struct orr_graph *g = parse_graph(models[model].graph);
	struct orr_machine machine = orr_machine_default(1);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};
	struct orr_metrics metrics;
	const struct staged_options options = {.n = N,
					       .n_microbatches = MICROBATCHES,
					       .split = split,
					       .precision = ORR_PRECISION_BF16,
					       .kernels = &kernels};
	float values[N * COLUMNS], *parameters, *gradient;

	for (int i = 0; i < N * COLUMNS; i++)
		values[i] = (float)((i * 37) % 101) / 50.0f - 1.0f;
	kernels = orr_kernels_cpu;
	elements = orr_elements_cpu;
	elements.widen = count_widen;
	elements.narrow = count_narrow;
	kernels.elements = &elements;
	kernels.halves = kernels.halves && halves;
	orr_graph_set_precision(g, ORR_PRECISION_BF16);
	ck_assert_msg(!orr_partition(&p, g, &machine, 1, N, &err), "%s", err.msg);
	*n = 0;
	for (int k = 0; k < g->n_operators; k++)
		*n += g->operators[k].n_parameters;
	parameters = malloc((size_t)*n * sizeof(*parameters));
	gradient = malloc((size_t)*n * sizeof(*gradient));
	ck_assert(parameters && gradient);
	staged_init(p, 3, parameters);
	memset(&passes, 0, sizeof(passes));
	staged_step(p, &options, values, COLUMNS, parameters, gradient, &metrics);
	free(parameters);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
	return gradient;
}

START_TEST(a_step_converts_what_comes_from_data_and_goes_to_a_loss)
{
	int64_t made = N * models[_i].made, scores = N * models[_i].scores, n;

	free(step(_i, true, false, &n));
	ck_assert_msg(passes.narrowed == made + scores + N * models[_i].added,
		      "%s: %lld values are rounded in a pass", models[_i].name,
		      (long long)passes.narrowed);
	ck_assert_msg(passes.widened == made + scores + N * models[_i].windows,
		      "%s: %lld are made floats in a pass", models[_i].name,
		      (long long)passes.widened);
}
END_TEST

START_TEST(the_bits_are_those_of_floats_that_are_rounded_afterwards)
{
	int64_t n, m;
	float *own, *floats = step(_i, false, false, &n);

	for (int split = 0; split < 2; split++) {
		own = step(_i, true, split, &m);
		ck_assert_int_eq(n, m);
		ck_assert_mem_eq(own, floats, (size_t)n * sizeof(*own));
		free(own);
	}
	free(floats);
}
END_TEST

/* Below 2^-134 a bfloat16 is 0, and keeps its sign. */
START_TEST(a_norm_leaves_its_relu_every_bit_that_rounds_to_nothing)
{
	const float gain[] = {0x1p-134f}, bias[] = {0}, moments[] = {0, 1};
	const float values[] = {-2, -1.01f, -1, -0.5f, -0.0f, 0.5f, 1, 1.01f, 2, NAN};
	enum { ROWS = N_OF(values) };
	const struct orr_norm_groups rows = {ROWS, 1, 1, 0};
	struct orr_device d = orr_device_cpu(ORR_PRECISION_BF16);
	uint16_t x[ROWS], y[ROWS], fused[ROWS];

	d.halves = true;
	for (int i = 0; i < ROWS; i++)
		x[i] = orr_bf16_of(values[i]);
	orr_column_norms_cpu.normalise(&d, 1, &rows, (float *)x, gain, bias, moments, -INFINITY,
				       (float *)y);
	orr_elements_cpu.map(&d, ORR_ELEMENTWISE_relu, ROWS, (float *)y, (float *)y);
	orr_column_norms_cpu.normalise(&d, 1, &rows, (float *)x, gain, bias, moments, -0x1p-134f,
				       (float *)fused);
	ck_assert_mem_eq(fused, y, sizeof(y));
}
END_TEST

#define VOCABULARY \
	"digraph { x [op=input, columns=\"0:60\", rows=5]; a [op=linear, features=%d]; " \
	"c [op=input, columns=\"60:65\", rows=5]; l [op=softmax_cross_entropy]; " \
	"%s x -> a -> l; c -> l }"

static const struct {
	int words;
	const char *more;
	enum orr_precision precision;
	/* of 5 x words: tensors that F leaves B, and those beside them in scratch; twice */
	int stash, scratch;
} vocabularies[] = {
	{1000, "", ORR_PRECISION_FP32, 2, 0},
	{1000, "", ORR_PRECISION_BF16, 1, 2},
	/* what something else reads stays */
	{1000, "m [op=softmax_cross_entropy]; a -> m; c -> m;", ORR_PRECISION_FP32, 4, 4},
};

START_TEST(scores_their_slope_and_their_gradient_have_one_place)
{
	int64_t scores = 5 * vocabularies[_i].words, apart = 12 * vocabularies[_i].words;
	struct orr_machine machine = orr_machine_default(1);
	struct orr_program *program;
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};
	struct orr_graph *g;
	char text[400];

	(void)snprintf(text, sizeof(text), VOCABULARY, vocabularies[_i].words,
		       vocabularies[_i].more);
	g = parse_graph(text);
	orr_graph_set_precision(g, vocabularies[_i].precision);
	ck_assert_msg(!orr_partition(&p, g, &machine, 1, 1, &err), "%s", err.msg);
	ck_assert_msg(!orr_program_create(&program, p, 0, &err), "%s", err.msg);
	ck_assert_int_eq(orr_program_stash_floats(program, 1, false),
			 60 + vocabularies[_i].stash * scores / 2);
	ck_assert_int_eq(orr_program_scratch_floats(program, 1),
			 apart + vocabularies[_i].scratch * scores / 2);
	ck_assert_int_eq(p->stages[0].stash_bytes, 4 * (60 + vocabularies[_i].stash * scores / 2));
	orr_program_destroy(program);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_step_converts_what_comes_from_data_and_goes_to_a_loss, N_OF(models)),
	EACH(scores_their_slope_and_their_gradient_have_one_place, N_OF(vocabularies)),
	ONCE(a_norm_leaves_its_relu_every_bit_that_rounds_to_nothing),
	EACH(the_bits_are_those_of_floats_that_are_rounded_afterwards, N_OF(models)),
};
SUITE("halves")
