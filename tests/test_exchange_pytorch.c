/* A schedule from PyTorch's own tests, which is not ours to keep here: ZB1P, 4 stages on 2 workers,
 * 8 microbatches. Usage: test_exchange_pytorch FOLDER. Exit code 77: the file is not there. */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "open/exchange.h"
#include "pipelines.h"
#include "suite.h"

static char path[PATH_MAX];

START_TEST(zb1p_of_pytorch_ends_at_49)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 1, 1, 1, 1, 1);
	struct way way;

	way_init(&way, p, path, 2, 8);
	ck_assert_int_eq(way.tried.figures->makespan_ns, 49 * ORR_UNIT_NS);
	ck_assert_int_eq(way.tried.jobs->n_jobs, 4 * 8 * 3);
	way_end(&way);
}
END_TEST

int main(int argc, char **argv)
{
	const struct suite_test tests[] = {ONCE(zb1p_of_pytorch_ends_at_49)};

	(void)snprintf(path, sizeof(path), "%s/zb1p_2rank_2stagep_compute.csv",
		       argc > 1 ? argv[1] : ".");
	if (access(path, R_OK)) {
		printf("SKIP: %s is not there\n", path);
		return 77;
	}
	return suite_run("exchange_pytorch", tests, N_OF(tests));
}
