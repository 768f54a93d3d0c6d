/* A data set in a .safetensors or .npy file, mapped. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/arrays.h"
#include "base/element.h"
#include "base/tensor_header.h"
#include "codelets/operator.h"
#include "data_file.h"
#include "orrery/graph.h"

/* Of larger files this number of pieces, spread evenly, is in the checksum, and all of a smaller
 * one: a rank of many reads no more of a large file than its own rows. */
#define N_PIECES 1024
#define PIECE_BYTES 65536

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define MOST_DIGITS 18 /* of a dimension, which an int64_t has room for */

static bool ends_in(const char *path, const char *ending)
{
	size_t n = strlen(path), m = strlen(ending);

	return n >= m && !strcmp(path + n - m, ending);
}

static bool is_npy(const char *text, int64_t n_bytes)
{
	return n_bytes >= MAGIC_BYTES && !memcmp(text, MAGIC, MAGIC_BYTES);
}

bool orr_mapped_is(const struct orr_data_file *in)
{
	char text[16];
	ssize_t n = pread(in->fd, text, sizeof(text), 0);

	/* safetensors: JSON behind its length, whose last bytes are zeros, which no CSV has */
	return ends_in(in->path, ".safetensors") || ends_in(in->path, ".npy") ||
	       (n > 8 && !text[6] && !text[7] && text[8] == '{') || is_npy(text, n);
}

/* Each has the rows of those before. */
static int check_shape(const struct orr_dataset *data, const char *path, const char *name,
		       const int64_t *dims, int n_dims, struct orr_error *err)
{
	const char *of = name ? "the tensor " : "its array", *which = name ? name : "";

	if (n_dims < 1)
		return orr_fail(err, ORR_E_INPUT,
				"%s: %s%.80s is a single number, and the first dimension of each "
				"is the rows: take it out of the file",
				path, of, which);
	if (data->n_tensors && dims[0] != data->n_rows)
		return orr_fail(err, ORR_E_INPUT,
				"%s: the tensor %.80s has %lld rows and %.80s has %lld: the first "
				"dimension is the rows, the same for every tensor; take the one "
				"that is no data out of the file",
				path, which, (long long)dims[0], data->tensors[0].name,
				(long long)data->n_rows);
	if (dims[0] < 2)
		return orr_fail(err, ORR_E_INPUT,
				"%s: %s%.80s has %lld row%s; it needs two rows, one to test and "
				"one to train",
				path, of, which, (long long)dims[0], dims[0] == 1 ? "" : "s");
	for (int i = 1; i < n_dims; i++)
		if (dims[i] < 1)
			return orr_fail(err, ORR_E_INPUT,
					"%s: %s%.80s has rows of no columns: take it out", path, of,
					which);
	return 0;
}

static int add(struct orr_dataset *data, const struct orr_data_file *in,
	       const struct orr_tensor_entry *entry, int64_t data_at, struct orr_error *err)
{
	struct orr_data_tensor *tensor = &data->tensors[data->n_tensors];
	int code = check_shape(data, in->path, entry->name, entry->dims, entry->n_dims, err);

	if (code)
		return code;
	data->n_rows = entry->dims[0];
	*tensor = (struct orr_data_tensor){.element = entry->element, .n_columns = 1};
	for (int i = 1; i < entry->n_dims; i++) /* which fits: the file has all of it */
		tensor->n_columns *= entry->dims[i];
	if (tensor->n_columns > ORR_MOST_COLUMNS - data->n_columns)
		return orr_fail(err, ORR_E_INPUT,
				"%s: has rows of more than %d numbers: take what is no data out of "
				"the file",
				in->path, ORR_MOST_COLUMNS);
	tensor->stride = tensor->n_columns;
	tensor->elements = (const char *)data->map + data_at + entry->at;
	data->n_columns += tensor->n_columns;
	data->n_tensors++;
	if (entry->name && !(tensor->name = strdup(entry->name)))
		return orr_no_memory(err, in->path);
	code = orr_data_keep(&tensor->index_of, &tensor->n_kept, tensor->n_columns, entry->name, in,
			     err);
	for (int64_t c = 0; !code && tensor->index_of && c < tensor->n_columns; c++)
		if (tensor->index_of[c] >= 0) /* in the file all are there */
			tensor->index_of[c] = c;
	return code;
}

static int add_all(struct orr_dataset *data, const struct orr_data_file *in,
		   const struct orr_tensor_header *header, int64_t data_at, struct orr_error *err)
{
	int code = 0;

	if (header->n == 0)
		return orr_fail(err, ORR_E_INPUT, "%s: has no tensors: name other data ([data])",
				in->path);
	data->tensors = calloc((size_t)header->n, sizeof(*data->tensors));
	if (!data->tensors)
		return orr_no_memory(err, in->path);
	for (int i = 0; i < header->n && !code; i++)
		code = add(data, in, &header->entries[i], data_at, err);
	return code;
}

