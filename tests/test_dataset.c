#include "orrery/graph.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"

static char folder[] = "dataset-XXXXXX"; /* in the folder that the test runs in */
static char path[sizeof(folder) + 16];

static void setup(void)
{
	strcpy(folder + sizeof(folder) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/t.csv", folder);
}

static void teardown(void)
{
	(void)unlink(path);
	(void)rmdir(folder);
}

static void put(const char *text, size_t length)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(text, 1, length, file), length);
	ck_assert_int_eq(fclose(file), 0);
}

/* n rows of one column that hold their own number. */
static struct orr_dataset *numbered(int n)
{
	struct orr_dataset *data = NULL;
	struct orr_error err;
	FILE *file = fopen(path, "w");
	int i;

	ck_assert_ptr_nonnull(file);
	for (i = 0; i < n; i++)
		(void)fprintf(file, "%d\n", i);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_msg(orr_dataset_read(&data, path, NULL, 0, &err) == 0, "%s", err.msg);
	return data;
}

#define TEXT(s) s, sizeof(s) - 1

static const struct {
	const char *name, *text;
	size_t length;
	int64_t n_rows, n_columns;
	float first, last;
} good[] = {
	{"plain", TEXT("1,2\n3,4\n"), 2, 2, 1, 4},
	{"no newline at the end", TEXT("1,2\n3,4"), 2, 2, 1, 4},
	{"CRLF", TEXT("1,2\r\n3,4\r\n"), 2, 2, 1, 4},
	{"blank last lines", TEXT("1,2\n3,4\n\n \r\n\n"), 2, 2, 1, 4},
	{"heading", TEXT("x,y\n1,2\n3,4\n"), 2, 2, 1, 4},
	{"heading with fewer words", TEXT("\"numbers, two\"\n1,2,3\n3,4,5\n"), 2, 3, 1, 5},
	{"byte order mark",
	 TEXT("\xef\xbb\xbf"
	      "1,2\n3,4\n"),
	 2, 2, 1, 4},
	{"byte order mark and heading", TEXT("\xef\xbb\xbfx,y\n1,2\n3,4\n"), 2, 2, 1, 4},
	{"blanks around numbers", TEXT(" 1 ,\t2\n3 , 4 \n"), 2, 2, 1, 4},
	{"signs, points and exponents", TEXT("-1.5,2\n3,+4e-2\n"), 2, 2, -1.5f, 4e-2f},
	{"longer than the fast path", TEXT("12345678,2\n3,00000000004\n"), 2, 2, 12345678.f, 4},
	{"a number too small for a float", TEXT("1e-99,2\n3,4\n"), 2, 2, 0, 4},
};

START_TEST(good_files_are_read)
{
	struct orr_dataset *data = NULL;
	struct orr_error err = {""};
	const char *name = good[_i].name;

	put(good[_i].text, good[_i].length);
	ck_assert_msg(orr_dataset_read(&data, path, NULL, 0, &err) == 0, "%s: %s", name, err.msg);
	ck_assert_msg(data->n_rows == good[_i].n_rows && data->n_columns == good[_i].n_columns,
		      "%s: %d rows of %d", name, (int)data->n_rows, (int)data->n_columns);
	ck_assert_msg(!(data->values[0] < good[_i].first) && !(data->values[0] > good[_i].first),
		      "%s: first", name);
	ck_assert_msg(fabsf(data->values[data->n_rows * data->n_columns - 1] - good[_i].last) <=
			      0.0f,
		      "%s: last", name);
	orr_dataset_destroy(data);
}
END_TEST

static const struct {
	const char *name;
	int64_t columns[4], n, n_kept, place[4];
} some[] = {
	{"one", {2}, 1, 1, {-1, -1, 0, -1}},
	{"none", {0}, 0, 0, {-1, -1, -1, -1}},
	{"all", {0, 1, 2, 3}, 4, 4, {0, 1, 2, 3}},
	{"in any order, and twice", {3, 0, 3}, 3, 2, {0, -1, -1, 1}},
	{"not there", {-1, 1, 4, 1000000}, 4, 1, {-1, 0, -1, -1}},
};

