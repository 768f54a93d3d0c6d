#pragma once
/* A graph: the model in a file, operators and the tensors between them.
 *
 * Operators are numbered topologically, ties in file order, so a predecessor always has the
 * smaller number. A tensor has rows x columns float32 per sample; `width` is their product. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "orrery.h"

ORR_BEGIN

/* Attributes of the edge by which an operator reads another. Sizes are of one microbatch; -1: not
 * given. */
struct orr_read {
	int64_t bytes;          /* of the activation; replaces activation_bytes or the shape's */
	int64_t gradient_bytes; /* of its gradient; not given: as the activation */
	bool detached;          /* no gradient flows back */
};

struct orr_instance;

/* The collective among the workers of a split that an operator made by a rewrite is part of. */
enum orr_collective {
	ORR_COLLECTIVE_NONE,
	ORR_COLLECTIVE_REDUCE_SCATTER, /* from addends to parts of the sum */
	ORR_COLLECTIVE_ALL_GATHER,     /* from parts to copies */
	ORR_COLLECTIVE_ALL_TO_ALL      /* from parts to parts along another axis */
};

struct orr_operator {
	char *name;  /* owned; unique in the graph; with repeat=3: "layer.0" to "layer.2" */
	char *label; /* owned; its name in a drawing or a profile, or NULL */
	/* owned, private: its op with attributes and shapes; NULL: a study operator, with costs and
	 * nothing to compute */
	struct orr_instance *instance;
	int line;    /* of the file; 0: there is none */
	int encoder; /* index of its encoder (outermost subgraph), or -1 */
	int stage;   /* the stage that the file pins it to, or -1 */
	int *inputs; /* owned; operators that it reads, in the order of the file's edges */
	int n_inputs;
	struct orr_read *reads; /* owned; of each input; NULL: no edge has attributes */
	bool frozen;            /* its parameters are not trained */
	bool recompute;         /* given: what it makes is not kept; see orr_operator_again() */
	char *share;            /* owned: the name of its set of tied parameters, or NULL */
	int tied;               /* the first operator of that set; -1: its parameters are its own */
	/* Number of workers among which the file splits it, 0: not given; and whether operators
	 * between products are copied rather than split by rows. */
	int split;
	bool split_copied;
	/* In a split graph: the worker of the group, from 0; the operator of `whole` that it is, is
	 * a part of, or moves data for; and its collective. */
	int shard, origin;
	bool moves;
	enum orr_collective collective;
	/* Of its stage, see struct orr_gang: */
	bool gather;       /* it reads a whole minibatch */
	int n_gang, *gang; /* workers of a job, 0: not given; their numbers, owned, or NULL */
	char *with;        /* owned: the operator or encoder whose stage's worker it has; or NULL */
	/* Durations grow with this power of a microbatch's length, bytes with the length itself; 0:
	 * neither grows. Default 1. */
	double length_exponent;
	double mean_growth; /* of its durations over the graph's lengths; 1 without lengths */

	/* Its backward, found by orr_graph_find_gradients(): with neither gradient, it has none and
	 * no stash. */
	bool has_input_gradient;  /* something before it is trained */
	bool has_weight_gradient; /* it is trained, or has no parameters and comes after an
				     operator that is */

	/* Shapes, inferred and checked along every edge; 0 for a study operator. */
	int64_t width;    /* floats of its output, over all rows; 1 for a loss */
	int64_t rows;     /* of its output */
	int64_t *columns; /* of an input: owned; columns of the data, width of them; else NULL */
	char *tensor;     /* of an input: owned; the tensor that has these columns, or NULL */
	bool half;        /* its output and the gradient are kept and sent as bfloat16 */

