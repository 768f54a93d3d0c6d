#include "safetensors.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/element.h"
#include "base/input_file.h"
#include "base/json.h"
#include "base/max.h"
#include "sink.h"

#define READ_FLOATS ((size_t)1 << 16)

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

/* Several at once: one more in the exponent sets the sign bit of what is not finite, and of nothing
 * else. */
static bool is_finite(const float *values, int64_t n)
{
	typedef uint32_t lanes __attribute__((vector_size(16)));
	lanes bits, worst = {0};
	int64_t i = 0;

	for (; i + 4 <= n; i += 4) {
		memcpy(&bits, values + i, sizeof(bits));
		worst |= (bits & 0x7fffffff) + 0x00800000;
	}
	for (; i < n; i++)
		if (!isfinite(values[i]))
			return false;
	return !((worst[0] | worst[1] | worst[2] | worst[3]) & 0x80000000);
}

/* Piece by piece: what has been looked at is in the cache when it is written and its checksum
 * taken. */
static int write_tensor(struct orr_sink *sink, const char *path,
			const struct orr_named_tensor *tensors, int i, struct orr_error *err)
{
	const struct orr_tensor_source *source = tensors[i].source;
	const float *values = tensors[i].values;
	int64_t all = orr_named_tensor_floats(&tensors[i]);
	int code = values ? 0 : source->get(source->user, i, &values, err);

	for (int64_t at = 0; at < all && !code && !sink->code; at += (int64_t)READ_FLOATS) {
		int64_t n = smaller(all - at, (int64_t)READ_FLOATS);

		if (!is_finite(values + at, n))
			code = fail_as_wild(path, tensors[i].name, ORR_E_DIVERGED, err);
		else
			orr_sink_write(sink, values + at, (size_t)n * sizeof(*values));
	}
	return code ? code : sink->code;
}

/* All before the data, *n_bytes of it, the caller's to free. */
static int begin(char **all, size_t *n_bytes, const char *path,
		 const struct orr_named_tensor *tensors, int n, const char *note,
		 struct orr_error *err)
{
	json_t *header = json_object();
	int64_t at = 0;
	char *text = NULL;
	uint64_t length;

	if (note)
		orr_json_set(&header, "__metadata__", json_pack("{s:s}", "about", note));
	for (int i = 0; i < n; i++) {
		int64_t end = at + orr_named_tensor_floats(&tensors[i]) * (int64_t)sizeof(float);
		json_t *shape = json_array();

		for (int k = 0; k < tensors[i].n_dims; k++)
			orr_json_append(&shape, json_integer(tensors[i].shape[k]));
		orr_json_set(&header, tensors[i].name,
			     json_pack("{s:s,s:o,s:[I,I]}", "dtype", "F32", "shape", shape,
				       "data_offsets", (json_int_t)at, (json_int_t)end));
		at = end;
	}
	*all = NULL;
	if (header && (text = json_dumps(header, JSON_COMPACT))) {
		length = (strlen(text) + 7) / 8 * 8;
		*n_bytes = sizeof(length) + (size_t)length;
		if (length <= ORR_TENSOR_MOST_HEADER && (*all = malloc(*n_bytes + 1))) {
			memcpy(*all, &length, sizeof(length));
			(void)sprintf(*all + sizeof(length), "%-*s", (int)length, text);
		}
	}
	free(text);
	json_decref(header);
	return *all ? 0
		    : orr_fail(err, ORR_E_UNSUPPORTED,
			       "%s: the names of %d tensors do not fit its header, or are no UTF-8",
			       path, n);
}

int orr_safetensors_write(const struct orr_folder *folder, const char *name,
			  const struct orr_named_tensor *tensors, int n, const char *note,
			  int64_t *n_bytes, char checksum[ORR_CHECKSUM], struct orr_error *err)
{
	size_t length = 0;
	char *text;
	struct orr_sink sink;
	int code = begin(&text, &length, folder->path, tensors, n, note, err);

	if (!code) {
		orr_sink_begin(&sink, folder, name, err);
		orr_sink_write(&sink, text, length);
		for (int i = 0; i < n && !sink.code; i++)
			sink.code = write_tensor(&sink, folder->path, tensors, i, err);
		code = orr_sink_end(&sink, n_bytes, checksum);
	}
	if (code == ORR_E_DIVERGED)
		(void)unlinkat(folder->fd, name, 0);
	free(text);
	return code;
}

int orr_safetensors_print(FILE *file, const struct orr_named_tensor *tensors, int n,
			  const char *note, struct orr_error *err)
{
	size_t length = 0;
	char *text;
	int code = begin(&text, &length, "weights", tensors, n, note, err);

	for (int i = 0; i < n && !code; i++)
		if (!is_finite(tensors[i].values, orr_named_tensor_floats(&tensors[i])))
			code = fail_as_wild("weights", tensors[i].name, ORR_E_DIVERGED, err);
	if (!code)
		(void)fwrite(text, 1, length, file);
	for (int i = 0; i < n && !code; i++)
		(void)fwrite(tensors[i].values, sizeof(float),
			     (size_t)orr_named_tensor_floats(&tensors[i]), file);
	if (!code && ferror(file))
		code = orr_fail(err, ORR_E_IO,
				"weights: the file cannot be written: is there room?");
	free(text);
	return code;
}

/* ---- reading ---- */

/* Read all data through. *wild: where the first number that is not finite lies in them, or -1. */
static int read_data(const struct orr_tensor_file *file, XXH3_state_t *digest, int64_t *wild,
		     struct orr_error *err)
{
	float *floats = malloc(READ_FLOATS * sizeof(*floats));
	bool is_wild;
	int code = 0;

