/* Unfolding `repeat`. Every operator lies in nested blocks, each of which stands for `repeat`
 * copies in a row, and may itself be repeated. A copy of an operator is a number in mixed radix:
 * which copy of the outermost block, of the next one, ..., of itself. Edges inside a block connect
 * copies of one block; between two copies in a row, the exit of one feeds the entry of the next. */
#include "draft.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/quantity.h"

struct unfold {
	struct orr_draft *draft;
	struct orr_draft *out;
	int *depth;            /* of each block; 0 is an outermost one, -1 no block at all */
	int64_t *block_copies; /* of each block: the product of the repeats down to it */
	int64_t *copies;       /* of each operator */
	int *first;            /* number of each operator's first copy in out */
	/* of each operator: depth of the shallowest block that holds an edge into it (out of it) as
	 * well, -1 outside all blocks; INT_MIN if it has none */
	int *in, *out_of;
	int *entry, *exit; /* of each block: operators */
	struct orr_arrays all;
};

static int unfold_init(struct unfold *u, struct orr_draft *draft, struct orr_draft *out)
{
	size_t n_blocks = (size_t)draft->n_blocks + 1, n = (size_t)draft->n_operators + 1;

	*u = (struct unfold){.draft = draft, .out = out};
	orr_arrays_make(&u->all, u->depth, n_blocks);
	orr_arrays_make(&u->all, u->block_copies, n_blocks);
	orr_arrays_make(&u->all, u->entry, n_blocks);
	orr_arrays_make(&u->all, u->exit, n_blocks);
	orr_arrays_make(&u->all, u->copies, n);
	orr_arrays_make(&u->all, u->first, n);
	orr_arrays_make(&u->all, u->in, n);
	orr_arrays_make(&u->all, u->out_of, n);
	return u->all.failed ? orr_draft_no_memory(draft) : 0;
}

static int64_t copies_of_block(const struct unfold *u, int block)
{
	return block < 0 ? 1 : u->block_copies[block];
}

static int depth_of(const struct unfold *u, int block)
{
	return block < 0 ? -1 : u->depth[block];
}

/* The innermost block that holds both, or -1. */
static int common_block(const struct unfold *u, int a, int b)
{
	while (a != b) {
		if (depth_of(u, a) >= depth_of(u, b))
			a = u->draft->blocks[a].parent;
		else
			b = u->draft->blocks[b].parent;
	}
	return a;
}

static int count_copies(struct unfold *u)
{
	struct orr_draft *draft = u->draft;
	int64_t total = 0;

	for (int i = 0; i < draft->n_blocks; i++) {
		const struct orr_draft_block *block = &draft->blocks[i];

		u->depth[i] = depth_of(u, block->parent) + 1;
		u->block_copies[i] = copies_of_block(u, block->parent);
		/* every factor and every product stays below the bound, so nothing overflows */
		if (u->block_copies[i] <= ORR_MOST_OPERATORS)
			u->block_copies[i] *= block->repeat;
	}
	for (int i = 0; i < draft->n_operators && !draft->code; i++) {
		const struct orr_draft_operator *o = &draft->operators[i];
		const char *why = NULL;

		u->copies[i] = copies_of_block(u, o->block);
		if (u->copies[i] <= ORR_MOST_OPERATORS)
			u->copies[i] *= o->repeat;
		u->first[i] = (int)total;
		total += u->copies[i];
		if (orr_operator_is_input(&o->is) && u->copies[i] > 1)
			why = "an input reads the data and cannot follow a copy of itself: take it "
			      "out of what repeats";
		else if (total > ORR_MOST_OPERATORS)
			why = orr_text("that makes more than %d operators: repeat less",
				       ORR_MOST_OPERATORS);
		if (why)
			orr_draft_keep(draft, orr_operator_fail(draft->name, &o->is, draft->err,
								"repeat: %s", why));
	}
	return draft->code;
}

/* operator is one more entry (exit) of each block that holds it and not the edge nearest to
 * outside. */
