#ifndef ORR_ONNX_H
#define ORR_ONNX_H
/* What reading a model in ONNX keeps besides the draft. Private to the reader.
 *
 * A tensor's dimensions are ONNX's. Of a batch without a number one sample is read; costs are
 * divided by the samples that a file fixes. An activation is a view of what an operator of the
 * draft writes, samples of rows of columns: element (i, k, ...) lies at
 * at + i * strides[0] + k * strides[1] + ... of it. */
#include <onnx.pb-c.h>
#include <stdbool.h>
#include <stdint.h>
#include "model/draft.h"
#include "orrery/element.h"

#define ORR_ONNX_MOST_DIMS 8
#define ORR_ONNX_MOST_VALUES 4096            /* of a tensor whose values matter, such as a shape */
#define ORR_ONNX_MOST_FLOATS 1000000000000ll /* of a tensor */

struct orr_onnx_tensor {
	const char *name; /* borrowed, of the model */
	bool known;       /* its shape */
	int n_dims;
	int64_t dims[ORR_ONNX_MOST_DIMS];
	bool real;       /* floating-point numbers */
	bool constant;   /* no input of the model changes it */
	int64_t *values; /* owned: all its whole numbers, where they are few and known; else NULL */
	/* of a constant of real numbers in the file: itself; of one that is made of it alone, such
	 * as its transpose, that one: parameters */
	struct orr_onnx_tensor *weight;
	bool part;  /* of such a constant: a view of `weight`, by `at` and `strides` */
	bool apart; /* and cut off it */
	const Onnx__TensorProto *proto; /* of a constant in the file: borrowed, that */
	bool counted;                   /* as parameters of an operator */
	bool live;                      /* an output of the model needs it */
	int n_readers;                  /* live nodes, and outputs of the model */
	int made_by;                    /* the node, or -1 */
	int is;                         /* the operator of which it is a view, or -1 */
	int64_t rows, columns;          /* of that, a sample */
	int64_t at, strides[ORR_ONNX_MOST_DIMS];
};

struct orr_onnx_pattern;
struct orr_onnx_source;

struct orr_onnx {
	struct orr_draft *draft;         /* borrowed */
	const Onnx__GraphProto *graph;   /* borrowed */
	int64_t version;                 /* of the set of operators */
	int64_t samples;                 /* of the batch */
	int64_t n_columns;               /* of the data, that inputs have so far */
	struct orr_onnx_tensor *tensors; /* owned; sorted by name */
	int n_tensors;
	const Onnx__ValueInfoProto **types; /* owned; shapes that the file gives, sorted by name */
	int n_types;
	struct orr_onnx_source *sources; /* owned; of the operators so far */
	int n_sources;
	bool *done;    /* owned; [n_node] nodes that need no operator of their own */
	bool *claimed; /* owned; [n_node] nodes that are parts of a pattern, before its last one */
	struct orr_onnx_pattern *patterns; /* owned; the last of the file first */
	int n_patterns;
	int64_t budget; /* of numbers that may still be worked out */
};

/* ---- wire.c: bytes -> message ---- */
/* path is of the model; the files beside it that it names are seen (orrery/input.h). */
int orr_onnx_unpack(Onnx__ModelProto **out, const char *name, const void *bytes, size_t n,
		    struct orr_error *err);
void orr_onnx_free(Onnx__ModelProto *model); /* NULL is fine */
/* What a tensor says of the file beside the model that it lies in; NULL: nothing. */
const char *orr_onnx_external(const Onnx__TensorProto *t, const char *key);
/* The folder of the model, and the path there of that file; the caller's to free. false: no memory.
 */
bool orr_onnx_beside(char **folder, char **path, const char *model, const char *location);

/* ---- read.c: message -> draft ---- */
/* *sources, where it is asked for: the caller's to free. */
int orr_onnx_read_model(struct orr_draft *draft, const Onnx__ModelProto *model,
			struct orr_onnx_source **sources, int *n_sources, struct orr_error *err);

