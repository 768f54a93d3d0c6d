/* Parts of operators that were split: they begin with the values that the whole operator has there,
 * and drop what it drops there, to the bit. */
#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/whole.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "staged.h"
#include "suite.h"
#include "../codelets/program.h"
#include "runtime/devices/compile.h"

#define MOST 4000

static struct orr_error err;

/* A graph from text, all of it a stage; as a part it owns the whole one. */
struct model {
	struct orr_graph *graph;
	struct orr_pipeline *pipeline;
	struct orr_program *program;
};

static int find(const struct orr_graph *g, const char *name)
{
	int k = 0;

	while (strcmp(g->operators[k].name, name) != 0)
		ck_assert_int_lt(++k, g->n_operators);
	return k;
}

static void read_model(struct model *m, const char *text)
{
	ck_assert_msg(!orr_graph_parse(&m->graph, "model.dot", text, &err), "%s: %s", text,
		      err.msg);
}

static void compile(struct model *m, int s)
{
	struct orr_machine machine = orr_machine_default(1);

	ck_assert_msg(!orr_partition(&m->pipeline, m->graph, &machine, 0, 1, &err), "%s", err.msg);
	ck_assert_msg(!orr_program_create(&m->program, m->pipeline, s, &err), "%s", err.msg);
}

static void model_fini(struct model *m)
{
	orr_program_destroy(m->program);
	orr_pipeline_destroy(m->pipeline);
	orr_graph_destroy(m->graph);
}

/* What a rewrite says of operator k: it is a part of that one, whose tensors it has from `first` on
 * along the axis on which they differ. */
static void tell_part(struct orr_graph *g, int k, int origin, int64_t first)
{
	const struct orr_instance *whole = g->whole->operators[origin].instance;
	struct orr_instance *is = g->operators[k].instance;

	g->operators[k].origin = origin;
	for (int i = 0; i < is->n_parameters; i++) {
		struct orr_parameter_tensor *own = &is->parameters[i];
		const struct orr_parameter_tensor *all =
			&whole->parameters[orr_whole_parameter(g, k, i)];

		own->initial = all->initial;
		own->value = all->value;
		for (int axis = 0; axis < own->n_dims; axis++)
			if (own->dims[axis] != all->dims[axis])
				own->portion = (struct orr_portion){axis, first, all->dims[axis]};
	}
}

/* ---- values ---- */

#define TO_LOSS(columns) \
	" t [op=input columns=\"" columns \
	"\"]; m [op=linear features=1]; n [op=linear features=1];" \
	" e [op=mse]; t -> n -> e; p -> m -> e }"
#define IDS(op) "digraph { x [op=input columns=\"0\"]; p [" op "]; x -> p;" TO_LOSS("30:31")
#define OF(columns, op) \
	"digraph { x [op=input columns=\"" columns "\"]; a [op=scale factor=2]; p [" op \
	"]; x -> a -> p;" TO_LOSS("30:31")
#define ROWS(columns, rows, op) \
	"digraph { x [op=input columns=\"" columns "\" rows=" rows "]; p [" op \
	"]; q [op=mean]; x -> p -> q;" \
	" t [op=input columns=\"30:31\"]; m [op=linear features=1]; n [op=linear features=1];" \
	" e [op=mse]; t -> n -> e; q -> m -> e }"
#define IMAGE(columns, op) \
	"digraph { x [op=input columns=\"" columns \
	"\" rows=9]; p [op=conv2d image_height=3 padding=1 " op "]; q [op=mean]; x -> p -> q;" \
	" t [op=input columns=\"30:31\"]; m [op=linear features=1]; n [op=linear features=1];" \
	" e [op=mse]; t -> n -> e; q -> m -> e }"

