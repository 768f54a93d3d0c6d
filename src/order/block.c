#include "block.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "orrery/jobs.h"

int orr_block_create(struct orr_block **out, const struct orr_pipeline *p, bool split,
		     int n_microbatches, int64_t interval, struct orr_error *err)
{
	struct orr_block *block = calloc(1, sizeof(*block));
	int n_passes = split ? 3 : 2, n = p->n_stages * n_microbatches;

	if (!block || !(block->worker = calloc((size_t)n, sizeof(*block->worker))) ||
	    !(block->start = calloc((size_t)n * (size_t)n_passes, sizeof(*block->start))) ||
	    !(block->length =
		      calloc((size_t)p->n_stages * (size_t)n_passes, sizeof(*block->length)))) {
		orr_block_destroy(block);
		return orr_fail(err, ORR_E_NOMEM, "block: no memory for %d passes", n * n_passes);
	}
	block->pipeline = p;
	block->n_stages = p->n_stages;
	block->n_passes = n_passes;
	block->n_microbatches = n_microbatches;
	block->interval = interval;
	for (int i = 0; i < n * n_passes; i++)
		block->start[i] = ORR_BLOCK_FREE;
	for (int i = 0; i < p->n_stages * n_passes; i++)
		block->length[i] = !split && i % n_passes == ORR_PASS_B ? 2 : 1;
	*out = block;
	return 0;
}

void orr_block_destroy(struct orr_block *block)
{
	if (!block)
		return;
	free(block->worker);
	free(block->start);
	free(block->length);
	free(block);
}

static int64_t modulo(int64_t t, int64_t interval)
{
	int64_t rest = t % interval;

	return rest < 0 ? rest + interval : rest;
}

static struct orr_job job_at(const struct orr_block *block, int i)
{
	int sb = i / block->n_passes;

	return (struct orr_job){sb % block->n_stages, sb / block->n_stages,
				(enum orr_pass)(i % block->n_passes)};
}

static int64_t length_of(const struct orr_block *block, int i)
{
	return block->length[i % (block->n_stages * block->n_passes)];
}

/* ---- the reservation table: cells modulo T of one worker, the pass that has it + 1, or 0 ---- */

static int holder(const struct orr_block *block, const int *table, int i, int64_t start)
{
	for (int64_t t = start; t < start + length_of(block, i); t++)
		if (table[modulo(t, block->interval)])
			return table[modulo(t, block->interval)];
	return 0;
}

static void reserve(const struct orr_block *block, int *table, int i)
{
	for (int64_t t = block->start[i]; t < block->start[i] + length_of(block, i); t++)
		table[modulo(t, block->interval)] = i + 1;
}

static int reserve_given(const struct orr_block *block, int *tables, struct orr_error *err)
{
	int n = block->n_stages * block->n_microbatches * block->n_passes;

	for (int i = 0; i < n; i++) {
		int w = block->worker[i / block->n_passes];
		int *table = tables + w * block->interval, other;
		struct orr_job x = job_at(block, i), y;

		if (block->start[i] == ORR_BLOCK_FREE)
			continue;
		other = length_of(block, i) > block->interval
				? i + 1
				: holder(block, table, i, block->start[i]);
		if (other) {
			y = job_at(block, other - 1);
			return orr_fail(err, ORR_E_INPUT,
					"block: %d%c%d and %d%c%d fall together on worker %d when "
					"it is repeated "
					"every %lld cells: shift one, or repeat later",
					y.s, orr_pass_letter(y.d), y.b, x.s, orr_pass_letter(x.d),
					x.b, w, (long long)block->interval);
		}
		reserve(block, table, i);
	}
	return 0;
}

