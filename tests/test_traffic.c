/* What crosses between ranks: with a worker a rank it is what the figures count for each worker;
 * which rank has which worker; a ring that does not divide. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"
#include "derived_traffic.h"
#include "suite.h"

#define N_WORKERS 4

static const char *const schedules[] = {
	"ddp",         "fsdp",          "gpipe",
	"lpp:G=2,R=2", "fslpp:G=2,R=2", "1f1b",
	"v-half",      "pipedream",     "pipedream:replicas=2-1-1-1-2-1-1-1"};

START_TEST(a_worker_a_rank_sends_what_the_figures_count)
{
	struct orr_pipeline *p = make_whole_chain(8, 1, 1, 1, 64, 1600, 256);
	struct orr_traffic traffic[N_WORKERS];
	int rank_of[N_WORKERS];
	int64_t total = 0, sent = 0, received = 0;
	struct way way;

	way_init(&way, p, schedules[_i], N_WORKERS, 8);
	ck_assert_int_eq(orr_ranks_of_workers(rank_of, N_WORKERS, N_WORKERS, NULL, NULL), 0);
	derive_traffic(traffic, way.tried.jobs, rank_of, N_WORKERS, false);
	for (int w = 0; w < N_WORKERS; w++) {
		const struct orr_worker_figures *f = &way.tried.figures->worker[w];
		const struct orr_traffic *t = &traffic[w];

		ck_assert_int_eq(t->received[ORR_TRANSFER_ACTIVATION], f->recv_activations);
		ck_assert_int_eq(t->received_bytes[ORR_TRANSFER_ACTIVATION],
				 f->recv_activation_bytes);
		ck_assert_int_eq(t->received[ORR_TRANSFER_GRADIENT], f->recv_gradients);
		ck_assert_int_eq(t->received_bytes[ORR_TRANSFER_GRADIENT], f->recv_gradient_bytes);
		ck_assert_int_eq(t->received[ORR_TRANSFER_STASH], f->recv_stashes);
		ck_assert_int_eq(t->received_bytes[ORR_TRANSFER_STASH], f->recv_stash_bytes);
		ck_assert_int_eq(t->received[ORR_TRANSFER_PARAMETER], f->recv_parameters);
		ck_assert_int_eq(t->received_bytes[ORR_TRANSFER_PARAMETER],
				 f->recv_parameter_bytes);
		ck_assert_int_eq(t->sent[ORR_TRANSFER_WEIGHT_GRADIENT], f->sent_weight_gradients);
		ck_assert_int_eq(t->sent_bytes[ORR_TRANSFER_WEIGHT_GRADIENT],
				 f->sent_weight_gradient_bytes);
		ck_assert_int_eq(t->received_bytes[ORR_TRANSFER_ALL_REDUCE], f->all_reduce_bytes);
		for (int k = 0; k < ORR_TRANSFER_KINDS; k++) {
			total += t->sent[k];
			sent += t->sent_bytes[k];
			received += t->received_bytes[k];
		}
	}
	ck_assert_int_gt(total, 0);
	ck_assert_int_eq(sent, received);
	way_end(&way);
}
END_TEST

/* 7 floats among 4 owners: chunks of 2, 2, 2 and 1; every link carries every chunk twice but those
 * that end there. */
START_TEST(a_ring_that_does_not_divide)
{
	struct orr_pipeline *p = make_whole_chain(1, 1, 1, 0, 0, 28, 0);
	struct orr_traffic traffic[N_WORKERS];
	static const int each[N_WORKERS] = {0, 1, 2, 3}, together[N_WORKERS] = {0, 0, 1, 1};
	static const int64_t bytes[N_WORKERS] = {40, 40, 44, 44};
	struct way way;

	way_init(&way, p, "ddp", N_WORKERS, 4);
	derive_traffic(traffic, way.tried.jobs, each, N_WORKERS, false);
	for (int w = 0; w < N_WORKERS; w++) {
		ck_assert_int_eq(traffic[w].sent[ORR_TRANSFER_ALL_REDUCE], 6);
		ck_assert_int_eq(traffic[w].sent_bytes[ORR_TRANSFER_ALL_REDUCE], bytes[w]);
	}
	/* of the links of two owners on a rank, one leaves it */
	derive_traffic(traffic, way.tried.jobs, together, 2, false);
	ck_assert_int_eq(traffic[0].sent_bytes[ORR_TRANSFER_ALL_REDUCE], bytes[1]);
	ck_assert_int_eq(traffic[1].sent_bytes[ORR_TRANSFER_ALL_REDUCE], bytes[3]);
	way_end(&way);
}
END_TEST

static const struct {
	int n_workers, n_ranks;
	const char *text;
	int rank_of[6];
	const char *refused;
} blocks[] = {
	{4, 2, NULL, {0, 0, 1, 1}, NULL},
	{5, 3, NULL, {0, 0, 1, 1, 2}, NULL},
	{4, 3, "2,1,1", {0, 0, 1, 2}, NULL},
	{4, 1, "4", {0, 0, 0, 0}, NULL},
	{2, 3, NULL, {0}, "start 2 ranks or fewer"},
	{4, 3, "2,1", {0}, "give 3 numbers"},
	{4, 3, "1,1,1", {0}, "the sum must be 4"},
	{4, 3, "2,1,2", {0}, "whose sum is the 4 workers"},
	{4, 3, "2,0,2", {0}, "1 or more each"},
	{4, 3, "2,1,1,1", {0}, "give 3 numbers"},
	{4, 2, "2;2", {0}, "give 2 numbers"},
};

START_TEST(workers_are_spread_in_blocks)
{
	struct orr_error err = {""};
	int rank_of[6], code = orr_ranks_of_workers(rank_of, blocks[_i].n_workers,
						    blocks[_i].n_ranks, blocks[_i].text, &err);

	if (blocks[_i].refused) {
		ck_assert_int_eq(code, ORR_E_INPUT);
		ck_assert_msg(strstr(err.msg, blocks[_i].refused) != NULL, "%s", err.msg);
		return;
	}
	ck_assert_int_eq(code, 0);
	ck_assert_mem_eq(rank_of, blocks[_i].rank_of, (size_t)blocks[_i].n_workers * sizeof(int));
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_worker_a_rank_sends_what_the_figures_count, N_OF(schedules)),
	ONCE(a_ring_that_does_not_divide),
	EACH(workers_are_spread_in_blocks, N_OF(blocks)),
};
SUITE("traffic")