	/* From the shapes. */
	int64_t n_parameters;   /* floats */
	int64_t forward_flops;  /* per sample */
	int64_t backward_flops; /* per sample: the input gradient */
	int64_t weight_flops;   /* per sample: the weight gradient */
	/* per sample: floats kept for a whole backward, for an input gradient alone, and, of these,
	 * those that the operator saves for itself; two bfloat16 values count as one */
	int64_t stash_floats, input_stash_floats, saved_floats;

	/* From the file, for one microbatch; -1: not given; study operators default to 0. With
	 * weight_ns, backward_ns is the input gradient; without, the whole backward. */
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

/* Are its FLOP known? If not, it counts as 0. */
bool orr_operator_is_counted(const struct orr_operator *o);

/* The factor of a loss in the sum that is trained, or of an input's columns. */
double orr_operator_factor(const struct orr_operator *o);

/* Attribute i of its op: its name, and its value as in a file. *usual: it is the default. NULL:
 * there is none. */
#define ORR_VALUE 64
const char *orr_operator_attribute(const struct orr_operator *o, int i, char value[ORR_VALUE],
				   bool *usual);
/* Op i of all: its name, and its attributes, "features=, bias=true", until the thread asks for 64
 * more texts. NULL: there is none. */
const char *orr_graph_op(int i, const char **text);
/* Parameter i: its name and its dimensions, row-major. NULL: there is none. */
const char *orr_operator_parameter(const struct orr_operator *o, int i, int *n_dims,
				   const int64_t **dims);
/* How it is updated: "weight", "spared" (without weight decay) or "averaged" (a running mean). */
const char *orr_operator_parameter_role(const struct orr_operator *o, int i);

/* Does it have trainable parameters? A study operator does, whatever its sizes. */
static inline bool orr_operator_has_parameters(const struct orr_operator *o)
{
	return orr_operator_is_study(o) || o->n_parameters > 0 || o->parameter_bytes > 0;
}

/* Size of a sample's output, in floats. */
static inline int64_t orr_operator_output_floats(const struct orr_operator *o)
{
	return o->half ? (o->width + 1) / 2 : o->width;
}

/* Bytes of its output for this number of samples, or as measured. */
static inline int64_t orr_operator_output_bytes(const struct orr_operator *o, int64_t samples)
{
	return o->activation_bytes >= 0
		       ? o->activation_bytes
		       : orr_operator_output_floats(o) * samples * (int64_t)sizeof(float);
}

/* Bytes of its parameters, from the file or else from the shapes. */
static inline int64_t orr_operator_parameter_bytes(const struct orr_operator *o)
{
	return o->parameter_bytes >= 0 ? o->parameter_bytes
				       : o->n_parameters * (int64_t)sizeof(float);
}

/* Does it count its parameters? Operators that share a set count it at the first of them. */
static inline bool orr_operator_counts(const struct orr_operator *o, int number)
{
	return o->tied < 0 || o->tied == number;
}

/* Does its edge from input k say that no gradient flows back? */
static inline bool orr_operator_is_detached(const struct orr_operator *o, int k)
{
	return o->reads && o->reads[k].detached;
}

/* Floats that it keeps for its backward, per sample. */
static inline int64_t orr_operator_stash_floats(const struct orr_operator *o)
{
	return o->has_weight_gradient  ? o->stash_floats
	       : o->has_input_gradient ? o->input_stash_floats
				       : 0;
}

/* Does the backward run its forward again, from inputs that are kept? */
static inline bool orr_operator_again(const struct orr_operator *o)
{
	return o->recompute && (o->has_input_gradient || o->has_weight_gradient);
}

struct orr_graph {
	char *name;   /* owned: the file's path, as UTF-8, or the study's text */
	char *folder; /* owned: the file's; NULL: there is no file */
	char *data;   /* owned: path of the data that data="..." names, made relative to the working
			 directory; or NULL */
	enum orr_precision precision; /* see orr_graph_set_precision() */
	int n_operators;
	struct orr_operator *operators; /* owned */
	int n_encoders;
	char **encoders; /* owned: names, never ""; in the order of their first operators */
	double *lengths; /* [n_lengths] owned; of a step's microbatches, divided by their mean */
	int n_lengths;   /* 0: all alike */
	int64_t overhead_ns;          /* added to every job; 0: none */
	int64_t samples;              /* of the microbatch that was measured; 0: not given */
	struct orr_profiled profiled; /* the hardware and precision of that measurement */
	bool units;                   /* the durations were plain numbers: one unit is one second */
	struct orr_graph *whole;      /* owned: before it was split; NULL: it was not */
};

/* Has it costs, and nothing to compute? All of its operators, or none. */
static inline bool orr_graph_is_study(const struct orr_graph *g)
{
	return orr_operator_is_study(&g->operators[0]);
}

/* The graph before any split, which names the tensors in files; and its operator that operator k is
 * or is a part of. */
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
/* The same from text in memory; messages begin with name. */
int orr_graph_parse(struct orr_graph **out, const char *name, const char *text,
		    struct orr_error *err);
void orr_graph_destroy(struct orr_graph *g); /* NULL is fine */

/* 16 hexadecimal digits that depend on everything that g computes or costs: operators, their names,
 * order, shapes, columns and scale of the data, parameters and given costs; not on paths, labels,
 * lines, encoders, pins or units. Plans record it, and ranks compare it. */
void orr_graph_fingerprint(const struct orr_graph *g, char text[24]);

/* Refuse data outside the folder of the graph's file, also through a link or "..". */
int orr_graph_check_data(const struct orr_graph *g, struct orr_error *err);

/* Find every operator's has_..._gradient from frozen operators and edges without a gradient.
 * Readers do so; call it after changing either. If there are any, a measured whole backward counts
 * half as input and half as weight gradient. Refuses a graph in which nothing is trained, and a
 * trained operator that no gradient reaches. */
int orr_graph_find_gradients(struct orr_graph *g, struct orr_error *err);

/* Set the precision, FP32 by default, before the graph is split or cut. In BF16 the outputs of
 * operators and their gradients are kept and sent as bfloat16 (half), except data, indices (expert
 * numbers), what an operator keeps for itself and, unless only products read it, what is made of
 * anything in float32: embeddings, positions, and the sums that join them. */
void orr_graph_set_precision(struct orr_graph *g, enum orr_precision precision);

/* Does a gradient flow back from operator i to its input k? */
bool orr_graph_has_gradient(const struct orr_graph *g, int i, int k);

/* Write g as DOT that reads back to the same graph. */
int orr_graph_write_dot(const struct orr_graph *g, FILE *file, struct orr_error *err);
/* The columns of an input, as in a file: 0:4,8:12 */
void orr_operator_write_columns(const struct orr_operator *o, FILE *file);

/* Costs of every operator of a study. */
struct orr_study_costs {
	int64_t forward_ns, backward_ns, weight_ns;
	int64_t activation_bytes, stash_bytes, parameter_bytes;
	bool units;
};
/* "F,B" or "F,B,W" into the durations and units: all plain numbers or all with a unit. `what`
 * begins the message. */
int orr_study_costs_parse(struct orr_study_costs *costs, const char *text, const char *what,
			  struct orr_error *err);
/* Set every study operator's costs. A negative field changes nothing, except that a backward
 * without a weight is the whole backward. Refuses a graph without study operators, and costs whose
 * sum over the graph does not fit. */
int orr_graph_set_costs(struct orr_graph *g, const struct orr_study_costs *costs,
			struct orr_error *err);

/* The microbatches of a step have these lengths, and the costs in g are those of their mean: one of
 * length l takes (l / mean) ^ length_exponent of an operator's durations and l / mean of its bytes.
 * Pipelines cut from g from here on have such a step. Refuses a length that is not above 0. */
int orr_graph_set_lengths(struct orr_graph *g, const double *lengths, int n, struct orr_error *err);
/* The factors of operator o's durations and of its bytes for microbatch b. */
double orr_operator_growth(const struct orr_graph *g, const struct orr_operator *o, int b);
double orr_operator_size_growth(const struct orr_graph *g, const struct orr_operator *o, int b);

/* ---- training data ---- */

/* A data set: rows of numbers, a sample a row, and the seeded order in which training sees them. It
 * is a CSV file, whose columns are kept in memory, or a .npy or .safetensors file, which is mapped:
 * its rows become floats as they are gathered. */

/* A tensor of the data: its first dimension is the rows, the others are a row's columns. */
struct orr_data_tensor {
	char *name; /* NULL: it has none, and is the only one */
	enum orr_element element;
	int64_t n_columns;
	int64_t *index_of; /* [n_columns] place of a column among a row's elements, -1: not kept;
			      NULL: all are, in order */
	int64_t n_kept;    /* columns kept, those that are read here */
	int64_t stride;    /* elements from a row to the next */
	const void *elements;
};

/* Columns to keep. */
struct orr_data_columns {
	const char *tensor; /* NULL: the only one */
	const int64_t *columns;
	int64_t n;
};

struct orr_dataset {
	char *path;                /* owned; for messages; NULL: of no file */
	int64_t n_rows, n_columns; /* of the file, all its tensors together */
	uint64_t checksum;         /* XXH3 of the file, columns that are not kept included: of all
				      rows of a CSV, line by line; of a mapped file see mapped.c */
	/* Of a CSV: as of its only tensor. */
	int64_t *index_of; /* owned */
	int64_t n_kept;
	float *values; /* owned; row by row */
	/* Of a mapped file: */
	int n_tensors;
	struct orr_data_tensor *tensors; /* owned, names and index_of, too */
	void *map;                       /* owned */
	size_t map_bytes;