/* ---- tensors.c: the tensors by name ---- */
int orr_onnx_tensors_init(struct orr_onnx *x, struct orr_error *err);
void orr_onnx_tensors_fini(struct orr_onnx *x);
/* NULL: there is none, or no name. */
struct orr_onnx_tensor *orr_onnx_find(const struct orr_onnx *x, const char *name);
int64_t orr_onnx_floats(const struct orr_onnx_tensor *t); /* all of it, as real numbers that fit */
bool orr_onnx_set_values(struct orr_onnx_tensor *t, const int64_t *values, int64_t n);
/* The numbers of a TensorProto, as far as they are whole, few and in the file. */
void orr_onnx_take_values(struct orr_onnx_tensor *t, const Onnx__TensorProto *from);
/* Shape and kind of a TensorProto; false: it has none that could be. */
bool orr_onnx_take_shape(struct orr_onnx_tensor *t, const Onnx__TensorProto *from);
/* The type that the file gives it; false: not all its dimensions are known. */
bool orr_onnx_take_type(struct orr_onnx *x, struct orr_onnx_tensor *t,
			const Onnx__ValueInfoProto *from);

/* ---- node.c: a node, with what it reads and writes; its attributes ---- */
#define ORR_ONNX_MOST_READ 128 /* of a node's inputs, and of its outputs */
struct orr_onnx_node {
	const Onnx__NodeProto *proto;
	int number;
	const struct orr_onnx_op *op;                   /* NULL: not known */
	struct orr_onnx_tensor *in[ORR_ONNX_MOST_READ]; /* NULL: left out */
	struct orr_onnx_tensor *out[ORR_ONNX_MOST_READ];
	int n_in, n_out;   /* of its body, if it has one, what that reads from outside comes last */
	bool more;         /* than that many */
	const char *wrong; /* why there can be no such, by its rule; NULL: nothing */
};
int64_t orr_onnx_int(const struct orr_onnx_node *n, const char *name, int64_t otherwise);
double orr_onnx_real(const struct orr_onnx_node *n, const char *name, double otherwise);
bool orr_onnx_is_text(const struct orr_onnx_node *n, const char *name, const char *text);
/* Whole numbers of an attribute; how many, 0 where it has none. */
int orr_onnx_ints(const struct orr_onnx_node *n, const char *name, const int64_t **ints);
const Onnx__AttributeProto *orr_onnx_attribute(const struct orr_onnx_node *n, const char *name);
/* What the bodies of If, Loop and Scan read from outside, as further inputs. */
void orr_onnx_read_bodies(struct orr_onnx_node *n, const struct orr_onnx *x);
/* The axis, from 0, of one that may be counted from the end; -1: there is no such. */
int orr_onnx_axis(int64_t axis, int n_dims);

/* ---- operators.c: what is known of ONNX's operators ---- */
struct orr_onnx_op {
	const char *name;
	/* Shapes, and values where they are whole numbers, of the outputs from the inputs; false:
	 * it cannot be said. */
	bool (*infer)(struct orr_onnx_node *n);
	enum orr_onnx_measure {
		ORR_ONNX_OUTPUT, /* so many operations a float of the output */
		ORR_ONNX_INPUT,  /* a float of the input */
		ORR_ONNX_WINDOW, /* a float of the output and a pixel that the window sees */
		ORR_ONNX_MATMUL, /* products */
		ORR_ONNX_GEMM,
		ORR_ONNX_CONV,
		ORR_ONNX_CONV_BACK,
		ORR_ONNX_RECURRENT
	} measure;
	double forward, backward;
	enum { ORR_ONNX_NOTHING, ORR_ONNX_INPUTS, ORR_ONNX_ITSELF } keeps; /* for the backward */
};
/* Node `number`, with its tensors. */
void orr_onnx_node(struct orr_onnx_node *n, const struct orr_onnx *x, int number);

/* ---- cost.c: operations of all samples ---- */
struct orr_onnx_cost {
	double forward, backward,
		weight; /* operations: of F, of the input gradient, of the weights' */
	double kept;    /* floats that the backward reads */
};
struct orr_onnx_cost orr_onnx_cost(const struct orr_onnx_node *n);

/* ---- inputs.c: the batch, and an operator for each input that an output needs ---- */
int orr_onnx_add_inputs(struct orr_onnx *x, struct orr_error *err);

/* What the numbers of a tensor of the file are, and where its n numbers lie as bytes, *step from
 * one to the next; NULL: not all of them are there. */
bool orr_onnx_element(const Onnx__TensorProto *t, enum orr_element *element);
const void *orr_onnx_numbers(const Onnx__TensorProto *t, enum orr_element element, int64_t n,
			     int64_t *step);
#endif
