#pragma once
/* Graphs built by hand, so that what computes is tested without what reads files; with data to
 * match, and cut into stages as the test says. */
#include <stdint.h>
#include "codelets/operator.h"
#include "orrery/graph.h"
#include "orrery/pipeline.h"

#define SMALL_MODEL_MAX 24
#define SMALL_MODEL_WIDTH 64

struct small_model {
	struct orr_graph graph; /* borrows all that follows */
	struct orr_graph *read; /* or this, of small_model_read(), which small_model_fini() frees */
	struct orr_operator operators[SMALL_MODEL_MAX];
	char names[SMALL_MODEL_MAX][16];
	int inputs[SMALL_MODEL_MAX][4];
	struct orr_read reads[SMALL_MODEL_MAX][4];
	int64_t columns[SMALL_MODEL_MAX][SMALL_MODEL_WIDTH];
	struct orr_instance instances[SMALL_MODEL_MAX];
	struct orr_shape shapes[SMALL_MODEL_MAX][4];
};

void small_model_init(struct small_model *m, char *name);
/* Columns [first, first + width) of the data, times scale. These return the operator's number. */
int small_model_input(struct small_model *m, int64_t first, int64_t width, double scale);
/* op: NULL: a study operator. width: of a linear; the others find theirs. b: second input, or -1.
 */
int small_model_add(struct small_model *m, const char *op, int64_t width, int a, int b);

/* All of it from the text of a DOT file. */
void small_model_read(struct small_model *m, const char *text);
void small_model_fini(struct small_model *m);

/* No gradient flows back from operator k to its input i. */
void small_model_detach(struct small_model *m, int k, int i);

#define SMALL_MODEL_CLASS 39 /* the column of the classes */
/* input -> linear -> op -> linear -> loss: the first linear's weights show op's input gradient. */
void small_model_around(struct small_model *m, const char *op, int64_t in, int64_t width,
			int64_t out);
/* Straight into the loss of classes. */
void small_model_classes(struct small_model *m, int64_t in, int64_t n_classes);
/* All of it: encoders, skips, a tensor read twice by one operator, a target that is computed,
 * several losses, an input and a class that a later stage reads too, a branch and a loss that teach
 * nothing. */
void small_model_towers(struct small_model *m);

/* stage_of: of every operator; what has a gradient follows from what is frozen. */
struct orr_pipeline *small_model_cut(const struct small_model *m, const int *stage_of);

/* A repeatable number in [-1, 1). */
double small_random(uint64_t *state);
/* n of them; seed 0: NaN, as poison. */
float *small_filled(int64_t n, uint64_t seed);
/* rows x columns in [-1, 1), but column class_column holds whole numbers in [0, n_classes). */
void small_data(float *values, int64_t rows, int64_t columns, int64_t class_column,
		int64_t n_classes, uint64_t seed);
