#include "tensors.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "ideals.h"
#include "orrery/partition.h"

/* The units that read each operator: through free operators too, which are where they are read.
 * Operators are numbered along the edges. */
static void note_readers(uint64_t *readers, const struct orr_ideals *x, const struct orr_graph *g)
{
	size_t row = (size_t)x->n_words;

	for (int to = g->n_operators - 1; to >= 0; to--)
		for (int k = 0; k < g->operators[to].n_inputs; k++) {
			uint64_t *of = readers + (size_t)g->operators[to].inputs[k] * row;

			if (x->unit_of[to] >= 0)
				of[x->unit_of[to] / 64] |= UINT64_C(1) << (x->unit_of[to] % 64);
			for (size_t w = 0; w < row && x->unit_of[to] < 0; w++)
				of[w] |= readers[(size_t)to * row + w];
		}
}

/* The operator i, with its readers, becomes the next tensor if its output is ever sent. */
static void add_tensor(struct orr_tensors *t, const struct orr_ideals *x, int i, int64_t bytes)
{
	size_t row = (size_t)x->n_words;
	uint64_t *makers = t->makers + (size_t)t->n * row,
		 *readers = t->readers + (size_t)t->n * row;
	int unit = x->unit_of[i];
	bool sent = false;

	memmove(readers, t->readers + (size_t)i * row, row * sizeof(*readers));
	if (unit < 0) { /* an input is where its first reader is */
		memcpy(makers, readers, row * sizeof(*makers));
	} else {
		makers[unit / 64] |= UINT64_C(1) << (unit % 64);
		readers[unit / 64] &= ~makers[unit / 64];
	}
	for (size_t w = 0; w < row; w++)
		sent = sent || (bytes > 0 && readers[w]);
	if (!sent) {
		memset(makers, 0, row * sizeof(*makers));
		return;
	}
	t->bytes[t->n++] = bytes;
}

static bool is_there(const struct orr_tensors *t, int i, int a)
{
	const struct orr_ideals *x = t->ideals;
	const uint64_t *inside = x->bits + (size_t)a * (size_t)x->n_words;
	const uint64_t *makers = t->makers + (size_t)i * (size_t)x->n_words;

	for (int w = 0; w < x->n_words; w++)
		if (inside[w] & makers[w])
			return true;
	return false;
}

bool orr_tensors_read(const struct orr_tensors *t, int i, int a, int b)
{
	const struct orr_ideals *x = t->ideals;
	const uint64_t *before = x->bits + (size_t)a * (size_t)x->n_words,
		       *after = x->bits + (size_t)b * (size_t)x->n_words;
	const uint64_t *readers = t->readers + (size_t)i * (size_t)x->n_words;

	for (int w = 0; w < x->n_words; w++)
		if (after[w] & ~before[w] & readers[w])
			return true;
	return false;
}

int64_t orr_tensors_bytes(const struct orr_tensors *t, int base, int a, int b)
{
	int64_t bytes = 0;

	for (int l = t->first_live[a]; l < t->first_live[a + 1]; l++)
		if (orr_tensors_read(t, t->live[l], a, b) &&
		    !(base && is_there(t, t->live[l], base)))
			bytes += t->bytes[t->live[l]];
	return bytes;
}

static int list_live(struct orr_tensors *t, struct orr_error *err)
{
	const struct orr_ideals *x = t->ideals;
	int n = 0;

	for (int pass = 0; pass < 2; pass++) {
		if (pass && !(t->live = calloc((size_t)n + 1, sizeof(*t->live))))
			return orr_fail(err, ORR_E_NOMEM,
					"plan: no memory for the tensors of %d cuts", x->n);
		n = 0;
		for (int a = 0; a < x->n; a++) {
			t->first_live[a] = n;
			for (int i = 0; i < t->n; i++) {
				if (!is_there(t, i, a) || !orr_tensors_read(t, i, a, x->n - 1))
					continue;
				if (pass)
					t->live[n] = i;
				n++;
			}
		}
		t->first_live[x->n] = n;
	}
	return 0;
}

int orr_tensors_create(struct orr_tensors **out, const struct orr_ideals *x,
		       const struct orr_graph *g, int64_t samples, struct orr_error *err)
{
	size_t n = (size_t)g->n_operators + 1, row = (size_t)x->n_words;
	struct orr_tensors *t = calloc(1, sizeof(*t));
	int code;

	if (!t || !(t->bytes = calloc(n, sizeof(*t->bytes))) ||
	    !(t->makers = calloc(n * row, sizeof(*t->makers))) ||
	    !(t->readers = calloc(n * row, sizeof(*t->readers))) ||
	    !(t->first_live = calloc((size_t)x->n + 1, sizeof(*t->first_live)))) {
		code = orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d tensors", g->n_operators);
		goto out;
	}
	t->ideals = x;
	note_readers(t->readers, x, g);
	for (int i = 0; i < g->n_operators; i++)
		add_tensor(t, x, i, orr_operator_output_bytes(&g->operators[i], samples));
	if ((code = list_live(t, err)))
		goto out;
	*out = t;
	t = NULL;
out:
	orr_tensors_destroy(t);
	return code;
}

void orr_tensors_destroy(struct orr_tensors *t)
{
	if (!t)
		return;
	free(t->bytes);
	free(t->makers);
	free(t->readers);
	free(t->live);
	free(t->first_live);
	free(t);
}
