#include "small_model.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/machine.h"
#include "pipeline/partition.h"

void small_model_init(struct small_model *m, char *name)
{
	memset(m, 0, sizeof(*m));
	m->graph.name = name;
	m->graph.operators = m->operators;
}

static int append(struct small_model *m, const char *op)
{
	int k = m->graph.n_operators++;
	struct orr_operator *o = &m->operators[k];
	struct orr_instance *is;

	ck_assert_int_lt(k, SMALL_MODEL_MAX);
	(void)snprintf(m->names[k], sizeof(m->names[k]), "op%d", k);
	o->name = m->names[k];
	o->line = k + 1;
	o->encoder = o->stage = o->tied = -1;
	o->forward_ns = o->backward_ns = o->weight_ns = o->update_ns = -1;
	o->activation_bytes = o->stash_bytes = o->parameter_bytes = -1;
	o->inputs = m->inputs[k];
	if (!op)
		return k;
	ck_assert_ptr_nonnull(orr_op_find(op));
	ck_assert_ptr_nonnull(is = orr_instance_create(orr_op_find(op)));
	m->instances[k] = *is;
	o->instance = &m->instances[k];
	o->instance->inputs = m->shapes[k];
	free(is);
	return k;
}

/* As the readers do; a shape that they would refuse is left as it is. */
static void infer(struct small_model *m, int k)
{
	struct orr_operator *o = &m->operators[k];
	const char *names[4] = {""};
	struct orr_refusal why = {.inputs = names};

	o->instance->n_inputs = o->n_inputs;
	for (int i = 0; i < o->n_inputs; i++) {
		o->instance->inputs[i] = m->operators[o->inputs[i]].instance->output;
		names[i] = m->operators[o->inputs[i]].name;
	}
	(void)orr_instance_infer(o->instance, &why);
	o->width = orr_shape_floats(o->instance->output);
	o->rows = o->instance->output.rows;
	o->n_parameters = orr_instance_parameter_floats(o->instance);
}

int small_model_input(struct small_model *m, int64_t first, int64_t width, double scale)
{
	int k = append(m, "input");
	struct orr_operator *o = &m->operators[k];

	ck_assert_int_le(width, SMALL_MODEL_WIDTH);
	for (int64_t i = 0; i < width; i++)
		m->columns[k][i] = first + i;
	o->columns = m->columns[k];
	o->instance->output = (struct orr_shape){1, width};
	o->instance->values[0] = scale;
	infer(m, k);
	return k;
}

int small_model_add(struct small_model *m, const char *op, int64_t width, int a, int b)
{
	int k = append(m, op);
	struct orr_operator *o = &m->operators[k];

	m->inputs[k][o->n_inputs++] = a;
	if (b >= 0)
		m->inputs[k][o->n_inputs++] = b;
	o->width = width;
	o->rows = 1;
	if (op && strcmp(op, "linear") == 0)
		o->instance->values[0] = (double)width;
	if (op)
		infer(m, k);
	return k;
}

void small_model_read(struct small_model *m, const char *text)
{
	struct orr_error err = {""};

	ck_assert_msg(!orr_graph_parse(&m->read, m->graph.name, text, &err), "%s", err.msg);
	m->graph = *m->read;
}

void small_model_fini(struct small_model *m)
{
	orr_graph_destroy(m->read);
}

void small_model_detach(struct small_model *m, int k, int i)
{
	struct orr_operator *o = &m->operators[k];

	if (!o->reads)
		for (int j = 0; j < 4; j++)
			m->reads[k][j] = (struct orr_read){-1, -1, false};
	o->reads = m->reads[k];
	o->reads[i].detached = true;
}

