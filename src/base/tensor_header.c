#include "tensor_header.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "element.h"
#include "input_file.h"
#include "utf8.h"

int orr_tensor_header_fail(const char *path, const char *what, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: no whole safetensors file: %s; write it again", path,
			what);
}

int orr_tensor_header_bytes(int64_t *n_bytes, const char *path, const void *first,
			    int64_t file_bytes, struct orr_error *err)
{
	uint64_t n;

	memcpy(&n, first, sizeof(n));
	if (n > ORR_TENSOR_MOST_HEADER || (int64_t)n > file_bytes - (int64_t)sizeof(n))
		return orr_tensor_header_fail(path, "its header is longer than it is", err);
	*n_bytes = (int64_t)n;
	return 0;
}

int orr_tensor_file_read(const struct orr_tensor_file *file, void *to, size_t n, int64_t at)
{
	return file->reader.read ? file->reader.read(&file->reader, to, n, at)
				 : orr_read_at(file->fd, to, n, at);
}

int orr_tensor_file_begin(struct orr_tensor_file *file, int64_t file_bytes, char **text,
			  struct orr_error *err)
{
	int64_t header_bytes = 0;
	char first[8];
	int code;

	if (orr_tensor_file_read(file, first, sizeof(first), 0))
		return orr_tensor_header_fail(file->path, "it is shorter than 8 bytes", err);
	if ((code = orr_tensor_header_bytes(&header_bytes, file->path, first, file_bytes, err)))
		return code;
	file->data_at = 8 + header_bytes;
	file->data_bytes = file_bytes - file->data_at;
	if (!(*text = malloc((size_t)file->data_at)))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its header", file->path);
	if (orr_tensor_file_read(file, *text, (size_t)file->data_at, 0))
		return orr_tensor_header_fail(file->path, "its header cannot be read", err);
	return 0;
}

void orr_tensor_file_close(struct orr_tensor_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	orr_tensor_header_fini(&file->header);
	free(file->path);
	*file = (struct orr_tensor_file){.fd = -1};
}

static bool has_plain_name(const struct orr_tensor_entry *entry)
{
	for (const char *c = entry->name; *c; c++)
		if (iscntrl((unsigned char)*c))
			return false;
	return true;
}

static int fail_entry(const char *path, const struct orr_tensor_entry *entry, const char *what,
		      struct orr_error *err)
{
	char shown[ORR_UTF8_CELL];

	return orr_fail(err, ORR_E_INPUT,
			"%s: no whole safetensors file: the tensor '%s': %s; write it again", path,
			orr_utf8_print_cell(shown, entry->name, strlen(entry->name)), what);
}

/* Bytes of what has this shape; -1: it has none that a file could have. */
static int64_t read_shape(struct orr_tensor_entry *entry, const json_t *shape)
{
	size_t n = json_array_size(shape);
	int64_t n_bytes = orr_element_bytes(entry->element);

	if (!json_is_array(shape) || n > ORR_TENSOR_MOST_DIMS)
		return -1;
	entry->n_dims = (int)n;
	for (size_t i = 0; i < n; i++) {
		const json_t *size = json_array_get(shape, i);

		if (!json_is_integer(size) || json_integer_value(size) < 0 ||
		    __builtin_mul_overflow(n_bytes, json_integer_value(size), &n_bytes))
			return -1;
		entry->dims[i] = json_integer_value(size);
	}
	return n_bytes;
}

static int read_entry(struct orr_tensor_entry *entry, const char *path, const char *name,
		      json_t *from, struct orr_error *err)
{
	json_int_t at, end;
	const char *type;
	json_t *shape;
	int element;

	*entry = (struct orr_tensor_entry){.name = name};
	if (!has_plain_name(entry) || json_unpack(from, "{s:s,s:o,s:[I,I!]}", "dtype", &type,
						  "shape", &shape, "data_offsets", &at, &end))
		return fail_entry(path, entry, "its name, dtype, shape or data_offsets do not fit",
				  err);
	if ((element = orr_element_find(type)) < 0)
		return fail_entry(path, entry,
				  "its dtype is none of F32, F16, BF16, F64, I8 to I64, U8 to U64 "
				  "and BOOL",
				  err);
	entry->element = (enum orr_element)element;
	entry->at = at;
	entry->end = end;
	if (at < 0 || end < at || end - at != read_shape(entry, shape))
		return fail_entry(path, entry,
				  "its shape, of at most 8 dimensions, and data_offsets do not fit",
				  err);
	return 0;
}

static int first_first(const void *a, const void *b)
{
	const struct orr_tensor_entry *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at)
			      : (x->end > y->end) - (x->end < y->end);
}

static int check_layout(const struct orr_tensor_header *header, const char *path,
			int64_t data_bytes, struct orr_error *err)
{
	int64_t end = 0;

	for (int i = 0; i < header->n; i++) {
		if (header->entries[i].at != end)
			return orr_tensor_header_fail(path, "its tensors overlap or leave gaps",
						      err);
		end = header->entries[i].end;
	}
	return end == data_bytes
		       ? 0
		       : orr_tensor_header_fail(
				 path, "its tensors overlap or leave gaps before its end", err);
}

int orr_tensor_header_read(struct orr_tensor_header *header, const char *path, const char *text,
			   size_t n, int64_t data_bytes, struct orr_error *err)
{
	json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL), *entry;
	const char *name;
	int code;

	*header = (struct orr_tensor_header){.json = json};
	if (!json_is_object(json))
		return orr_tensor_header_fail(path, "its header is no JSON object", err);
	(void)json_object_del(json, "__metadata__"); /* of the file, and no tensor */
	if (!(header->entries = calloc(json_object_size(json) + 1, sizeof(*header->entries))))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
	json_object_foreach(json, name, entry)
	{
		if ((code = read_entry(&header->entries[header->n], path, name, entry, err)))
			return code;
		header->n++;
	}
	qsort(header->entries, (size_t)header->n, sizeof(*header->entries), first_first);
	for (int i = 0; i < header->n; i++)
		if (json_object_set_new(json, header->entries[i].name, json_integer(i)))
			return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
	return check_layout(header, path, data_bytes, err);
}

void orr_tensor_header_fini(struct orr_tensor_header *header)
{
	json_decref(header->json);
	free(header->entries);
	*header = (struct orr_tensor_header){0};
}

const struct orr_tensor_entry *orr_tensor_header_find(const struct orr_tensor_header *header,
						      const char *name)
{
	const json_t *number = json_object_get(header->json, name);

	return number ? &header->entries[json_integer_value(number)] : NULL;
}
