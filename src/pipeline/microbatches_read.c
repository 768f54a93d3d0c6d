/* Costs of single microbatches, from a CSV: a heading that names the columns, and a row a job. */
#include "microbatches.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "cost.h"
#include "base/input_file.h"
#include "orrery/pipeline.h"
#include "base/quantity.h"

#define MOST (INT64_C(1) << 60) /* ns or bytes of one job: a few may be added up */

enum { STAGE, MICROBATCH, PASS, DURATION, BYTES, STASH, N_COLUMNS };

static const char *const names[N_COLUMNS] = {"stage",    "microbatch", "pass",
					     "duration", "bytes",      "stash"};

/* A number is -1 where its cell is empty. */
struct row {
	int line; /* 0: there is none */
	int s, b;
	enum orr_pass d;
	int64_t duration_ns, bytes, stash_bytes;
};

struct reading {
	struct orr_pipeline *p;
	const char *path;
	struct orr_error *err;
	int line;
	int column_of[N_COLUMNS]; /* in the file; -1: not there */
	int n_columns;
	struct row *rows; /* [n_rows] by microbatch, stage and pass */
	size_t n_rows;
};

static int refuse(const struct reading *r, const char *why)
{
	return orr_fail(r->err, ORR_E_INPUT, "%s:%d: %s", r->path, r->line, why);
}

/* ---- cells ---- */

static int read_heading(struct reading *r, char *line)
{
	char *cells[N_COLUMNS];
	int n = orr_input_cells(line, cells, N_COLUMNS);

	for (int k = 0; k < N_COLUMNS; k++)
		r->column_of[k] = -1;
	for (int i = 0; i < n && i < N_COLUMNS; i++) {
		int k = 0;

		while (k < N_COLUMNS && strcmp(cells[i], names[k]))
			k++;
		if (k == N_COLUMNS || r->column_of[k] >= 0)
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: '%.40s' %s: the heading names each of stage, "
					"microbatch, pass, duration, bytes and stash at most once",
					r->path, r->line, cells[i],
					k < N_COLUMNS ? "again" : "is no column");
		r->column_of[k] = i;
	}
	for (int k = STAGE; k <= PASS; k++)
		if (r->column_of[k] < 0 || n > N_COLUMNS)
			return refuse(r, "no heading: write stage,microbatch,pass and any of "
					 "duration, bytes and stash");
	r->n_columns = n;
	return 0;
}

static const char *place(const struct reading *r, int column)
{
	return orr_text("%.150s:%d: %s", r->path, r->line, names[column]);
}

static int read_number(const struct reading *r, const char *cell, int column, int n, int *number)
{
	const char *what = place(r, column);
	int64_t value;
	int code = orr_count_parse(&value, cell, 0, INT32_MAX, what, r->err);

	if (code)
		return code;
	if (value >= n)
		return orr_fail(r->err, ORR_E_INPUT, "%s %lld: there %s %d, from 0 on%s", what,
				(long long)value, n == 1 ? "is" : "are", n,
				column == MICROBATCH ? " ([microbatches])" : "");
	*number = (int)value;
	return 0;
}

static int read_pass(const struct reading *r, const char *cell, struct row *row)
{
	const struct orr_stage *stage = &r->p->stages[row->s];

	if (strlen(cell) != 1 || !strchr("FBW", *cell))
		return refuse(r, "pass: give F, B or W");
	row->d = *cell == 'F' ? ORR_PASS_F : *cell == 'B' ? ORR_PASS_B : ORR_PASS_W;
	if (row->d == ORR_PASS_W && !r->p->has_weight)
		return refuse(r, "W: the costs of the graph do not tell it from B: give the whole "
				 "backward as B, or the graph a weight");
	if (row->d == ORR_PASS_W ? !stage->has_weight_gradient
				 : row->d == ORR_PASS_B && !stage->has_input_gradient &&
					   (r->p->has_weight || !stage->has_weight_gradient))
		return refuse(r, stage->has_weight_gradient && row->d == ORR_PASS_B
					 ? "nothing before the stage is trained, so it has no "
					   "input gradient: its backward is W"
					 : "the stage has no such pass, since it is frozen or "
					   "nothing before it is trained: leave the row out");
	return 0;
}

