#ifndef ORR_ONNX_RULES_H
#define ORR_ONNX_RULES_H
/* What nodes become operators that compute: rules for one node, patterns of several, and what both
 * ask of activations and constants. */
#include "infer.h"

struct orr_onnx_like;

/* ---- add.c: operators of the draft ---- */
/* A new one, the last; NULL with err filled. label: NULL: none. line: the node's number from 1, or
 * 0. */
struct orr_operator *orr_onnx_add(struct orr_onnx *x, const char *op, const char *name,
				  const char *label, int line, struct orr_error *err);
void orr_onnx_set(struct orr_operator *o, const char *attribute, double value);
/* What a node is called: its name, or its output. */
const char *orr_onnx_name(const Onnx__NodeProto *node);
const char *orr_onnx_kind(const Onnx__NodeProto *node);
/* A parameter of an operator, and what it is of the file. */
struct orr_onnx_source {
	char *name;                     /* owned, once operators have their names; or NULL */
	int is;                         /* the operator of the draft */
	const char *parameter;          /* of it, "weight" */
	const Onnx__TensorProto *proto; /* borrowed, of the model */
	int n_dims;
	int64_t dims[4], at, strides[4]; /* here, and where each of them lies there */
};

/* Its weights, of the last operator, are sources. */
int orr_onnx_add_sources(struct orr_onnx *x, const struct orr_onnx_like *like,
			 struct orr_error *err);
/* From the operators of what a node reads, each once, to the last one. */
int orr_onnx_add_edges(struct orr_onnx *x, const struct orr_onnx_node *n, struct orr_error *err);
int orr_onnx_no_memory(const struct orr_onnx *x, struct orr_error *err);
/* Names of nodes need not be unique, or differ from those of tensors: later ones get a number. */
int orr_onnx_name_apart(struct orr_onnx *x, struct orr_error *err);

/* ---- like.c: operators that have their like here ---- */
/* What a node is here: an op and its values; NULL: it has no like. */
struct orr_onnx_like {
	const char *op;
	const char *why; /* it has no like, where its kind alone does not say; or NULL */
	struct {
		const char *name;
		double value;
	} values[8];
	int n_values;
	int64_t rows, columns;            /* of its output */
	const struct orr_onnx_tensor *as; /* its output's dimensions lie as those of this */
	bool channels;                    /* or the second one's are its columns */
	int also;                         /* a node that it includes, or -1 */
	struct {
		const char *name; /* of the parameter that it becomes */
		const struct orr_onnx_tensor *tensor;
		int n_dims; /* here: ONNX may have dimensions of 1 before them */
	} weights[4];
	int n_weights;
	bool turned; /* the first: its columns are the rows of the tensor */
};
bool orr_onnx_like(struct orr_onnx_like *like, struct orr_onnx *x, const struct orr_onnx_node *n);
/* The next parameter of the operator is this one, of n_dims dimensions here. */
void orr_onnx_take(struct orr_onnx_like *like, const char *name, const struct orr_onnx_tensor *t,
		   int n_dims);
/* Can it be a parameter of that many dimensions and floats? */
bool orr_onnx_is_weight(const struct orr_onnx_tensor *t, int n_dims, int64_t floats);

/* ---- view.c: activations as views ---- */
struct orr_onnx_box {
	int64_t row, column, rows, columns; /* of each sample */
};
/* All of what an operator writes, in the order of its dimensions; or with the second one as its
 * columns, as an image's channels; or, where no dimension but the last is another, as `as`. */
void orr_onnx_lay(struct orr_onnx_tensor *t, int64_t rows, int64_t columns);
void orr_onnx_lay_channels(struct orr_onnx_tensor *t, int64_t rows, int64_t columns);
void orr_onnx_lay_as(struct orr_onnx_tensor *t, const struct orr_onnx_tensor *as, int64_t rows,
		     int64_t columns);
