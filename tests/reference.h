#pragma once
/* Training as the textbook has it: operator after operator, sample after sample, plain loops,
 * double precision. It
 * shares no code with codelets/ and src/runtime/, so that both being wrong in the same way takes
 * two mistakes.
 *
 * Parameters are in the order of the operators; linear: weights [out][in], then bias; layernorm:
 * gain, then bias. The loss is the mean over the samples, summed over the graph's losses. */
#include <stdint.h>

struct orr_graph;

int64_t reference_n_parameters(const struct orr_graph *g);

/* What is drawn in a pass: from which seed, and the number of its first sample, counted from the
 * first step on, which reference_train counts. */
extern struct reference_draws {
	uint64_t seed;
	int64_t first;
} reference_draws;

/* One forward and backward. */
struct reference_pass {
	double loss;
	int64_t correct, classified;
	double *gradient; /* [n_parameters] */
	double **outputs; /* of every operator, n rows of its width */
	double **slopes;  /* the loss's derivatives by them */
};

/* rows: n row numbers of values, which has n_columns columns. 0, or -1 without memory. */
int reference_pass_create(struct reference_pass **out, const struct orr_graph *g,
			  const float *values, int64_t n_columns, const int64_t *rows, int64_t n,
			  double *parameters);
/* Its loss alone; NaN: no memory. */
double reference_loss(const struct orr_graph *g, const float *values, int64_t n_columns,
		      const int64_t *rows, int64_t n, double *parameters);
void reference_pass_destroy(struct reference_pass *pass); /* NULL is fine */

/* In the order of enum orr_optimizer. */
enum reference_kind {
	REFERENCE_ADAMW,
	REFERENCE_ADAM,
	REFERENCE_MOMENTUM,
	REFERENCE_SGD,
	REFERENCE_NONE
};

struct reference_rule {
	enum reference_kind kind;
	double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
};

/* One update; state: two doubles a parameter, zero before step 1. */
void reference_update(const struct reference_rule *rule, int64_t step, int64_t n,
		      double *parameters, double *state, const double *gradient);

/* Train what is not frozen: rows holds steps * batch row numbers. parameters: in, initial; out,
 * trained. losses (may be NULL): of every step, before its update. 0, or -1 without memory. */
int reference_train(const struct orr_graph *g, const float *values, int64_t n_columns,
		    const int64_t *rows, int64_t batch, int64_t steps,
		    const struct reference_rule *rule, double *parameters, double *losses);