static int read_duration(const struct reading *r, const char *cell, struct row *row)
{
	const char *what = place(r, DURATION);
	bool units = false;
	int code = orr_duration_parse(&row->duration_ns, &units, cell, what, r->err);

	if (code)
		return code;
	if (row->duration_ns && units != r->p->units)
		return orr_fail(r->err, ORR_E_INPUT,
				"%s: %.40s has %s unit, and the durations of the graph have %s: "
				"write them alike",
				what, cell, units ? "no" : "a", units ? "one" : "none");
	return row->duration_ns <= MOST ? 0 : refuse(r, "duration: more than can be counted");
}

static int read_size(const struct reading *r, const char *cell, int column, int64_t *bytes)
{
	int code = orr_size_parse(bytes, cell, place(r, column), r->err);

	return code || *bytes <= MOST ? code : refuse(r, "bytes: more than can be counted");
}

static int read_cells(const struct reading *r, char *line, struct row *row)
{
	char *cells[N_COLUMNS], *cell[N_COLUMNS];
	int n = orr_input_cells(line, cells, N_COLUMNS), code;

	if (n != r->n_columns)
		return orr_fail(r->err, ORR_E_INPUT, "%s:%d: %d cells, and the heading has %d",
				r->path, r->line, n, r->n_columns);
	for (int k = 0; k < N_COLUMNS; k++)
		cell[k] = r->column_of[k] >= 0 ? cells[r->column_of[k]] : "";
	if ((code = read_number(r, cell[STAGE], STAGE, r->p->n_stages, &row->s)) ||
	    (code = read_number(r, cell[MICROBATCH], MICROBATCH, r->p->n_microbatches, &row->b)) ||
	    (code = read_pass(r, cell[PASS], row)) ||
	    (*cell[DURATION] && (code = read_duration(r, cell[DURATION], row))) ||
	    (*cell[BYTES] && (code = read_size(r, cell[BYTES], BYTES, &row->bytes))) ||
	    (*cell[STASH] && (code = read_size(r, cell[STASH], STASH, &row->stash_bytes))))
		return code;
	if (row->d == ORR_PASS_W && row->bytes > 0)
		return refuse(r, "bytes: W sends nothing along an edge: leave the cell empty");
	if (row->stash_bytes > 0 &&
	    (row->d != ORR_PASS_F || orr_pipeline_last_pass(r->p, row->s, false) == ORR_PASS_F))
		return refuse(r, row->d == ORR_PASS_F
					 ? "stash: the stage has no backward, and keeps none"
					 : "stash: F makes it: give it in the row of F");
	return 0;
}

static int read_row(const struct reading *r, char *line)
{
	struct row row = {r->line, 0, 0, ORR_PASS_F, -1, -1, -1}, *at;
	int code = read_cells(r, line, &row);

	if (code)
		return code;
	at = &r->rows[(row.b * r->p->n_stages + row.s) * ORR_N_PASSES + (int)row.d];
	if (at->line)
		return orr_fail(r->err, ORR_E_INPUT, "%s:%d: %d%c%d has a row already, in line %d",
				r->path, r->line, row.s, orr_pass_letter(row.d), row.b, at->line);
	*at = row;
	return 0;
}

static int read_rows(struct reading *r, char *text)
{
	int code = *text ? 0
			 : orr_fail(r->err, ORR_E_INPUT, "%s: empty: write a heading and rows",
				    r->path);

	for (char *line; !code && (line = strsep(&text, "\n"));) {
		r->line++;
		if (r->line == 1)
			code = read_heading(r, line);
		else if (line[strspn(line, " \t\r")])
			code = read_row(r, line);
	}
	return code;
}