/* Cell 10 r + c in row r and column c. */
START_TEST(columns_that_nobody_wants_take_no_memory)
{
	struct orr_dataset *data = NULL;
	struct orr_error err = {""};
	const char *name = some[_i].name;
	struct orr_data_columns wanted = {NULL, some[_i].columns, some[_i].n};
	struct orr_data_tensor tensor;
	char text[4096];
	size_t length = 0;

	for (int r = 0; r < 100; r++)
		length += (size_t)sprintf(text + length, "%d,%d,%d,%d\n", 10 * r, 10 * r + 1,
					  10 * r + 2, 10 * r + 3);
	put(text, length);
	ck_assert_msg(!orr_dataset_read(&data, path, &wanted, 1, &err), "%s: %s", name, err.msg);
	ck_assert_int_eq(data->n_rows, 100);
	ck_assert_int_eq(data->n_columns, 4);
	ck_assert_msg(orr_dataset_bytes(data) == 400 * some[_i].n_kept, "%s: %lld bytes", name,
		      (long long)orr_dataset_bytes(data));
	ck_assert(orr_dataset_find(&tensor, data, NULL));
	for (int64_t c = 0; c < 4; c++) {
		ck_assert_int_eq(orr_data_tensor_index(&tensor, c), some[_i].place[c]);
		for (int64_t r = 0; r < 100 && some[_i].place[c] >= 0; r++) {
			float value;

			ck_assert(!orr_dataset_gather(data, NULL, &c, 1, &r, 1, &value, &err));
			ck_assert(value == (float)(10 * r + c));
		}
	}
	orr_dataset_destroy(data);
	/* and what is wrong with them is refused as ever */
	put("1,2,3,4\n5,6,x,8\n", 16);
	ck_assert_int_eq(orr_dataset_read(&data, path, &wanted, 1, &err), ORR_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.msg, ":2: column 3: no number"));
}
END_TEST

START_TEST(missing_files_and_folders_are_refused)
{
	struct orr_dataset *data = NULL;
	struct orr_error err = {""};
	char expected[256];

	ck_assert_int_eq(orr_dataset_read(&data, path, NULL, 0, &err), ORR_E_INPUT);
	(void)snprintf(expected, sizeof(expected),
		       "%s: cannot open it: No such file or directory: name a CSV, .npy or "
		       ".safetensors file ([data])",
		       path);
	ck_assert_str_eq(err.msg, expected);
	ck_assert_int_eq(orr_dataset_read(&data, folder, NULL, 0, &err), ORR_E_INPUT);
	(void)snprintf(expected, sizeof(expected), "%s: a directory: name a file in it", folder);
	ck_assert_str_eq(err.msg, expected);
	ck_assert_ptr_null(data);
	orr_dataset_destroy(NULL);
}
END_TEST

/* Rows that are longer than what is read at a time, and begin anywhere in it; the last one has no
 * end. */
START_TEST(long_rows_are_read_whole)
{
	enum { ROWS = 7, COLUMNS = 40000 };
	struct orr_dataset *data = NULL;
	struct orr_error err = {""};
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < COLUMNS; c++)
			(void)fprintf(file, "%s%d", c ? "," : r ? "\n" : "", r * COLUMNS + c);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_msg(!orr_dataset_read(&data, path, NULL, 0, &err), "%s", err.msg);
	ck_assert_int_eq(data->n_rows, ROWS);
	ck_assert_int_eq(data->n_columns, COLUMNS);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		ck_assert_msg(!(data->values[i] < (float)i) && !(data->values[i] > (float)i),
			      "value %d", i);
	orr_dataset_destroy(data);
}
END_TEST

