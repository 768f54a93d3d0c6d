/* PipeDream's own profiles, which are not ours to keep here: the plan for each is no slower than
 * the one that PipeDream's optimizer published for it. Usage: test_plan_profiles FOLDER. Exit code
 * 77: the profiles are not there. */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/plan.h"
#include "plan/hierarchy.h"
#include "plan/ideals.h"
#include "suite.h"

static const char *folder;

static const struct {
	const char *profile, *workers, *links;
	bool activations;
	double slowest_s, one_worker_s;
} published[] = {
	{"vgg16", "4", "1GB/s", true, 0.205520896, 0.672535},
	{"vgg16", "16", "3.125GB/s", true, 0.045524808, 0.672535},
	{"resnet50", "4", "1GB/s", true, 0.162880924, 0.443419},
	{"resnet50", "16", "1GB/s", true, 0.047801345, 0.443419},
	{"gnmt", "4", "1GB/s", true, 0.025868, 0.089416},
	{"vgg16", "4x4", "10GB/s,1.25GB/s", false, 0.044121074, 0.672535},
	{"resnet50", "4x4", "10GB/s,1.25GB/s", false, 0.028717022, 0.443419},
};

static const char *path_of(const char *profile)
{
	static char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s.graph.txt", folder, profile);
	return path;
}

static struct orr_hierarchy search(const struct orr_ideals *x, int i)
{
	struct orr_hierarchy_options o = {.activations = published[i].activations,
					  .least_in_flight = 1};
	struct orr_hierarchy h;
	struct orr_error err = {""};

	ck_assert_msg(!orr_levels_parse(&o.levels, published[i].workers, published[i].links, NULL,
					NULL, &err),
		      "%s", err.msg);
	ck_assert_msg(!orr_hierarchy_find(&h, x, &o, &err), "%s", err.msg);
	ck_assert_int_gt(h.n_stages, 0);
	return h;
}

START_TEST(profiles_are_cut_no_worse_than_published)
{
	struct orr_machine machine = orr_machine_default(1);
	struct orr_graph *g = NULL;
	struct orr_ideals *x = NULL;
	struct orr_hierarchy h, again;
	struct orr_error err = {""};

	ck_assert_msg(!orr_graph_read(&g, path_of(published[_i].profile), &err), "%s", err.msg);
	ck_assert_msg(!orr_ideals_create(&x, g, &machine, 1, 1, 600, NULL, &err), "%s", err.msg);
	h = search(x, _i);
	ck_assert_msg(h.slowest_s <= published[_i].slowest_s + 5e-10, "%s on %s: %.9f",
		      published[_i].profile, published[_i].workers, h.slowest_s);
	ck_assert_double_eq_tol((double)x->compute_ns[x->n - 1] * 1e-9, published[_i].one_worker_s,
				1e-6);
	again = search(x, _i);
	ck_assert_int_eq(again.n_stages, h.n_stages);
	for (int i = 0; i < h.n_stages;
	     i++) { /* field by field: the bytes between fields are undefined */
		ck_assert_int_eq(again.stages[i].from, h.stages[i].from);
		ck_assert_int_eq(again.stages[i].to, h.stages[i].to);
		ck_assert_int_eq(again.stages[i].workers, h.stages[i].workers);
	}
	free(h.stages);
	free(again.stages);
	orr_ideals_destroy(x);
	orr_graph_destroy(g);
}
END_TEST

int main(int argc, char **argv)
{
	const struct suite_test tests[] = {
		EACH(profiles_are_cut_no_worse_than_published, N_OF(published)),
	};

	folder = argc > 1 ? argv[1] : ".";
	for (int i = 0; i < N_OF(published); i++)
		if (access(path_of(published[i].profile), R_OK)) {
			printf("SKIP: %s is not there\n", path_of(published[i].profile));
			return 77;
		}
	return suite_run("plan_profiles", tests, N_OF(tests));
}
