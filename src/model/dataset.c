#include "orrery/dataset.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* What is read so far. */
struct reader {
	const char *path;
	int64_t line;
	struct orr_dataset *data;
	const int64_t *wanted; /* columns to keep; NULL: all */
	int64_t n_wanted;
	int64_t capacity; /* of data->values, in floats */
	bool heading;     /* the first line has been passed over */
	int64_t blank;    /* the first of the blank lines just read, or 0 */
};

#define FIRST_ROOM 65536
#define MOST_LINE_BYTES (1 << 28)
#define MOST_GIB 64 /* of a file, of which the columns that are wanted are kept in memory */

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
	const char *begin = line, *stop;
	float value;

	for (;; begin = stop + 1) {
		enum cell cell;

		stop = cell_end(begin, end);
		cell = read_cell(begin, stop, &value);
		if (cell == CELL_NUMBER || cell == CELL_NOT_FINITE)
			return false;
		if (stop == end)
			return true;
	}
}

/* Room for n more floats. */
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
		return orr_fail(err, ORR_E_NOMEM, "%s:%lld: no memory for %lld numbers", in->path,
				(long long)in->line, (long long)wanted);
	data->values = values;
	in->capacity = wanted;
	return 0;
}

/* The first row says how many columns there are; of those that are wanted, each gets its place. */
static int count_columns(struct reader *in, const char *line, const char *end,
			 struct orr_error *err)
{
	struct orr_dataset *data = in->data;

	data->n_columns = 1;
	for (const char *c = line; c < end; c++)
		data->n_columns += *c == ',';
	data->n_kept = data->n_columns;
	if (!in->wanted)
		return 0;
	if (!(data->index_of = calloc((size_t)data->n_columns, sizeof(*data->index_of))))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %lld columns", in->path,
				(long long)data->n_columns);
	for (int64_t i = 0; i < in->n_wanted; i++)
		if (in->wanted[i] >= 0 && in->wanted[i] < data->n_columns)
			data->index_of[in->wanted[i]] = 1;
	data->n_kept = 0;
	for (int64_t c = 0; c < data->n_columns; c++)
		data->index_of[c] = data->index_of[c] ? data->n_kept++ : -1;
	return 0;
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
	for (begin = line;; begin = stop + 1) {
		float value = 0;
		enum cell cell;

		stop = cell_end(begin, end);
		cell = read_cell(begin, stop, &value);
		if (cell != CELL_NUMBER)
			return bad_cell(in, n + 1, cell, err);
		if (n < data->n_columns && orr_dataset_index(data, n) >= 0)
			row[orr_dataset_index(data, n)] = value;
		n++;
		if (stop == end)
			break;
	}
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

static int cannot_read(const char *path, int why, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: cannot read it: %s: name a CSV file ([data])", path,
			strerror(why));
}

/* A line at a time, in a buffer that holds the longest so far. */
struct buffer {
	char *text; /* owned; zero-terminated */
	size_t room, begin, end;
};

static int grow(struct reader *in, struct buffer *b, struct orr_error *err)
{
	size_t room = b->room ? 2 * b->room : FIRST_ROOM;
	char *text;

	if (b->room >= MOST_LINE_BYTES)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%lld: a line of more than %d MiB: no row is that long",
				in->path, (long long)in->line + 1, MOST_LINE_BYTES >> 20);
	if (!(text = realloc(b->text, room + 1)))
		return orr_fail(err, ORR_E_NOMEM, "%s:%lld: no memory for a line", in->path,
				(long long)in->line + 1);
	b->text = text;
	b->room = room;
	return 0;
}

/* Append more of the file; *more false: the end was reached. */
static int fill(struct reader *in, struct buffer *b, FILE *file, bool *more, struct orr_error *err)
{
	size_t n;
	int code;

	if (b->begin) {
		memmove(b->text, b->text + b->begin, b->end - b->begin);
		b->end -= b->begin;
		b->begin = 0;
	}
	if (b->end == b->room && (code = grow(in, b, err)))
		return code;
	errno = 0;
	n = fread(b->text + b->end, 1, b->room - b->end, file);
	if (ferror(file))
		return cannot_read(in->path, errno, err);
	b->end += n;
	b->text[b->end] = '\0';
	*more = n > 0;
	return 0;
}

static int read_lines(struct reader *in, FILE *file, struct orr_error *err)
{
	struct buffer b = {0};
	bool more = true;
	size_t seen = 0; /* of the line, without an end */
	int code = 0;

	while (!code && (more || b.begin < b.end)) {
		size_t there = b.end - b.begin;
		char *line = b.text ? b.text + b.begin : NULL;
		char *end = there > seen ? memchr(line + seen, '\n', there - seen) : NULL;

		if (!end && more) {
			seen = there;
			code = fill(in, &b, file, &more, err);
			continue;
		}
		there = end ? (size_t)(end - line) + 1 : there;
		code = read_line(in, line, there, err);
		b.begin += there;
		seen = 0;
	}
	free(b.text);
	return code;
}

/* Every fifth row, from row 0, is for testing. */
static int split(struct orr_dataset *data, const char *path, struct orr_error *err)
{
	int64_t r;

	data->train = malloc((size_t)data->n_rows * sizeof(*data->train));
	data->test = malloc((size_t)data->n_rows * sizeof(*data->test));
	if (!data->train || !data->test)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %lld rows", path,
				(long long)data->n_rows);
	for (r = 0; r < data->n_rows; r++) {
		if (r % 5 == 0)
			data->test[data->n_test++] = r;
		else
			data->train[data->n_train++] = r;
	}
	return 0;
}

