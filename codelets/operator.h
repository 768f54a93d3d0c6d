#pragma once
/* What an operator is: a descriptor, in a file of its own in operators/. Readers, compiler,
 * programs, profiles, checkpoints and planners walk descriptors, and none of them has a case for
 * one of them.
 *
 * A tensor has rows x columns a sample, and a sample's rows lie one after the other: n samples are
 * a matrix of n * rows rows, row-major. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct orr_call;   /* call.h */
struct orr_device; /* device.h */
struct orr_op;
struct orr_rounding; /* device.h */

#define ORR_MOST_COLUMNS 10000000 /* and rows, and what else an attribute counts of them */
/* Of a sample's tensor, 1 TiB of floats: what a graph counts with ORR_MOST_COLUMNS columns of
 * weights for each of them fits an int64_t. What fits a host is asked where it trains. */
#define ORR_MOST_FLOATS (INT64_C(1) << 38)

struct orr_shape {
	int64_t rows, columns;
};

/* No more than a sum of several can hold. */
static inline int64_t orr_shape_floats(struct orr_shape s)
{
	const int64_t most = INT64_MAX / 64;

	return s.rows > most / (s.columns ? s.columns : 1) ? most : s.rows * s.columns;
}

/* The floats whose place this many values take, two bfloat16 in one. */
static inline int64_t orr_stored_floats(int64_t values, bool half)
{
	return half ? (values + 1) / 2 : values;
}

/* What a file may say of an operator besides what it may say of any. */
enum orr_attribute_form {
	ORR_ATTRIBUTE_COUNT,   /* a whole number from least to most */
	ORR_ATTRIBUTE_REAL,    /* a number from least to most */
	ORR_ATTRIBUTE_TRUTH,   /* true or false: 1 or 0 */
	ORR_ATTRIBUTE_CHOICE,  /* its place among the choices */
	ORR_ATTRIBUTE_RANGE,   /* "2:6": two values, the first and the one behind the last, which is
				  -1 where the file says nothing */
	ORR_ATTRIBUTE_COLUMNS, /* "0:4,8": columns of the data, kept by the graph; no value */
	ORR_ATTRIBUTE_TEXT     /* kept by the graph; no value */
};

struct orr_attribute {
	const char *name;
	enum orr_attribute_form form;
	double least, most;
	double otherwise;    /* where the file says nothing */
	const char *choices; /* "sum, mean" */
	const char *missing; /* the message where it must be said, above 0; NULL: it need not */
};

/* Attributes of a descriptor: a number from least to most, and what it is where the file has none;
 * a count, 1 or more, that the file must have. */
#define ORR_COUNT(NAME, LEAST, MOST, OTHERWISE) \
	{ \
		NAME, ORR_ATTRIBUTE_COUNT, LEAST, MOST, OTHERWISE, 0, 0 \
	}
#define ORR_REAL(NAME, LEAST, MOST, OTHERWISE) \
	{ \
		NAME, ORR_ATTRIBUTE_REAL, LEAST, MOST, OTHERWISE, 0, 0 \
	}
#define ORR_NEEDED(NAME, MOST, SAY) \
	{ \
		NAME, ORR_ATTRIBUTE_COUNT, 1, MOST, 0, 0, NAME " is missing: say " SAY \
	}

/* The first attribute of every loss. */
#define ORR_LOSS_WEIGHT ORR_REAL("weight", 0, 1e9, 1)
extern const struct orr_attribute orr_loss_attributes[]; /* that one alone */
/* What a norm adds, so that it never divides by 0. */
#define ORR_EPSILON(value) ORR_REAL("epsilon", 1e-30, 1, value)

/* [first, first + its own length) along an axis of something whole, which is `of` long there; of 0:
 * it is whole itself. */
struct orr_portion {
	int axis;
	int64_t first, of;
};

/* How a part lies in the whole: n pieces of `floats` floats each, which here lie one behind the
 * other and there begin at first, first + apart and so on. */
struct orr_pieces {
	int64_t n, floats, first, apart;
};

/* How its values begin, and how an update treats them. */
enum orr_initial { ORR_INITIAL_CONSTANT, ORR_INITIAL_UNIFORM, ORR_INITIAL_NORMAL };
enum orr_role {
	ORR_ROLE_WEIGHT,  /* trained, and decays */
	ORR_ROLE_SPARED,  /* trained, and weight decay spares it: a bias, a gain */
	ORR_ROLE_AVERAGED /* a running mean of what W leaves in place of its gradient */
};

struct orr_parameter_tensor {
	const char *name; /* "weight"; in checkpoints "operator.weight" */
	enum orr_role role;
	enum orr_initial initial;
	double value; /* CONSTANT: it; UNIFORM: in +-value; NORMAL: its deviation */
	int n_dims;   /* of the tensor, row-major */
	int64_t dims[4];
	double momentum;            /* AVERAGED: the part that a step's mean has, above 0 */
	struct orr_portion portion; /* of a part of a split operator: dims and values are its own,
				 initial values those of the whole tensor at that place */
};

#define ORR_MOST_VALUES 8
#define ORR_MOST_PARAMETER_TENSORS 4

