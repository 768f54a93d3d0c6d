/* The files of a checkpoint's tensors: what is written, and that a file that lies is refused. */
#include <check.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "checkpoints.h"
#include "suite.h"

#define NAME "x.safetensors"

static struct orr_folder inside;

static void setup(void)
{
	make_folders();
	ck_assert_msg(!orr_folder_open(&inside, work, &err), "%s", err.msg);
}

static void teardown(void)
{
	orr_folder_close(&inside);
	remove_folders();
}

static FILE *open_stream(const char *mode)
{
	int fd = openat(inside.fd, NAME, *mode == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC,
			0666);
	FILE *file = fd < 0 ? NULL : fdopen(fd, mode);

	ck_assert_ptr_nonnull(file);
	return file;
}

START_TEST(tensors_are_written_as_the_format_says)
{
	static const char header[] =
		"{\"__metadata__\":{\"about\":\"a note\"},"
		"\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
		"\"a.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]},"
		"\"b.gain\":{\"dtype\":\"F32\",\"shape\":[9],\"data_offsets\":[32,68]}}";
	struct orr_named_tensor tensors[N_TENSORS];
	char checksum[ORR_CHECKSUM], again[ORR_CHECKSUM], text[600];
	float values[N_FLOATS];
	int64_t n_bytes;
	size_t padded = (strlen(header) + 7) / 8 * 8, n;
	FILE *file;

	fill(tensors, values, 0);
	ck_assert(!orr_safetensors_write(&inside, NAME, tensors, N_TENSORS, "a note", &n_bytes,
					 checksum, &err));
	file = open_stream("r");
	n = fread(text, 1, sizeof(text), file);
	fclose(file);
	ck_assert_uint_eq(n, 8 + padded + sizeof(values));
	ck_assert_uint_eq((uint64_t)n_bytes, n);
	orr_checksum(again, text, n);
	ck_assert_str_eq(checksum, again);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq((unsigned char)text[i], (int)(padded >> (8 * i) & 255));
	ck_assert(!memcmp(text + 8, header, strlen(header)));
	for (size_t i = 8 + strlen(header); i < 8 + padded; i++)
		ck_assert_int_eq(text[i], ' ');
	ck_assert(!memcmp(text + 8 + padded, values, sizeof(values)));
}
END_TEST

START_TEST(the_checksum_is_that_of_xxhsum)
{
	char checksum[ORR_CHECKSUM];

	orr_checksum(checksum, "", 0); /* xxhsum -H2 /dev/null */
	ck_assert_str_eq(checksum, "99aa06d3014798d86001c324468d497f");
}
END_TEST

#define A_BIAS "\"a.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"

static const struct {
	const char *header;
	size_t length; /* 0: the header's */
	const char *expected;
} wrong_files[] = {
	{"{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 0,
	 "has no tensor 'a.bias'"},
	{"{\"a.bias\"", 0, "its header is no JSON object"},
	{"[]", 0, "its header is no JSON object"},
	{"{}", 1u << 20, "its header is longer than it is"},
	{"{}", SIZE_MAX, "its header is longer than it is"},
	{"{}", 0, "overlap or leave gaps"},
	{"{" A_BIAS "[4,12]}}", 0, "overlap or leave gaps"},
	{"{" A_BIAS "[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 0,
	 "overlap or leave gaps"},
	{"{" A_BIAS "[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 0,
	 "overlap or leave gaps"},
	{"{" A_BIAS "[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 0,
	 "overlap or leave gaps"},
	{"{" A_BIAS "[0,4]}}", 0, "data_offsets do not fit"},
	{"{" A_BIAS "[9223372036854775807,-9]}}", 0, "data_offsets do not fit"},
	{"{" A_BIAS "[-9223372036854775808,9223372036854775807]}}", 0, "data_offsets do not fit"},
	{"{" A_BIAS "[-8,0]}}", 0, "data_offsets do not fit"},
	{"{\"a.bias\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}"
	 "}",
	 0, "data_offsets do not fit"},
	{"{\"a.bias\":{\"dtype\":\"F32\",\"shape\":[-1,-2],\"data_offsets\":[0,8]}}", 0,
	 "data_offsets do not fit"},
	{"{\"a.bias\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 0,
	 "data_offsets do not fit"},
	{"{\"a.bias\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 0,
	 "'a.bias' is of dtype F16, a checkpoint's are of F32"},
	{"{\"a.bias\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,8]}}", 0,
	 "'a.bias': its dtype is none of F32"},
	{"{\"a.bias\":{\"dtype\":\"F32\",\"shape\":[2]}}", 0, "data_offsets do not fit"},
	{"{\"a.bias\":3}", 0, "data_offsets do not fit"},
	{"{\"a\\nbias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 0,
	 "data_offsets do not fit"},
	{"{\"a.bias\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}", 0,
	 "has another shape"},
};