/* It must be a file: a FIFO would be waited for, and a device never ends. */
static int open_file(FILE **file, const char *path, struct orr_error *err)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), code;
	struct stat status;

	if (fd < 0)
		return orr_fail(err, ORR_E_INPUT,
				"%s: cannot open it: %s: name a CSV file ([data])", path,
				strerror(errno));
	if (fstat(fd, &status))
		code = cannot_read(path, errno, err);
	else if (S_ISDIR(status.st_mode))
		code = cannot_read(path, EISDIR, err);
	else if (!S_ISREG(status.st_mode))
		code = orr_fail(err, ORR_E_INPUT,
				"%s: no file but a FIFO or a device: name a CSV file ([data])",
				path);
	else if (status.st_size >> 30 >= MOST_GIB)
		code = orr_fail(err, ORR_E_INPUT,
				"%s: %d GiB or more: take a part of it, or fewer columns", path,
				MOST_GIB);
	else if ((*file = fdopen(fd, "r")))
		return 0;
	else
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
	(void)close(fd);
	return code;
}

/* Reading has doubled the capacity; give back the unused part. */
static void trim(struct orr_dataset *data)
{
	size_t bytes = (size_t)(data->n_rows * data->n_kept) * sizeof(float);
	float *values = bytes ? realloc(data->values, bytes) : NULL;

	if (values)
		data->values = values;
}

int orr_dataset_read(struct orr_dataset **out, const char *path, const int64_t *columns, int64_t n,
		     struct orr_error *err)
{
	struct reader in = {.path = path, .wanted = columns, .n_wanted = n};
	FILE *file;
	int code;

	if ((code = open_file(&file, path, err)))
		return code;
	in.data = calloc(1, sizeof(*in.data));
	if (!in.data) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory for a dataset", path);
		goto out;
	}
	if ((code = read_lines(&in, file, err)))
		goto out;
	if (in.data->n_rows < 2) {
		const char *what =
			in.heading ? "there is nothing after the heading" : "the file is empty";

		code = orr_fail(err, ORR_E_INPUT,
				"%s: %s; it needs two rows, one to test and one to train", path,
				in.data->n_rows ? "there is one row of numbers" : what);
		goto out;
	}
	trim(in.data);
	if ((code = split(in.data, path, err)))
		goto out;
	*out = in.data;
	in.data = NULL;
out:
	(void)fclose(file);
	orr_dataset_destroy(in.data);
	return code;
}

void orr_dataset_destroy(struct orr_dataset *data)
{
	if (!data)
		return;
	free(data->index_of);
	free(data->values);
	free(data->train);
	free(data->test);
	free(data);
}

/* A well mixed word (the finalizer of splitmix64). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Eight do for large networks; with four or five bits the orders come out unevenly. */
enum { N_ROUNDS = 16 };

/* A permutation of [0, n) that is computed element by element: a Feistel network on just enough
 * bits, applied again while the result lies outside [0, n). Nothing is stored, so a million rows
 * cost a batch no more than ten. */
struct permutation {
	uint64_t n, keys[N_ROUNDS];
	int left, right; /* bits of the halves */
};

static struct permutation permutation_of(uint64_t n, uint64_t seed, uint64_t epoch)
{
	struct permutation p = {.n = n};
	uint64_t key = mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ epoch;
	int bits = 2, i;

	while (bits < 63 && (UINT64_C(1) << bits) < n)
		bits++;
	p.left = bits / 2;
	p.right = bits - p.left;
	for (i = 0; i < N_ROUNDS; i++)
		p.keys[i] = key = mix(key + UINT64_C(0x9e3779b97f4a7c15));
	return p;
}

static uint64_t permute(const struct permutation *p, uint64_t x)
{
	int i;

	do {
		int left = p->left, right = p->right;

		/* The halves change places, and with them their widths; after an even number of
		 * rounds the widths are as they were. */
		for (i = 0; i < N_ROUNDS; i++) {
			uint64_t low = x & ((UINT64_C(1) << right) - 1), high = x >> right;
			int swap = left;

			high ^= mix(low + p->keys[i]) >> (64 - left);
			x = low << left | high;
			left = right;
			right = swap;
		}
	} while (x >= p->n);
	return x;
}

int orr_dataset_rows(const struct orr_dataset *data, uint64_t seed, int64_t position, int n,
		     int64_t *rows, struct orr_error *err)
{
	struct permutation p;
	int64_t epoch = -1;
	int i;

	assert(data->n_train > 0);
	if (position < 0 || n < 0 || position > INT64_MAX - n)
		return orr_fail(
			err, ORR_E_INPUT,
			"dataset: no %d rows from position %lld on: neither may be negative", n,
			(long long)position);
	for (i = 0; i < n; i++) {
		int64_t at = position + i;

		if (at / data->n_train != epoch) {
			epoch = at / data->n_train;
			p = permutation_of((uint64_t)data->n_train, seed, (uint64_t)epoch);
		}
		rows[i] = data->train[permute(&p, (uint64_t)(at % data->n_train))];
	}
	return 0;
}