/* An op with its attributes and shapes: the op, its values and its inputs' shapes are given, the
 * rest is what infer() makes of them; of what grows with the minibatch it is a sample's. */
struct orr_instance {
	const struct orr_op *op;
	double values[ORR_MOST_VALUES]; /* see orr_op_value() */
	int n_inputs;
	struct orr_shape *inputs; /* [n_inputs] owned */

	struct orr_shape output; /* 1 x 1 for a loss */
	int n_parameters;
	struct orr_parameter_tensor
		parameters[ORR_MOST_PARAMETER_TENSORS]; /* one behind the other in memory */
	int64_t saved;   /* floats of its own that the forward leaves to the backward */
	int64_t rounded; /* bfloat16 that round() makes of its parameters */
	bool floats;     /* of an op with `halves`: this one's kernels take floats alone */
	int64_t forward_flops, backward_flops, weight_flops;
	struct orr_portion portion; /* of a part of a split operator: which rows (0) or columns (1)
				       it outputs */
};

/* How a tensor lies on the workers among which its operator is split [Xu21]. */
enum orr_sharding {
	ORR_SHARDING_COPIED,  /* each has all of it */
	ORR_SHARDING_ROWS,    /* worker i has the i-th part of each sample's rows */
	ORR_SHARDING_COLUMNS, /* of its columns */
	ORR_SHARDING_SUM,     /* each has an addend */
	ORR_SHARDING_NONE     /* one has it, the first unless it is an expert's */
};
#define ORR_MOST_DIVIDED 4
#define ORR_DIVISION_COPIED (-1) /* of a parameter: each has all of it, and they are tied */
#define ORR_DIVISION_FIRST (-2)  /* the first has it */

/* Why an operator is refused. */
struct orr_refusal {
	const char *const *inputs; /* the names of what it reads */
	char text[320];
};

/* One way to split an operator among workers. Of lists the last said counts for what comes after.
 */
struct orr_division {
	int n_inputs; /* said below */
	enum orr_sharding inputs[ORR_MOST_DIVIDED];
	enum orr_sharding output;
	int axes[ORR_MOST_PARAMETER_TENSORS]; /* of each parameter, along which it is split; or
						 ORR_DIVISION_... */
	/* attributes: those that are split, features, heads; that says where the part of the first
	 * of these begins; that is false on all but the first worker */
	const char *divided[2], *first, *once;
	bool evenly;       /* into equal parts alone */
	const char *where; /* (optional) only where this attribute is above 0, or is not */
	bool is;
};

/* In BF16, what is kept of its output. */
enum orr_output {
	ORR_OUTPUT_AS_READ, /* float32 if anything that it reads is */
	ORR_OUTPUT_HALF,    /* bfloat16: a product, which also rounds what it reads */
	ORR_OUTPUT_FLOAT,   /* float32: a sum with its parameters, or rows of them */
	ORR_OUTPUT_EXACT    /* float32: it counts or points at something */
};

/* What a backward reads of the forward besides `saved`. */
#define ORR_READS_INPUTS 1u
#define ORR_READS_OUTPUT 2u

struct orr_op {
	const char *name; /* "linear"; in a file op=linear */
	/* columns of the data: it computes nothing, and its first attribute is their scale */
	bool input;
	/* costs and nothing to compute: of any size, not trained, and it may end a model */
	bool opaque;
	bool loss; /* ends a model; its first attribute is its weight */
	/* of a loss: what it saves, a number for each of its first input's and bfloat16 where that
	 * is, may lie where that does, and the gradient too: each pass reads before it writes */
	bool in_place;
	bool whole_minibatch; /* it reads every microbatch of its inputs: gather=minibatch */
	enum orr_output kept;
	bool halves; /* its kernels take bfloat16 where a device does (struct orr_kernels) */
	/* its kernels take a mix: a norm's that reads floats, a sum of two with one in floats,
	 * which is in floats */
	bool mixes;
	bool moves; /* its output has values of its inputs as they are */
	bool draws; /* its passes are other ones for other samples: random numbers */
	bool is_relu;
	/* Its passes compute a relu behind it, too, where struct orr_layer says so. */
	bool takes_relu;
	int least_inputs, most_inputs; /* most 0: no limit */
	const char *inputs; /* of several that differ: "first the scores and then the class" */
	const struct orr_attribute *attributes; /* ends with a name of NULL; NULL: none */
	unsigned backward_reads, weight_reads;  /* for the input gradients, for the weights' */

	int64_t flops[3]; /* of F, B and W, for each float of the first input */
	bool alike;       /* its inputs must have one shape */
	bool slope_saved; /* it saves the derivative by its first input */
	/* (optional) Correct and complete what orr_instance_infer() fills in by the above: output,
	 * parameters, saved, flops. false: refused, by orr_refuse(), which says what is wrong and
	 * the cure. */
	bool (*infer)(struct orr_instance *is, struct orr_refusal *why);