static void refuse(const char *what, const char *message)
{
	struct orr_dataset *data = NULL;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_dataset_read(&data, what, NULL, 0, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, message) && !strncmp(err.msg, what, strlen(what)), "%s",
		      err.msg);
}

/* Holes take no room on the disk. */
START_TEST(what_never_ends_is_refused)
{
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	refuse(path, "no file but a FIFO or a device");
	refuse("/dev/zero", "no file but a FIFO or a device");
	ck_assert_int_eq(unlink(path), 0);
	put("1,2\n3,4\n", 8);
	ck_assert_int_eq(truncate(path, (1 << 28) + 100), 0);
	refuse(path, ":3: a line of more than 256 MiB");
	ck_assert_msg(!truncate(path, INT64_C(64) << 30),
		      "%s: the file system takes no file of 64 GiB", path);
	refuse(path, "64 GiB or more");
}
END_TEST

START_TEST(every_fifth_row_is_for_testing)
{
	struct orr_dataset *data = numbered(13);
	const int64_t test[] = {0, 5, 10}, train[] = {1, 2, 3, 4, 6, 7, 8, 9, 11, 12};

	ck_assert_int_eq(data->n_test, 3);
	ck_assert_int_eq(data->n_train, 10);
	ck_assert_mem_eq(data->test, test, sizeof(test));
	ck_assert_mem_eq(data->train, train, sizeof(train));
	orr_dataset_destroy(data);
}
END_TEST

/* Rows of the file, of which four fifths train: also sizes around the powers of two of the network.
 */
static const int sizes[] = {2, 3, 4, 5, 6, 7, 9, 10, 11, 20, 21, 22, 80, 81, 82, 1280, 1281, 1797};

START_TEST(every_epoch_is_a_permutation_of_the_training_rows)
{
	struct orr_dataset *data = numbered(sizes[_i]);
	int64_t n = data->n_train, epoch, i;
	int64_t *rows = malloc((size_t)n * sizeof(*rows));
	char *seen = malloc((size_t)data->n_rows);

	ck_assert(rows && seen);
	for (epoch = 0; epoch < 50; epoch++) {
		memset(seen, 0, (size_t)data->n_rows);
		ck_assert_int_eq(orr_dataset_rows(data, 7, epoch * n, (int)n, rows, NULL), 0);
		for (i = 0; i < n; i++) {
			ck_assert_msg(rows[i] >= 0 && rows[i] < data->n_rows && rows[i] % 5 != 0,
				      "row %d of %d", (int)rows[i], sizes[_i]);
			ck_assert_msg(!seen[rows[i]]++, "row %d of %d comes twice", (int)rows[i],
				      sizes[_i]);
		}
	}
	free(seen);
	free(rows);
	orr_dataset_destroy(data);
}
END_TEST

/* How many of the n positions hold the same row in both. */
static int count_equal(const int64_t *x, const int64_t *y, int n)
{
	int i, equal = 0;

	for (i = 0; i < n; i++)
		equal += x[i] == y[i];
	return equal;
}

START_TEST(epochs_and_seeds_differ_like_random_permutations)
{
	struct orr_dataset *data = numbered(1797);
	static const uint64_t seeds[] = {0, 1, 2, 3, UINT64_C(1) << 32, UINT64_MAX};
	int n = (int)data->n_train, a, b, orders = N_OF(seeds) * 4;
	int64_t *rows = malloc((size_t)orders * (size_t)n * sizeof(*rows));

	ck_assert_ptr_nonnull(rows);
	for (a = 0; a < orders; a++)
		ck_assert_int_eq(
			orr_dataset_rows(data, seeds[a / 4], a % 4 * n, n, rows + a * n, NULL), 0);
	/* Two random permutations agree in one position on average; in ten, once in three million.
	 */
	for (a = 0; a < orders; a++) {
		ck_assert_int_lt(count_equal(rows + a * n, data->train, n), 10);
		for (b = 0; b < a; b++)
			ck_assert_msg(count_equal(rows + a * n, rows + b * n, n) < 10,
				      "orders %d and %d", a, b);
	}
	free(rows);
	orr_dataset_destroy(data);
}
END_TEST