	*wild = -1;
	if (!floats)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", file->path);
	for (int64_t at = 0; at < file->data_bytes && !code;) {
		size_t n = (size_t)smaller(file->data_bytes - at,
					   (int64_t)(READ_FLOATS * sizeof(*floats)));

		if (orr_tensor_file_read(file, floats, n, file->data_at + at))
			code = orr_tensor_header_fail(file->path, "it cannot be read to its end",
						      err);
		else
			XXH3_128bits_update(digest, floats, n);
		is_wild = !code && !is_finite(floats, (int64_t)(n / sizeof(*floats)));
		for (size_t i = 0; is_wild && *wild < 0; i++)
			if (!isfinite(floats[i]))
				*wild = at + (int64_t)(i * sizeof(*floats));
		at += (int64_t)n;
	}
	free(floats);
	return code;
}

/* All of F32. wild: where a number is not finite, or -1. */
static int check_tensors(const struct orr_tensor_file *file, int64_t wild, struct orr_error *err)
{
	for (int i = 0; i < file->header.n; i++) {
		const struct orr_tensor_entry *entry = &file->header.entries[i];

		if (entry->element != ORR_ELEMENT_F32)
			return orr_fail(
				err, ORR_E_INPUT,
				"%s: the tensor '%s' is of dtype %s, a checkpoint's are of F32",
				file->path, entry->name, orr_element_name(entry->element));
		if (wild >= entry->at && wild < entry->end)
			return fail_as_wild(file->path, entry->name, ORR_E_INPUT, err);
	}
	return 0;
}

static int begin_reading(struct orr_tensor_file *file, int64_t file_bytes, bool through,
			 const char *checksum, struct orr_error *err)
{
	XXH3_state_t *digest = XXH3_createState();
	char *text = NULL, found[ORR_CHECKSUM];
	int64_t wild = -1;
	int code;

	if (!digest) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", file->path);
		goto out;
	}
	XXH3_128bits_reset(digest);
	if ((code = orr_tensor_file_begin(file, file_bytes, &text, err)))
		goto out;
	XXH3_128bits_update(digest, text, (size_t)file->data_at);
	if (through && (code = read_data(file, digest, &wild, err)))
		goto out;
	orr_checksum_print(found, XXH3_128bits_digest(digest));
	if (through && checksum && strcmp(checksum, found) != 0) {
		code = orr_fail(err, ORR_E_INPUT, "%s: is damaged: its checksum does not fit",
				file->path);
		goto out;
	}
	if (!(code = orr_tensor_header_read(&file->header, file->path, text + 8,
					    (size_t)file->data_at - 8, file->data_bytes, err)))
		code = check_tensors(file, wild, err);
out:
	XXH3_freeState(digest);
	free(text);
	return code;
}

int orr_safetensors_open(struct orr_tensor_file *file, const struct orr_folder *folder,
			 const char *name, bool through, const char *checksum,
			 struct orr_error *err)
{
	int64_t n_bytes;
	int code = 0;

	*file = (struct orr_tensor_file){.fd = -1, .path = orr_folder_path(folder, name)};
	if (!file->path)
		code = orr_fail(err, ORR_E_NOMEM, "%s/%s: no memory to read it", folder->path,
				name);
	if (!code && !(code = orr_folder_file(folder, name, O_RDONLY, &file->fd, &n_bytes, err)))
		code = begin_reading(file, n_bytes, through, checksum, err);
	if (code)
		orr_tensor_file_close(file);
	return code;
}

int orr_safetensors_open_elsewhere(struct orr_tensor_file *file, const char *name, int64_t n_bytes,
				   const struct orr_tensor_reader *reader, struct orr_error *err)
{
	int code;

	*file = (struct orr_tensor_file){.fd = -1, .path = strdup(name), .reader = *reader};
	code = file->path ? begin_reading(file, n_bytes, false, NULL, err)
			  : orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", name);
	if (code)
		orr_tensor_file_close(file);
	return code;
}

const char *orr_safetensors_shared(const struct orr_tensor_file *file,
				   const struct orr_tensor_file *other)
{
	for (int i = 0; i < file->header.n; i++)
		if (orr_tensor_header_find(&other->header, file->header.entries[i].name))
			return file->header.entries[i].name;
	return NULL;
}

static bool has_shape(const struct orr_tensor_entry *entry, const struct orr_named_tensor *tensor)
{
	const struct orr_portion *p = &tensor->portion;

	if (entry->n_dims != tensor->n_dims)
		return false;
	for (int i = 0; i < tensor->n_dims; i++)
		if (entry->dims[i] != (p->of && i == p->axis ? p->of : tensor->shape[i]))
			return false;
	return true;
}

int orr_safetensors_read(const struct orr_tensor_file *file, const struct orr_named_tensor *tensor,
			 struct orr_error *err)
{
	const struct orr_tensor_entry *entry = orr_tensor_header_find(&file->header, tensor->name);
	struct orr_pieces pieces;

	if (!entry)
		return orr_fail(err, ORR_E_INPUT, "%s: has no tensor '%s'", file->path,
				tensor->name);
	if (!has_shape(entry, tensor))
		return orr_fail(err, ORR_E_INPUT,
				"%s: the tensor '%s' has another shape than the model's",
				file->path, tensor->name);
	pieces = orr_portion_pieces(&tensor->portion, tensor->n_dims, tensor->shape);
	for (int64_t k = 0; k < pieces.n; k++) {
		int64_t at = (pieces.first + k * pieces.apart) * (int64_t)sizeof(float);

		if (orr_tensor_file_read(file, tensor->values + k * pieces.floats,
					 (size_t)pieces.floats * sizeof(float),
					 file->data_at + entry->at + at))
			return orr_tensor_header_fail(file->path, "it cannot be read to its end",
						      err);
	}
	return 0;
}
