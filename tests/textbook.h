#pragma once
/* (private to reference.c and textbook_*.c) One sample after the other, in double: what an
 * operator's forward sees. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "codelets/operator.h"
#include "orrery/graph.h"

/* One sample: x[i] and dx[i] are the rows of operator k's inputs, y and dy those of its output, p
 * its parameters and dp their gradient. */
struct sample {
	const struct orr_graph *g;
	const struct orr_operator *o;
	double *p, *dp, **outputs, **slopes;
	double *lost; /* where gradients go that do not flow back: as wide as anything */
	int64_t r, n; /* of so many samples */
	double share; /* of this sample in the mean */
	int moved;    /* input `moved` is `copy`, where that is not NULL */
	double *copy;
};

static inline int64_t width_of(const struct sample *t, int i)
{
	return t->g->operators[t->o->inputs[i]].width;
}

static inline double *x_of(const struct sample *t, int i)
{
	if (t->copy && i == t->moved)
		return t->copy;
	return t->outputs[t->o->inputs[i]] + t->r * width_of(t, i);
}

static inline double *dx_of(const struct sample *t, int i)
{
	if (t->o->reads && t->o->reads[i].detached)
		return t->lost;
	return t->slopes[t->o->inputs[i]] + t->r * width_of(t, i);
}

/* Rows and columns of input i. */
static inline struct orr_shape shape_of(const struct sample *t, int i)
{
	return t->o->instance->inputs[i];
}

static inline bool is(const struct sample *t, const char *op)
{
	return strcmp(orr_operator_op(t->o), op) == 0;
}

/* The value of an attribute. */
static inline double said(const struct sample *t, const char *name)
{
	const struct orr_op *op = t->o->instance->op;
	const struct orr_attribute *a = op->attributes;

	while (strcmp(a->name, name) != 0)
		a++;
	return t->o->instance->values[orr_op_value(op, a)];
}

/* Does row r have a class? */
static inline bool counts(const struct sample *t, int64_t r)
{
	return fabs(x_of(t, 1)[r] - said(t, "ignore")) > 0.5;
}

/* ---- textbook_images.c ---- */
void textbook_conv2d(const struct sample *t, double *y);
void textbook_pool(const struct sample *t, double *y);
void textbook_patches(const struct sample *t, double *y);
void textbook_groupnorm(const struct sample *t, double *y);
void textbook_batchnorm(const struct sample *t, double *y);
void textbook_batchnorm_back(const struct sample *t, const double *dy);

/* ---- textbook_experts.c ---- */
struct reference_pass; /* reference.h */
void textbook_softmax_part(const struct sample *t, double *y);
void textbook_parts_entropy(const struct sample *t, double *y);
void textbook_count_parts(const struct sample *t, struct reference_pass *pass);
void textbook_route(const struct sample *t, double *y);
void textbook_dispatch(const struct sample *t, double *y);
void textbook_combine(const struct sample *t, double *y);
void textbook_balance(const struct sample *t, double *y);
void textbook_count_choices(const struct sample *t, struct reference_pass *pass);