START_TEST(a_file_of_tensors_that_lies_is_refused)
{
	const char *header = wrong_files[_i].header;
	uint64_t length = wrong_files[_i].length ? wrong_files[_i].length : strlen(header);
	float values[2];
	struct orr_named_tensor tensor = {
		.name = "a.bias", .n_dims = 1, .shape = {2, 1}, .values = values};
	struct orr_tensor_file file = {.fd = -1};
	FILE *out = open_stream("w");
	int code;

	ck_assert_uint_eq(fwrite(&length, sizeof(length), 1, out), 1);
	ck_assert(fprintf(out, "%s12345678", header) > 0); /* eight bytes of data */
	fclose(out);
	if (!(code = orr_safetensors_open(&file, &inside, NAME, true, NULL, &err)))
		code = orr_safetensors_read(&file, &tensor, &err);
	ck_assert_int_eq(code, ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, wrong_files[_i].expected) != NULL, "%d: %s", _i, err.msg);
	ck_assert_ptr_null(strchr(err.msg, '\n'));
	orr_tensor_file_close(&file);
}
END_TEST

/* ---- numbers that are not finite ---- */

static const float wild[] = {NAN, INFINITY, -INFINITY};

START_TEST(what_diverged_is_not_written)
{
	struct orr_named_tensor tensors[N_TENSORS];
	char checksum[ORR_CHECKSUM];
	float values[N_FLOATS];
	int64_t n_bytes;

	fill(tensors, values, 0);
	values[7] = wild[_i]; /* the last one of a.bias */
	ck_assert_int_eq(orr_safetensors_write(&inside, NAME, tensors, N_TENSORS, NULL, &n_bytes,
					       checksum, &err),
			 ORR_E_DIVERGED);
	ck_assert_ptr_nonnull(strstr(err.msg, "'a.bias' is not finite"));
	ck_assert_int_ne(faccessat(inside.fd, NAME, F_OK, 0), 0);
	for (int i = 0; i < N_FLOATS; i++) { /* several are looked at at once */
		fill(tensors, values, 0);
		values[i] = wild[_i];
		ck_assert_int_eq(orr_safetensors_write(&inside, NAME, tensors, N_TENSORS, NULL,
						       &n_bytes, checksum, &err),
				 ORR_E_DIVERGED);
	}
}
END_TEST

START_TEST(the_largest_and_the_smallest_numbers_are_finite)
{
	static const float tame[] = {FLT_MAX,      -FLT_MAX,      FLT_MIN,
				     FLT_TRUE_MIN, -FLT_TRUE_MIN, -0.0f};
	struct orr_named_tensor tensors[N_TENSORS];
	char checksum[ORR_CHECKSUM];
	float values[N_FLOATS];
	int64_t n_bytes;

	fill(tensors, values, 0);
	for (int i = 0; i < N_FLOATS; i++)
		values[i] = tame[i % N_OF(tame)];
	ck_assert_msg(!orr_safetensors_write(&inside, NAME, tensors, N_TENSORS, NULL, &n_bytes,
					     checksum, &err),
		      "%s", err.msg);
}
END_TEST

