#include "safetensors.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sink.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's numbers are little-endian");

/* Limits of the format. */
#define MOST_HEADER_BYTES 100000000
#define NOTES "__metadata__"
#define READ_FLOATS ((size_t)1 << 16)

struct orr_safetensors {
	int fd;
	char *path; /* for messages */
	json_t *header;
	int64_t data_at, data_bytes;
};

int64_t orr_named_tensor_floats(const struct orr_named_tensor *tensor)
{
	int64_t floats = 1;

	for (int i = 0; i < tensor->n_dims; i++)
		floats *= tensor->shape[i];
	return floats;
}

static int fail_as_wild(const char *path, const char *tensor, int code, struct orr_error *err)
{
	return orr_fail(err, code,
			"%s: a number of the tensor '%s' is not finite: the training had diverged",
			path, tensor);
}

/* ---- writing ---- */

static bool is_finite(const struct orr_named_tensor *tensor)
{
	for (int64_t i = 0; i < orr_named_tensor_floats(tensor); i++)
		if (!isfinite(tensor->values[i]))
			return false;
	return true;
}

static json_t *shape_of(const struct orr_named_tensor *tensor)
{
	json_t *shape = json_array();

	for (int i = 0; i < tensor->n_dims; i++)
		if (json_array_append_new(shape, json_integer(tensor->shape[i]))) {
			json_decref(shape);
			return NULL;
		}
	return shape;
}

/* The header as text, or NULL. */
static char *header_text(const struct orr_named_tensor *tensors, int n, const char *note)
{
	json_t *header = json_object();
	int64_t at = 0;
	char *text = NULL;

	if (!header ||
	    (note && json_object_set_new(header, NOTES, json_pack("{s:s}", "about", note))))
		goto out;
	for (int i = 0; i < n; i++) {
		int64_t end = at + orr_named_tensor_floats(&tensors[i]) * (int64_t)sizeof(float);
		json_t *entry = json_pack("{s:s,s:o,s:[I,I]}", "dtype", "F32", "shape",
					  shape_of(&tensors[i]), "data_offsets", (json_int_t)at,
					  (json_int_t)end);

		if (!entry || json_object_set_new(header, tensors[i].name, entry))
			goto out;
		at = end;
	}
	text = json_dumps(header, JSON_COMPACT);
out:
	json_decref(header);
	return text;
}

int orr_safetensors_write(const struct orr_folder *folder, const char *name,
			  const struct orr_named_tensor *tensors, int n, const char *note,
			  int64_t *n_bytes, char checksum[ORR_CHECKSUM], struct orr_error *err)
{
	struct orr_sink *sink = NULL;
	char *text = header_text(tensors, n, note);
	size_t length = text ? strlen(text) : 0, padding = (8 - length % 8) % 8;
	uint64_t header_bytes = length + padding;
	int code;

	if (!text || header_bytes > MOST_HEADER_BYTES) {
		code = orr_fail(err, ORR_E_UNSUPPORTED,
				"%s/%s: the names of %d tensors do not fit its header, or are "
				"no UTF-8",
				folder->path, name, n);
		goto out;
	}
	for (int i = 0; i < n; i++)
		if (!is_finite(&tensors[i])) {
			code = fail_as_wild(folder->path, tensors[i].name, ORR_E_DIVERGED, err);
			goto out;
		}
	if ((code = orr_sink_create(&sink, folder, name, err)) ||
	    (code = orr_sink_write(sink, &header_bytes, sizeof(header_bytes), err)) ||
	    (code = orr_sink_write(sink, text, length, err)) ||
	    (code = orr_sink_write(sink, "       ", padding, err)))
		goto out;
	for (int i = 0; i < n; i++) {
		size_t bytes = (size_t)orr_named_tensor_floats(&tensors[i]) * sizeof(float);

		if ((code = orr_sink_write(sink, tensors[i].values, bytes, err)))
			goto out;
	}
	code = orr_sink_finish(sink, n_bytes, checksum, err);
out:
	orr_sink_destroy(sink);
	free(text);
	return code;
}

/* ---- reading ---- */

static int fail_to_read(const char *path, const char *what, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: no whole safetensors file: %s", path, what);
}

