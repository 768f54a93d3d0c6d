#pragma once
/* A draft: a graph as its reader found it, in the order of the file and before `repeat` is
 * unfolded. Private to the readers: they fill drafts, orr_draft_finish makes the graph. */
#include "codelets/operator.h"
#include "orrery/graph.h"

#define ORR_MOST_OPERATORS 1000000 /* in a graph, repeats unfolded */
#define ORR_MOST_EDGES 10000000
#define ORR_MOST_SPLIT 1024  /* workers that an operator is split among */
#define ORR_MOST_EXPONENT 10 /* length_exponent */

/* A subgraph. */
struct orr_draft_block {
	char *name; /* owned; in the messages */
	int line;
	int parent;    /* a block with a smaller number, or -1 */
	char *encoder; /* owned: the name of the encoder that it is, or NULL */
	int64_t repeat;
	bool frozen;
	int split; /* of struct orr_operator; the innermost that says it; 0: not said */
	bool split_copied;
	double length_exponent; /* -1: not set; so too an operator's and the graph's */
};

struct orr_draft_operator {
	/* name, label, line, op with its attributes, stage and costs; the rest comes later */
	struct orr_operator is;
	int block; /* or -1 */
	int64_t repeat;
};

struct orr_draft_edge {
	int from, to;
	int read; /* reads[read] is what the file says of it, which edges may share; -1: nothing */
};

struct orr_draft {
	char *name;                   /* owned; of the graph */
	char *data;                   /* owned; path of its data, or NULL */
	int64_t overhead_ns, samples; /* see graph.h */
	struct orr_profiled profiled;
	double length_exponent; /* of the whole graph */
	bool units;
	struct orr_draft_operator *operators; /* owned */
	int n_operators, operator_room;
	struct orr_draft_edge *edges; /* owned */
	int n_edges, edge_room;
	struct orr_read *reads;         /* owned; number of them: the reader's */
	struct orr_draft_block *blocks; /* owned */
	int n_blocks, block_room;
	int code;              /* of the first failure: nothing is added after it, */
	struct orr_error *err; /* nor written here */
};

int orr_draft_init(struct orr_draft *draft, const char *name, struct orr_error *err);
void orr_draft_fini(struct orr_draft *draft);

/* Free what o owns. */
void orr_operator_fini(struct orr_operator *o);

/* As orr_fail(), of the draft: returns its code. */
int orr_draft_fail(struct orr_draft *draft, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int orr_draft_no_memory(struct orr_draft *draft);
/* The same of what has returned this code, and its message in draft->err, or 0. */
int orr_draft_keep(struct orr_draft *draft, int code);

/* Each adds one, copying its strings; its number is the previous n_.... An operator comes as a
 * study operator without costs (forward, backward and sizes 0, weight -1), in no block; NULL where
 * the draft has failed, as for a block. */
struct orr_draft_operator *orr_draft_add_operator(struct orr_draft *draft, const char *name);
void orr_draft_add_edge(struct orr_draft *draft, int from, int to, int read);
struct orr_draft_block *orr_draft_add_block(struct orr_draft *draft, const char *name, int parent,
					    const char *encoder);

/* Unfold every repeat: afterwards each is 1. */
int orr_draft_unfold(struct orr_draft *draft);

/* Number topologically, refuse cycles and double edges, infer shapes, unless the draft has failed.
 * Takes its contents, which is empty afterwards but must still be finished with. */
int orr_draft_finish(struct orr_graph **out, struct orr_draft *draft);

/* Skip the mark of byte order, which some editors write; refuse what is no UTF-8. name stands in
 * the message. */
int orr_text_check(const char **text, const char *name, struct orr_error *err);
/* A text may hold line breaks where a message quotes it: put it on one line. Returns code. */
int orr_text_fail(int code, struct orr_error *err);

/* The readers. text ends with a zero. */
void orr_dot_read(struct orr_draft *draft, const char *text);
bool orr_pipedream_is(const char *text);
void orr_pipedream_read(struct orr_draft *draft, const char *text);
bool orr_study_is(const char *text);
void orr_study_read(struct orr_draft *draft, const char *text);

/* Shapes, from the operators in topological order with their inputs; see shapes.c. */
int orr_graph_infer(struct orr_graph *g, struct orr_error *err);
/* Refuse costs whose sum over the graph could overflow later. */
int orr_graph_check_sums(const struct orr_graph *g, struct orr_error *err);

/* "4" or "4:copied", a split; what begins the message. */
int orr_attribute_split(int *t, bool *copied, const char *text, const char *what,
			struct orr_error *err);
/* "file.dot:12: node fc1", the start of a message; see orr_text(). */
const char *orr_location(const char *file, int line, const char *operator);
/* Refuse o of the graph of that name as the input that it is: why, in the manner of printf, after
 * its place in the file. */
int orr_operator_fail(const char *graph, const struct orr_operator *o, struct orr_error *err,
		      const char *why, ...) __attribute__((format(printf, 4, 5)));