static const int small[] = {3, 5, 6, 8, 10, 16, 21};

/* Chi squared of how often each row comes at each place, which has (n-1)^2 degrees of freedom. */
START_TEST(every_row_comes_equally_often_at_every_place)
{
	struct orr_dataset *data = numbered(small[_i]);
	enum { EPOCHS = 20000 };
	int n = (int)data->n_train, epoch, k;
	int *count = calloc((size_t)n * (size_t)small[_i], sizeof(*count));
	double expected = (double)EPOCHS / n, chi = 0, freedom = (double)(n - 1) * (n - 1);
	int64_t rows[32];

	ck_assert(count && n <= 32);
	for (epoch = 0; epoch < EPOCHS; epoch++) {
		ck_assert_int_eq(orr_dataset_rows(data, 1, (int64_t)epoch * n, n, rows, NULL), 0);
		for (k = 0; k < n; k++)
			count[rows[k] * n + k]++;
	}
	for (k = 0; k < n * n; k++) {
		int seen = count[data->train[k / n] * n + k % n];
		double off = seen - expected;

		chi += off * off / expected;
	}
	ck_assert_msg(chi < freedom + 5 * sqrt(2 * freedom) + 5, "%d rows: chi squared is %g", n,
		      chi);
	free(count);
	orr_dataset_destroy(data);
}
END_TEST

START_TEST(the_order_does_not_depend_on_how_it_is_asked_for)
{
	struct orr_dataset *data = numbered(101);
	enum { N = 400 };
	int64_t whole[N], part[N];
	int step, i;

	ck_assert_int_eq(orr_dataset_rows(data, 5, 0, N, whole, NULL), 0);
	for (step = 1; step <= 97; step += 12) {
		for (i = N - step; i >= 0; i -= step) {
			ck_assert_int_eq(orr_dataset_rows(data, 5, i, step, part, NULL), 0);
			ck_assert_mem_eq(part, whole + i, (size_t)step * sizeof(*part));
		}
	}
	orr_dataset_destroy(data);
}
END_TEST

START_TEST(positions_are_checked)
{
	struct orr_dataset *data = numbered(10);
	struct orr_error err = {""};
	int64_t rows[4] = {-7, -7, -7, -7};

	ck_assert_int_eq(orr_dataset_rows(data, 1, -1, 4, rows, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg,
			 "dataset: no 4 rows from position -1 on: neither may be negative");
	ck_assert_int_eq(orr_dataset_rows(data, 1, 3, -1, rows, &err), ORR_E_INPUT);
	ck_assert_int_eq(orr_dataset_rows(data, 1, 3, 0, rows, &err), 0);
	ck_assert_int_eq(rows[0], -7);
	/* Training may go on for very long. */
	ck_assert_int_eq(orr_dataset_rows(data, 1, INT64_MAX - 4, 4, rows, &err), 0);
	ck_assert(rows[0] > 0 && rows[0] < 10);
	orr_dataset_destroy(data);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(good_files_are_read, N_OF(good)),
	EACH(columns_that_nobody_wants_take_no_memory, N_OF(some)),
	ONCE(long_rows_are_read_whole),
	ONCE(what_never_ends_is_refused),
	ONCE(missing_files_and_folders_are_refused),
	ONCE(every_fifth_row_is_for_testing),
	EACH(every_epoch_is_a_permutation_of_the_training_rows, N_OF(sizes)),
	ONCE(epochs_and_seeds_differ_like_random_permutations),
	EACH(every_row_comes_equally_often_at_every_place, N_OF(small)),
	ONCE(the_order_does_not_depend_on_how_it_is_asked_for),
	ONCE(positions_are_checked),
};
SUITE_WITH("dataset", setup, teardown)
