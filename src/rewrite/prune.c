/* What nothing reads any more after a split is not computed. */
#include <stdlib.h>

#include "rewriting.h"

/* Is it the only one left of the copies that k is one of? They are added in a row. */
static bool is_alone(const struct orr_draft *draft, int k)
{
	const struct orr_operator *o = &draft->operators[k].is;

	for (int i = k - 1; i <= k + 1; i += 2)
		if (i >= 0 && i < draft->n_operators && draft->operators[i].is.share &&
		    draft->operators[i].is.origin == o->origin)
			return false;
	return true;
}

/* read[k]: is operator k read, or an end? The inputs of an operator come before it, and so do its
 * edges before those of the next. */
static void find_read(bool *read, const struct orr_draft *draft)
{
	int e = draft->n_edges;

	for (int k = draft->n_operators - 1; k >= 0; k--) {
		const struct orr_instance *is = draft->operators[k].is.instance;

		read[k] = read[k] || !is || is->op->loss || is->op->opaque;
		for (; e > 0 && draft->edges[e - 1].to == k; e--)
			if (read[k])
				read[draft->edges[e - 1].from] = true;
	}
}

int orr_rewriting_prune(struct orr_rewriting *x)
{
	struct orr_draft *draft = &x->draft;
	size_t room = (size_t)draft->n_operators + 1;
	bool *read = orr_arrays_add(&x->all, room, sizeof(*read));
	int *number = orr_arrays_add(&x->all, room, sizeof(*number));
	int n = 0, n_edges = 0;

	if (x->all.failed)
		return orr_rewriting_no_memory(x);
	find_read(read, draft);
	for (int k = 0; k < draft->n_operators; k++) {
		number[k] = n;
		if (read[k])
			draft->operators[n++] = draft->operators[k];
		else
			orr_operator_fini(&draft->operators[k].is);
	}
	draft->n_operators = n;
	for (int e = 0; e < draft->n_edges; e++) {
		struct orr_draft_edge edge = draft->edges[e];

		if (read[edge.to])
			draft->edges[n_edges++] = (struct orr_draft_edge){
				number[edge.from], number[edge.to], edge.read};
	}
	draft->n_edges = n_edges;
	for (int k = 0; k < n; k++) {
		char *share = draft->operators[k].is.share;

		/* its name is that of copies, not the file's */
		if (share && !x->graph->operators[draft->operators[k].is.origin].share &&
		    is_alone(draft, k)) {
			free(share);
			draft->operators[k].is.share = NULL;
		}
	}
	return 0;
}
