/* Data sets that are mapped: every type against its floats, and files that lie. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/graph.h"
#include "suite.h"

static char folder[] = "dataset-XXXXXX";
static char tensors_path[sizeof(folder) + 20], npy_path[sizeof(folder) + 20],
	plain_path[sizeof(folder) + 20];
static struct orr_error err;

static void setup(void)
{
	strcpy(folder + sizeof(folder) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(tensors_path, sizeof(tensors_path), "%s/t.safetensors", folder);
	(void)snprintf(npy_path, sizeof(npy_path), "%s/t.npy", folder);
	(void)snprintf(plain_path, sizeof(plain_path), "%s/data", folder);
}

static void teardown(void)
{
	(void)unlink(tensors_path);
	(void)unlink(npy_path);
	(void)unlink(plain_path);
	(void)rmdir(folder);
}

static void put(const char *path, const void *first, size_t n_first, const void *rest, size_t n)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(first, 1, n_first, file), n_first);
	ck_assert_uint_eq(fwrite(rest, 1, n, file), n);
	ck_assert_int_eq(fclose(file), 0);
}

/* length -1: the header's */
static void put_safetensors(const char *path, const char *header, int64_t length, const void *data,
			    size_t n)
{
	char first[2000];
	size_t n_header = strlen(header);
	int64_t said = length < 0 ? (int64_t)n_header : length;

	memcpy(first, &said, sizeof(said));
	memcpy(first + 8, header, n_header); /* NOLINT(bugprone-not-null-terminated-result) */
	put(path, first, 8 + n_header, data, n);
}

static void put_npy(const char *path, const char *text, const void *data, size_t n)
{
	char first[400];
	int n_first = snprintf(first, sizeof(first), "\x93NUMPY\1%c%c%c%s", 0, (int)strlen(text), 0,
			       text);

	put(path, first, (size_t)n_first, data, n);
}

static void put_at(const char *path, int64_t at, char byte)
{
	FILE *file = fopen(path, "r+");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fseek(file, (long)at, SEEK_SET), 0);
	ck_assert_int_eq(fputc(byte, file), byte);
	ck_assert_int_eq(fclose(file), 0);
}

static struct orr_dataset *open_all(const char *path)
{
	struct orr_dataset *data = NULL;

	ck_assert_msg(!orr_dataset_read(&data, path, NULL, 0, &err), "%s", err.msg);
	return data;
}

/* ---- types ---- */

/* Rows of three columns; the extremes of each type, and what is rounded to a float. */
static const struct {
	const char *dtype, *descr; /* NULL: .npy has none */
	size_t bytes;
	uint64_t bits[6];
	double values[6];
} types[] = {
	{"F32",
	 "<f4",
	 4,
	 {0x3f800000, 0x80000000, 0x7f7fffff, 1, 0xc2280000, 0x3dcccccd},
	 {1, -0.0, 0x1.fffffep127, 0x1p-149, -42, (double)0.1f}},
	{"F16",
	 "<f2",
	 2,
	 {0x3c00, 0x8001, 0x7bff, 0x0400, 0x03ff, 0x8000},
	 {1, -0x1p-24, 65504, 0x1p-14, 1023 * 0x1p-24, -0.0}},
	{"BF16",
	 NULL,
	 2,
	 {0x3f80, 0xc228, 0x7f7f, 0x0001, 0x8000, 0x4049},
	 {1, -42, 0x1.fep127, 0x1p-133, -0.0, 3.140625}},
	{"F64",
	 "<f8",
	 8,
	 {0x3ff0000000000000, 0x3ff0000010000000, 0x3ff0000010000001, 0xc045000000000000, 1,
	  0x8000000000000000},
	 {1, 1, 1 + 0x1p-23, -42, 0, -0.0}},
	{"I8", "|i1", 1, {0, 1, 0xff, 0x7f, 0x80, 42}, {0, 1, -1, 127, -128, 42}},
	{"I16", "<i2", 2, {0, 1, 0xffff, 0x7fff, 0x8000, 300}, {0, 1, -1, 32767, -32768, 300}},
	{"I32",
	 "<i4",
	 4,
	 {0, 16777217, 0xffffffff, 0x7fffffff, 0x80000000, 16777219},
	 {0, 16777216, -1, 2147483648., -2147483648., 16777220}},
	{"I64",
	 "<i8",
	 8,
	 {0, 1, UINT64_MAX, INT64_MAX, UINT64_C(1) << 63, 42},
	 {0, 1, -1, 0x1p63, -0x1p63, 42}},
	{"U8", "|u1", 1, {0, 1, 255, 127, 128, 42}, {0, 1, 255, 127, 128, 42}},
	{"U16", "<u2", 2, {0, 1, 65535, 32768, 300, 42}, {0, 1, 65535, 32768, 300, 42}},
	{"U32",
	 "<u4",
	 4,
	 {0, 1, 4294967295, 16777217, 16777219, 42},
	 {0, 1, 4294967296., 16777216, 16777220, 42}},
	{"U64",
	 "<u8",
	 8,
	 {0, 1, UINT64_MAX, UINT64_C(1) << 63, 300, 42},
	 {0, 1, 0x1p64, 0x1p63, 300, 42}},
	{"BOOL", "|b1", 1, {0, 1, 1, 0, 2, 255}, {0, 1, 1, 0, 1, 1}},
};