/* All of n bytes from a place in the file. */
static int read_at(int fd, void *to, size_t n, int64_t at)
{
	char *rest = to;

	while (n > 0) {
		ssize_t got = pread(fd, rest, n, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		rest += got;
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

/* Its first bytes up to the data, as text that the caller frees. */
static int read_header(struct orr_safetensors *file, int64_t file_bytes, char **text,
		       struct orr_error *err)
{
	uint64_t header_bytes;

	if (read_at(file->fd, &header_bytes, sizeof(header_bytes), 0))
		return fail_to_read(file->path, "it is shorter than 8 bytes", err);
	if (header_bytes > MOST_HEADER_BYTES || (int64_t)header_bytes > file_bytes - 8)
		return fail_to_read(file->path, "its header is longer than it is", err);
	file->data_at = 8 + (int64_t)header_bytes;
	file->data_bytes = file_bytes - file->data_at;
	if (!(*text = malloc((size_t)file->data_at)))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its header", file->path);
	if (read_at(file->fd, *text, (size_t)file->data_at, 0))
		return fail_to_read(file->path, "its header cannot be read", err);
	return 0;
}

/* Read all data through. *wild: where the first number that is not finite lies in them, or -1. */
static int read_data(const struct orr_safetensors *file, struct orr_digest *digest, int64_t *wild,
		     struct orr_error *err)
{
	float *floats = malloc(READ_FLOATS * sizeof(*floats));
	int code = 0;

	*wild = -1;
	if (!floats)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", file->path);
	for (int64_t at = 0; at < file->data_bytes && !code;) {
		int64_t left = file->data_bytes - at;
		size_t most = READ_FLOATS * sizeof(*floats),
		       n = left < (int64_t)most ? (size_t)left : most;

		if (read_at(file->fd, floats, n, file->data_at + at))
			code = fail_to_read(file->path, "it cannot be read to its end", err);
		else
			orr_digest_add(digest, floats, n);
		for (size_t i = 0; i < n / sizeof(*floats) && !code && *wild < 0; i++)
			if (!isfinite(floats[i]))
				*wild = at + (int64_t)(i * sizeof(*floats));
		at += (int64_t)n;
	}
	free(floats);
	return code;
}

/* Where a tensor lies in the data. */
struct extent {
	json_int_t at, end;
	const char *name;
};

static int first_first(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at)
			      : (x->end > y->end) - (x->end < y->end);
}

/* From a tensor's entry in the header; false: its name, type, shape and place do not fit. */
static bool extent_init(struct extent *extent, const char *name, json_t *entry)
{
	int64_t n_bytes = sizeof(float);
	const char *type;
	json_t *shape;

	if (json_unpack(entry, "{s:s,s:o,s:[I,I!]}", "dtype", &type, "shape", &shape,
			"data_offsets", &extent->at, &extent->end) ||
	    strcmp(type, "F32") != 0 || !json_is_array(shape) || extent->at < 0 ||
	    extent->end < extent->at)
		return false;
	for (const char *c = name; *c; c++)
		if (iscntrl((unsigned char)*c))
			return false;
	for (size_t i = 0; i < json_array_size(shape); i++) {
		json_t *size = json_array_get(shape, i);

		if (!json_is_integer(size) || json_integer_value(size) < 0 ||
		    __builtin_mul_overflow(n_bytes, json_integer_value(size), &n_bytes))
			return false;
	}
	extent->name = name;
	return extent->end - extent->at == n_bytes;
}

/* The tensors fill the data, one after the other. wild: where a number is not finite, or -1. */
static int check_layout(const struct orr_safetensors *file, int64_t wild, struct orr_error *err)
{
	struct extent *extents = calloc(json_object_size(file->header) + 1, sizeof(*extents));
	int64_t end = 0;
	const char *key, *diverged = NULL;
	bool fits = true;
	json_t *entry;
	int n = 0, code = 0;

	if (!extents)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", file->path);
	json_object_foreach(file->header, key, entry)
	{
		if (!strcmp(key, NOTES))
			continue;
		if (!extent_init(&extents[n++], key, entry)) {
			code = fail_to_read(
				file->path,
				"a tensor's name, dtype, shape or data_offsets do not fit", err);
			goto out;
		}
	}
	qsort(extents, (size_t)n, sizeof(*extents), first_first);
	for (int i = 0; i < n && fits; i++) {
		fits = extents[i].at == end;
		end = extents[i].end;
		if (wild >= extents[i].at && wild < end)
			diverged = extents[i].name;
	}
	if (!fits || end != file->data_bytes)
		code = fail_to_read(file->path, "its tensors overlap or leave gaps", err);
	else if (diverged)
		code = fail_as_wild(file->path, diverged, ORR_E_INPUT, err);
out:
	free(extents);
	return code;
}

static int read_through(struct orr_safetensors *file, int64_t file_bytes, const char *checksum,
			struct orr_error *err)
{
	struct orr_digest *digest = orr_digest_create();
	char *text = NULL, found[ORR_CHECKSUM];
	int64_t wild;
	int code;

	if (!digest) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", file->path);
		goto out;
	}
	if ((code = read_header(file, file_bytes, &text, err)))
		goto out;
	orr_digest_add(digest, text, (size_t)file->data_at);
	if ((code = read_data(file, digest, &wild, err)))
		goto out;
	orr_digest_print(digest, found);
	if (checksum && strcmp(checksum, found) != 0) {
		code = orr_fail(err, ORR_E_INPUT, "%s: is damaged: its checksum does not fit",
				file->path);
		goto out;
	}
	file->header =
		json_loadb(text + 8, (size_t)file->data_at - 8, JSON_REJECT_DUPLICATES, NULL);
	code = json_is_object(file->header)
		       ? check_layout(file, wild, err)
		       : fail_to_read(file->path, "its header is no JSON object", err);
out:
	orr_digest_destroy(digest);
	free(text);
	return code;
}

int orr_safetensors_open(struct orr_safetensors **out, const struct orr_folder *folder,
			 const char *name, const char *checksum, struct orr_error *err)
{
	struct orr_safetensors *file = calloc(1, sizeof(*file));
	int64_t n_bytes;
	int code;

	if (file)
		file->fd = -1;
	if (!file || !(file->path = orr_folder_path(folder, name))) {
		code = orr_fail(err, ORR_E_NOMEM, "%s/%s: no memory to read it", folder->path,
				name);
		goto out;
	}
	if ((code = orr_folder_read(folder, name, &file->fd, &n_bytes, err)) ||
	    (code = read_through(file, n_bytes, checksum, err)))
		goto out;
	*out = file;
	file = NULL;
out:
	orr_safetensors_close(file);
	return code;
}

void orr_safetensors_close(struct orr_safetensors *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	json_decref(file->header);
	free(file->path);
	free(file);
}

int orr_safetensors_has(const struct orr_safetensors *file, const char *tensor)
{
	return strcmp(tensor, NOTES) != 0 && json_object_get(file->header, tensor) != NULL;
}

const char *orr_safetensors_shared(const struct orr_safetensors *file,
				   const struct orr_safetensors *other)
{
	const char *key;
	json_t *entry;

	json_object_foreach(file->header, key, entry)
	{
		if (orr_safetensors_has(other, key))
			return key;
	}
	return NULL;
}

int orr_safetensors_read(const struct orr_safetensors *file, const struct orr_named_tensor *tensor,
			 struct orr_error *err)
{
	json_t *entry = json_object_get(file->header, tensor->name), *shape = shape_of(tensor);
	struct extent extent = {0, 0, NULL};
	int code = 0;

	if (!shape)
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", file->path);
	else if (!entry || !extent_init(&extent, tensor->name, entry))
		code = orr_fail(err, ORR_E_INPUT, "%s: has no tensor '%s'", file->path,
				tensor->name);
	else if (!json_equal(json_object_get(entry, "shape"), shape))
		code = orr_fail(err, ORR_E_INPUT,
				"%s: the tensor '%s' has another shape than the model's",
				file->path, tensor->name);
	else if (read_at(file->fd, tensor->values, (size_t)(extent.end - extent.at),
			 file->data_at + extent.at))
		code = fail_to_read(file->path, "it cannot be read to its end", err);
	json_decref(shape);
	return code;
}