static const struct {
	const char *whole, *part;
	int64_t first;
} parts[] = {
	/* along axis 0, the bias with it */
	{OF("0:7", "op=linear features=10"), OF("0:7", "op=linear features=4"), 3},
	{OF("0:7", "op=linear features=10"), OF("0:7", "op=linear features=5"), 0},
	{OF("0:7", "op=linear features=10 bias=false"),
	 OF("0:7", "op=linear features=1 bias=false"), 9},
	/* along axis 1; the bias on the first alone */
	{OF("0:8", "op=linear features=5"), OF("0:3", "op=linear features=5"), 0},
	{OF("0:8", "op=linear features=5"), OF("3:8", "op=linear features=5 bias=false"), 3},
	{IDS("op=embedding vocabulary=20 features=6"), IDS("op=embedding vocabulary=7 features=6"),
	 13},
	{IDS("op=embedding vocabulary=20 features=6"), IDS("op=embedding vocabulary=20 features=3"),
	 2},
	{OF("0:3", "op=bag vocabulary=20 features=6"), OF("0:3", "op=bag vocabulary=4 features=6"),
	 8},
	{ROWS("0:12", "4", "op=positions"), ROWS("0:6", "2", "op=positions"), 1},
	{ROWS("0:12", "4", "op=positions"), ROWS("0:4", "4", "op=positions"), 1},
	{OF("0:8", "op=layernorm"), OF("0:4", "op=layernorm"), 4},
	{OF("0:8", "op=layernorm"), OF("0:8", "op=layernorm"), 0},
	{ROWS("0:24", "4", "op=groupnorm groups=3"), ROWS("0:8", "4", "op=groupnorm groups=1"), 4},
	{ROWS("0:24", "4", "op=batchnorm"), ROWS("0:8", "4", "op=batchnorm"), 4},
	{IMAGE("0:18", "features=6 kernel=3"), IMAGE("0:18", "features=2 kernel=3"), 2},
	{IMAGE("0:27", "features=4 kernel=2"), IMAGE("0:9", "features=4 kernel=2 bias=false"), 1},
};

/* Draws both, whose operators of these names are compared. */
static void check_values(const char *whole_text, const char *part_text, const char *name,
			 const char *part_name, int64_t first, const char *where)
{
	static float all[MOST], own[MOST];
	struct model w = {0}, p = {0};
	int k, origin;

	read_model(&w, whole_text);
	compile(&w, 0);
	read_model(&p, part_text);
	p.graph->whole = w.graph;
	for (int i = 0; i < p.graph->n_operators; i++)
		p.graph->operators[i].origin = i < w.graph->n_operators ? i : 0;
	k = find(p.graph, part_name), origin = find(w.graph, name);
	for (int i = 0; i < p.graph->n_operators; i++)
		if (p.graph->operators[i].n_parameters)
			tell_part(p.graph, i,
				  i == k ? origin : find(w.graph, p.graph->operators[i].name),
				  i == k ? first : 0);
	compile(&p, 0);
	ck_assert_int_le(w.program->n_parameters, MOST);
	orr_program_init(w.program, 5, all);
	orr_program_init(p.program, 5, own);
	for (int i = 0; i < p.graph->operators[k].instance->n_parameters; i++) {
		struct orr_pieces pieces = orr_whole_pieces(p.graph, k, i);
		struct orr_parameter_place here, there;

		ck_assert(orr_program_parameter(p.program, k, i, &here));
		ck_assert(orr_program_parameter(w.program, origin,
						orr_whole_parameter(p.graph, k, i), &there));
		ck_assert_int_eq(pieces.n * pieces.floats, here.end - here.first);
		for (int64_t n = 0; n < pieces.n; n++)
			for (int64_t c = 0; c < pieces.floats; c++)
				ck_assert_msg(!memcmp(&own[here.first + n * pieces.floats + c],
						      &all[there.first + pieces.first +
							   n * pieces.apart + c],
						      sizeof(float)),
					      "%s: tensor %d, float %lld of piece %lld", where, i,
					      (long long)c, (long long)n);
	}
	orr_program_destroy(w.program);
	orr_pipeline_destroy(w.pipeline);
	model_fini(&p);
}

START_TEST(a_part_begins_with_the_values_that_the_whole_has_there)
{
	check_values(parts[_i].whole, parts[_i].part, "p", "p", parts[_i].first, parts[_i].part);
}
END_TEST

/* The values are drawn as the first of those that share them, which another worker may have. */
#define TIED(vocabulary) \
	"digraph { x [op=input columns=\"0\"]; p [op=embedding vocabulary=" vocabulary \
	" features=6 share=words]; q [op=linear bias=false share=words features=" vocabulary \
	"]; c [op=input columns=\"1\"]; e [op=softmax_cross_entropy]; x -> p -> q -> e; c -> e }"