/* Rows 1 and 0, columns 2, 0 and 2. */
static void check_values(const struct orr_dataset *data, const char *tensor, int type)
{
	static const int64_t rows[] = {1, 0}, columns[] = {2, 0, 2};
	float values[6];

	ck_assert_int_eq(data->n_rows, 2);
	ck_assert_int_eq(data->n_test, 1);
	ck_assert_int_eq(data->n_train, 1);
	ck_assert_msg(!orr_dataset_gather(data, tensor, columns, 3, rows, 2, values, &err), "%s",
		      err.msg);
	for (int i = 0; i < 6; i++) {
		float expected = (float)types[type].values[rows[i / 3] * 3 + columns[i % 3]];

		ck_assert_msg(!memcmp(&values[i], &expected, sizeof(expected)), "%s: %d: %a not %a",
			      types[type].dtype, i, (double)values[i], (double)expected);
	}
}

/* Behind a tensor of one byte a row, so that nothing is aligned. */
START_TEST(every_type_is_read_as_the_nearest_float)
{
	size_t bytes = types[_i].bytes;
	char header[400], elements[2 + 6 * 8] = {7, 9};
	struct orr_dataset *data;
	static const int64_t row = 1, column = 0;
	float value;

	for (size_t k = 0; k < 6; k++)
		memcpy(elements + 2 + k * bytes, &types[_i].bits[k], bytes);
	(void)snprintf(header, sizeof(header),
		       "{\"wide\":{\"dtype\":\"%s\",\"shape\":[2,1,3],\"data_offsets\":[2,%zu]},"
		       "\"__metadata__\":{\"a\":\"b\"},"
		       "\"odd\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
		       types[_i].dtype, 2 + 6 * bytes);
	put_safetensors(tensors_path, header, -1, elements, 2 + 6 * bytes);
	data = open_all(tensors_path);
	check_values(data, "wide", _i);
	ck_assert_int_eq(data->n_columns, 4);
	ck_assert_int_eq(orr_dataset_bytes(data), (int64_t)(2 + 6 * bytes));
	ck_assert(!orr_dataset_gather(data, "odd", &column, 1, &row, 1, &value, &err));
	ck_assert(value == 9);
	orr_dataset_destroy(data);
	if (!types[_i].descr)
		return;
	(void)snprintf(header, sizeof(header),
		       "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }  \n",
		       types[_i].descr);
	put_npy(npy_path, header, elements + 2, 6 * bytes);
	data = open_all(npy_path);
	check_values(data, NULL, _i);
	orr_dataset_destroy(data);
}
END_TEST

#define ROWS_OF_ONE "{\"x\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}"

/* With neither ending, and a CSV with both. */
START_TEST(the_content_says_what_a_file_is)
{
	struct orr_data_tensor tensor;
	struct orr_dataset *data;

	put_safetensors(plain_path, ROWS_OF_ONE, -1, "12345678", 8);
	data = open_all(plain_path);
	ck_assert(orr_dataset_find(&tensor, data, "x"));
	ck_assert(orr_dataset_find(&tensor, data, NULL)); /* there is one */
	ck_assert(!orr_dataset_find(&tensor, data, "y"));
	orr_dataset_destroy(data);
	put_npy(plain_path, "{\"shape\":(2,),'descr':\"<f4\",'fortran_order':False}", "12345678",
		8);
	data = open_all(plain_path);
	ck_assert_int_eq(data->n_columns, 1);
	ck_assert(!orr_dataset_find(&tensor, data, "x"));
	orr_dataset_destroy(data);
	put(tensors_path, "1,2\n", 4, "3,4\n", 4);
	ck_assert_int_eq(orr_dataset_read(&data, tensors_path, NULL, 0, &err), ORR_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.msg, "no whole safetensors file"));
	put(npy_path, "1,2\n", 4, "3,4\n567", 7);
	ck_assert_int_eq(orr_dataset_read(&data, npy_path, NULL, 0, &err), ORR_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.msg, "no whole .npy file: it does not begin as one does"));
}
END_TEST

