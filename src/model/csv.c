/* A CSV file of numbers. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "data_file.h"
#include "orrery/graph.h"
#include "base/arrays.h"
#include "base/grow.h"

/* ---- for mapped files, too ---- */

int orr_data_cannot_read(const char *path, int why, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: cannot read it: %s: name " ORR_DATA_KINDS, path,
			strerror(why));
}

int orr_data_keep(int64_t **index_of, int64_t *n_kept, int64_t n_columns, const char *name,
		  const struct orr_data_file *in, struct orr_error *err)
{
	*n_kept = n_columns;
	if (!in->wanted)
		return 0;
	if (!(*index_of = calloc((size_t)n_columns, sizeof(**index_of))))
		return orr_no_memory(err, in->path);
	for (int i = 0; i < in->n_wanted; i++) {
		const struct orr_data_columns *w = &in->wanted[i];
		bool here = !w->tensor || (name && !strcmp(w->tensor, name));

		for (int64_t k = 0; here && k < w->n; k++)
			if (w->columns[k] >= 0 && w->columns[k] < n_columns)
				(*index_of)[w->columns[k]] = 1;
	}
	*n_kept = 0;
	for (int64_t c = 0; c < n_columns; c++)
		(*index_of)[c] = (*index_of)[c] ? (*n_kept)++ : -1;
	return 0;
}

/* ---- CSV ---- */

struct reader {
	const struct orr_data_file *file;
	const char *path; /* its */
	int64_t line;
	struct orr_dataset *data;
	int64_t capacity; /* of data->values, in floats */
	bool heading;     /* the first line has been passed over */
	int64_t blank;    /* the first of the blank lines just read, or 0 */
};

#define MOST_LINE_BYTES (1 << 28)
#define MOST_GIB 64 /* of a file, of which the columns that are read are kept in memory */

enum cell { CELL_NUMBER, CELL_EMPTY, CELL_WORD, CELL_NOT_FINITE };

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Whole numbers of up to seven digits, which float holds exactly: the common case in tables. */
static bool read_small(const char *begin, const char *end, float *value)
{
	int sum = 0;

	if (end - begin > 7)
		return false;
	for (; begin < end; begin++) {
		if (*begin < '0' || *begin > '9')
			return false;
		sum = sum * 10 + (*begin - '0');
	}
	*value = (float)sum;
	return true;
}

/* One cell, from begin up to end. The text ends in a zero somewhere behind it. */
static enum cell read_cell(const char *begin, const char *end, float *value)
{
	char *stop;

	while (begin < end && is_blank(*begin))
		begin++;
	while (begin < end && is_blank(end[-1]))
		end--;
	if (begin == end)
		return CELL_EMPTY;
	if (read_small(begin, end, value))
		return CELL_NUMBER;
	/* strtof would pass over other white space, and knows hexadecimal. */
	if (!strchr("+-.0123456789iInN", *begin) || memchr(begin, 'x', (size_t)(end - begin)) ||
	    memchr(begin, 'X', (size_t)(end - begin)))
		return CELL_WORD;
	*value = strtof(begin, &stop);
	if (stop != end)
		return CELL_WORD;
	return isfinite(*value) ? CELL_NUMBER : CELL_NOT_FINITE;
}

/* Without quoting the file: the user may not be allowed to read it. */
static int bad_cell(const struct reader *in, int64_t column, enum cell cell, struct orr_error *err)
{
	static const char *const why[] = {
		[CELL_EMPTY] = "the cell is empty",
		[CELL_WORD] = "no number",
		[CELL_NOT_FINITE] = "a number that is not finite, or too large for a float",
	};

	return orr_fail(err, ORR_E_INPUT, "%s:%lld: column %lld: %s", in->path, (long long)in->line,
			(long long)column, why[cell]);
}

static const char *cell_end(const char *begin, const char *end)
{
	const char *comma = memchr(begin, ',', (size_t)(end - begin));

	return comma ? comma : end;
}

/* A heading: words and empty cells, no number. */
static bool is_heading(const char *line, const char *end)
{
	const char *stop;
	float value;

	do {
		enum cell cell = read_cell(line, stop = cell_end(line, end), &value);

		if (cell == CELL_NUMBER || cell == CELL_NOT_FINITE)
			return false;
		line = stop + 1;
	} while (stop < end);
	return true;
}

static int reserve(struct reader *in, int64_t n, struct orr_error *err)
{
	struct orr_dataset *data = in->data;
	int64_t used = data->n_rows * data->n_kept, wanted = used + n;
	float *values;

	if (wanted <= in->capacity)
		return 0;
	if (wanted < 2 * in->capacity)
		wanted = 2 * in->capacity;
	values = realloc(data->values, (size_t)wanted * sizeof(*values));
	if (!values)
		return orr_no_memory(err, in->path);
	data->values = values;
	in->capacity = wanted;
	return 0;
}