/* ---- the table ---- */

/* The passes of a stage and microbatch; a backward that is one half alone is stored as if it were
 * whole. */
static void set_duration(const struct orr_pipeline *p, const struct row *row)
{
	const struct orr_stage *stage = &p->stages[row->s];
	struct orr_cost *cost = &p->microbatches->costs[row->b * p->n_stages + row->s];
	bool half = !p->has_weight && !(stage->has_input_gradient && stage->has_weight_gradient);

	if (row->d == ORR_PASS_F)
		cost->forward_ns = row->duration_ns + p->overhead_ns;
	else if (row->d == ORR_PASS_B)
		cost->backward_ns = row->duration_ns * (half ? 2 : 1) + p->overhead_ns;
	else
		cost->weight_ns = row->duration_ns;
}

/* Of F to every stage after it, with the gradients that come back where they are as large; of B to
 * every stage before it. */
static void set_bytes(const struct orr_pipeline *p, const struct row *row)
{
	const struct orr_stage *stage = &p->stages[row->s];
	const struct orr_microbatches *x = p->microbatches;

	for (int i = 0; i < stage->n_out && row->d == ORR_PASS_F; i++) {
		int e = stage->out[i], at = row->b * p->n_edges + e;
		struct orr_cost *to = &x->costs[row->b * p->n_stages + p->edges[e].to];

		if (!p->edges[e].detached && x->gradient_bytes[at] == x->bytes[at])
			x->gradient_bytes[at] = row->bytes;
		to->input_bytes += row->bytes - x->bytes[at];
		x->bytes[at] = row->bytes;
	}
	for (int i = 0; i < stage->n_sent && row->d == ORR_PASS_F; i++) {
		int k = stage->sent[i] - p->n_edges; /* the same to all, or unknown */

		x->outputs[row->b * p->n_outputs + k] =
			p->outputs[k].n_readers == stage->n_out ? row->bytes : 0;
	}
	for (int i = 0; i < stage->n_in && row->d == ORR_PASS_B; i++)
		if (!p->edges[stage->in[i]].detached)
			x->gradient_bytes[row->b * p->n_edges + stage->in[i]] = row->bytes;
}

static void take(struct orr_pipeline *p, const struct row *row)
{
	if (row->duration_ns >= 0)
		set_duration(p, row);
	if (row->bytes >= 0)
		set_bytes(p, row);
	if (row->stash_bytes >= 0)
		p->microbatches->costs[row->b * p->n_stages + row->s].stash_bytes =
			row->stash_bytes;
}

int orr_microbatches_read(struct orr_pipeline *p, const char *path, struct orr_error *err)
{
	struct reading r = {.p = p,
			    .path = path,
			    .err = err,
			    .n_rows =
				    (size_t)p->n_microbatches * (size_t)p->n_stages * ORR_N_PASSES};
	char *text = NULL;
	int code = 0;

	if (p->split)
		return orr_fail(err, ORR_E_INPUT,
				"%s: what it says of stages says nothing of their parts, and the "
				"graph is split among workers: take [lengths], or no split",
				path);
	if (!p->microbatches && (code = orr_microbatches_create(p, p->n_microbatches, err)))
		return code;
	if (!(r.rows = calloc(r.n_rows, sizeof(*r.rows))))
		code = orr_no_memory(err, path);
	else if (!(code = orr_input_read(&text, NULL, path, "a CSV of jobs", err)))
		code = read_rows(&r, text);
	/* F before the others: a gradient that is given counts whatever F sends */
	for (size_t d = 0; d < ORR_N_PASSES; d++)
		for (size_t k = d; k < r.n_rows && !code; k += ORR_N_PASSES)
			if (r.rows[k].line)
				take(p, &r.rows[k]);
	if (!code)
		orr_microbatches_settle(p);
	free(text);
	free(r.rows);
	return code;
}