START_TEST(a_rank_keeps_the_columns_that_it_reads)
{
	static const int64_t two[] = {1, 2, 7};
	static const struct orr_data_columns wanted[] = {{"b", two, 3}};
	struct orr_data_tensor a, b;
	struct orr_dataset *data = NULL, *all;
	static const float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};

	put_safetensors(tensors_path,
			"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
			"\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]}}",
			-1, numbers, sizeof(numbers));
	ck_assert_msg(!orr_dataset_read(&data, tensors_path, wanted, 1, &err), "%s", err.msg);
	ck_assert(orr_dataset_find(&a, data, "a") && orr_dataset_find(&b, data, "b"));
	ck_assert(!orr_dataset_find(&b, data, NULL));
	ck_assert(orr_dataset_find(&b, data, "b"));
	ck_assert_int_eq(orr_data_tensor_index(&a, 0), -1);
	ck_assert_int_eq(orr_data_tensor_index(&b, 0), -1);
	ck_assert_int_eq(orr_data_tensor_index(&b, 2), 2);
	ck_assert_int_eq(orr_dataset_bytes(data), 16);
	all = open_all(tensors_path);
	ck_assert_int_eq(orr_dataset_bytes(all), 32);
	ck_assert_uint_eq(data->checksum, all->checksum);
	orr_dataset_destroy(data);
	orr_dataset_destroy(all);
}
END_TEST

/* A byte of the data, small files whole; of the header, or of the size. */
START_TEST(other_data_has_another_checksum)
{
	uint64_t sums[3];
	struct orr_dataset *data;

	for (int i = 0; i < 3; i++) {
		put_safetensors(tensors_path, i == 2 ? ROWS_OF_ONE " " : ROWS_OF_ONE, -1,
				i == 1 ? "12345679" : "12345678", 8);
		data = open_all(tensors_path);
		sums[i] = data->checksum;
		orr_dataset_destroy(data);
	}
	ck_assert(sums[0] != sums[1] && sums[0] != sums[2] && sums[1] != sums[2]);
}
END_TEST

/* The last byte of a large file is in one of the pieces that are looked at, as is the first. */
START_TEST(a_large_file_is_looked_at_in_pieces)
{
	enum { BYTES = 200000000 };
	const int64_t last_row = 199999, last_column = 999;
	struct orr_dataset *data;
	uint64_t before;
	float value;

	put_npy(npy_path, "{'descr': '|u1', 'fortran_order': False, 'shape': (200000,1000)}", "",
		0);
	ck_assert_msg(!truncate(npy_path, 10 + 64 + BYTES), "no file of %d bytes", BYTES);
	data = open_all(npy_path);
	ck_assert_int_eq(data->n_rows, last_row + 1);
	before = data->checksum;
	orr_dataset_destroy(data);
	put_at(npy_path, 10 + 64 + BYTES - 1, 'x');
	data = open_all(npy_path);
	ck_assert(data->checksum != before);
	ck_assert(!orr_dataset_gather(data, NULL, &last_column, 1, &last_row, 1, &value, &err));
	ck_assert(value == 'x');
	orr_dataset_destroy(data);
}
END_TEST