/* The first row says how many columns there are. */
static int count_columns(struct reader *in, const char *line, const char *end,
			 struct orr_error *err)
{
	struct orr_dataset *data = in->data;

	data->n_columns = 1;
	for (const char *c = line; c < end; c++)
		data->n_columns += *c == ',';
	return orr_data_keep(&data->index_of, &data->n_kept, data->n_columns, NULL, in->file, err);
}

static int read_row(struct reader *in, const char *line, const char *end, struct orr_error *err)
{
	struct orr_dataset *data = in->data;
	const char *begin = line, *stop;
	int64_t n = 0;
	float *row;
	int code;

	if ((data->n_rows == 0 && (code = count_columns(in, line, end, err))) ||
	    (code = reserve(in, data->n_kept, err)))
		return code;
	row = data->values ? data->values + data->n_rows * data->n_kept : NULL;
	do {
		float value = 0;
		enum cell cell = read_cell(begin, stop = cell_end(begin, end), &value);
		int64_t place = n >= data->n_columns ? -1 : data->index_of ? data->index_of[n] : n;

		n++;
		if (cell != CELL_NUMBER)
			return bad_cell(in, n, cell, err);
		if (place >= 0)
			row[place] = value;
		begin = stop + 1;
	} while (stop < end);
	if (n != data->n_columns)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%lld: this line has %lld cells, the lines before have %lld",
				in->path, (long long)in->line, (long long)n,
				(long long)data->n_columns);
	data->checksum = XXH3_64bits_withSeed(line, (size_t)(end - line), data->checksum);
	data->n_rows++;
	return 0;
}

static int read_line(struct reader *in, const char *line, size_t length, struct orr_error *err)
{
	const char *end = line + length, *c = line;

	in->line++;
	if (length > MOST_LINE_BYTES)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%lld: a line of more than %d MiB: no row is that long",
				in->path, (long long)in->line, MOST_LINE_BYTES >> 20);
	if (in->line == 1 && length >= 3 && !memcmp(line, "\xef\xbb\xbf", 3))
		c = line += 3; /* the mark that some programs put before UTF-8 */
	if (end > line && end[-1] == '\n')
		end--;
	if (end > line && end[-1] == '\r')
		end--;
	while (c < end && is_blank(*c))
		c++;
	if (c == end) {
		in->blank = in->blank ? in->blank : in->line;
		return 0;
	}
	if (in->blank)
		return orr_fail(err, ORR_E_INPUT, "%s:%lld: the line is blank; take it out",
				in->path, (long long)in->blank);
	if (in->line == 1 && is_heading(line, end)) {
		in->heading = true;
		return 0;
	}
	return read_row(in, line, end, err);
}

/* Of a line that is too long no more is read than shows that it is. */
static int read_lines(struct reader *in, FILE *file, struct orr_error *err)
{
	char *text = NULL, *end;
	int room = 0, from, to = 0, n, code = 0;

	while (!code && !feof(file) && !ferror(file) && orr_grow(&text, to + 1, &room, 1)) {
		to += (int)fread(text + to, 1, (size_t)(room - 1 - to), file);
		text[to] = '\0';
		for (from = 0; from < to && !code; from += n) {
			end = memchr(text + from, '\n', (size_t)(to - from));
			n = end ? (int)(end + 1 - text) - from : to - from;
			if (!end && !feof(file) && n <= MOST_LINE_BYTES)
				break;
			code = read_line(in, text + from, (size_t)n, err);
		}
		to -= from;
		memmove(text, text + from, (size_t)to);
	}
	if (!code && !feof(file))
		code = ferror(file) ? orr_data_cannot_read(in->path, errno, err)
				    : orr_no_memory(err, in->path);
	free(text);
	return code;
}

int orr_csv_read(struct orr_dataset *data, const struct orr_data_file *in, struct orr_error *err)
{
	struct reader r = {.file = in, .path = in->path, .data = data};
	FILE *file;
	int code;

	if (in->n_bytes >> 30 >= MOST_GIB) {
		(void)close(in->fd);
		return orr_fail(err, ORR_E_INPUT,
				"%s: %d GiB or more: make a .safetensors or .npy file of it, which "
				"is mapped, or take a part of it",
				in->path, MOST_GIB);
	}
	if (!(file = fdopen(in->fd, "r"))) {
		(void)close(in->fd);
		return orr_no_memory(err, in->path);
	}
	if (!(code = read_lines(&r, file, err)) && data->n_rows < 2) {
		const char *what =
			r.heading ? "there is nothing after the heading" : "the file is empty";

		code = orr_fail(err, ORR_E_INPUT,
				"%s: %s; it needs two rows, one to test and one to train", in->path,
				data->n_rows ? "there is one row of numbers" : what);
	}
	(void)fclose(file);
	return code;
}
