/* What no built-in schedule does across ranks: the passes of a microbatch on ranks of their own,
 * caps whose gates open from another rank, recomputation there, and gradients that are made in
 * another order than they are added in. Writes every run's parameters to a file; alone it is the
 * reference, under mpirun it must write the same bytes, and what crossed must be what the jobs
 * imply. Usage: test_mpi_cross OUT */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "order/zero_bubble.h"
#include "derived_traffic.h"
#include "frozen.h"
#include "late.h"
#include "own_schedules.h"
#include "training.h"
#include "orrery/run.h"
#include "runtime/run/parts.h"
#include "suite.h"

#define N_WORKERS 4
#define N_MICROBATCHES 6
#define BATCH 24
#define STEPS 5

/* Every pass of every microbatch on another worker than the one before. */
static int apart(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)data;
	return (s + b + (int)d) % p->n_workers;
}

static int by_microbatch(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			 const void *data)
{
	(void)s, (void)d, (void)data;
	return b % p->n_workers;
}

static int64_t split_in_turn(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			     const void *data)
{
	(void)data;
	return split_one_f_one_b(p, s, b, d, p->stages[s].depth, p->stages[s].depth + 1);
}

/* The last microbatch comes back first, and its gradient is added last. */
static int64_t last_first(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			  const void *data)
{
	int n = p->n_microbatches, last = p->n_stages - 1;

	(void)data;
	return d == ORR_PASS_F ? b * p->n_stages + s : (2 * n - b) * p->n_stages + last - s;
}

static const struct orr_schedule schedules[] = {
	{.name = "stashes that cross",
	 .compute = apart,
	 .weights = orr_compute_in_turn,
	 .priority = in_turn},
	{.name = "three passes apart",
	 .compute = apart,
	 .weights = orr_compute_in_turn,
	 .priority = split_in_turn,
	 .split_backward = true},
	{.name = "gates from elsewhere",
	 .compute = apart,
	 .weights = orr_compute_in_turn,
	 .priority = in_turn,
	 .in_flight = as_deep},
	{.name = "gates, whoever is ready",
	 .compute = apart,
	 .weights = orr_compute_in_turn,
	 .priority = in_turn,
	 .in_flight = as_deep,
	 .order = ORR_ORDER_GREEDY},
	{.name = "last microbatch first",
	 .compute = by_microbatch,
	 .weights = orr_compute_in_turn,
	 .priority = last_first},
};

/* What is tight, and what is not: blocks of others, memory, F once or twice, the way between ranks.
 */
static const struct {
	const char *recompute;
	int prefetch;
	int64_t keep_bytes;
	int link_delay_us;
	const char *frozen; /* frozen.h */
} ways[] = {
	{"none", 2, 64 << 20, 0, NULL},
	{"all", 0, 0, 300, NULL},
	/* a tower, a part of a stage, and a stage through which gradients pass */
	{"none", 2, 64 << 20, 0, " r1 t2 "},
	{"all", 0, 0, 300, " l1 t1 t2 "},
};

static void check_traffic(const struct training *t, const char *name)
{
	struct orr_traffic derived[N_WORKERS], counted;
	int rank_of[N_WORKERS], n_ranks = orr_ranks_count();
	const struct orr_traffic *d = &derived[orr_ranks_rank()];

	ck_assert_int_eq(orr_ranks_of_workers(rank_of, N_WORKERS, n_ranks, NULL, NULL), 0);
	derive_traffic(derived, t->jobs, rank_of, n_ranks, true);
	orr_run_traffic(t->run, &counted);
	for (int k = 0; k < ORR_TRANSFER_KINDS; k++) {
		const char *kind = orr_transfer_name((enum orr_transfer_kind)k);

		ck_assert_msg(counted.sent_bytes[k] == STEPS * d->sent_bytes[k],
			      "%s: %s, %lld bytes sent instead of %lld", name, kind,
			      (long long)counted.sent_bytes[k],
			      (long long)(STEPS * d->sent_bytes[k]));
		ck_assert_msg(counted.received[k] == STEPS * d->received[k],
			      "%s: %s, %lld received instead of %lld", name, kind,
			      (long long)counted.received[k], (long long)(STEPS * d->received[k]));
	}
	ck_assert(n_ranks == 1 || counted.received[ORR_TRANSFER_PARAMETER] > 0);
	ck_assert(n_ranks == 1 || t->jobs->schedule == schedules[N_OF(schedules) - 1].name ||
		  counted.received[ORR_TRANSFER_STASH] > 0);
}

static int count_places(const starpu_data_handle_t *of, int n_jobs)
{
	int n = 0;

	for (int j = 0; j < n_jobs; j++) {
		int k = 0;

		while (of[k] != of[j])
			k++;
		n += of[j] && k == j;
	}
	return n;
}

/* Places for parameters of other ranks, as many as the simulator counts. */
static void check_places(const struct training *t, const char *name)
{
	int n_workers = N_WORKERS / orr_ranks_count();
	int n = count_places(t->run->cross.arriving, t->jobs->n_jobs);

	ck_assert_msg(n <= n_workers * (t->options.prefetch + 1) &&
			      (n > 0) == (orr_ranks_count() > 1),
		      "%s: %d places for %d workers, %d jobs ahead", name, n, n_workers,
		      t->options.prefetch);
}

START_TEST(the_same_bits_on_any_number_of_ranks)
{
	const struct orr_schedule *schedule = &schedules[_i / N_OF(ways)];
	struct training t = {.frozen = ways[_i % N_OF(ways)].frozen};
	struct orr_pipeline *p;
	float *parameters, *drawn;

	training_prepare(&t, training_model, schedule, N_WORKERS, N_MICROBATCHES);
	p = t.pipeline;
	ck_assert_msg(!orr_pipeline_set_recompute(p, ways[_i % N_OF(ways)].recompute, &t.err), "%s",
		      t.err.msg);
	orr_jobs_destroy(t.jobs);
	ck_assert_msg(!orr_jobs_create(&t.jobs, p, schedule, &t.err), "%s", t.err.msg);
	t.options.batch = BATCH;
	t.options.prefetch = ways[_i % N_OF(ways)].prefetch;
	t.options.keep_bytes = ways[_i % N_OF(ways)].keep_bytes;
	t.hooks.received = late_by(ways[_i % N_OF(ways)].link_delay_us);
	t.options.timeout_s = 120;
	training_start(&t);
	check_places(&t, schedule->name);
	drawn = training_parameters(&t);
	ck_assert_msg(!orr_run_train(t.run, STEPS, NULL, NULL, &t.err), "%s: %s", schedule->name,
		      t.err.msg);
	check_traffic(&t, schedule->name);
	parameters = training_parameters(&t);
	ck_assert(orr_ranks_rank() || !find_thawed(t.graph, drawn, parameters));
	training_write(&t, parameters);
	free(parameters);
	free(drawn);
	training_fini(&t);
}
END_TEST

/* Check's own fork would take StarPU's threads away: CK_FORK=no in meson.build. */
int main(int argc, char **argv)
{
	const struct suite_test tests[] = {
		EACH(the_same_bits_on_any_number_of_ranks, N_OF(schedules) * N_OF(ways)),
	};

	return argc == 2 ? training_on_ranks("cross", tests, N_OF(tests), argv[1]) : 2;
}
