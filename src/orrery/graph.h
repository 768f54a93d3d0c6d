#ifndef ORR_GRAPH_H
#define ORR_GRAPH_H
/* A graph: the model as its file says it, operators and the tensors between them.
 *
 * Operators are numbered topologically, in the order of the file where that leaves a choice, so a
 * predecessor always has the smaller number. A tensor has rows x columns a sample, in float32;
 * `width` is how many floats that are. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "error.h"
#include "numerics.h"

ORR_BEGIN

/* What the file says of an edge, by which an operator reads another. A size is of one microbatch;
 * -1: not said. */
struct orr_read {
	int64_t bytes;          /* of the activation, in place of activation_bytes or the shape's */
	int64_t gradient_bytes; /* of its gradient; not said: as the activation */
	bool detached;          /* no gradient flows back */
};

struct orr_instance;

/* Of an operator that a rewrite made: it is a part of a collective among the workers of a split. */
enum orr_collective {
	ORR_COLLECTIVE_NONE,
	ORR_COLLECTIVE_REDUCE_SCATTER, /* each adds up a part of what all have addends of */
	ORR_COLLECTIVE_ALL_GATHER,     /* each puts together what all have parts of */
	ORR_COLLECTIVE_ALL_TO_ALL      /* each puts together a part of it, along another axis */
};

struct orr_operator {
	char *name;  /* owned; unique in the graph; with repeat=3: "layer.0" to "layer.2" */
	char *label; /* owned; what a drawing or a profile calls it, or NULL */
	/* owned: its op with attributes and shapes (codelets/operator.h); NULL: a study operator,
	 * with costs and nothing to compute */
	struct orr_instance *instance;
	int line;    /* of the file, 0 where there is none */
	int encoder; /* index of its encoder (outermost subgraph), or -1 */
	int stage;   /* the stage that the file pins it to, or -1 */
	int *inputs; /* owned; operators that it reads, in the order of the file's edges */
	int n_inputs;
	struct orr_read *reads; /* owned; of each input; NULL where the file says nothing of them */
	bool frozen;            /* its parameters are not trained */
	char *share;            /* owned: the name of its set of tied parameters, or NULL */
	int tied;               /* the first operator of that set; -1: its parameters are its own */
	/* How the file splits it, see rewrite.h: among how many workers, 0: not said; and whether
	 * what lies between products is copied rather than split by rows. */
	int split;
	bool split_copied;
	/* Of a graph that was split: which worker of its stage's computes it, from 0; the operator
	 * of `whole` that it is or is a part of, or that it only moves something for; and the
	 * collective that it is a worker's part of. */
	int shard, origin;
	bool moves;
	enum orr_collective collective;
	/* Of the stage that it is in, see struct orr_gang: */
	bool gather;       /* it reads a whole minibatch */
	int n_gang, *gang; /* workers of a job, 0: not said; which, owned, or NULL */
	char *with;        /* owned: an operator or an encoder, with whose stage it is; or NULL */
	/* Its durations grow with the length of a microbatch to this power, its bytes with the
	 * length itself; neither with 0. 1 unless the file says. */
	double length_exponent;
	double mean_growth; /* of its durations, over the lengths of the graph; 1: it has none */

	/* What its backward computes, found by orr_graph_find_gradients(): with neither, it has
	 * none and keeps nothing for one. */
	bool has_input_gradient;  /* something before it is trained */
	bool has_weight_gradient; /* it is trained, or without parameters of its own and after
				     what is */

	/* Shapes, inferred and checked along every edge; 0 of a study operator. */
	int64_t width;    /* floats of its output, over all rows; 1 for a loss */
	int64_t rows;     /* of its output */
	int64_t *columns; /* of an input: owned; columns of the data, width of them; else NULL */
	char *tensor;     /* of an input: owned; the tensor of the data that they are of, or NULL */
	bool half;        /* its output, and the gradient of it, are kept and sent as bfloat16 */

	/* From the shapes; per sample for what grows with the minibatch. */
	int64_t n_parameters;   /* floats */
	int64_t forward_flops;  /* per sample */
	int64_t backward_flops; /* per sample: the input gradient */
	int64_t weight_flops;   /* per sample: the weight gradient */
	/* per sample: floats that a whole backward reads of the forward, and that the input
	 * gradient alone reads; two values that are kept as bfloat16 take the place of one */
	int64_t stash_floats, input_stash_floats;

