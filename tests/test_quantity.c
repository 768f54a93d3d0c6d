/* Durations, sizes, rates and counts: what is read, what is refused and how it prints. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "suite.h"

static const struct {
	const char *text;
	int64_t ns;
	bool units;
} durations[] = {
	{"0", 0, true},
	{"1", 1000000000, true},
	{"12.5", INT64_C(12500000000), true},
	{"0.000000001", 1, true},
	{"1e-9", 1, true},
	{"1.2ms", 1200000, false},
	{"12.96ms", 12960000, false},
	{" 1.2 ms ", 1200000, false},
	{"0s", 0, false},
	{"3ns", 3, false},
	{"0.4ns", 0, false},
	{"0.5ns", 1, false},
	{"7us", 7000, false},
	{"7\xc2\xb5s", 7000, false},
	{"2min", INT64_C(120000000000), false},
	{"1h", INT64_C(3600000000000), false},
	{"1e3us", 1000000, false},
	{".5s", 500000000, false},
	{"9007199.254740993s", INT64_C(9007199254740993), false}, /* beyond what a double holds */
};

START_TEST(durations_are_read_exactly)
{
	struct orr_error err;
	int64_t ns = -1;
	bool units = false;

	ck_assert_int_eq(orr_duration_parse(&ns, &units, durations[_i].text, "x", &err), 0);
	ck_assert_msg(ns == durations[_i].ns, "%s: %lld", durations[_i].text, (long long)ns);
	ck_assert_msg(units == durations[_i].units, "%s", durations[_i].text);
}
END_TEST

START_TEST(sizes_know_decimal_and_binary_prefixes)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} cases[] = {
		{"0", 0},
		{"4096", 4096},
		{"12B", 12},
		{"12MB", 12000000},
		{"1.5 kB", 1500},
		{"2KB", 2000},
		{"8GB", INT64_C(8000000000)},
		{"1GiB", 1073741824},
		{"1.5KiB", 1536},
		{"1MiB", 1048576},
		{"2TB", INT64_C(2000000000000)},
		{"1TiB", INT64_C(1099511627776)},
	};
	int n = 0;

	for (; n < N_OF(cases); n++) {
		int64_t bytes = -1;

		ck_assert_int_eq(orr_size_parse(&bytes, cases[n].text, "x", NULL), 0);
		ck_assert_msg(bytes == cases[n].bytes, "%s: %lld", cases[n].text, (long long)bytes);
	}
	ck_assert_int_eq(n, 12);
}
END_TEST

/* Each of bad is refused at its last item. */
START_TEST(a_list_is_read_count_by_count)
{
	static const char *const bad[] = {"", ",", "8,", "8,,16", "8,x", "8,16 x", "8,101"};
	const char *rest = "8, 16 ,3";
	int64_t value, sum = 0;

	for (; rest; sum = 100 * sum + value)
		ck_assert_int_eq(orr_count_next(&value, &rest, ',', 1, 100, "x", NULL), 0);
	ck_assert_int_eq(sum, 81603);
	for (int i = 0; i < N_OF(bad); i++) {
		int code = 0;

		for (rest = bad[i]; rest && !code;)
			code = orr_count_next(&value, &rest, ',', 1, 100, "x", NULL);
		ck_assert_msg(code == ORR_E_INPUT, "'%s' was read", bad[i]);
	}
}
END_TEST

START_TEST(rates_counts_and_numbers_are_read)
{
	double real = -1;
	int64_t value = -1;

	ck_assert_int_eq(orr_rate_parse(&real, "25GB/s", "x", NULL), 0);
	ck_assert_double_eq(real, 25e9);
	ck_assert_int_eq(orr_rate_parse(&real, "1.5 GiB/s", "x", NULL), 0);
	ck_assert_double_eq(real, 1.5 * 1073741824.0);
	ck_assert_int_eq(orr_rate_parse(&real, "1000", "x", NULL), 0);
	ck_assert_double_eq(real, 1000);
	ck_assert_int_eq(orr_count_parse(&value, "42", 0, 100, "x", NULL), 0);
	ck_assert_int_eq(value, 42);
	ck_assert_int_eq(orr_count_parse(&value, "-3", -10, 100, "x", NULL), 0);
	ck_assert_int_eq(value, -3);
	ck_assert_int_eq(orr_count_parse(&value, "9223372036854775807", 0, INT64_MAX, "x", NULL),
			 0);
	ck_assert(value == INT64_MAX);
	ck_assert_int_eq(orr_real_parse(&real, "0.1", 0, 1, "x", NULL), 0);
	ck_assert_double_eq(real, 0.1);
	ck_assert_int_eq(orr_real_parse(&real, "-2.5e-3", -1, 1, "x", NULL), 0);
	ck_assert_double_eq(real, -2.5e-3);
}
END_TEST

START_TEST(quantities_print_with_the_unit_that_fits)
{
	static const struct {
		char kind;
		int64_t value;
		const char *text;
	} cases[] = {
		{'d', 0, "0 ns"},
		{'d', 1200000, "1.2 ms"},
		{'d', 2130000000, "2.13 s"},
		{'d', 999, "999 ns"},
		{'d', 1000, "1 us"},
		{'d', 999960, "1 ms"},
		{'d', INT64_C(123456000000000), "123456 s"},
		{'u', 1000000000, "1"},
		{'u', INT64_C(12500000000), "12.5"},
		{'u', 0, "0"},
		{'u', INT64_C(1234567000000000), "1234567"},
		{'b', 0, "0 B"},
		{'b', 512, "512 B"},
		{'b', INT64_C(57344000000), "57.3 GB"},
		{'b', 128000000, "128 MB"},
		{'b', 999600, "1 MB"},
		{'b', INT64_C(245000000000), "245 GB"},
		{'b', INT64_C(1234000000000000), "1234 TB"},
	};
	int n = 0;

	for (; n < N_OF(cases); n++)
		ck_assert_str_eq(cases[n].kind == 'b'
					 ? orr_size_text(cases[n].value)
					 : orr_duration_text(cases[n].value, cases[n].kind == 'u'),
				 cases[n].text);
	ck_assert_int_eq(n, 18);
}
END_TEST

START_TEST(an_exact_size_reads_back)
{
	static const struct {
		int64_t bytes;
		const char *text;
	} sizes[] = {{0, "0B"},           {999, "999B"},         {1000, "1kB"},
		     {8000000000, "8GB"}, {1304240, "1304240B"}, {25000000, "25MB"}};

	for (int i = 0; i < N_OF(sizes); i++) {
		const char *text = orr_size_exact(sizes[i].bytes);
		int64_t bytes = -1;

		ck_assert_str_eq(text, sizes[i].text);
		ck_assert_int_eq(orr_size_parse(&bytes, text, "size", NULL), 0);
		ck_assert_int_eq(bytes, sizes[i].bytes);
	}
}
END_TEST

static const struct suite_test tests[] = {
	EACH(durations_are_read_exactly, N_OF(durations)),
	ONCE(sizes_know_decimal_and_binary_prefixes),
	ONCE(rates_counts_and_numbers_are_read),
	ONCE(a_list_is_read_count_by_count),
	ONCE(quantities_print_with_the_unit_that_fits),
	ONCE(an_exact_size_reads_back),
};
SUITE("quantity")