#define ALONE \
	"digraph { x [op=input columns=\"0:6\"]; q [op=linear bias=false features=5];" \
	" c [op=input columns=\"9\"]; e [op=softmax_cross_entropy]; x -> q -> e; c -> e }"

START_TEST(a_part_of_what_is_shared_begins_as_the_first_that_shares_it)
{
	check_values(TIED("20"), TIED("5"), "p", "p", 15, "the table");
	check_values(TIED("20"), TIED("5"), "q", "q", 15, "the product");
	check_values(TIED("20"), ALONE, "q", "q", 10, "the product alone");
	check_values(TIED("20"), ALONE, "p", "q", 10, "the product as the table");
}
END_TEST

START_TEST(any_number_of_cores_draws_the_same)
{
	struct model m = {0};
	size_t bytes;
	float *drawn[2];
	cpu_set_t all, one;

	read_model(&m, OF("0:7", "op=linear features=300000"));
	compile(&m, 0);
	bytes = (size_t)m.program->n_parameters * sizeof(float);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	for (size_t k = 0; !CPU_COUNT(&one); k++)
		if (CPU_ISSET(k, &all))
			CPU_SET(k, &one);
	for (int k = 0; k < 2; k++) {
		ck_assert_ptr_nonnull(drawn[k] = malloc(bytes));
		ck_assert_int_eq(sched_setaffinity(0, sizeof(one), k ? &one : &all), 0);
		orr_program_init(m.program, 5, drawn[k]);
	}
	(void)sched_setaffinity(0, sizeof(all), &all);
	ck_assert(!memcmp(drawn[0], drawn[1], bytes));
	free(drawn[0]);
	free(drawn[1]);
	model_fini(&m);
}
END_TEST

/* ---- what is dropped ---- */

#define DROPPED(n, shape) \
	"digraph { x [op=input columns=\"0:" n "\" " shape " stage=0]; l [op=layernorm stage=0];" \
	" d [op=dropout rate=0.4 stage=1]; m [op=linear features=1 stage=2];" \
	" t [op=input columns=\"0:" n "\" " shape " stage=2]; u [op=linear features=1 stage=2];" \
	" e [op=mse stage=2]; x -> l -> d -> m -> e; t -> u -> e }"
#define N 3 /* samples */

static const struct {
	const char *text;
	int64_t rows, columns;
	struct orr_portion portion;
} drops[] = {
	{DROPPED("10", "rows=2"), 2, 5, {0, 0, 6}}, {DROPPED("20", "rows=4"), 4, 5, {0, 2, 6}},
	{DROPPED("12", "rows=6"), 6, 2, {1, 0, 5}}, {DROPPED("18", "rows=6"), 6, 3, {1, 2, 5}},
	{DROPPED("30", "rows=6"), 6, 5, {0, 0, 0}}, {DROPPED("24", "rows=6"), 6, 4, {1, 1, 5}},
};

/* Its passes on that device: values of the output's gradient are those of the input. */
static void drop(const struct model *m, struct orr_device *d, float *x, float *y, float *dx)
{
	int64_t stash_floats = orr_program_stash_floats(m->program, N, false),
		scratch_floats = orr_program_scratch_floats(m->program, N);
	float *stash = staged_allocate(16, (size_t)(stash_floats + 1) * sizeof(*stash));
	float *scratch = staged_allocate(16, (size_t)(scratch_floats + 1) * sizeof(*scratch));
	const float *const in[] = {x};
	float *const out[] = {y}, *const gradient[] = {dx};

	ck_assert(stash && scratch);
	d->microbatch.seed = 9;
	d->microbatch.sample = 4;
	orr_program_forward(m->program, d, N, NULL, NULL, in, out, stash, scratch, NULL);
	orr_program_backward(m->program, d, ORR_PART_BOTH, N, 1, NULL, stash, NULL, false, in,
			     gradient, NULL, true, scratch);
	staged_wait(d);
	staged_free(stash);
	staged_free(scratch);
}