START_TEST(numbers_that_no_float_holds_are_refused_as_they_are_gathered)
{
	static const double numbers[] = {1, 2, 1e39, 4, (double)NAN, 6};
	static const int64_t rows[] = {0, 1, 2}, columns[] = {0, 1};
	struct orr_dataset *data;
	float values[6];

	put_safetensors(tensors_path,
			"{\"x\":{\"dtype\":\"F64\",\"shape\":[3,2],\"data_offsets\":[0,48]}}", -1,
			numbers, sizeof(numbers));
	data = open_all(tensors_path);
	ck_assert(!orr_dataset_gather(data, "x", columns, 2, rows, 1, values, &err));
	for (int i = 1; i < 3; i++) {
		char expected[128];

		ck_assert_int_eq(
			orr_dataset_gather(data, "x", columns, 2, rows + i, 1, values, &err),
			ORR_E_RUNTIME);
		(void)snprintf(expected, sizeof(expected),
			       "%s: row %d, column 0 (both from 0) of the tensor x is not finite",
			       tensors_path, i);
		ck_assert_msg(!strncmp(err.msg, expected, strlen(expected)), "%s", err.msg);
	}
	ck_assert(!orr_dataset_gather(data, "x", columns + 1, 1, rows, 3, values, &err));
	orr_dataset_destroy(data);
}
END_TEST

/* ---- files that lie ---- */

#define X(shape, from, to) \
	"\"x\":{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static const struct {
	const char *header;
	int64_t length; /* -1: the header's */
	const char *expected;
} bad_tensors[] = {
	{"{}", -1, "overlap or leave gaps"},
	{"{" X("[8]", "0", "8") "}", 1 << 20, "its header is longer than it is"},
	{"{" X("[8]", "0", "8") "}", INT64_MAX, "its header is longer than it is"},
	{"{" X("[8]", "0", "8") "}", 20, "its header is no JSON object"},
	{"{" X("[8]", "0", "8"), -1, "its header is no JSON object"},
	{"[1]", -1, "its header is no JSON object"},
	{"{\"x\":3}", -1, "'x': its name, dtype, shape or data_offsets do not fit"},
	{"{\"x\\n\":3}", -1, "'x\\x0a': its name, dtype, shape or data_offsets do not fit"},
	{"{" X("[8]", "0", "9") "}", -1, "'x': its shape, of at most 8 dimensions, and"},
	{"{" X("[9]", "0", "9") "}", -1, "overlap or leave gaps"},
	{"{" X("[8]", "-8", "0") "}", -1, "'x': its shape"},
	{"{" X("[7]", "1", "8") "}", -1, "overlap or leave gaps"},
	{"{" X("[7]", "0", "7") "}", -1, "overlap or leave gaps"},
	{"{" X("[8]", "0", "8") "," X("[8]", "0", "8") "}", -1, "no JSON object"},
	{"{" X("[8]", "0", "8") ",\"y\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
	 -1, "overlap or leave gaps"},
	{"{" X("[4]", "0", "4") ",\"y\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[4,8]}}",
	 -1, "the tensor y has 2 rows and x has 4: the first dimension is the rows"},
	{"{" X("[4611686018427387904,4]", "0", "8") "}", -1, "'x': its shape"},
	{"{" X("[-2,-4]", "0", "8") "}", -1, "'x': its shape"},
	{"{" X("[1,1,1,1,1,1,1,1,8]", "0", "8") "}", -1, "of at most 8 dimensions"},
	{"{" X("[2,4.0]", "0", "8") "}", -1, "'x': its shape"},
	{"{\"x\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}", -1,
	 "'x': its dtype is none of F32, F16"},
	{"{" X("[1,8]", "0", "8") "}", -1, "the tensor x has 1 row; it needs two rows"},
	{"{" X("[8]", "0", "8") ",\"y\":{\"dtype\":\"U8\",\"shape\":[8,0],\"data_offsets\":[8,8]}}",
	 -1, "the tensor y has rows of no columns"},
	{"{" X("[0,9223372036854775807]", "0",
	       "0") ",\"y\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
	 -1, "the tensor x has 0 rows"},
	{"{\"x\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", -1,
	 "the tensor x is a single number"},
};

static void refuse(const char *path, const char *expected)
{
	struct orr_dataset *data = NULL;

	ck_assert_int_eq(orr_dataset_read(&data, path, NULL, 0, &err), ORR_E_INPUT);
	ck_assert_ptr_null(data);
	ck_assert_msg(strstr(err.msg, expected) && !strncmp(err.msg, path, strlen(path)) &&
			      !strchr(err.msg, '\n'),
		      "%d: %s", (int)strlen(err.msg), err.msg);
}

START_TEST(tensors_that_lie_are_refused)
{
	put_safetensors(tensors_path, bad_tensors[_i].header, bad_tensors[_i].length, "12345678",
			8);
	refuse(tensors_path, bad_tensors[_i].expected);
}
END_TEST

