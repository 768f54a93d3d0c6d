/* A data set in a .safetensors or .npy file, mapped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/arrays.h"
#include "base/tensor_header.h"
#include "codelets/operator.h"
#include "data_file.h"
#include "orrery/graph.h"

/* Of larger files this number of pieces, spread evenly, is in the checksum, and all of a smaller
 * one: a rank of many reads no more of a large file than its own rows. */
#define N_PIECES 1024
#define PIECE_BYTES 65536

static bool ends_in(const char *path, const char *ending)
{
	size_t n = strlen(path), m = strlen(ending);

	return n >= m && !strcmp(path + n - m, ending);
}

/* A header of JSON behind its length, whose last bytes are zeros, which no CSV has. */
static bool is_safetensors(const char *text, int64_t n_bytes)
{
	return n_bytes > 8 && !text[6] && !text[7] && text[8] == '{';
}

bool orr_mapped_is(const struct orr_data_file *in)
{
	char text[16];
	ssize_t n = pread(in->fd, text, sizeof(text), 0);

	return ends_in(in->path, ".safetensors") || ends_in(in->path, ".npy") ||
	       (n > 0 && (is_safetensors(text, n) || orr_npy_is(text, n)));
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
	int64_t data_at;
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
	code = orr_npy_is(map, in->n_bytes) || ends_in(in->path, ".npy")
		       ? orr_npy_read(&header, &data_at, in->path, map, in->n_bytes, err)
		       : read_safetensors(&header, &data_at, in->path, map, in->n_bytes, err);
	if (!code && !(code = add_all(data, in, &header, data_at, err)))
		data->checksum = checksum(map, in->n_bytes, data_at);
	orr_tensor_header_fini(&header);
	return code;
}