START_TEST(a_part_drops_what_the_whole_drops_there)
{
	int64_t rows = drops[_i].rows, columns = drops[_i].columns;
	const int64_t dims[] = {rows, columns};
	struct orr_pieces pieces = orr_portion_pieces(&drops[_i].portion, 2, dims);
	size_t bytes = N * 30 * sizeof(float);
	float *x = staged_allocate(16, bytes), *y = staged_allocate(16, bytes);
	float *dx = staged_allocate(16, bytes);
	float *own[3] = {staged_allocate(16, bytes), staged_allocate(16, bytes),
			 staged_allocate(16, bytes)};
	struct orr_device device = staged_device(ORR_PRECISION_FP32);
	struct model w = {0}, p = {0};
	int n_kept = 0;

	for (int i = 0; i < N * 30; i++)
		x[i] = (float)(i + 1);
	for (int s = 0; s < N; s++)
		for (int64_t i = 0; i < rows * columns; i++)
			own[0][s * rows * columns + i] =
				x[s * 30 + pieces.first + i / pieces.floats * pieces.apart +
				  i % pieces.floats];
	read_model(&w, DROPPED("30", "rows=6"));
	compile(&w, 1);
	read_model(&p, drops[_i].text);
	p.graph->whole = w.graph;
	for (int k = 0; k < p.graph->n_operators; k++)
		p.graph->operators[k].origin = find(w.graph, p.graph->operators[k].name);
	p.graph->operators[find(p.graph, "d")].instance->portion = drops[_i].portion;
	compile(&p, 1);
	drop(&w, &device, x, y, dx);
	drop(&p, &device, own[0], own[1], own[2]);
	for (int s = 0; s < N; s++)
		for (int64_t i = 0; i < rows * columns; i++) {
			int64_t at = s * 30 + pieces.first + i / pieces.floats * pieces.apart +
				     i % pieces.floats;

			n_kept += y[at] > 0;
			ck_assert_mem_eq(&own[1][s * rows * columns + i], &y[at], sizeof(float));
			ck_assert_mem_eq(&own[2][s * rows * columns + i], &dx[at], sizeof(float));
		}
	ck_assert_int_gt(n_kept, 0);
	ck_assert_int_lt(n_kept, N * rows * columns);
	staged_device_fini(&device);
	for (int i = 0; i < 3; i++)
		staged_free(own[i]);
	staged_free(x);
	staged_free(y);
	staged_free(dx);
	orr_program_destroy(w.program);
	orr_pipeline_destroy(w.pipeline);
	model_fini(&p);
}
END_TEST

/* ---- where they lie ---- */

static const struct {
	struct orr_portion portion;
	int n_dims;
	int64_t dims[4];
	struct orr_pieces pieces;
} lies[] = {
	{{0, 0, 0}, 1, {7}, {1, 7, 0, 7}},
	{{1, 0, 0}, 2, {3, 4}, {1, 12, 0, 12}},
	{{0, 3, 10}, 2, {2, 4}, {1, 8, 12, 40}},
	{{1, 3, 10}, 2, {2, 4}, {2, 4, 3, 10}},
	{{1, 2, 6}, 4, {5, 2, 3, 3}, {5, 18, 18, 54}},
	{{0, 1, 6}, 1, {2}, {1, 2, 1, 6}},
};

START_TEST(a_part_lies_in_pieces)
{
	struct orr_pieces p = orr_portion_pieces(&lies[_i].portion, lies[_i].n_dims, lies[_i].dims);

	ck_assert_int_eq(p.n, lies[_i].pieces.n);
	ck_assert_int_eq(p.floats, lies[_i].pieces.floats);
	ck_assert_int_eq(p.first, lies[_i].pieces.first);
	ck_assert_int_eq(p.apart, lies[_i].pieces.apart);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_part_lies_in_pieces, N_OF(lies)),
	EACH(a_part_begins_with_the_values_that_the_whole_has_there, N_OF(parts)),
	ONCE(a_part_of_what_is_shared_begins_as_the_first_that_shares_it),
	ONCE(any_number_of_cores_draws_the_same),
	EACH(a_part_drops_what_the_whole_drops_there, N_OF(drops)),
};
SUITE("parts")