static void claim(struct unfold *u, int operator, int edge_depth, int *ends, const char *what)
{
	struct orr_draft *draft = u->draft;
	const struct orr_draft_operator *operators = draft->operators;
	int i = operators[operator].block;

	for (; i >= 0; i = draft->blocks[i].parent) {
		const struct orr_draft_block *block = &draft->blocks[i];

		if (edge_depth >= u->depth[i])
			break;
		if (ends[i] >= 0 && block->repeat > 1)
			orr_draft_fail(draft, ORR_E_INPUT,
				       "%.150s:%d: subgraph %.80s: repeat needs one %s, and both "
				       "%.60s and %.60s are: join them, or move one out",
				       draft->name, block->line, block->name, what,
				       operators[ends[i]].is.name, operators[operator].is.name);
		ends[i] = operator;
	}
}

static void note_depth(int *depth, int common)
{
	if (*depth == INT_MIN || common < *depth)
		*depth = common;
}

/* The one entry and the one exit of every block: where edges from outside end, or none ends. */
static int find_ends(struct unfold *u)
{
	const struct orr_draft *draft = u->draft;

	for (int i = 0; i < draft->n_blocks; i++)
		u->entry[i] = u->exit[i] = -1;
	for (int i = 0; i < draft->n_operators; i++)
		u->in[i] = u->out_of[i] = INT_MIN;
	for (int i = 0; i < draft->n_edges; i++) {
		const struct orr_draft_edge *edge = &draft->edges[i];
		int common = depth_of(u, common_block(u, draft->operators[edge->from].block,
						      draft->operators[edge->to].block));

		note_depth(&u->in[edge->to], common);
		note_depth(&u->out_of[edge->from], common);
	}
	for (int i = 0; i < draft->n_operators; i++) {
		claim(u, i, u->in[i], u->entry, "entry");
		claim(u, i, u->out_of[i], u->exit, "exit");
	}
	return draft->code;
}

/* ".2.0": the copy's number at every level that repeats, outermost first. At most
 * ORR_MOST_OPERATORS copies make at most 20 levels. */
static const char *copy_text(const struct unfold *u, int operator, int64_t copy)
{
	const struct orr_draft *draft = u->draft;
	int64_t digits[32];
	int n = 0, i = draft->operators[operator].block;
	const char *text = "";

	if (draft->operators[operator].repeat > 1) {
		digits[n++] = copy % draft->operators[operator].repeat;
		copy /= draft->operators[operator].repeat;
	}
	for (; i >= 0; i = draft->blocks[i].parent) {
		if (draft->blocks[i].repeat == 1)
			continue;
		assert(n < 32);
		digits[n++] = copy % draft->blocks[i].repeat;
		copy /= draft->blocks[i].repeat;
	}
	while (n > 0)
		text = orr_text("%s.%lld", text, (long long)digits[--n]);
	return text;
}

/* What `to` must not share with `from`. An input has no second copy: what it alone has goes along.
 */
static void copy(struct orr_operator *to, struct orr_operator *from, struct orr_draft *out)
{
	size_t n_gang = (size_t)from->n_gang * sizeof(*from->gang);
	char *name = to->name;

	*to = *from;
	from->columns = NULL;
	from->tensor = NULL;
	to->name = name;
	to->label = from->label ? strdup(from->label) : NULL;
	to->share = from->share ? strdup(from->share) : NULL;
	to->with = from->with ? strdup(from->with) : NULL;
	to->gang = from->gang ? malloc(n_gang) : NULL;
	to->instance = from->instance ? malloc(sizeof(*to->instance)) : NULL;
	if (to->instance) /* its inputs' shapes come later */
		*to->instance = *from->instance;
	if (to->gang)
		memcpy(to->gang, from->gang, n_gang);
	if (!to->label != !from->label || !to->share != !from->share || !to->with != !from->with ||
	    !to->gang != !from->gang || !to->instance != !from->instance)
		orr_draft_no_memory(out);
}