struct orr_pipeline *small_model_cut(const struct small_model *m, const int *stage_of)
{
	struct orr_machine machine = orr_machine_default(1);
	struct orr_graph g = m->graph; /* of which nothing changes but what is found here */
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};
	int n_stages = 0;

	for (int k = 0; k < g.n_operators; k++)
		n_stages = stage_of[k] >= n_stages ? stage_of[k] + 1 : n_stages;
	ck_assert_msg(!orr_graph_find_gradients(&g, &err), "%s", err.msg);
	ck_assert_msg(!orr_partition_as(&p, &m->graph, &machine, stage_of, n_stages, 1, &err), "%s",
		      err.msg);
	return p;
}

/* xorshift64* */
double small_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (double)(*state * UINT64_C(0x2545f4914f6cdd1d) >> 11) * 0x1p-52 - 1.0;
}

float *small_filled(int64_t n, uint64_t seed)
{
	float *x = malloc((size_t)(n + 1) * sizeof(*x));

	ck_assert_ptr_nonnull(x);
	for (int64_t i = 0; i < n; i++)
		x[i] = seed ? (float)small_random(&seed) : NAN;
	return x;
}

void small_data(float *values, int64_t rows, int64_t columns, int64_t class_column,
		int64_t n_classes, uint64_t seed)
{
	for (int64_t i = 0; i < rows * columns; i++) {
		int64_t r = i / columns;

		values[i] = (float)small_random(&seed);
		if (i % columns == class_column)
			values[i] = (float)((r * 7 + r / 3) % n_classes);
	}
}

void small_model_around(struct small_model *m, const char *op, int64_t in, int64_t width,
			int64_t out)
{
	int x = small_model_input(m, 0, in, 1.5), target = small_model_input(m, 20, out, 1.0);
	int a = small_model_add(m, "linear", width, x, -1), b = -1;

	if (strcmp(op, "add") == 0 || strcmp(op, "concat") == 0)
		b = small_model_add(m, "linear", width, a, -1);
	a = small_model_add(m, op, width, a, b);
	small_model_add(m, "mse", 0, small_model_add(m, "linear", out, a, -1), target);
}

void small_model_classes(struct small_model *m, int64_t in, int64_t n_classes)
{
	int x = small_model_input(m, 0, in, 1.0),
	    class = small_model_input(m, SMALL_MODEL_CLASS, 1, 1.0);

	x = small_model_add(m, "linear", n_classes, x, -1);
	small_model_add(m, "softmax_cross_entropy", 0, x, class);
}

void small_model_towers(struct small_model *m)
{
	int a = small_model_input(m, 0, 7, 0.0625), b = small_model_input(m, 8, 5, 1.0);
	int left = small_model_add(m, "relu", 0, small_model_add(m, "linear", 9, a, -1), -1);
	int right = small_model_add(m, "gelu", 0, small_model_add(m, "linear", 9, b, -1), -1);
	int class, target, scores, trunk, other;

	right = small_model_add(m, "layernorm", 0, right, -1);
	trunk = small_model_add(m, "add", 0, left, right);
	trunk = small_model_add(m, "concat", 0, trunk, right);
	small_model_add(m, "linear", 4, trunk, -1); /* nobody reads it */
	trunk = small_model_add(m, "linear", 12, trunk, -1);
	trunk = small_model_add(m, "add", 0, trunk, trunk);
	trunk = small_model_add(m, "relu", 0, trunk, -1);
	scores = small_model_add(m, "linear", 5, trunk, -1);
	class = small_model_input(m, SMALL_MODEL_CLASS, 1, 1.0);
	small_model_add(m, "softmax_cross_entropy", 0, scores, class);
	other = small_model_add(m, "linear", 3, trunk, -1);
	small_model_add(m, "mse", 0, other, small_model_add(m, "linear", 3, left, -1));
	other = small_model_add(m, "linear", 2, b, -1);
	target = small_model_input(m, 20, 2, 3.0);
	small_model_add(m, "mse", 0, other, target);
	small_model_add(m, "mse", 0, target, small_model_input(m, 25, 2, 1.0));
}
