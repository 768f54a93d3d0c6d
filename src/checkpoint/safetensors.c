#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's numbers are little-endian");

/* What the format allows, for those who read it. */
#define MOST_HEADER_BYTES 100000000
#define NOTES "__metadata__"

struct orr_safetensors {
	int fd;
	char *path;
	json_t *header;
	int64_t data_at, data_bytes;
};

int64_t orr_named_tensor_floats(const struct orr_named_tensor *tensor)
{
	return tensor->shape[0] * (tensor->n_dims == 2 ? tensor->shape[1] : 1);
}

/* ---- writing ---- */

static json_t *shape_of(const struct orr_named_tensor *tensor)
{
	return tensor->n_dims == 2 ? json_pack("[I,I]", (json_int_t)tensor->shape[0],
					       (json_int_t)tensor->shape[1])
				   : json_pack("[I]", (json_int_t)tensor->shape[0]);
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

int orr_safetensors_write(const char *path, const struct orr_named_tensor *tensors, int n,
			  const char *note, int64_t *n_bytes, char checksum[ORR_CHECKSUM],
			  struct orr_error *err)
{
	struct orr_sink *sink = NULL;
	char *text = header_text(tensors, n, note);
	size_t length = text ? strlen(text) : 0, padding = (8 - length % 8) % 8;
	uint64_t header_bytes = length + padding;
	int code;

	if (!text || header_bytes > MOST_HEADER_BYTES) {
		code = orr_fail(err, ORR_E_UNSUPPORTED,
				"%s: the names of %d tensors do not fit its header, or are "
				"no UTF-8",
				path, n);
		goto out;
	}
	if ((code = orr_sink_create(&sink, path, err)) ||
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

static int read_header(struct orr_safetensors *file, int64_t file_bytes, struct orr_error *err)
{
	uint64_t header_bytes;
	char *text = NULL;
	int code = 0;

	if (read_at(file->fd, &header_bytes, sizeof(header_bytes), 0))
		return fail_to_read(file->path, "it is shorter than 8 bytes", err);
	if (header_bytes > MOST_HEADER_BYTES || (int64_t)header_bytes > file_bytes - 8)
		return fail_to_read(file->path, "its header is longer than it is", err);
	if (!(text = malloc((size_t)header_bytes + 1)))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its header", file->path);
	if (read_at(file->fd, text, (size_t)header_bytes, 8))
		code = fail_to_read(file->path, "its header cannot be read", err);
	else if (!(file->header =
			   json_loadb(text, (size_t)header_bytes, JSON_REJECT_DUPLICATES, NULL)) ||
		 !json_is_object(file->header))
		code = fail_to_read(file->path, "its header is no JSON object", err);
	file->data_at = 8 + (int64_t)header_bytes;
	file->data_bytes = file_bytes - file->data_at;
	free(text);
	return code;
}

int orr_safetensors_open(struct orr_safetensors **out, const char *path, struct orr_error *err)
{
	struct orr_safetensors *file = calloc(1, sizeof(*file));
	struct stat about;
	int code;

	if (file)
		file->fd = -1;
	if (!file || !(file->path = strdup(path))) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
		goto out;
	}
	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0 || fstat(file->fd, &about)) {
		code = orr_fail(err, ORR_E_IO, "%s: cannot be read: %s", path, strerror(errno));
		goto out;
	}
	if ((code = read_header(file, about.st_size, err)))
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

int orr_safetensors_has(const struct orr_safetensors *file, const char *name)
{
	return strcmp(name, NOTES) != 0 && json_object_get(file->header, name) != NULL;
}

int orr_safetensors_read(const struct orr_safetensors *file, const struct orr_named_tensor *tensor,
			 struct orr_error *err)
{
	json_t *entry = json_object_get(file->header, tensor->name), *shape = shape_of(tensor);
	int64_t n_bytes = orr_named_tensor_floats(tensor) * (int64_t)sizeof(float);
	const char *type = NULL;
	json_t *there = NULL;
	json_int_t at = 0, end = 0;
	int code = 0;

	if (!shape)
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", file->path);
	else if (!entry)
		code = orr_fail(err, ORR_E_INPUT, "%s: has no tensor '%s'", file->path,
				tensor->name);
	else if (json_unpack(entry, "{s:s,s:o,s:[I,I!]}", "dtype", &type, "shape", &there,
			     "data_offsets", &at, &end))
		code = fail_to_read(file->path, "a tensor lacks its dtype, shape or data_offsets",
				    err);
	else if (strcmp(type, "F32") != 0 || !json_equal(there, shape))
		code = orr_fail(err, ORR_E_INPUT,
				"%s: the tensor '%s' has another type or shape than the model's",
				file->path, tensor->name);
	else if (at < 0 || end < at || end > file->data_bytes || end - at != n_bytes ||
		 read_at(file->fd, tensor->values, (size_t)n_bytes, file->data_at + at))
		code = fail_to_read(file->path, "a tensor lies outside of it", err);
	json_decref(shape);
	return code;
}
