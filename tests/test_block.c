/* Building blocks: what is refused, and what squeezing and reordering promise on any block. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order/block.h"
#include "pipelines.h"
#include "order/timed.h"
#include "suite.h"

#define FAIL_IF(code, err) ck_assert_msg(!(code), "%s", (err).msg)

/* Two stages in a row on two workers, every 4 cells: 0F 1F 1B 0B at 0 1 2 3. */
static struct orr_block make_block(struct orr_pipeline *p)
{
	struct orr_error err = {""};
	struct orr_block block;

	FAIL_IF(orr_pipeline_set_step(p, 2, 4, &err), err);
	FAIL_IF(orr_block_init(&block, p, true, 1, 4, &err), err);
	block.worker[1] = 1;
	block.start[orr_block_at(&block, 0, 0, ORR_PASS_F)] = 0;
	block.start[orr_block_at(&block, 1, 0, ORR_PASS_F)] = 1;
	block.start[orr_block_at(&block, 1, 0, ORR_PASS_B)] = 2;
	block.start[orr_block_at(&block, 0, 0, ORR_PASS_B)] = 3;
	return block;
}

START_TEST(weight_gradients_take_the_first_free_cells)
{
	struct orr_pipeline *p = make_chain(2, 1, 2);
	struct orr_block block = make_block(p);
	struct orr_error err = {""};

	FAIL_IF(orr_block_fill(&block, &err), err);
	ck_assert_int_eq(block.start[orr_block_at(&block, 1, 0, ORR_PASS_W)], 3);
	ck_assert_int_eq(block.start[orr_block_at(&block, 0, 0, ORR_PASS_W)],
			 5);                        /* 4 is 0F of the next one */
	ck_assert_int_eq(block_peak(&block, 0), 2); /* lives from 0 to 6, every 4 */
	ck_assert_int_eq(block_peak(&block, 1), 1);
	orr_arrays_free(&block.all);
	orr_pipeline_destroy(p);
}
END_TEST

static const struct {
	int s;
	enum orr_pass d;
	int64_t start, interval;
	int worker; /* on which passes fall together */
} refused[] = {
	{0, ORR_PASS_B, 4, 4, 0},
	{1, ORR_PASS_B, 9, 4, 1},
	{0, ORR_PASS_B, 3, 2, 1}, /* no room for W */
};

START_TEST(a_block_that_collides_is_refused)
{
	struct orr_pipeline *p = make_chain(2, 1, 2);
	struct orr_block block = make_block(p);
	struct orr_error err = {""};
	char message[128];

	block.start[orr_block_at(&block, refused[_i].s, 0, refused[_i].d)] = refused[_i].start;
	block.interval = refused[_i].interval;
	if (_i == 1) /* B of stage 0 must not be what is found first */
		block.start[orr_block_at(&block, 0, 0, ORR_PASS_B)] = 11;
	snprintf(message, sizeof(message),
		 "block: passes of worker %d fall together when it is repeated every %d cells: "
		 "repeat later",
		 refused[_i].worker, (int)refused[_i].interval);
	ck_assert_int_eq(orr_block_fill(&block, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, message);
	orr_arrays_free(&block.all);
	orr_pipeline_destroy(p);
}
END_TEST

static int draw(unsigned *seed, int n)
{
	*seed = *seed * 1103515245U + 12345U;
	return (int)(*seed >> 16) % n;
}

/* Stages with random edges, costs and lengths on random workers, each pass in the first free cells
 * after what it needs and a random pause. */
static struct orr_block make_random_block(struct orr_pipeline **out, unsigned seed)
{
	int n_stages = 2 + draw(&seed, 7), n_workers = 1 + draw(&seed, 4), k = 1 + draw(&seed, 2);
	bool split = draw(&seed, 2), chain = draw(&seed, 2);
	struct orr_error err = {""};
	struct orr_pipeline *p;
	struct orr_block block;
	char edges[512] = "";
	int64_t t = 0;

	for (int s = 1; s < n_stages; s++)
		for (int from = chain ? s - 1 : 0; from < s; from++)
			if (chain || draw(&seed, 2))
				snprintf(edges + strlen(edges), sizeof(edges) - strlen(edges),
					 " %d>%d", from, s);
	*out = p = make_pipeline(n_stages, edges, 1, 2, 1, 1 + draw(&seed, 5), 0, 0);
	for (int s = 0; s < n_stages; s++) {
		p->stages[s].forward_ns = draw(&seed, 9);
		p->stages[s].backward_ns = draw(&seed, 9);
		p->stages[s].weight_ns = draw(&seed, 9);
		p->stages[s].stash_bytes = draw(&seed, 9);
		p->stages[s].recompute = !draw(&seed, 4);
	}
	FAIL_IF(orr_pipeline_set_step(p, n_workers, 1 + draw(&seed, 12), &err), err);
	FAIL_IF(orr_block_init(&block, p, split, k, 1 + draw(&seed, 6), &err), err);
	for (int i = 0; i < n_stages * k; i++)
		block.worker[i] = draw(&seed, n_workers);
	for (int i = 0; i < n_stages * block.n_passes; i++)
		block.length[i] = 1 + draw(&seed, 3);
	/* one after another, with pauses: what collides is repeated later until it does not */
	for (int b = 0; b < k; b++) {
		t = 0;
		for (int i = 0; i < 2 * n_stages; i++) {
			int s = i < n_stages ? i : 2 * n_stages - 1 - i, d = i >= n_stages;

			t += draw(&seed, 3);
			block.start[orr_block_at(&block, s, b, (enum orr_pass)d)] = t;
			t += block.length[s * block.n_passes + d];
		}
	}
	while (orr_block_fill(&block, &err)) {
		for (int i = 0; split && i < n_stages * k; i++)
			block.start[3 * i + ORR_PASS_W] = ORR_BLOCK_FREE;
		if (block.interval++ > 4 * t &&
		    k == 2) /* both microbatches at once never fit: one later */
			for (int i = n_stages * block.n_passes; i < 2 * n_stages * block.n_passes;
			     i++)
				if (block.start[i] != ORR_BLOCK_FREE)
					block.start[i]++;
	}
	return block;
}

static const struct orr_block *random_block; /* what the schedule below lays out */

static int random_compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			  const void *data)
{
	(void)d;
	(void)data;
	return random_block->worker[b % random_block->n_microbatches * p->n_stages + s];
}

