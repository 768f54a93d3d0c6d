#pragma once
/* (private to compile.c) What is known of the operators of a graph while a stage of it is compiled.
 */
#include "codelets/program_layout.h"
#include "orrery/graph.h"
#include "orrery/pipeline.h"

/* What is known of an operator while its stage is compiled. */
struct orr_note {
	bool learns;  /* it or something before it has parameters that are trained with it */
	bool matters; /* a loss comes after it, from which a gradient comes back */
	bool data;    /* an input that the stage reads */
	bool read;    /* by the stage at hand or, of its own operators, by the edge at hand */
	bool stashed; /* the backward of this stage reads its output, */
	bool left;    /* W among it */
	bool slope;   /* only a loss here reads it, which leaves its slope in its place, and there
			 the gradient is, too */
	int relu;     /* of an operator that computes the relu behind it, too: that one; else 0 */
	bool returns; /* a gradient of it comes back over the edge at hand */
	int reader;   /* the last operator there whose gradient comes back, or -1 */
	int last;     /* the last operator of the stage that reads its value, while it is there */
	bool written; /* a turn before has written its gradient */
	int layer;    /* its layer, or -1 */
	int n_reads;  /* by all operators */
	int loss;     /* losses before it */
	struct orr_tensor value, gradient;
	struct orr_tensor received; /* its value, as it comes over an edge */
};

/* A gradient that comes back over an edge, at its reader's turn. */
struct orr_arrival {
	int reader, operator;
	struct orr_tensor from;
};

/* Columns of scratch, each given to one tensor after the other. */
struct orr_scratch_places {
	struct orr_held {
		int64_t first, end;
	} * held; /* by place; owned, room for all that are held at once */
	int n;
	int64_t most; /* columns that were ever given */
};

struct orr_compiler {
	const struct orr_pipeline *pipeline;
	const struct orr_graph *graph;
	int s;
	struct orr_program *program;
	struct orr_note *notes; /* [n_operators] */
	bool *reads;            /* [n_operators][n_stages] does the stage read its output? */
	struct orr_arrival *arrivals;
	int n_arrivals;
	struct orr_scratch_places places; /* of scratch: of the forward, then of the backward */
	struct orr_arrays all;            /* what the program does not keep */
};

static inline bool is_here(const struct orr_compiler *c, int k)
{
	return c->pipeline->stage_of[k] == c->s;
}

static inline bool is_active(const struct orr_compiler *c, int k)
{
	return c->notes[k].learns && c->notes[k].matters;
}

/* The operator whose output is what k computes. */
static inline int result_of(const struct orr_compiler *c, int k)
{
	return c->notes[k].relu ? c->notes[k].relu : k;
}

/* Does another operator compute it? */
static inline bool is_taken(const struct orr_compiler *c, int k)
{
	const struct orr_operator *o = &c->graph->operators[k];

	return o->n_inputs && c->notes[o->inputs[0]].relu == k;
}

static inline bool is_trained(const struct orr_operator *o)
{
	return o->n_parameters > 0 && !o->frozen;
}

/* Can operator k be computed? */
int orr_program_check_operator(const struct orr_graph *g, int k, struct orr_error *err);

/* Which operators learn, matter to a loss, are data that the stage reads, compute the relu behind
 * them, and whose outputs the backward of the stage reads. Refuses what cannot be computed. */
int orr_compile_study(struct orr_compiler *c, struct orr_error *err);
/* Mark the outputs of stage `from` that stage `to` reads. Gradients go back as the pipeline says:
 * zeros where nothing before has parameters. */
void orr_compile_mark_edge(struct orr_compiler *c, int from, int to);
/* Which of n outputs of several readers, by their numbers, carries what operator k makes; -1: none.
 */
int orr_compile_find_output(const struct orr_compiler *c, int k, const int *outputs, int n);