	/* A call's passes; NULL where there is nothing to do. F writes the output and `saved`;
	 * backward writes the gradient of every input that has a place for it, and that of the
	 * parameters where it is wanted, with the same bits together or apart. */
	void (*forward)(const struct orr_call *c);
	void (*backward)(const struct orr_call *c);
	/* (optional) It adds the gradient of its parameters to what is there itself, with the bits
	 * of one that is computed in room for so many floats and then added. Without it all of
	 * that gradient is computed apart, and then added. */
	int64_t (*apart)(const struct orr_instance *is);

	/* (optional) Input i holds whole numbers from 0 to this, not included; 0: any numbers. What
	 * comes from the data is looked at before it is used, and a loss's must come from there. */
	int64_t (*n_ids)(const struct orr_instance *is, int i);
	/* (optional) Does this id mean "none"? none: the ids that always do, in messages */
	bool (*is_none)(const struct orr_instance *is, int i, double id);
	const char *none;
	/* (optional) Memory that its passes need on n samples, where that is more than what a
	 * device wants for rows of its input; the matrices of its parameters that are rounded once
	 * a version for products in BF16, to `to` one behind the other, and how many they are; and
	 * making ready for n samples. */
	size_t (*workspace)(const struct orr_instance *is, const struct orr_device *d, int64_t n);
	int (*round)(const struct orr_instance *is, const float *parameters, uint16_t *to,
		     struct orr_rounding *pieces);
	void (*prepare)(const struct orr_instance *is, struct orr_device *d, int64_t n);
	/* (optional) How it may be split, [n_divisions], the best first where they cost the same;
	 * without any each worker computes all of it, a loss the first. */
	const struct orr_division *divisions;
	int n_divisions;
	/* (optional) Of a loss whose first input lies by columns: what each worker makes of its
	 * own, and the loss that reads all of these beside each other, with the last input of this
	 * one. Attributes of one name have one value; `first` is where a worker's columns begin,
	 * and `classes` how many there are in all. */
	const struct orr_op *part, *joined;
	/* The operators from one that begins (its attribute `expert` says which) to one that ends
	 * are an expert: each worker may have some of them, whole. */
	bool expert_begins, expert_ends;
	bool drops; /* a loss that counts, in place of classes, rows that no expert took */
};

/* (operators/list.c) All of them, and how many; by name, NULL: there is none. */
extern const struct orr_op *const orr_ops[];
extern const int orr_n_ops;
const struct orr_op *orr_op_find(const char *name);
/* Where the value of its attribute a is: in their order, a range taking two places. */
int orr_op_value(const struct orr_op *op, const struct orr_attribute *a);
/* The value of its attribute of that name, or the first of two; NULL: it has none, or no name is
 * given. */
double *orr_instance_value(struct orr_instance *is, const char *name);

int64_t orr_parameter_floats(const struct orr_parameter_tensor *p);
/* Of a row-major tensor with these dimensions, which is that part of another. */
struct orr_pieces orr_portion_pieces(const struct orr_portion *p, int n_dims, const int64_t *dims);
int64_t orr_instance_parameter_floats(const struct orr_instance *is);
/* An instance of op with nothing said; the caller frees it with its inputs. NULL: no memory. */
struct orr_instance *orr_instance_create(const struct orr_op *op);
/* A copy, which owns its inputs; false: no memory. */
bool orr_instance_copy(struct orr_instance *to, const struct orr_instance *from);

/* Fills in all that follows from its values and inputs; false: refused, as text says. */
bool orr_instance_infer(struct orr_instance *is, struct orr_refusal *why);

/* How many inputs a descriptor reads; most 0: no limit. */
#define ORR_READS(least, most) .least_inputs = (least), .most_inputs = (most)
/* Of a way: its first input, and those behind it, lie as its output does. */
#define ORR_LIES(sharding) .n_inputs = 1, .inputs = {sharding}, .output = (sharding)
/* The ways of a descriptor: all of an array. */
#define ORR_DIVIDED(list) .divisions = (list), .n_divisions = sizeof(list) / sizeof(*(list))
/* Of an operator that takes each float for itself. */
extern const struct orr_division orr_divisions_alike[3];
/* Of one that takes each row for itself, without parameters. */
extern const struct orr_division orr_divisions_rows[2];

/* ---- for infer() ---- */
/* A parameter of one dimension, spared by weight decay: a bias of 0, a gain of 1. */
struct orr_parameter_tensor orr_parameter_vector(const char *name, int64_t count, double value);
void orr_instance_add(struct orr_instance *is, struct orr_parameter_tensor parameter);
/* Have inputs i and j one width, or one shape? what: "keys and values of ", or nothing. */
bool orr_instance_same_width(const struct orr_instance *is, int i, int j, struct orr_refusal *why);
bool orr_instance_same_shape(const struct orr_instance *is, int i, int j, const char *what,
			     struct orr_refusal *why);
/* Can its operations be counted? They are told as a double, which does not overflow. */
bool orr_instance_counts(const struct orr_instance *is, double operations, struct orr_refusal *why);
/* Writes the message; returns false. */
__attribute__((format(printf, 2, 3))) bool orr_refuse(struct orr_refusal *why, const char *format,
						      ...);
