/* Parameters of other owners, on workers with a memory each: a worker has copies for its next jobs
 * and no others, and none is left when a step has ended. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "runtime/run/parts.h"
#include "suite.h"
#include "training.h"

/* StarPU gives copies back on request (tasks/compat.h). */
static bool gives_back(void)
{
	return STARPU_MAJOR_VERSION > 1 || STARPU_MINOR_VERSION >= 4;
}

/* Of parameters that other owners have: copies in the memory of worker w. */
static int count_copies(const struct orr_run *run, int w)
{
	unsigned node = orr_policy_node(run->session.policy, w);
	int n = 0;

	for (int i = 0; i < run->data.n_owned; i++) {
		const struct orr_owned *o = &run->data.owned[i];
		int allocated = 0, valid, requested;

		if (o->parameters && o->node != node)
			starpu_data_query_status(o->parameters, (int)node, &allocated, &valid,
						 &requested);
		n += allocated != 0;
	}
	return n;
}

/* Between two jobs of a worker, in the thread that runs them. */
struct watch {
	struct orr_run *run;
	atomic_int n_looks, most;
};

static void look(void *user, const struct orr_queued *queued)
{
	struct watch *watch = user;
	int n = 0, prefetch = watch->run->prefetch.depth;

	/* what another thread looks at is not given back: try again */
	for (int k = 0; k < (gives_back() ? 1000 : 1); k++) {
		orr_prefetch_drop(&watch->run->prefetch, queued);
		n = count_copies(watch->run, queued->w);
		if (n <= prefetch + 1)
			break;
		usleep(1000);
	}
	for (int most = atomic_load(&watch->most); n > most;)
		if (atomic_compare_exchange_weak(&watch->most, &most, n))
			break;
	atomic_fetch_add(&watch->n_looks, 1);
}

/* Memories of their own, each with a worker. */
static int count_memories(void)
{
	int n = (int)starpu_memory_nodes_get_count();

	ck_assert_int_gt(n, 1);
	return n;
}

static float *train(const char *schedule, int n_workers, int prefetch, int *most, int *left,
		    int *n_foreign)
{
	struct watch watch = {0};
	struct training t;
	float *parameters;

	training_init(&t, schedule, n_workers, 8);
	t.options.prefetch = prefetch;
	t.options.batch = 24;
	training_start(&t);
	watch.run = t.run;
	*n_foreign = 0;
	for (int i = 0; i < t.run->data.n_owned; i++)
		*n_foreign += t.run->data.owned[i].parameters != NULL;
	if (t.run->prefetch.next)
		orr_policy_on_end(t.run->session.policy, look, &watch);
	ck_assert_msg(!orr_run_train(t.run, N_STEPS, NULL, NULL, &t.err), "%s", t.err.msg);
	*most = watch.most;
	*left = 0;
	for (int w = 0; w < n_workers; w++)
		*left += count_copies(t.run, w);
	parameters = training_parameters(&t);
	if (n_workers > 1) {
		int n = count_memories() < n_workers ? count_memories() : n_workers;

		ck_assert_int_eq(watch.n_looks, N_STEPS * t.jobs->n_jobs);
		if (!strcmp(schedule, "fsdp"))
			ck_assert_int_gt(*most, 0);
		printf("%s, %d ahead, %d memories: %d copies at most, %d left\n", schedule,
		       prefetch, n, *most, *left);
	}
	training_fini(&t);
	return parameters;
}

/* Five stages have parameters, and four workers own one or two of them. */
START_TEST(a_worker_has_copies_for_its_next_jobs_alone)
{
	int prefetch = _i, most, left, n;
	float *expected = train("gpipe", 1, 2, &most, &left, &n);
	float *parameters = train("fsdp", gives_back() ? 4 : 2, prefetch, &most, &left, &n);

	ck_assert(!memcmp(parameters, expected, (size_t)n * sizeof(float)));
	if (gives_back()) {
		ck_assert_int_le(most, prefetch + 1);
		ck_assert_int_eq(left, 0);
	}
	free(parameters);
	free(expected);
}
END_TEST

/* Rounded weights of stages that others own are as many as copies of their parameters. */
START_TEST(a_worker_keeps_weights_rounded_for_its_next_jobs_alone)
{
	float *parameters[2];
	int64_t n = 0;

	for (int k = 0; k < 2; k++) {
		struct training t;
		int prefetch = _i, n_workers = k ? gives_back() ? 4 : 2 : 1;

		training_init(&t, k ? "fsdp" : "gpipe", n_workers, 8);
		t.options.precision = ORR_PRECISION_BF16;
		t.options.prefetch = prefetch;
		t.options.batch = 24;
		parameters[k] = training_run(&t, k ? "fsdp" : "gpipe", NULL);
		n = orr_run_n_parameters(t.run);
		for (int w = 0; w < n_workers; w++) {
			int id = orr_policy_worker(t.run->session.policy, w), n_foreign = 0;
			const struct orr_workspace *own = &t.run->session.common.workspaces[id];

			for (int i = 0; i < t.run->data.n_owned; i++)
				n_foreign += t.run->data.owned[i].parameters &&
					     t.run->data.owned[i].w != w;
			ck_assert_int_eq(own->n_own + n_foreign, 5);
			ck_assert_int_eq(own->n_kept - own->n_own,
					 n_foreign < prefetch + 1 ? n_foreign : prefetch + 1);
		}
		training_fini(&t);
	}
	ck_assert(!memcmp(parameters[0], parameters[1], (size_t)n * sizeof(float)));
	free(parameters[0]);
	free(parameters[1]);
}
END_TEST

START_TEST(who_computes_with_its_own_parameters_has_no_copies)
{
	int most, left, n;

	if (!gives_back())
		return; /* main memory keeps what it has been given at first */
	free(train("1f1b", 4, 2, &most, &left, &n));
	ck_assert_int_eq(most, 0);
	ck_assert_int_eq(left, 0);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_worker_has_copies_for_its_next_jobs_alone, 4),
	EACH(a_worker_keeps_weights_rounded_for_its_next_jobs_alone, 3),
	ONCE(who_computes_with_its_own_parameters_has_no_copies),
};
SUITE("copies")