	/* As the file gives them, of one microbatch; -1 where it does not. Of a study operator
	 * always given (default 0). backward_ns is the whole backward unless weight_ns is given:
	 * then it is the input gradient. */
	int64_t forward_ns, backward_ns, weight_ns;
	int64_t update_ns;        /* of its parameters, once a step */
	int64_t activation_bytes; /* of the output, along every edge out of it */
	int64_t stash_bytes;
	int64_t parameter_bytes;
};

static inline bool orr_operator_is_study(const struct orr_operator *o)
{
	return !o->instance;
}
bool orr_operator_is_input(const struct orr_operator *o); /* columns of the data */
bool orr_operator_is_loss(const struct orr_operator *o);
const char *
orr_operator_op(const struct orr_operator *o); /* "linear"; of a study operator "cost" */

/* Are its operations known? Else it counts as none. */
bool orr_operator_is_counted(const struct orr_operator *o);

/* Of a loss: what it and its gradient are multiplied by in the sum of losses that is trained; of
 * an input: what its columns are multiplied by. */
double orr_operator_factor(const struct orr_operator *o);

/* Attribute i of its op, in the order of messages: its name, and its value as a file says it.
 * usual: what it is where the file says nothing. NULL: there is none. */
#define ORR_VALUE 64
const char *orr_operator_attribute(const struct orr_operator *o, int i, char value[ORR_VALUE],
				   bool *usual);
/* Op i of all that there are: its name, and what it may be told, "features=, bias=true", in text.
 * NULL: there is none. */
const char *orr_graph_op(int i, char *text, size_t size);
/* Parameter i: its name and its dimensions, row-major, as they lie one behind the other. NULL:
 * there is none. */
const char *orr_operator_parameter(const struct orr_operator *o, int i, int *n_dims,
				   const int64_t **dims);
/* How it is updated: "weight", "spared" by weight decay, or "averaged", a running mean. */
const char *orr_operator_parameter_role(const struct orr_operator *o, int i);

/* Has it any that could be trained? A study operator counts, whatever sizes it gives. */
static inline bool orr_operator_has_parameters(const struct orr_operator *o)
{
	return orr_operator_is_study(o) || o->n_parameters > 0 || o->parameter_bytes > 0;
}

/* Floats in whose place a sample's output is kept. */
static inline int64_t orr_operator_output_floats(const struct orr_operator *o)
{
	return o->half ? (o->width + 1) / 2 : o->width;
}

/* Bytes of its output for this number of samples; measured ones stay as they are. */
static inline int64_t orr_operator_output_bytes(const struct orr_operator *o, int64_t samples)
{
	return o->activation_bytes >= 0
		       ? o->activation_bytes
		       : orr_operator_output_floats(o) * samples * (int64_t)sizeof(float);
}

/* Of its parameters: as the file says, or else as the shapes make them. */
static inline int64_t orr_operator_parameter_bytes(const struct orr_operator *o)
{
	return o->parameter_bytes >= 0 ? o->parameter_bytes
				       : o->n_parameters * (int64_t)sizeof(float);
}

/* Operators that share parameters have one set of them, which counts where the first one is. */
static inline bool orr_operator_counts(const struct orr_operator *o, int number)
{
	return o->tied < 0 || o->tied == number;
}

/* Does its edge from input k say that no gradient flows back? */
static inline bool orr_operator_is_detached(const struct orr_operator *o, int k)
{
	return o->reads && o->reads[k].detached;
}

/* What its backward reads of the forward, per sample. */
static inline int64_t orr_operator_stash_floats(const struct orr_operator *o)
{
	return o->has_weight_gradient  ? o->stash_floats
	       : o->has_input_gradient ? o->input_stash_floats
				       : 0;
}

struct orr_graph {
	char *name;    /* owned: the file's path, as UTF-8, or the study's text */
	char *folder;  /* owned: where the file is; NULL: it is none */
	char *data;    /* owned: path of the data that the file names with data="...", relative to
			  itself there and to the working directory here; or NULL */
	char *weights; /* owned: path of the file that has its weights, a model in ONNX: itself; or
			  NULL */
	enum orr_precision precision; /* see orr_graph_set_precision() */
	int n_operators;
	struct orr_operator *operators; /* owned */
	int n_encoders;
	char **encoders;     /* owned: names, "" never; in the order of their first operators */
	double *lengths;     /* [n_lengths] owned; of the microbatches of a step, by their mean */
	int n_lengths;       /* 0: all alike */
	int64_t overhead_ns; /* of starting a job, beside what its operators take; 0: none */
	int64_t samples;     /* of the microbatch that was measured; 0: not said */
	bool units;          /* the durations were plain numbers: one unit is one second */
	struct orr_graph *whole; /* owned: before it was split; NULL: it was not */
};