START_TEST(files_without_a_tensor_are_refused)
{
	put_safetensors(tensors_path, "{}", -1, "", 0);
	refuse(tensors_path, "has no tensors");
	put(tensors_path, "", 0, "", 0);
	refuse(tensors_path, "the file is empty");
	put(tensors_path, "1234567", 7, "", 0);
	refuse(tensors_path, "it is shorter than 8 bytes");
}
END_TEST

#define NPY(descr, fortran, shape) \
	"{'descr': " descr ", 'fortran_order': " fortran ", 'shape': " shape "}"

static const struct {
	const char *text, *expected;
} bad_arrays[] = {
	{"", "its header is no dictionary"},
	{"[]", "its header is no dictionary"},
	{"{}", "its header is not of descr, fortran_order and shape"},
	{"{'descr' '<f4'}", "its header is no dictionary"},
	{"{'descr': '<f4', 'fortran_order': False, ", "its header is no dictionary"},
	{"{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}", "its header is no dictionary"},
	{"{'descr': '<f4', 'order': False, 'shape': (2,)}", "another key than descr"},
	{"{'shape': (2,), 'shape': (2,), 'shape': (2,)}", "its header is not of descr"},
	{"{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", "its header is not of descr"},
	{"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
	 "another key than descr"},
	{NPY("'<f4'", "True", "(2,)"), "it lies column by column (fortran_order)"},
	{NPY("'<f4'", "0", "(2,)"), "it lies column by column (fortran_order)"},
	{NPY("'>f4'", "False", "(2,)"), "its type (descr) is none of f2"},
	{NPY("'<c8'", "False", "(1,)"), "its type (descr) is none of f2"},
	{NPY("'|O'", "False", "(1,)"), "its type (descr) is none of f2"},
	{NPY("[('a', '<f4')]", "False", "(2,)"), "its type (descr) is none of f2"},
	{NPY("'<f4", "False", "(2,)"), "its type (descr) is none of f2"},
	{NPY("'<f4'", "False", "(3,)"), "its array is not as long as its shape and type say"},
	{NPY("'<f4'", "False", "(1,)"), "its array is not as long as its shape and type say"},
	{NPY("'<f4'", "False", "(4611686018427387905, 2)"), "its shape is none of up to 8"},
	{NPY("'<f4'", "False", "(461168601842738790, 461168601842738790)"),
	 "its array is not as long"},
	{NPY("'<f4'", "False", "(1, 2)"), "its array has 1 row; it needs two rows"},
	{NPY("'<f4'", "False", "()"), "its array is not as long"},
	{NPY("'<f8'", "False", "()"), "its array is a single number"},
	{NPY("'<f4'", "False", "(-2,)"), "its shape is none of up to 8 dimensions"},
	{NPY("'<f4'", "False", "(2"), "its shape is none of up to 8 dimensions"},
	{NPY("'<f4'", "False", "(2 2)"), "its shape is none of up to 8 dimensions"},
	{NPY("'<f4'", "False", "(1,1,1,1,1,1,1,1,2)"), "its shape is none of up to 8 dimensions"},
	{NPY("'<f4'", "False", "2"), "its shape is none of up to 8 dimensions"},
};

START_TEST(arrays_that_lie_are_refused)
{
	put_npy(npy_path, bad_arrays[_i].text, "12345678", 8);
	refuse(npy_path, bad_arrays[_i].expected);
	put(npy_path, "\x93NUMPY\2\0\377\377\377\377{}", 14, "12345678", 8);
	refuse(npy_path, "its header is longer than it is");
}
END_TEST

static const struct suite_test tests[] = {
	EACH(every_type_is_read_as_the_nearest_float, N_OF(types)),
	ONCE(the_content_says_what_a_file_is),
	ONCE(a_rank_keeps_the_columns_that_it_reads),
	ONCE(other_data_has_another_checksum),
	ONCE(a_large_file_is_looked_at_in_pieces),
	ONCE(numbers_that_no_float_holds_are_refused_as_they_are_gathered),
	EACH(tensors_that_lie_are_refused, N_OF(bad_tensors)),
	ONCE(files_without_a_tensor_are_refused),
	EACH(arrays_that_lie_are_refused, N_OF(bad_arrays)),
};
SUITE_WITH("dataset_files", setup, teardown)