/* Free Ws in the order in which their Bs end, each into the first cells that are free. */
static int reserve_free(struct orr_block *block, int *tables, struct orr_error *err)
{
	int n = block->n_stages * block->n_microbatches, n_free = 0, code;
	struct orr_keyed *keyed = calloc((size_t)n, sizeof(*keyed));

	if (!keyed)
		return orr_fail(err, ORR_E_NOMEM, "block: no memory for %d passes", n);
	for (int sb = 0; sb < n && block->n_passes == 3; sb++) {
		int b = sb * 3 + ORR_PASS_B;

		if (block->start[sb * 3 + ORR_PASS_W] == ORR_BLOCK_FREE)
			keyed[n_free++] =
				(struct orr_keyed){block->start[b] + length_of(block, b), sb};
	}
	code = n_free ? orr_sort(keyed, n_free, err) : 0;
	for (int k = 0; !code && k < n_free; k++) {
		int w = block->worker[keyed[k].value], i = keyed[k].value * 3 + ORR_PASS_W;
		int *table = tables + w * block->interval;
		int64_t t = keyed[k].key, last = t + block->interval;

		while (t < last &&
		       (length_of(block, i) > block->interval || holder(block, table, i, t)))
			t++;
		block->start[i] = t;
		if (t < last)
			reserve(block, table, i);
		else
			code = orr_fail(
				err, ORR_E_INPUT,
				"block: no room for %dW%d on worker %d in %lld cells: repeat later",
				job_at(block, i).s, job_at(block, i).b, w,
				(long long)block->interval);
	}
	free(keyed);
	return code;
}

/* The end of the pass d of stage s, against the start of pass i, both of microbatch b. */
static int check_after(const struct orr_block *block, int i, int s, int b, enum orr_pass d,
		       struct orr_error *err)
{
	int before = orr_block_at(block, s, b, d);
	struct orr_job job = job_at(block, i);

	if (block->start[before] + length_of(block, before) <= block->start[i])
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"block: %d%c%d starts before %d%c%d, which it needs, has ended: start it later",
		job.s, orr_pass_letter(job.d), job.b, s, orr_pass_letter(d), b);
}

static int check_dependencies(const struct orr_block *block, struct orr_error *err)
{
	const struct orr_pipeline *p = block->pipeline;
	int code = 0;

	for (int i = 0; i < block->n_stages * block->n_microbatches * block->n_passes; i++) {
		struct orr_job job = job_at(block, i);

		if (job.d != ORR_PASS_W && block->start[i] == ORR_BLOCK_FREE)
			return orr_fail(err, ORR_E_INPUT,
					"block: %d%c%d has no start: only W may be free", job.s,
					orr_pass_letter(job.d), job.b);
	}
	for (int b = 0; b < block->n_microbatches; b++)
		for (int s = 0; s < block->n_stages && !code; s++) {
			int f = orr_block_at(block, s, b, ORR_PASS_F);

			for (int k = 0; k < p->stages[s].n_in && !code; k++)
				code = check_after(block, f, orr_stage_before(p, s, k), b,
						   ORR_PASS_F, err);
			if (!code)
				code = check_after(block, f + ORR_PASS_B, s, b, ORR_PASS_F, err);
			for (int k = 0; k < p->stages[s].n_out && !code; k++)
				code = check_after(block, f + ORR_PASS_B, orr_stage_after(p, s, k),
						   b, ORR_PASS_B, err);
			if (!code && block->n_passes == 3 &&
			    block->start[f + ORR_PASS_W] != ORR_BLOCK_FREE)
				code = check_after(block, f + ORR_PASS_W, s, b, ORR_PASS_B, err);
		}
	return code;
}

int orr_block_fill(struct orr_block *block, struct orr_error *err)
{
	int n_workers = block->pipeline->n_workers, *tables, code;

	for (int i = 0; i < block->n_stages * block->n_microbatches; i++)
		if (block->worker[i] < 0 || block->worker[i] >= n_workers)
			return orr_fail(
				err, ORR_E_INPUT,
				"block: stage %d is on worker %d, and the workers are 0 to %d",
				i % block->n_stages, block->worker[i], n_workers - 1);
	if (!(tables = calloc((size_t)(n_workers * block->interval), sizeof(*tables))))
		return orr_fail(err, ORR_E_NOMEM, "block: no memory for %lld cells",
				(long long)block->interval);
	if (!(code = check_dependencies(block, err)) && !(code = reserve_given(block, tables, err)))
		code = reserve_free(block, tables, err);
	free(tables);
	return code;
}