/* The graph before any split, of which tensors in files have their names; and its operator that
 * operator k is, or is a part of. */
static inline const struct orr_graph *orr_graph_whole(const struct orr_graph *g)
{
	return g->whole ? g->whole : g;
}
static inline int orr_graph_origin(const struct orr_graph *g, int k)
{
	return g->whole ? g->operators[k].origin : k;
}

/* Read a model: a DOT file in UTF-8, a profile of PipeDream's (told by its content), or a study
 * graph such as chain:8 or towers:3,3/2, which needs no file. *out is owned by the caller. */
int orr_graph_read(struct orr_graph **out, const char *source, struct orr_error *err);
/* The same from text in memory; name stands in the messages. */
int orr_graph_parse(struct orr_graph **out, const char *name, const char *text,
		    struct orr_error *err);
void orr_graph_destroy(struct orr_graph *g); /* NULL is fine */

/* 16 hexadecimal digits that change with whatever g computes or costs: its operators, their names,
 * order, shapes, columns and scale of the data, parameters and given costs. Where the file and the
 * data lie, labels, lines, encoders, pins and units do not count. Plans keep it, and ranks compare
 * it. */
void orr_graph_fingerprint(const struct orr_graph *g, char text[24]);

/* Whoever wrote the file may name data in its folder alone, by no link or .. elsewhere: refuse
 * others. */
int orr_graph_check_data(const struct orr_graph *g, struct orr_error *err);

/* Find every operator's has_..._gradient from what is frozen and from the edges without a gradient.
 * Readers have done so; call it after a change of either. Where there is any, a measured whole
 * backward counts as half input and half weight gradient. Refuses a graph in which nothing is
 * trained, and an operator that is trained and that no gradient reaches. */
int orr_graph_find_gradients(struct orr_graph *g, struct orr_error *err);

/* What is computed in this precision: in BF16 what operators leave is kept and sent in half, but
 * for the data, what counts or points (expert numbers) and what an operator keeps of its own. FP32
 * until it is said; before the graph is cut. A graph that is split of it says the same. */
void orr_graph_set_precision(struct orr_graph *g, enum orr_precision precision);

/* Does a gradient flow back from operator i to its input k? */
bool orr_graph_has_gradient(const struct orr_graph *g, int i, int k);

/* Write g as DOT that reads back to the same graph. */
int orr_graph_write_dot(const struct orr_graph *g, FILE *file, struct orr_error *err);
/* The columns of an input, as a file says them: 0:4,8:12 */
void orr_operator_write_columns(const struct orr_operator *o, FILE *file);

/* What every operator of a study costs. */
struct orr_study_costs {
	int64_t forward_ns, backward_ns, weight_ns;
	int64_t activation_bytes, stash_bytes, parameter_bytes;
	bool units;
};
/* "F,B" or "F,B,W" into the durations and units: all plain numbers or all with a unit. what begins
 * the message. */
int orr_study_costs_parse(struct orr_study_costs *costs, const char *text, const char *what,
			  struct orr_error *err);
/* Set every study operator's costs. A negative field leaves what is there, but a backward without a
 * weight is the whole backward.
 * Refuses a graph without study operators, and costs whose sum over the graph does not fit. */
int orr_graph_set_costs(struct orr_graph *g, const struct orr_study_costs *costs,
			struct orr_error *err);

/* The microbatches of a step have these lengths, and the costs in g are those of their mean: one of
 * length l takes (l / mean) ^ length_exponent of an operator's durations and l / mean of its bytes.
 * Pipelines cut from g from here on have such a step. Refuses a length that is not above 0. */
int orr_graph_set_lengths(struct orr_graph *g, const double *lengths, int n, struct orr_error *err);
/* What operator o's durations, or its bytes, are multiplied by for microbatch b. */
double orr_operator_growth(const struct orr_graph *g, const struct orr_operator *o, int b);
double orr_operator_size_growth(const struct orr_graph *g, const struct orr_operator *o, int b);

ORR_END
#endif