static int random_place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
			struct orr_error *err)
{
	(void)p;
	(void)data;
	return orr_block_lay_out((struct orr_block *)random_block, 0, out->n, NULL, err);
}

START_TEST(any_block_gives_an_order_that_runs_within_equation_1)
{
	struct orr_pipeline *p;
	struct orr_block block = make_random_block(&p, (unsigned)_i);
	struct orr_schedule schedule = {.name = "random",
					.split_backward = block.n_passes == 3,
					.compute = random_compute,
					.place = random_place};
	struct way way;

	random_block = &block;
	way_init_own(&way, p, &schedule, p->n_workers, p->n_microbatches); /* no deadlock */
	for (int w = 0; w < p->n_workers; w++)
		ck_assert_msg(way.tried.figures->worker[w].peak_stash <= block_peak(&block, w),
			      "block %d: %d stashes on worker %d, by equation 1 %lld", _i,
			      way.tried.figures->worker[w].peak_stash, w,
			      (long long)block_peak(&block, w));
	way_fini(&way);
	orr_arrays_free(&block.all);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(reordering_gains_time_and_costs_no_memory)
{
	struct orr_pipeline *p;
	struct orr_block block = make_random_block(&p, (unsigned)_i);
	struct orr_timed *t = NULL;
	struct orr_error err = {""};
	int64_t squeezed;

	FAIL_IF(orr_timed_create(&t, p, block.worker, block.n_microbatches, block.n_passes, false,
				 &err),
		err);
	FAIL_IF(orr_block_repeat(t, &block, &err), err);
	squeezed = t->makespan_ns;
	FAIL_IF(orr_reorder(t, block.n_microbatches * block.n_stages * block.n_passes, &err), err);
	ck_assert_int_le(t->makespan_ns, squeezed);
	for (int w = 0; w < p->n_workers; w++) {
		struct orr_load held = orr_timed_peak(t, w);

		ck_assert_int_le(held.stashes, t->most[w].stashes);
		ck_assert_int_le(held.bytes, t->most[w].bytes);
	}
	orr_timed_destroy(t);
	orr_arrays_free(&block.all);
	orr_pipeline_destroy(p);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(weight_gradients_take_the_first_free_cells),
	EACH(a_block_that_collides_is_refused, N_OF(refused)),
	EACH(any_block_gives_an_order_that_runs_within_equation_1, 200),
	EACH(reordering_gains_time_and_costs_no_memory, 200),
};
SUITE("block")
