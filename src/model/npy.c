/* The header of a .npy file: "\x93NUMPY", a version, the length of a text and the text, a
 * dictionary as Python writes it, {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784)}.
 * The array follows. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/element.h"
#include "data_file.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define MOST_DIGITS 18 /* of a dimension, which an int64_t has room for */

struct text {
	const char *at, *end;
	const char *path;      /* for messages */
	struct orr_error *err; /* theirs */
};

bool orr_npy_is(const char *text, int64_t n_bytes)
{
	return n_bytes >= MAGIC_BYTES && !memcmp(text, MAGIC, MAGIC_BYTES);
}

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

int orr_npy_read(struct orr_tensor_header *header, int64_t *data_at, const char *path,
		 const char *text, int64_t n_bytes, struct orr_error *err)
{
	int64_t before = MAGIC_BYTES + 2, length = 0;
	struct text t = {.path = path, .err = err};
	struct orr_tensor_entry *entry;
	int code;

	if (n_bytes < before + 4 || !orr_npy_is(text, n_bytes))
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
