/* What a rank holds at its peak: closed forms for schedules that own, fetch and pass on
 * differently. */
#include <check.h>
#include <stdlib.h>

#include "simulate/footprint.h"
#include "pipelines.h"
#include "orrery/figures.h"
#include "suite.h"

#define N_RANKS 4
#define P 1000 /* parameters of a stage */
#define CHAIN "0>1 1>2 2>3 3>4 4>5 5>6 6>7"

/* A chain of 8 with stashes and edges of so many bytes, on 4 workers, the optimizer with a float of
 * state for each parameter. */
static void predict(struct orr_footprint *footprint, const char *schedule, int n_ranks,
		    int prefetch, int64_t stash, int64_t edge, bool shard)
{
	struct orr_pipeline *p = make_pipeline(8, CHAIN, 1, 2, 0, stash, P, edge);
	int rank_of[N_RANKS];
	struct way way;

	p->numerics.optimizer = ORR_OPTIMIZER_MOMENTUM;
	p->numerics.shard_optimizer = shard;
	p->prefetch = prefetch;
	way_init(&way, p, schedule, N_RANKS, 8);
	ck_assert_int_eq(orr_ranks_of_workers(rank_of, N_RANKS, n_ranks, NULL, NULL), 0);
	ck_assert_int_eq(
		orr_footprint_predict(footprint, way.tried.timeline, rank_of, n_ranks, NULL), 0);
	way_end(&way);
}

START_TEST(fully_sharded_a_rank_has_its_shard_and_the_window)
{
	struct orr_footprint footprint[N_RANKS];

	for (int prefetch = 0; prefetch < 4; prefetch++) {
		predict(footprint, "fsdp", N_RANKS, prefetch, 0, 0, false);
		for (int k = 0; k < N_RANKS; k++) {
			ck_assert_int_eq(footprint[k].owned, 2 * 3 * P);
			ck_assert_int_eq(footprint[k].fetched, (prefetch + 1) * P);
			/* that go, that come, and its own */
			ck_assert_int_eq(footprint[k].partial, (prefetch + 1) * P + 2 * P + P);
			ck_assert_int_eq(footprint[k].ring, 0);
			ck_assert_int_eq(footprint[k].passing, 0);
			ck_assert_int_eq(footprint[k].all, footprint[k].owned +
								   footprint[k].fetched +
								   footprint[k].partial);
		}
	}
}
END_TEST

/* Two workers a rank have two windows; owners are neighbours' too. */
START_TEST(two_workers_a_rank_have_a_window_each)
{
	struct orr_footprint footprint[N_RANKS];

	predict(footprint, "fsdp", 2, 1, 0, 0, false);
	for (int k = 0; k < 2; k++) {
		ck_assert_int_eq(footprint[k].owned, 4 * 3 * P);
		ck_assert_int_eq(footprint[k].fetched, 2 * 2 * P);
	}
}
END_TEST

START_TEST(data_parallel_a_rank_has_the_model_and_the_sum_of_gradients)
{
	struct orr_footprint footprint[N_RANKS];

	predict(footprint, "ddp", N_RANKS, 2, 0, 0, false);
	for (int k = 0; k < N_RANKS; k++) {
		ck_assert_int_eq(footprint[k].owned, 8 * 3 * P);
		ck_assert_int_eq(footprint[k].ring, 8 * P);
		ck_assert_int_eq(footprint[k].all, 8 * 4 * P);
	}
	predict(footprint, "ddp", 1, 2, 0, 0,
		false); /* replicas in one process add where they are */
	ck_assert_int_eq(footprint[0].all, N_RANKS * 8 * 3 * P);
}
END_TEST