static int read_safetensors(struct orr_tensor_header *header, int64_t *data_at, const char *path,
			    const char *text, int64_t n_bytes, struct orr_error *err)
{
	int64_t header_bytes;
	int code;

	if (n_bytes < 8)
		return orr_tensor_header_fail(path, "it is shorter than 8 bytes", err);
	if ((code = orr_tensor_header_bytes(&header_bytes, path, text, n_bytes, err)))
		return code;
	*data_at = 8 + header_bytes;
	return orr_tensor_header_read(header, path, text + 8, (size_t)header_bytes,
				      n_bytes - *data_at, err);
}

/* ---- .npy: "\x93NUMPY", a version, the length of a text and the text, a dictionary as Python
 * writes it, {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784)}. The array follows.
 * ---- */

struct text {
	const char *at, *end;
	const char *path;      /* for messages */
	struct orr_error *err; /* theirs */
};

static int fail_with(const struct text *t, const char *what, const char *cure)
{
	return orr_fail(t->err, ORR_E_INPUT, "%s: no whole .npy file: %s; %s", t->path, what, cure);
}

static int fail(const struct text *t, const char *what)
{
	return fail_with(t, what, "save it again");
}

static void skip_blanks(struct text *t)
{
	while (t->at < t->end && isspace((unsigned char)*t->at))
		t->at++;
}

static bool take(struct text *t, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(t);
	if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
		return false;
	t->at += n;
	return true;
}

/* 'text' or "text", without backslashes. */
static bool take_string(struct text *t, char *to, size_t size)
{
	char quote;
	size_t n = 0;

	skip_blanks(t);
	if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
		return false;
	for (quote = *t->at++; t->at < t->end && *t->at != quote && n + 1 < size; t->at++)
		to[n++] = *t->at;
	to[n] = '\0';
	return t->at < t->end && *t->at++ == quote;
}

static bool take_count(struct text *t, int64_t *count)
{
	int n = 0;

	skip_blanks(t);
	for (*count = 0; t->at < t->end && isdigit((unsigned char)*t->at); t->at++, n++)
		if (n < MOST_DIGITS)
			*count = *count * 10 + (*t->at - '0');
	return n > 0 && n <= MOST_DIGITS;
}

/* The comma between two, or the end. */
static bool take_comma(struct text *t, char end)
{
	return take(t, ",") || (t->at < t->end && *t->at == end);
}

/* (), (3,) or (3, 4) */
static bool take_shape(struct text *t, struct orr_tensor_entry *entry)
{
	if (!take(t, "("))
		return false;
	for (entry->n_dims = 0; !take(t, ")"); entry->n_dims++)
		if (entry->n_dims == ORR_TENSOR_MOST_DIMS ||
		    !take_count(t, &entry->dims[entry->n_dims]) || !take_comma(t, ')'))
			return false;
	return true;
}

/* "<f4": order, kind and bytes. A single byte has no order. */
static int element_of(const char *type)
{
	static const struct {
		const char *type;
		enum orr_element element;
	} types[] = {
		{"<f4", ORR_ELEMENT_F32}, {"<f2", ORR_ELEMENT_F16}, {"<f8", ORR_ELEMENT_F64},
		{"|i1", ORR_ELEMENT_I8},  {"<i2", ORR_ELEMENT_I16}, {"<i4", ORR_ELEMENT_I32},
		{"<i8", ORR_ELEMENT_I64}, {"|u1", ORR_ELEMENT_U8},  {"<u2", ORR_ELEMENT_U16},
		{"<u4", ORR_ELEMENT_U32}, {"<u8", ORR_ELEMENT_U64}, {"|b1", ORR_ELEMENT_BOOL},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(types[i].type, type))
			return (int)types[i].element;
	return -1;
}

/* Its keys, as bits. */
enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };

static int read_pair(struct orr_tensor_entry *entry, struct text *t, int *element, int *keys)
{
	char key[16], type[16];
	int bit;

	if (!take_string(t, key, sizeof(key)) || !take(t, ":"))
		return fail(t, "its header is no dictionary");
	bit = !strcmp(key, "descr")           ? DESCR
	      : !strcmp(key, "fortran_order") ? ORDER
	      : !strcmp(key, "shape")         ? SHAPE
					      : 0;
	if (!bit)
		return fail(t, "its header has another key than descr, fortran_order and shape");
	if (*keys & bit)
		return fail(t, "its header is not of descr, fortran_order and shape");
	*keys |= bit;
	if (bit == SHAPE)
		return take_shape(t, entry) ? 0
					    : fail(t, "its shape is none of up to 8 dimensions");
	if (bit == ORDER)
		return take(t, "False") ? 0
					: fail_with(t, "it lies column by column (fortran_order)",
						    "save numpy.ascontiguousarray() of it");
	if (!take_string(t, type, sizeof(type)) || (*element = element_of(type)) < 0)
		return fail_with(t,
				 "its type (descr) is none of f2, f4, f8, i1 to i8, u1 to u8 and "
				 "b1, little-endian",
				 "save .astype('<f4') of it");
	return 0;
}

