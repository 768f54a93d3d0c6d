#include "crossing.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/max.h"
#include "orrery/graph.h"
#include "ideals.h"
#include "pipeline/charge.h"

int orr_sent_list_init(struct orr_sent_list *x, const struct orr_graph *g, const int *number, int n,
		       int64_t samples, struct orr_error *err)
{
	size_t n_edges = 0;
	int code;

	for (int i = 0; i < g->n_operators; i++)
		n_edges += (size_t)g->operators[i].n_inputs;
	orr_arrays_make(&x->all, x->first, (size_t)n + 3);
	orr_arrays_make(&x->all, x->readers, n_edges + 1);
	orr_arrays_make(&x->all, x->sent, n_edges + 1);
	if ((code = orr_arrays_check(&x->all, "plan", err)))
		return code;
	/* counted two further on, summed up, and moved on as they are filled in */
	for (int fill = 0; fill < 2; fill++) {
		for (int i = 0; i < g->n_operators; i++)
			for (int k = 0; k < g->operators[i].n_inputs && number[i] >= 0; k++) {
				int from = number[g->operators[i].inputs[k]], at;

				if (from < 0)
					continue;
				at = x->first[from + 2 - fill]++;
				if (!fill)
					continue;
				x->readers[at] = number[i];
				x->sent[at] = orr_sent_over(g, i, k, samples);
			}
		for (int i = 0; i < n && !fill; i++)
			x->first[i + 2] += x->first[i + 1];
	}
	return 0;
}

/* What is read of each operator, and where: of its own unit, nothing is sent. */
struct readers {
	const int *unit_of;
	struct orr_sent_list list;
};

static int64_t bytes_of(const struct readers *r, int i, int k, bool gradient)
{
	if (r->unit_of[r->list.readers[k]] == r->unit_of[i])
		return 0;
	return gradient ? r->list.sent[k].gradient_bytes : r->list.sent[k].bytes;
}

/* The least that a reader of operator i reads beyond `above`; INT64_MAX: nothing. */
static int64_t next_size(const struct readers *r, int i, bool gradient, int64_t above)
{
	int64_t least = INT64_MAX;

	for (int k = r->list.first[i]; k < r->list.first[i + 1]; k++)
		if (bytes_of(r, i, k, gradient) > above)
			least = smaller(least, bytes_of(r, i, k, gradient));
	return least;
}

static int grow(struct orr_tensors *t, struct orr_error *err)
{
	int sent = t->room, makers = t->room;

	if (!orr_grow(&t->sent, t->n, &sent, sizeof(*t->sent)) ||
	    !orr_grow(&t->makers, t->n, &makers, sizeof(*t->makers)) ||
	    !orr_grow(&t->readers, t->n, &t->room,
		      (size_t)t->ideals->n_words * sizeof(*t->readers)))
		return orr_no_memory(err, "plan");
	return 0;
}

/* The output of operator of, or its gradient. A stage reads the most that one of its operators
 * does: a tensor for each size that one reads, of what it is more than the size before. */
static int add_tensors(struct orr_tensors *t, const struct readers *r, int of,
		       struct orr_error *err)
{
	size_t row = (size_t)t->ideals->n_words;
	int first = t->n, code;

	for (int gradient = 0; gradient < 2; gradient++) {
		int64_t size, before = 0;

		for (; (size = next_size(r, of, gradient, before)) < INT64_MAX; before = size) {
			uint64_t *readers;
			int i = first;

			if ((code = grow(t, err)))
				return code;
			readers = t->readers + (size_t)t->n * row;
			memset(readers, 0, row * sizeof(*readers));
			for (int k = r->list.first[of]; k < r->list.first[of + 1]; k++) {
				int unit = r->unit_of[r->list.readers[k]];

				if (bytes_of(r, of, k, gradient) >= size)
					orr_bits_add(readers, unit);
			}
			while (i < t->n && memcmp(t->readers + (size_t)i * row, readers,
						  row * sizeof(*readers)) != 0)
				i++;
			t->makers[i] = r->unit_of[of];
			if (i == t->n)
				t->sent[t->n++] = (struct orr_sent){0};
			*(gradient ? &t->sent[i].gradient_bytes : &t->sent[i].bytes) +=
				size - before;
		}
	}
	return 0;
}

static bool is_there(const struct orr_tensors *t, int i, int a)
{
	return orr_ideals_has(t->ideals, a, t->makers[i]);
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

struct orr_sent orr_tensors_sent(const struct orr_tensors *t, int base, int a, int b)
{
	struct orr_sent sum = {0};

	for (int l = t->first_live[a]; l < t->first_live[a + 1]; l++)
		if (orr_tensors_read(t, t->live[l], a, b) &&
		    !(base && is_there(t, t->live[l], base))) {
			sum.bytes += t->sent[t->live[l]].bytes;
			sum.gradient_bytes += t->sent[t->live[l]].gradient_bytes;
		}
	return sum;
}

static int list_live(struct orr_tensors *t, struct orr_error *err)
{
	const struct orr_ideals *x = t->ideals;
	int n = 0, room = 0;

	for (int a = 0; a < x->n; a++) {
		t->first_live[a] = n;
		for (int i = 0; i < t->n; i++) {
			if (!is_there(t, i, a) || !orr_tensors_read(t, i, a, x->n - 1))
				continue;
			if (!orr_grow(&t->live, n, &room, sizeof(*t->live)))
				return orr_no_memory(err, "plan");
			t->live[n++] = i;
		}
	}
	t->first_live[x->n] = n;
	return 0;
}

int orr_tensors_create(struct orr_tensors **out, const struct orr_ideals *x,
		       const struct orr_graph *g, int64_t samples, struct orr_error *err)
{
	struct orr_tensors *t = calloc(1, sizeof(*t));
	int *number = calloc((size_t)g->n_operators + 1, sizeof(*number)), code;
	struct readers r = {.unit_of = x->unit_of};

	if (!t || !number || !(t->first_live = calloc((size_t)x->n + 1, sizeof(*t->first_live)))) {
		code = orr_no_memory(err, "plan");
		goto out;
	}
	t->ideals = x;
	for (int i = 0; i < g->n_operators; i++) /* data is sent by none */
		number[i] = x->unit_of[i] < 0 ? -1 : i;
	code = orr_sent_list_init(&r.list, g, number, g->n_operators, samples, err);
	for (int i = 0; i < g->n_operators && !code; i++)
		code = add_tensors(t, &r, i, err);
	if (code || (code = list_live(t, err)))
		goto out;
	*out = t;
	t = NULL;
out:
	free(number);
	orr_arrays_free(&r.list.all);
	orr_tensors_destroy(t);
	return code;
}

void orr_tensors_destroy(struct orr_tensors *t)
{
	if (!t)
		return;
	free(t->sent);
	free(t->makers);
	free(t->readers);
	free(t->live);
	free(t->first_live);
	free(t);
}