/* 250 floats of a stage have their state in four places: of 63, 63, 62 and 62 of them. */
START_TEST(replicas_divide_the_state)
{
	struct orr_footprint footprint[N_RANKS];

	predict(footprint, "ddp", N_RANKS, 2, 0, 0, true);
	for (int k = 0; k < N_RANKS; k++) {
		ck_assert_int_eq(footprint[k].owned, 8 * (2 * P + 4 * (62 + (k < 2))));
		ck_assert_int_eq(footprint[k].state, 8 * 4 * (62 + (k < 2)));
		ck_assert_int_eq(footprint[k].ring, 8 * P);
		ck_assert_int_eq(footprint[k].all, 8 * (3 * P + 4 * (62 + (k < 2))));
	}
	predict(footprint, "ddp", 1, 2, 0, 0, true);
	ck_assert_int_eq(footprint[0].all, 8 * (N_RANKS * 2 * P + P));
	predict(footprint, "gpipe", N_RANKS, 2, 0, 0, true);
	for (int k = 0; k < N_RANKS; k++)
		ck_assert_int_eq(footprint[k].owned, 2 * 3 * P);
}
END_TEST

/* gpipe keeps the stashes of all microbatches of its two stages. */
START_TEST(a_pipeline_holds_its_stashes)
{
	struct orr_footprint footprint[N_RANKS];

	predict(footprint, "gpipe", N_RANKS, 2, 7, 0, false);
	for (int k = 0; k < N_RANKS; k++) {
		ck_assert_int_eq(footprint[k].passing, 8 * 2 * 7);
		ck_assert_int_eq(footprint[k].fetched + footprint[k].partial + footprint[k].ring,
				 0);
	}
	predict(footprint, "gpipe", 1, 2, 7, 0, false);
	ck_assert_int_eq(footprint[0].passing, 8 * 8 * 7);
}
END_TEST

/* A worker that computes neighbours holds what goes between them; what it sends it holds while it
 * is made, what it receives until it has been read. */
START_TEST(one_microbatch_along_a_chain)
{
	struct orr_pipeline *p = make_pipeline(3, "0>1 1>2", 1, 2, 0, 100, 0, 1);
	static const int rank_of[2][3] = {{0, 1, 1}, {0, 1, 2}};
	struct orr_footprint footprint[3];
	struct way way;

	way_init(&way, p, "1f1b", 3, 1);
	ck_assert_int_eq(orr_footprint_predict(footprint, way.tried.timeline, rank_of[0], 2, NULL),
			 0);
	ck_assert_int_eq(footprint[0].passing,
			 100 + 1); /* what F sends, or the gradient that B reads */
	ck_assert_int_eq(footprint[1].passing,
			 200 + 1); /* two stashes, and what F2 reads, or B2 gives */
	ck_assert_int_eq(orr_footprint_predict(footprint, way.tried.timeline, rank_of[1], 3, NULL),
			 0);
	ck_assert_int_eq(footprint[0].passing, 100 + 1);
	ck_assert_int_eq(footprint[1].passing, 100 + 2);
	ck_assert_int_eq(footprint[2].passing, 100 + 1);
	way_end(&way);
}
END_TEST

/* Until B a stage that recomputes keeps its input alone, from B on all of the stash; one that does
 * not has beside all stashes what one backward makes again. */
START_TEST(what_is_made_again_is_of_one_microbatch)
{
	struct orr_pipeline *p = make_pipeline(1, "", 1, 2, 0, 100, 0, 0);
	const int64_t most = _i ? 5 * 10 + 90 : 5 * 100 + 30;
	struct orr_footprint footprint;
	static const int rank_of[1] = {0};
	struct way way;

	p->stages[0].input_bytes = 10;
	p->stages[0].recompute = _i;
	p->stages[0].again_bytes = _i ? 0 : 30;
	p->stages[0].again_all_bytes = _i ? 0 : 70;
	way_init(&way, p, "gpipe", 1, 5);
	ck_assert_int_eq(orr_footprint_predict(&footprint, way.tried.timeline, rank_of, 1, NULL),
			 0);
	ck_assert_int_eq(footprint.passing, most);
	ck_assert_int_eq(way.tried.figures->worker[0].peak_stash_bytes, most);
	way_end(&way);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(fully_sharded_a_rank_has_its_shard_and_the_window),
	ONCE(two_workers_a_rank_have_a_window_each),
	ONCE(data_parallel_a_rank_has_the_model_and_the_sum_of_gradients),
	ONCE(replicas_divide_the_state),
	ONCE(a_pipeline_holds_its_stashes),
	ONCE(one_microbatch_along_a_chain),
	EACH(what_is_made_again_is_of_one_microbatch, 2),
};
SUITE("footprint")
