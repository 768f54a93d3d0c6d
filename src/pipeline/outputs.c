/* Outputs of stages that several stages read. */
#include "stages_of.h"

#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "base/sort.h"
#include "orrery/pipeline.h"

/* ---- of a cut ---- */

/* Reads of one tensor, by the stages reads[0] to reads[n - 1]: what they read alike is the least
 * that one of them does, and goes with all else that the same stages read. */
static int add_reads(struct orr_fanout *outputs, int n_outputs, int *numbers,
		     const struct orr_edge *edges, const struct orr_keyed *reads, int n)
{
	struct orr_fanout *x = outputs;
	int from = edges[reads[0].value].from;
	int64_t bytes = INT64_MAX;

	for (int i = 0; i < n; i++) {
		numbers[i] = edges[reads[i].value].to;
		bytes = smaller(bytes, edges[reads[i].value].bytes);
	}
	while (x < outputs + n_outputs &&
	       (x->from != from || x->n_readers != n ||
		memcmp(x->readers, numbers, (size_t)n * sizeof(*numbers)) != 0))
		x++;
	if (x == outputs + n_outputs)
		*x = (struct orr_fanout){.from = from, .n_readers = n, .readers = numbers};
	x->bytes += bytes;
	return (int)(x - outputs) == n_outputs;
}

int orr_outputs_find(struct orr_fanout **out, int *n_outputs, const struct orr_edge *edges,
		     const int *tensor, int n, struct orr_error *err)
{
	struct orr_keyed *reads = malloc(((size_t)n + 1) * sizeof(*reads));
	/* every second one at most; behind them the stages */
	struct orr_fanout *outputs =
		malloc(((size_t)n / 2 + 1) * sizeof(*outputs) + ((size_t)n + 1) * sizeof(int));
	int *numbers = (int *)(outputs + n / 2 + 1), n_reads = 0, code = 0;

	*n_outputs = 0;
	if (!reads || !outputs) {
		code = orr_fail(err, ORR_E_NOMEM, "partition: no memory for %d edges", n);
		goto out;
	}
	for (int e = 0; e < n; e++)
		if (edges[e].from >= 0)
			reads[n_reads++] = (struct orr_keyed){tensor[e], e};
	if ((code = orr_sort(reads, n_reads, err)))
		goto out;
	for (int i = 0, end; i < n_reads; i = end) {
		for (end = i; end < n_reads && reads[end].key == reads[i].key;)
			end++;
		if (end - i < 2 ||
		    !add_reads(outputs, *n_outputs, numbers, edges, reads + i, end - i))
			continue;
		++*n_outputs;
		numbers += end - i;
	}
	*out = outputs;
	outputs = NULL;
out:
	free(reads);
	free(outputs);
	return code;
}

/* ---- of a pipeline ---- */

/* carried: [n_edges] bytes of its outputs so far. */
static int check(const struct orr_pipeline *p, const struct orr_fanout *x, int64_t *carried,
		 struct orr_error *err)
{
	bool good = x->n_readers > 1 && x->bytes >= 0 && x->from >= 0 && x->from < p->n_stages;

	for (int i = 0; i < x->n_readers && good; i++) {
		const struct orr_edge *edge = orr_pipeline_edge(p, x->from, x->readers[i]);

		good = edge && (!i || x->readers[i] > x->readers[i - 1]) &&
		       (carried[edge - p->edges] += x->bytes) <= edge->bytes;
	}
	return good ? 0
		    : orr_fail(err, ORR_E_INPUT,
			       "pipeline: an output of stage %d, %lld bytes for %d stages: name "
			       "two or "
			       "more that it has edges to, ascending, and count it in their bytes",
			       x->from, (long long)x->bytes, x->n_readers);
}

/* The lists of outputs that stages send and read, from next on. */
static void list(struct orr_pipeline *p, int *next)
{
	int *first = next;

	for (int s = 0; s < p->n_stages; s++)
		p->stages[s].n_sent = p->stages[s].n_read = 0;
	for (int fill = 0; fill < 2; fill++) {
		for (int i = 0; i < p->n_outputs; i++) {
			const struct orr_fanout *x = &p->outputs[i];
			struct orr_stage *from = &p->stages[x->from];

			if (fill)
				first[from->sent - first + from->n_sent] = p->n_edges + i;
			from->n_sent++;
			for (int k = 0; k < x->n_readers; k++) {
				struct orr_stage *to = &p->stages[x->readers[k]];

				if (fill)
					first[to->read - first + to->n_read] = p->n_edges + i;
				to->n_read++;
			}
		}
		for (int s = 0; s < p->n_stages && !fill; s++) {
			struct orr_stage *stage = &p->stages[s];

			stage->sent = next;
			stage->read = next + stage->n_sent;
			next += stage->n_sent + stage->n_read;
			stage->n_sent = stage->n_read = 0;
		}
	}
}

int orr_pipeline_set_outputs(struct orr_pipeline *p, const struct orr_fanout *outputs,
			     int n_outputs, struct orr_error *err)
{
	size_t n = (size_t)n_outputs + 1; /* numbers: readers, and what each sends and reads */
	int64_t *carried = calloc((size_t)p->n_edges + 1, sizeof(*carried));
	struct orr_fanout *copy = NULL;
	int *next, code = 0;

	for (int i = 0; i < n_outputs; i++)
		n += 2 * (size_t)(outputs[i].n_readers > 0 ? outputs[i].n_readers : 0);
	if (!carried || !(copy = malloc((size_t)n_outputs * sizeof(*copy) + n * sizeof(*next))))
		code = orr_fail(err, ORR_E_NOMEM, "pipeline: no memory for %d outputs", n_outputs);
	for (int i = 0; i < n_outputs && !code; i++)
		code = check(p, &outputs[i], carried, err);
	free(carried);
	if (code) {
		free(copy);
		return code;
	}
	next = (int *)(copy + n_outputs);
	for (int i = 0; i < n_outputs; i++) {
		copy[i] = outputs[i];
		copy[i].readers = next;
		memcpy(next, outputs[i].readers, (size_t)copy[i].n_readers * sizeof(*next));
		next += copy[i].n_readers;
	}
	free(p->outputs);
	p->outputs = copy;
	p->n_outputs = n_outputs;
	list(p, next);
	return 0;
}

bool orr_pipeline_reads(const struct orr_pipeline *p, int s, int number)
{
	const struct orr_fanout *x = &p->outputs[number - p->n_edges];
	int i = 0;

	while (i < x->n_readers && x->readers[i] != s)
		i++;
	return i < x->n_readers;
}
