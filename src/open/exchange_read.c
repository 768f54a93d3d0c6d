/* Schedule CSV -> table: cells to actions, actions to jobs, and every job once. */
#include "exchange.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/action.h"
#include "base/arrays.h"
#include "base/grow.h"
#include "base/max.h"
#include "base/input_file.h"
#include "base/utf8.h"
#include "schedule/table.h"

#define MOST_BYTES ((size_t)256 << 20)

struct item {
	struct orr_action action;
	enum orr_pass d;
	int row, column; /* from 1 */
	int part;        /* number of the action in that cell */
};

struct reading {
	const char *name;
	int code; /* of the first refusal: nothing is read after it */
	struct orr_error *err;
	struct item *items; /* owned; in the order of the file */
	int n, room;
	int n_rows, n_stages, n_microbatches;
	int first[ORR_N_ACTIONS]; /* item; -1: none */
	bool split, older;
};

/* ---- cells ---- */

static void add_item(struct reading *r, struct item item)
{
	if (!orr_grow(&r->items, r->n, &r->room, sizeof(*r->items))) {
		r->code = orr_no_memory(r->err, r->name);
		return;
	}
	if (r->first[item.action.kind] < 0)
		r->first[item.action.kind] = r->n;
	r->items[r->n++] = item;
}

static void read_cell(struct reading *r, int row, int column, const char *cell, size_t length)
{
	struct orr_action actions[ORR_MOST_TOGETHER];
	char why[256], shown[ORR_UTF8_CELL];
	int n;

	while (length && (*cell == ' ' || *cell == '\t'))
		cell++, length--;
	while (length && (cell[length - 1] == ' ' || cell[length - 1] == '\t'))
		length--;
	if (!length)
		return;
	if (!(n = orr_action_parse(actions, cell, length, why, sizeof(why))))
		r->code = orr_fail(r->err, ORR_E_INPUT, "%s:%d:%d: '%s': %s", r->name, row, column,
				   orr_utf8_print_cell(shown, cell, length), why);
	for (int i = 0; i < n && !r->code; i++)
		if (actions[i].kind != ORR_ACTION_OTHER)
			add_item(r, (struct item){actions[i], ORR_PASS_F, row, column, 2 * i});
}

static bool is_blank(const char *text, const char *end)
{
	for (; text < end; text++)
		if (!*text || !strchr(" \t\r\n", *text))
			return false;
	return true;
}

static void read_row(struct reading *r, int row, const char *text, const char *end)
{
	for (int column = 1; text && !r->code; column++) {
		const char *comma = memchr(text, ',', (size_t)(end - text));
		const char *stop = comma ? comma : end;

		read_cell(r, row, column, text, (size_t)(stop - text));
		text = comma ? comma + 1 : NULL;
	}
}

static int read_rows(struct reading *r, const char *text, const char *end)
{
	while (!r->code && !is_blank(text, end)) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;
		const char *last = stop > text && stop[-1] == '\r' ? stop - 1 : stop;

		r->n_rows++;
		if (is_blank(text, last))
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: a row without cells: write commas for a "
					"worker that has nothing to do",
					r->name, r->n_rows);
		read_row(r, r->n_rows, text, last);
		text = newline ? newline + 1 : end;
	}
	if (!r->code && !r->n)
		return orr_fail(r->err, ORR_E_INPUT,
				"%s: no job in it: write a row a worker, with cells such as "
				"0F0,0F1,0B0,0B1",
				r->name);
	return r->code;
}

/* ---- jobs ---- */

/* Which writing it is, and which job each cell is. */
static int name_passes(struct reading *r)
{
	const int *first = r->first;
	int n = r->n;

	if (first[ORR_ACTION_I] >= 0 && first[ORR_ACTION_BW] >= 0) {
		const struct item *old = &r->items[first[ORR_ACTION_BW]];
		const struct item *new = &r->items[first[ORR_ACTION_I]];

		return orr_fail(
			r->err, ORR_E_INPUT,
			"%s:%d:%d: %dBW%d: BW is of the older writing, in which B is the input "
			"gradient, and %dI%d in row %d, column %d is of the newer: take one of "
			"them",
			r->name, old->row, old->column, old->action.s, old->action.b, new->action.s,
			new->action.b, new->row, new->column);
	}
	r->older =
		first[ORR_ACTION_BW] >= 0 || (first[ORR_ACTION_W] >= 0 && first[ORR_ACTION_I] < 0);
	r->split = first[ORR_ACTION_I] >= 0 || first[ORR_ACTION_W] >= 0 ||
		   (first[ORR_ACTION_BW] >= 0 && first[ORR_ACTION_B] >= 0);
	for (int i = 0; i < n && !r->code; i++) {
		enum orr_action_kind kind = r->items[i].action.kind;
		bool whole = kind == (r->older ? ORR_ACTION_BW : ORR_ACTION_B);

		r->items[i].d = kind == ORR_ACTION_F   ? ORR_PASS_F
				: kind == ORR_ACTION_W ? ORR_PASS_W
						       : ORR_PASS_B;
		if (r->split && whole) { /* both halves */
			struct item weight = r->items[i];

			weight.d = ORR_PASS_W;
			weight.part++;
			add_item(r, weight);
		}
	}
	return r->code;
}

static int refuse_twice(const struct reading *r, const struct item *x, const struct item *y)
{
	bool swapped = y->row < x->row || (y->row == x->row && y->column < x->column);
	const struct item *first = swapped ? y : x, *second = swapped ? x : y;

	return orr_fail(r->err, ORR_E_INPUT,
			"%s:%d:%d: %d%s%d: %d%s%d in row %d, column %d has done that: every "
			"job is there once",
			r->name, second->row, second->column, second->action.s,
			orr_action_word(second->action.kind), second->action.b, first->action.s,
			orr_action_word(first->action.kind), first->action.b, first->row,
			first->column);
}