static void copy_operator(struct unfold *u, int operator)
{
	struct orr_draft_operator *from = &u->draft->operators[operator], *to;
	char *name;

	for (int64_t i = 0; i < u->copies[operator] && !u->out->code; i++) {
		if (asprintf(&name, "%s%s", from->is.name, copy_text(u, operator, i)) < 0) {
			orr_draft_no_memory(u->out);
			return;
		}
		if ((to = orr_draft_add_operator(u->out, name))) {
			copy(&to->is, &from->is, u->out);
			to->block = from->block;
		}
		free(name);
	}
}

/* Edges from the last copies of `from` to the first ones of `to`, one for each copy of what holds
 * both. */
static void copy_edge(struct unfold *u, const struct orr_draft_edge *edge)
{
	const struct orr_draft_operator *operators = u->draft->operators;
	int64_t common = copies_of_block(
		u, common_block(u, operators[edge->from].block, operators[edge->to].block));
	int64_t from = u->copies[edge->from] / common, to = u->copies[edge->to] / common;

	for (int64_t i = 0; i < common && !u->out->code; i++)
		orr_draft_add_edge(u->out, (int)(u->first[edge->from] + (i + 1) * from - 1),
				   (int)(u->first[edge->to] + i * to), edge->read);
}

/* What repeats feeds its next copy. copies: how many there are in all, rows of `repeat` each. */
static void link_copies(struct unfold *u, int entry, int exit, int64_t copies, int64_t repeat)
{
	int64_t from = u->copies[exit] / copies, to = u->copies[entry] / copies;

	for (int64_t i = 1; i < copies; i++)
		if (i % repeat != 0)
			orr_draft_add_edge(u->out, (int)(u->first[exit] + i * from - 1),
					   (int)(u->first[entry] + i * to), -1);
}

static int unfold(struct unfold *u)
{
	const struct orr_draft *draft = u->draft;

	for (int i = 0; i < draft->n_operators; i++)
		copy_operator(u, i);
	for (int i = 0; i < draft->n_edges; i++)
		copy_edge(u, &draft->edges[i]);
	for (int i = 0; i < draft->n_operators; i++)
		if (draft->operators[i].repeat > 1)
			link_copies(u, i, i, u->copies[i], draft->operators[i].repeat);
	for (int i = 0; i < draft->n_blocks; i++)
		if (draft->blocks[i].repeat > 1 && u->entry[i] >= 0 && u->exit[i] >= 0)
			link_copies(u, u->entry[i], u->exit[i], u->block_copies[i],
				    draft->blocks[i].repeat);
	return orr_draft_keep(u->draft, u->out->code);
}

static bool repeats(const struct orr_draft *draft)
{
	for (int i = 0; i < draft->n_operators; i++)
		if (draft->operators[i].repeat > 1)
			return true;
	for (int i = 0; i < draft->n_blocks; i++)
		if (draft->blocks[i].repeat > 1)
			return true;
	return false;
}

/* The copies take the place of what they are copies of. */
static void take_over(struct orr_draft *draft, struct orr_draft *out)
{
	struct orr_draft old = *draft;

	draft->operators = out->operators;
	draft->n_operators = out->n_operators;
	draft->operator_room = out->operator_room;
	draft->edges = out->edges;
	draft->n_edges = out->n_edges;
	draft->edge_room = out->edge_room;
	*out = (struct orr_draft){
		.operators = old.operators, .n_operators = old.n_operators, .edges = old.edges};
	for (int i = 0; i < draft->n_blocks; i++)
		draft->blocks[i].repeat = 1;
}

int orr_draft_unfold(struct orr_draft *draft)
{
	/* of operators and edges alone */
	struct orr_draft out = {.name = draft->name, .err = draft->err};
	struct unfold u = {0};

	if (!repeats(draft))
		return 0;
	if (!unfold_init(&u, draft, &out) && !count_copies(&u) && !find_ends(&u) && !unfold(&u))
		take_over(draft, &out);
	out.name = NULL; /* borrowed */
	orr_arrays_free(&u.all);
	orr_draft_fini(&out);
	return draft->code;
}
