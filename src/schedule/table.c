#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const struct orr_table *table = data;

	(void)p;
	return table->compute[orr_table_index(table, s, b % table->n_microbatches, d)];
}

static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const struct orr_table *table = data;

	(void)p;
	return table->weights[orr_table_index(table, s, b % table->n_microbatches, d)];
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	const struct orr_table *table = data;
	int m = table->n_microbatches;

	(void)p;
	return table->priority[orr_table_index(table, s, b % m, d)] + b / m * table->period;
}

/* The order is complete; add the bound that was proved for it. */
static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	(void)p, (void)err;
	out->bound_ns = ((const struct orr_table *)data)->bound_ns;
	return 0;
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	const struct orr_table *table = data;

	(void)p;
	return table->cap[s];
}

static bool recompute(const struct orr_pipeline *p, int s, const void *data)
{
	const struct orr_table *table = data;

	(void)p;
	return table->recompute[s];
}

static int park(const struct orr_pipeline *p, int s, int b, const void *data)
{
	const struct orr_table *table = data;

	(void)p, (void)b;
	return table->park ? table->park[s] : 0;
}

/* "file.csv:2:5: 4F0: ", the place of a forward; or no more than the file. */
static const char *print_place(char *buffer, size_t size, const struct orr_table *table, int s,
			       int b)
{
	int j = orr_table_index(table, s, b, ORR_PASS_F);

	if (table->column)
		(void)snprintf(buffer, size, "%.200s:%d:%d: %dF%d", table->name,
			       table->compute[j] + 1, table->column[j], s, b);
	else
		(void)snprintf(buffer, size, "%.200s: %dF%d", table->name, s, b);
	return buffer;
}

/* Which passes a stage has depends on what is frozen. */
static int check_passes(const struct orr_pipeline *p, const struct orr_table *table,
			struct orr_error *err)
{
	int n_passes = orr_table_n_passes(table);

	for (int j = 0; j < table->n_stages * n_passes; j++) {
		int s = j / n_passes;
		enum orr_pass d = (enum orr_pass)(j % n_passes);
		bool has = orr_pipeline_has_pass(p, s, d, table->split_backward);

		if (has != (table->compute[j] >= 0))
			return orr_fail(
				err, ORR_E_INPUT,
				"%s: %s %c of stage %d, which %s in this model: take the model as "
				"it was made for, or make it anew",
				table->name, has ? "no job" : "has jobs", orr_pass_letter(d), s,
				has ? "is trained"
				    : "has no such pass, since it or all before it is frozen");
	}
	return 0;
}

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	const struct orr_table *table = data;
	char where[256];

	if (table->period > (INT64_C(1) << 60) / (p->n_microbatches / table->n_microbatches + 2))
		return orr_fail(err, ORR_E_INPUT,
				"%s: too many rounds to be counted: give a smaller [microbatches]",
				table->name);
	if (table->period && p->n_microbatches % table->n_microbatches == 0 &&
	    table->n_workers == p->n_workers && table->n_stages == p->n_stages)
		return check_passes(p, table, err);
	if (table->n_workers != p->n_workers)
		return orr_fail(err, ORR_E_INPUT,
				"%s: lays out the jobs of %d worker%s, a row each, and there are "
				"to be %d: give [workers] %d, or leave it out",
				table->name, table->n_workers, table->n_workers == 1 ? "" : "s",
				p->n_workers, table->n_workers);
	if (table->n_stages > p->n_stages)
		return orr_fail(err, ORR_E_INPUT,
				"%s: stage %d, and the model has %d stage%s, from 0: take a model "
				"of %d stages",
				print_place(where, sizeof(where), table, p->n_stages, 0),
				p->n_stages, p->n_stages, p->n_stages == 1 ? "" : "s",
				table->n_stages);
	if (table->n_stages < p->n_stages)
		return orr_fail(err, ORR_E_INPUT,
				"%s: no job of stage %d: it lays out %d stage%s, and the model has "
				"%d: take a model of as many stages",
				table->name, table->n_stages, table->n_stages,
				table->n_stages == 1 ? "" : "s", p->n_stages);
	if (table->n_microbatches > p->n_microbatches)
		return orr_fail(err, ORR_E_INPUT,
				"%s: microbatch %d, and there are to be %d, from 0: give "
				"[microbatches] %d, or leave it out",
				print_place(where, sizeof(where), table, 0, p->n_microbatches),
				p->n_microbatches, p->n_microbatches, table->n_microbatches);
	if (table->n_microbatches < p->n_microbatches)
		return orr_fail(err, ORR_E_INPUT,
				"%s: no job of microbatch %d: it lays out %d, and there are to be "
				"%d: give [microbatches] %d, or leave it out",
				table->name, table->n_microbatches, table->n_microbatches,
				p->n_microbatches, table->n_microbatches);
	return check_passes(p, table, err);
}

int orr_table_missing(const struct orr_table *table)
{
	int n_passes = orr_table_n_passes(table), each = table->n_stages * n_passes;
	int n_jobs = orr_table_n_jobs(table), missing = n_jobs;

	for (int k = 0; k < each; k++) {
		bool any = k % n_passes == ORR_PASS_F;
		int first = n_jobs;

		for (int j = k; j < n_jobs; j += each) {
			any = any || table->compute[j];
			first = table->compute[j] || j > first ? first : j;
		}
		missing = any && first < missing ? first : missing;
	}
	return missing;
}

void orr_table_schedule(struct orr_schedule *out, const struct orr_table *table)
{
	*out = (struct orr_schedule){
		.name = table->name,
		.summary = "from a file",
		.order = table->order,
		.split_backward = table->split_backward,
		.asynchronous = table->period > 0,
		.check = check,
		.compute = compute,
		.weights = table->weights ? weights : NULL,
		.priority = priority,
		.place = table->period ? NULL : place,
		.in_flight = table->cap ? in_flight : NULL,
		.recompute = table->recompute ? recompute : NULL,
		.park = park,
		.data = table,
	};
}

int orr_table_create(struct orr_table **out, const char *name, int n_stages, int n_workers,
		     int n_microbatches, bool split_backward, struct orr_error *err)
{
	size_t n = (size_t)n_stages * (size_t)n_microbatches * (split_backward ? 3 : 2);
	struct orr_table *table = calloc(1, sizeof(*table));

	if (!table || !(table->name = orr_utf8_copy(name)) ||
	    !(table->compute = calloc(n, sizeof(*table->compute))) ||
	    !(table->priority = calloc(n, sizeof(*table->priority)))) {
		orr_table_destroy(table);
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %zu jobs", name, n);
	}
	table->n_stages = n_stages;
	table->n_workers = n_workers;
	table->n_microbatches = n_microbatches;
	table->split_backward = split_backward;
	*out = table;
	return 0;
}

void orr_table_destroy(struct orr_table *table)
{
	if (!table)
		return;
	free(table->name);
	free(table->compute);
	free(table->priority);
	free(table->weights);
	free(table->column);
	free(table->cap);
	free(table->recompute);
	free(table->park);
	free(table);
}