static const char *word_of(const struct reading *r, enum orr_pass d)
{
	if (d == ORR_PASS_B && r->split)
		return r->older ? "B" : "I";
	return d == ORR_PASS_F ? "F" : d == ORR_PASS_W ? "W" : r->older ? "BW" : "B";
}

/* No job (s,b,d): point to another pass of (s,b), or to the cell that makes it necessary. */
static int refuse_missing(const struct reading *r, int s, int b, enum orr_pass d)
{
	const struct item *far_s = r->items, *far_b = r->items;

	for (int i = 0; i < r->n; i++) {
		const struct item *item = &r->items[i];

		if (item->action.s == s && item->action.b == b)
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d:%d: %d%s%d: its %d%s%d is missing: every "
					"stage and microbatch needs %s",
					r->name, item->row, item->column, s,
					orr_action_word(item->action.kind), b, s, word_of(r, d), b,
					!r->split  ? "F and B"
					: r->older ? "F, B and W"
						   : "F, I and W");
		far_s = item->action.s > far_s->action.s ? item : far_s;
		far_b = item->action.b > far_b->action.b ? item : far_b;
	}
	return orr_fail(r->err, ORR_E_INPUT,
			"%s: %d%s%d is missing: stages go up to %d (row %d, column %d) and "
			"microbatches to %d (row %d, column %d), and every one needs the other",
			r->name, s, word_of(r, d), b, far_s->action.s, far_s->row, far_s->column,
			far_b->action.b, far_b->row, far_b->column);
}

/* There are fewer jobs than stages times microbatches: name the first of these without an F. */
static int refuse_few(const struct reading *r)
{
	bool *has = calloc((size_t)r->n + 1, sizeof(*has));
	int first = 0;

	if (!has)
		return orr_no_memory(r->err, r->name);
	for (int i = 0; i < r->n; i++) {
		const struct orr_action *a = &r->items[i].action;
		int64_t at = (int64_t)a->b * r->n_stages + a->s;

		if (r->items[i].d == ORR_PASS_F && at < r->n)
			has[at] = true;
	}
	while (has[first])
		first++;
	free(has);
	return refuse_missing(r, first % r->n_stages, first / r->n_stages, ORR_PASS_F);
}

/* Every job once: its compute is the number of its cell, from 1 on, until all are there. */
static int fill(struct orr_table *t, const struct reading *r)
{
	int n_jobs = orr_table_n_jobs(t), n_passes = orr_table_n_passes(t), missing;

	for (int i = 0; i < r->n; i++) {
		const struct item *item = &r->items[i];
		int *at = &t->compute[orr_table_index(t, item->action.s, item->action.b, item->d)];

		if (*at)
			return refuse_twice(r, &r->items[*at - 1], item);
		*at = i + 1;
	}
	if ((missing = orr_table_missing(t)) < n_jobs)
		return refuse_missing(r, missing / n_passes % t->n_stages,
				      missing / n_passes / t->n_stages,
				      (enum orr_pass)(missing % n_passes));
	for (int j = 0; j < n_jobs; j++) {
		int i = --t->compute[j];

		if (i < 0)
			continue;
		t->compute[j] = r->items[i].row - 1;
		t->column[j] = r->items[i].column;
		t->priority[j] =
			(int64_t)r->items[i].column * 2 * ORR_MOST_TOGETHER + r->items[i].part;
	}
	return 0;
}

static int make_table(struct orr_table **out, struct reading *r)
{
	struct orr_table *t = NULL;
	int code;

	for (int i = 0; i < r->n; i++) {
		r->n_stages = (int)larger(r->n_stages, r->items[i].action.s + 1);
		r->n_microbatches = (int)larger(r->n_microbatches, r->items[i].action.b + 1);
	}
	if ((int64_t)r->n_stages * r->n_microbatches > r->n)
		return refuse_few(r);
	if ((code = orr_table_create(&t, r->name, r->n_stages, r->n_rows, r->n_microbatches,
				     r->split, r->err)))
		return code;
	t->column = calloc((size_t)orr_table_n_jobs(t), sizeof(*t->column));
	if ((code = t->column ? fill(t, r) : orr_no_memory(r->err, r->name))) {
		orr_table_destroy(t);
		return code;
	}
	*out = t;
	return 0;
}

int orr_exchange_parse(struct orr_table **out, const char *name, const char *text, size_t length,
		       struct orr_error *err)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of byte order, which spreadsheets write */
	struct reading r = {.name = name, .err = err};
	const char *end = text + length;
	int code;

	for (int i = 0; i < ORR_N_ACTIONS; i++)
		r.first[i] = -1;
	if (length > MOST_BYTES)
		return orr_fail(err, ORR_E_INPUT, "%s: more than 256 MiB: no schedule is that long",
				name);
	if (length >= strlen(mark) && !memcmp(text, mark, strlen(mark)))
		text += strlen(mark);
	if (!(code = read_rows(&r, text, end)) && !(code = name_passes(&r)))
		code = make_table(out, &r);
	free(r.items);
	return code;
}

/* ---- the file ---- */

int orr_exchange_read(struct orr_table **out, const char *path, struct orr_error *err)
{
	size_t length = 0;
	char *text = NULL;
	int code = orr_input_read(&text, &length, path,
				  "a schedule's CSV, or a schedule (`orrery schedules` lists them)",
				  err);

	if (!code)
		code = orr_exchange_parse(out, path, text, length, err);
	free(text);
	return code;
}