static int read_dictionary(struct orr_tensor_entry *entry, struct text *t)
{
	int element = -1, keys = 0, code;

	if (!take(t, "{"))
		return fail(t, "its header is no dictionary");
	while (!take(t, "}")) {
		if ((code = read_pair(entry, t, &element, &keys)))
			return code;
		if (!take_comma(t, '}'))
			return fail(t, "its header is no dictionary");
	}
	if (keys != ALL)
		return fail(t, "its header is not of descr, fortran_order and shape");
	entry->element = (enum orr_element)element;
	return 0;
}

/* Bytes of the array; -1: more than there can be. */
static int64_t array_bytes(const struct orr_tensor_entry *entry)
{
	int64_t n_bytes = orr_element_bytes(entry->element);

	for (int i = 0; i < entry->n_dims; i++)
		if (__builtin_mul_overflow(n_bytes, entry->dims[i], &n_bytes))
			return -1;
	return n_bytes;
}

static int read_npy(struct orr_tensor_header *header, int64_t *data_at, const char *path,
		    const char *text, int64_t n_bytes, struct orr_error *err)
{
	int64_t before = MAGIC_BYTES + 2, length = 0;
	struct text t = {.path = path, .err = err};
	struct orr_tensor_entry *entry;
	int code;

	if (n_bytes < before + 4 || !is_npy(text, n_bytes))
		return fail(&t, "it does not begin as one does");
	/* version 1.0 has two bytes of length, 2.0 and 3.0 four */
	for (int i = text[MAGIC_BYTES] == 1 ? 1 : 3; i >= 0; i--)
		length = length << 8 | (unsigned char)text[before + i];
	before += text[MAGIC_BYTES] == 1 ? 2 : 4;
	if (length > n_bytes - before)
		return fail(&t, "its header is longer than it is");
	*data_at = before + length;
	if (!(entry = calloc(1, sizeof(*entry))))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
	*header = (struct orr_tensor_header){.n = 1, .entries = entry};
	t.at = text + before;
	t.end = text + *data_at;
	if ((code = read_dictionary(entry, &t)))
		return code;
	if (array_bytes(entry) != n_bytes - *data_at)
		return fail(&t, "its array is not as long as its shape and type say");
	entry->end = n_bytes - *data_at;
	return 0;
}

/* ---- all of it ---- */

/* The header and the size, of the data all or evenly spread pieces. */
static uint64_t checksum(const char *text, int64_t n_bytes, int64_t data_at)
{
	int64_t data_bytes = n_bytes - data_at, gap = (data_bytes - PIECE_BYTES) / (N_PIECES - 1);
	uint64_t sum = XXH3_64bits_withSeed(text, (size_t)data_at, (uint64_t)n_bytes);

	text += data_at;
	if (gap <= PIECE_BYTES)
		return XXH3_64bits_withSeed(text, (size_t)data_bytes, sum);
	for (int64_t i = 0; i < N_PIECES - 1; i++)
		sum = XXH3_64bits_withSeed(text + i * gap, PIECE_BYTES, sum);
	return XXH3_64bits_withSeed(text + data_bytes - PIECE_BYTES, PIECE_BYTES, sum);
}

int orr_mapped_read(struct orr_dataset *data, const struct orr_data_file *in, struct orr_error *err)
{
	struct orr_tensor_header header = {0};
	size_t n_bytes = (size_t)in->n_bytes;
	void *map = n_bytes ? mmap(NULL, n_bytes, PROT_READ, MAP_SHARED, in->fd, 0) : NULL;
	int64_t data_at = 0;
	int code;

	if (map == MAP_FAILED)
		code = orr_data_cannot_read(in->path, errno, err);
	else if (!map)
		code = orr_fail(err, ORR_E_INPUT, "%s: the file is empty: name other data ([data])",
				in->path);
	(void)close(in->fd);
	if (!map || map == MAP_FAILED)
		return code;
	data->map = map;
	data->map_bytes = n_bytes;
	code = is_npy(map, in->n_bytes) || ends_in(in->path, ".npy")
		       ? read_npy(&header, &data_at, in->path, map, in->n_bytes, err)
		       : read_safetensors(&header, &data_at, in->path, map, in->n_bytes, err);
	if (!code && !(code = add_all(data, in, &header, data_at, err)))
		data->checksum = checksum(map, in->n_bytes, data_at);
	orr_tensor_header_fini(&header);
	return code;
}