	int64_t n_train, n_test;
	int64_t *train,
		*test; /* owned; row numbers. Every fifth row (0, 5, 10, ...) is the test set */
};

/* Read a CSV file of numbers (a first line without any number is a heading and is skipped), of less
 * than 64 GiB and lines of 256 MiB at most, or map a .npy or .safetensors file, told by its content
 * or its ending. Errors name file, line and column or tensor, and never quote a CSV. With columns
 * (else NULL and 0), only those of the n lists are kept; those that the file lacks are ignored. The
 * rest of a CSV's line is checked and dropped, so the whole file is never in memory; nothing else
 * of a mapped file is read. */
int orr_dataset_read(struct orr_dataset **out, const char *path,
		     const struct orr_data_columns *columns, int n, struct orr_error *err);
void orr_dataset_destroy(struct orr_dataset *data); /* NULL is fine */

/* The tensor of that name or, without a name, the only one; the data set owns its contents. false:
 * there is none. */
bool orr_dataset_find(struct orr_data_tensor *out, const struct orr_dataset *data,
		      const char *name);
/* Columns, which are kept, of n rows as floats, row by row. ORR_E_RUNTIME: a number is not finite
 * as a float, which a mapped file shows only when it is read. */
int orr_dataset_gather(const struct orr_dataset *data, const char *tensor, const int64_t *columns,
		       int64_t n_columns, const int64_t *rows, int64_t n, float *to,
		       struct orr_error *err);
/* Size of the columns kept. */
int64_t orr_dataset_bytes(const struct orr_dataset *data);

static inline int64_t orr_data_tensor_index(const struct orr_data_tensor *tensor, int64_t column)
{
	return tensor->index_of ? tensor->index_of[column] : column;
}

/* The rows that training sees, one after the other, are permutations of the training set, one an
 * epoch, drawn from the seed. Writes the n row numbers from position (which counts from the start
 * of training) on. Pure: position and seed decide, so that a restart needs no state. */
int orr_dataset_rows(const struct orr_dataset *data, uint64_t seed, int64_t position, int n,
		     int64_t *rows, struct orr_error *err);

ORR_END