/* Wherever it lies, and however long the file is. */
START_TEST(what_diverged_is_not_read)
{
	static float values[200000];
	const struct orr_named_tensor tensors[] = {
		{.name = "a", .n_dims = 1, .shape = {1, 1}, .values = values},
		{.name = "b", .n_dims = 2, .shape = {200000 - 2, 1}, .values = values + 1},
		{.name = "c", .n_dims = 1, .shape = {1, 1}, .values = values + 200000 - 1}};
	static const struct {
		int64_t at;
		const char *expected;
	} places[] = {{0, "'a' is"},
		      {1, "'b' is"},
		      {65535, "'b' is"},
		      {131072, "'b' is"},
		      {199999, "'c' is"}};
	struct orr_tensor_file file = {.fd = -1};
	char checksum[ORR_CHECKSUM];
	int64_t n_bytes;

	memset(values, 0, sizeof(values));
	ck_assert(
		!orr_safetensors_write(&inside, NAME, tensors, 3, NULL, &n_bytes, checksum, &err));
	ck_assert_msg(!orr_safetensors_open(&file, &inside, NAME, true, checksum, &err), "%s",
		      err.msg);
	orr_tensor_file_close(&file);
	for (int i = 0; i < N_OF(places); i++) {
		int fd = openat(inside.fd, NAME, O_RDWR);
		int64_t at =
			n_bytes - (int64_t)sizeof(values) + places[i].at * (int64_t)sizeof(float);
		float none = 0;

		ck_assert_int_eq(pwrite(fd, &wild[_i], sizeof(float), at), sizeof(float));
		ck_assert_int_eq(orr_safetensors_open(&file, &inside, NAME, true, checksum, &err),
				 ORR_E_INPUT);
		ck_assert_ptr_nonnull(strstr(err.msg, "checksum does not fit"));
		ck_assert_int_eq(orr_safetensors_open(&file, &inside, NAME, true, NULL, &err),
				 ORR_E_INPUT);
		ck_assert_msg(strstr(err.msg, places[i].expected) != NULL, "%s", err.msg);
		ck_assert_int_eq(pwrite(fd, &none, sizeof(none), at), sizeof(none));
		close(fd);
	}
}
END_TEST

/* ---- what is no file ---- */

/* 0: a link to a file; 1: a link to nothing; 2: a pipe; 3: a folder. None is read, written or
 * waited for. */
START_TEST(only_a_plain_file_is_opened)
{
	static const char *const kinds[] = {"a link", "a link", "a pipe", "a folder"};
	struct orr_named_tensor tensors[N_TENSORS];
	struct orr_tensor_file file = {.fd = -1};
	char checksum[ORR_CHECKSUM];
	float values[N_FLOATS];
	int64_t n_bytes;

	fill(tensors, values, 0);
	if (_i == 0)
		ck_assert(!orr_safetensors_write(&inside, "there", tensors, N_TENSORS, NULL,
						 &n_bytes, checksum, &err));
	if (_i < 2)
		ck_assert(!symlinkat("there", inside.fd, NAME));
	else
		ck_assert(!(_i == 2 ? mkfifoat(inside.fd, NAME, 0666)
				    : mkdirat(inside.fd, NAME, 0777)));
	ck_assert(orr_safetensors_open(&file, &inside, NAME, true, NULL, &err));
	ck_assert_msg(strstr(err.msg, kinds[_i]) != NULL, "%s", err.msg);
	ck_assert(orr_safetensors_write(&inside, NAME, tensors, N_TENSORS, NULL, &n_bytes, checksum,
					&err));
	ck_assert_msg(strstr(err.msg, kinds[_i]) != NULL, "%s", err.msg);
	ck_assert_int_eq(faccessat(inside.fd, "there", F_OK, 0), _i ? -1 : 0);
	unlinkat(inside.fd, "there", 0);
	unlinkat(inside.fd, NAME, _i == 3 ? AT_REMOVEDIR : 0);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(tensors_are_written_as_the_format_says),
	ONCE(the_checksum_is_that_of_xxhsum),
	EACH(a_file_of_tensors_that_lies_is_refused, N_OF(wrong_files)),
	EACH(what_diverged_is_not_written, 3),
	ONCE(the_largest_and_the_smallest_numbers_are_finite),
	EACH(what_diverged_is_not_read, 3),
	EACH(only_a_plain_file_is_opened, 4),
};
SUITE_WITH("safetensors", setup, teardown)
