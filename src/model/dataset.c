#include "orrery/graph.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/element.h"
#include "base/input_file.h"
#include "base/mix.h"
#include "data_file.h"

/* Every fifth row, from row 0, is for testing. */
static int split(struct orr_dataset *data, const char *path, struct orr_error *err)
{
	data->train = malloc((size_t)data->n_rows * sizeof(*data->train));
	data->test = malloc((size_t)data->n_rows * sizeof(*data->test));
	if (!data->train || !data->test)
		return orr_no_memory(err, path);
	for (int64_t r = 0; r < data->n_rows; r++)
		if (r % 5 == 0)
			data->test[data->n_test++] = r;
		else
			data->train[data->n_train++] = r;
	return 0;
}

int orr_dataset_read(struct orr_dataset **out, const char *path,
		     const struct orr_data_columns *columns, int n, struct orr_error *err)
{
	struct orr_data_file file = {.path = path, .wanted = columns, .n_wanted = n};
	struct orr_dataset *data;
	int code;

	if ((code = orr_input_open(&file.fd, &file.n_bytes, path, ORR_DATA_KINDS, err)))
		return code;
	if (!(data = calloc(1, sizeof(*data))) || !(data->path = strdup(path))) {
		(void)close(file.fd);
		code = orr_no_memory(err, path);
		goto out;
	}
	code = orr_mapped_is(&file) ? orr_mapped_read(data, &file, err)
				    : orr_csv_read(data, &file, err);
	if (code || (code = split(data, path, err)))
		goto out;
	*out = data;
	data = NULL;
out:
	orr_dataset_destroy(data);
	return code;
}

void orr_dataset_destroy(struct orr_dataset *data)
{
	if (!data)
		return;
	for (int i = 0; i < data->n_tensors; i++) {
		free(data->tensors[i].name);
		free(data->tensors[i].index_of);
	}
	if (data->map)
		(void)munmap(data->map, data->map_bytes);
	free(data->tensors);
	free(data->path);
	free(data->index_of);
	free(data->values);
	free(data->train);
	free(data->test);
	free(data);
}

/* ---- its tensors ---- */

static struct orr_data_tensor tensor_at(const struct orr_dataset *data, int i)
{
	int64_t n_kept = data->index_of ? data->n_kept : data->n_columns;

	if (data->n_tensors)
		return data->tensors[i];
	return (struct orr_data_tensor){
		.n_columns = data->n_columns,
		.index_of = data->index_of,
		.n_kept = n_kept,
		.stride = n_kept,
		.elements = data->values,
	};
}

bool orr_dataset_find(struct orr_data_tensor *out, const struct orr_dataset *data, const char *name)
{
	int n = data->n_tensors ? data->n_tensors : 1;

	for (int i = 0; i < n; i++) {
		*out = tensor_at(data, i);
		if (name ? out->name && !strcmp(out->name, name) : n == 1)
			return true;
	}
	return false;
}

int64_t orr_dataset_bytes(const struct orr_dataset *data)
{
	int64_t n_bytes = 0;

	for (int i = 0; i == 0 || i < data->n_tensors; i++) {
		struct orr_data_tensor tensor = tensor_at(data, i);

		n_bytes += data->n_rows * tensor.n_kept * orr_element_bytes(tensor.element);
	}
	return n_bytes;
}

/* One behind the other in a row? */
static bool are_adjacent(const struct orr_data_tensor *tensor, const int64_t *columns, int64_t n)
{
	int64_t first = orr_data_tensor_index(tensor, columns[0]), i = 1;

	while (i < n && orr_data_tensor_index(tensor, columns[i]) == first + i)
		i++;
	return i == n;
}

/* A CSV's numbers were checked when it was read, and whole numbers are finite as floats. */
static int check_finite(const struct orr_dataset *data, const struct orr_data_tensor *tensor,
			const int64_t *columns, int64_t n, int64_t row, const float *values,
			struct orr_error *err)
{
	bool checks = data->n_tensors && tensor->element <= ORR_ELEMENT_F64;

	for (int64_t i = 0; checks && i < n; i++)
		if (!isfinite(values[i]))
			return orr_fail(
				err, ORR_E_RUNTIME,
				"%s: row %lld, column %lld (both from 0)%s%.80s is not finite, or "
				"too large for a float: leave the row out of the file",
				data->path ? data->path : "the data", (long long)row,
				(long long)columns[i], tensor->name ? " of the tensor " : "",
				tensor->name ? tensor->name : "");
	return 0;
}

int orr_dataset_gather(const struct orr_dataset *data, const char *name, const int64_t *columns,
		       int64_t n_columns, const int64_t *rows, int64_t n, float *to,
		       struct orr_error *err)
{
	struct orr_data_tensor tensor;
	bool found = orr_dataset_find(&tensor, data, name);
	bool adjacent = found && are_adjacent(&tensor, columns, n_columns);
	int64_t first = adjacent ? orr_data_tensor_index(&tensor, columns[0]) : 0;
	int code = 0;

	assert(found); /* orr_program_check_data */
	for (int64_t r = 0; found && r < n && !code; r++, to += n_columns) {
		const char *row = tensor.elements;

		row += (rows[r] * tensor.stride + first) * orr_element_bytes(tensor.element);
		orr_element_gather(tensor.element, row, tensor.index_of, adjacent ? NULL : columns,
				   n_columns, to);
		code = check_finite(data, &tensor, columns, n_columns, rows[r], to, err);
	}
	return code;
}

/* ---- its rows ---- */

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
	uint64_t key = orr_mix_next(seed) ^ epoch;
	int bits = 2;

	while (bits < 63 && (UINT64_C(1) << bits) < n)
		bits++;
	p.left = bits / 2;
	p.right = bits - p.left;
	for (int i = 0; i < N_ROUNDS; i++)
		p.keys[i] = key = orr_mix_next(key);
	return p;
}

static uint64_t permute(const struct permutation *p, uint64_t x)
{
	do {
		int left = p->left, right = p->right;

		/* The halves change places, and with them their widths; after an even number of
		 * rounds the widths are as they were. */
		for (int i = 0; i < N_ROUNDS; i++) {
			uint64_t low = x & ((UINT64_C(1) << right) - 1), high = x >> right;
			int swap = left;

			high ^= orr_mix(low + p->keys[i]) >> (64 - left);
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

	assert(data->n_train > 0);
	if (position < 0 || n < 0 || position > INT64_MAX - n)
		return orr_fail(
			err, ORR_E_INPUT,
			"dataset: no %d rows from position %lld on: neither may be negative", n,
			(long long)position);
	for (int i = 0; i < n; i++) {
		int64_t at = position + i;

		if (at / data->n_train != epoch) {
			epoch = at / data->n_train;
			p = permutation_of((uint64_t)data->n_train, seed, (uint64_t)epoch);
		}
		rows[i] = data->train[permute(&p, (uint64_t)(at % data->n_train))];
	}
	return 0;
}
