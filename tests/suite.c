#include "suite.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PART 8

static int part(void)
{
	return suite_takes_all() ? 1 : PART;
}

int suite_drawn(int n)
{
	return (n + part() - 1) / part();
}

/* The high bits: neighbours in nested loops are not taken alike. */
bool suite_takes(int i)
{
	return (uint32_t)i * 2654435761u / 65536 % (uint32_t)part() == 0;
}

bool suite_takes_all(void)
{
	const char *sweeps = getenv("ORRERY_SWEEPS");

	return sweeps && !strcmp(sweeps, "all");
}

uint64_t suite_random;

int suite_draw(int64_t n)
{
	suite_random = suite_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int)((suite_random >> 33) % (uint64_t)n);
}

int suite_run_with(const char *name, const struct suite_test *tests, int n_tests,
		   void (*setup)(void), void (*teardown)(void))
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);
	SRunner *runner = srunner_create(suite);
	int n_failed;

	suite_add_tcase(suite, tcase);
	tcase_set_timeout(tcase, 300);
	tcase_add_checked_fixture(tcase, setup, teardown);
	for (int i = 0; i < n_tests; i++)
		tcase_add_loop_test(tcase, *tests[i].test, tests[i].first, tests[i].end);
	srunner_run_all(runner, CK_ENV);
	n_failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return n_failed ? 1 : 0;
}

int suite_run(const char *name, const struct suite_test *tests, int n_tests)
{
	return suite_run_with(name, tests, n_tests, NULL, NULL);
}