/* All of it, each once? With rows and columns as the operator has them? Or images with channels? */
bool orr_onnx_is_whole(const struct orr_onnx *x, const struct orr_onnx_tensor *t);
bool orr_onnx_is_plain(const struct orr_onnx *x, const struct orr_onnx_tensor *t);
bool orr_onnx_is_channels(const struct orr_onnx *x, const struct orr_onnx_tensor *t);
/* Of a part of a weight: do its numbers lie in their order? */
bool orr_onnx_is_plain_part(const struct orr_onnx_tensor *t);
/* Some rows and columns of it? Or heads of attention, of which the last two dimensions are rows
 * and columns, or turned? */
bool orr_onnx_is_box(const struct orr_onnx *x, const struct orr_onnx_tensor *t,
		     struct orr_onnx_box *box);
bool orr_onnx_is_heads(const struct orr_onnx *x, const struct orr_onnx_tensor *t, bool turned,
		       struct orr_onnx_box *box, int64_t *heads);
/* Output k of a node that moves, whose shape is known, as a view; false: it is none. */
bool orr_onnx_view(struct orr_onnx_tensor *out, const struct orr_onnx_tensor *in,
		   const struct orr_onnx_node *n, int k);
/* t becomes an operator's own: some rows and columns of another's. */
int orr_onnx_cut(struct orr_onnx *x, struct orr_onnx_tensor *t, const struct orr_onnx_box *box,
		 struct orr_error *err);

/* ---- number.c: constants of real numbers ---- */
/* The one number of a constant; false: it is not known. */
bool orr_onnx_number(struct orr_onnx *x, const struct orr_onnx_tensor *t, float *number);
/* Does a mask let row i see columns 0 to i? It is true where it shows them, or hides them; or it is
 * added, 0 or next to minus infinity. */
enum orr_onnx_mask { ORR_ONNX_SHOWS, ORR_ONNX_HIDES, ORR_ONNX_ADDED };
bool orr_onnx_is_causal(struct orr_onnx *x, const struct orr_onnx_tensor *mask,
			enum orr_onnx_mask kind, int64_t rows, int64_t columns);

/* ---- pattern.c: nodes that are one operator here ---- */
#define ORR_ONNX_MOST_INNER 16
struct orr_onnx_pattern {
	enum orr_onnx_pattern_kind {
		ORR_ONNX_ATTENTION,
		ORR_ONNX_LAYERNORM,
		ORR_ONNX_RMSNORM,
		ORR_ONNX_GELU,
		ORR_ONNX_GELU_TANH,
		ORR_ONNX_NORMALISE
	} kind;
	struct orr_onnx_tensor *in[3]; /* what it reads: of attention queries, keys, values */
	struct orr_onnx_tensor *gain, *bias;
	double scale; /* of attention's scores */
	bool causal;
	double epsilon;
	int last;
	int inner[ORR_ONNX_MOST_INNER]; /* the nodes before that */
	int n_inner;
};
/* Is node n the last of such? */
bool orr_onnx_find_pattern(struct orr_onnx_pattern *p, struct orr_onnx *x,
			   const struct orr_onnx_node *n);
/* (attention.c) */
bool orr_onnx_find_attention(struct orr_onnx_pattern *p, struct orr_onnx *x,
			     const struct orr_onnx_node *n);
/* (operators.c) The node that makes t, a `kind` whose output nothing else reads; it becomes an
 * inner one of p. */
bool orr_onnx_made_by(struct orr_onnx_pattern *p, const struct orr_onnx *x,
		      const struct orr_onnx_tensor *t, const char *kind,
		      struct orr_onnx_node *node);
/* An operator of the draft for it; *added: false: how its inputs lie does not allow it. */
int orr_onnx_add_pattern(struct orr_onnx *x, struct orr_onnx_node *n,
			 const struct orr_onnx_pattern *p, bool *added, struct orr_error *err);
int orr_onnx_add_attention(struct orr_onnx *x, struct orr_onnx_node *n,
			   const struct orr_onnx_pattern *p, bool *added, struct orr_error *err);
#endif
