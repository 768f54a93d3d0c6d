#pragma once
/*
 * A test program of Check is a table `tests` and SUITE(), or a main() that calls suite_run(). Each
 * test has 300 s, times CK_TIMEOUT_MULTIPLIER; CK_FORK=no, which StarPU's threads need, runs all of
 * them in one process, without a limit.
 */
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What holds is not said: Check would write a file and a line for each assertion, millions of them.
 * After a crash it names the test. */
#define _mark_point(file, line) ((void)0) /* NOLINT(bugprone-reserved-identifier) */

#define N_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Else the test fails, and says the text. */
#define ASSERT_HAS(text, part) \
	do { \
		const char *text_ = (text), *part_ = (part); \
		ck_assert_msg(strstr(text_, part_) != NULL, "'%s' is not in: %s", part_, text_); \
	} while (0)

/* Of long sweeps the suite runs a part, and with ORRERY_SWEEPS=all, as in the benchmarks `sweeps`,
 * the whole. How many of n drawn cases; and is case i of a sweep run? The first one is. */
int suite_drawn(int n);
bool suite_takes(int i);
/* Is it the whole? Else what takes long is left out where something shorter reaches the same code.
 */
bool suite_takes_all(void);

/* The next number in [0, n) that follows from suite_random, which a test sets. */
extern uint64_t suite_random;
int suite_draw(int64_t n);

/* A test is run with _i from first to below end. */
struct suite_test {
	const TTest *const *test;
	int first, end;
};

#define ONCE(test) EACH(test, 1)
#define EACH(test, n) \
	{ \
		&(test), 0, n \
	}

/* Run the tests of the table. Returns 0 where all pass, else 1: the value of main. */
int suite_run(const char *name, const struct suite_test *tests, int n_tests);

/* The same with setup before and teardown after every test, in its process. */
int suite_run_with(const char *name, const struct suite_test *tests, int n_tests,
		   void (*setup)(void), void (*teardown)(void));

#define SUITE(name) SUITE_WITH(name, NULL, NULL)
#define SUITE_WITH(name, setup, teardown) \
	int main(void) \
	{ \
		return suite_run_with(name, tests, N_OF(tests), setup, teardown); \
	}
