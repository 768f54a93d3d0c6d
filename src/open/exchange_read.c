/* Schedule CSV -> table: cells to actions, actions to jobs, and every job once. */
#include "exchange.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/action.h"
#include "base/grow.h"
#include "base/sort.h"
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
	struct item *items;      /* owned; in the order of the file */
	struct orr_keyed *keyed; /* owned; the items by (b,s,d) */
	int n, room;
	int n_rows, n_stages, n_microbatches;
	int first[ORR_N_ACTIONS]; /* item; -1: none */
	bool split, older;
};

/* ---- cells ---- */

static void add_item(struct reading *r, struct item item)
{
	if (!orr_grow(&r->items, r->n, &r->room, sizeof(*r->items))) {
		r->code = orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for %d jobs", r->name,
				   r->n + 1);
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

static int sort_jobs(struct reading *r)
{
	if (!(r->keyed = malloc((size_t)r->n * sizeof(*r->keyed))))
		return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for %d jobs", r->name, r->n);
	for (int i = 0; i < r->n; i++) {
		const struct item *item = &r->items[i];
		int64_t key =
			(((int64_t)item->action.b << 30) + item->action.s) * 4 + (int64_t)item->d;

		r->keyed[i] = (struct orr_keyed){key, i};
		if (item->action.s >= r->n_stages)
			r->n_stages = item->action.s + 1;
		if (item->action.b >= r->n_microbatches)
			r->n_microbatches = item->action.b + 1;
	}
	return orr_sort(r->keyed, r->n, r->err);
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

/* Every stage and microbatch has an F, and of the other passes those that any of the stage has.
 * count: [n_stages * n_passes] jobs of a pass; NULL: every pass has some. */
static int check_each(const struct reading *r, const int *count)
{
	int n_passes = r->split ? 3 : 2, i = 0;

	for (int b = 0; b < r->n_microbatches; b++)
		for (int s = 0; s < r->n_stages; s++)
			for (int d = 0; d < n_passes; d++) {
				const struct item *item =
					i < r->n ? &r->items[r->keyed[i].value] : NULL;

				if (item && item->action.s == s && item->action.b == b &&
				    (int)item->d == d)
					i++;
				else if (d == ORR_PASS_F || !count || count[s * n_passes + d])
					return refuse_missing(r, s, b, (enum orr_pass)d);
			}
	return 0;
}

static int check_jobs(const struct reading *r)
{
	int n_passes = r->split ? 3 : 2, code, *count;

	for (int i = 1; i < r->n; i++)
		if (r->keyed[i].key == r->keyed[i - 1].key)
			return refuse_twice(r, &r->items[r->keyed[i - 1].value],
					    &r->items[r->keyed[i].value]);
	if ((int64_t)r->n_stages * r->n_microbatches > r->n) /* not even all F */
		return check_each(r, NULL);
	count = calloc((size_t)r->n_stages * (size_t)n_passes, sizeof(*count));
	if (!count)
		return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for %d stages", r->name,
				r->n_stages);
	for (int i = 0; i < r->n; i++)
		count[r->items[i].action.s * n_passes + (int)r->items[i].d]++;
	code = check_each(r, count);
	free(count);
	return code;
}

static int fill_table(struct orr_table **out, const struct reading *r)
{
	struct orr_table *table = NULL;
	int n_passes = r->split ? 3 : 2, code;

	if ((code = orr_table_create(&table, r->name, r->n_stages, r->n_rows, r->n_microbatches,
				     r->split, r->err)))
		return code;
	if (!(table->column =
		      calloc((size_t)r->n_stages * (size_t)r->n_microbatches * (size_t)n_passes,
			     sizeof(*table->column)))) {
		orr_table_destroy(table);
		return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for %d jobs", r->name, r->n);
	}
	for (int j = 0; j < r->n_stages * r->n_microbatches * n_passes; j++)
		table->compute[j] = -1;
	for (int i = 0; i < r->n; i++) {
		const struct item *item = &r->items[r->keyed[i].value];
		int j = (item->action.b * r->n_stages + item->action.s) * n_passes + (int)item->d;

		table->compute[j] = item->row - 1;
		table->column[j] = item->column;
		table->priority[j] = (int64_t)item->column * 2 * ORR_MOST_TOGETHER + item->part;
	}
	*out = table;
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
	if ((code = read_rows(&r, text, end)) || (code = name_passes(&r)) ||
	    (code = sort_jobs(&r)) || (code = check_jobs(&r)))
		goto out;
	code = fill_table(out, &r);
out:
	free(r.items);
	free(r.keyed);
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
