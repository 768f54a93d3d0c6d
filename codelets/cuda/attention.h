#pragma once
/* (private to the .cu files) What both ways of attention share: tiles in floats (attention.cu), and
 * bfloat16 on tensor cores (attention_wmma.cu). A: float, or uint16_t of bfloat16. */
#include "launch.h"
#include "../sequence.h"

/* Work item `at` of samples x heads x tiles: which it is. */
struct item {
	int64_t sample, head, first;
	__device__ item(int64_t at, int64_t heads, int64_t n_tiles, int rows)
	    : sample(at / n_tiles / heads), head(at / n_tiles % heads), first(at % n_tiles * rows)
	{
	}
};

/* Blocks of tiles of `rows` keys, or queries. */
static inline unsigned orr_tile_blocks(const struct orr_attention *a, bool keys, int rows)
{
	int64_t tiles = orr_ceil(keys ? a->keys : a->queries, rows);

	return orr_blocks(a->n * (keys ? a->kv_heads : a->heads) * tiles, 1);
}

/* Rows of a backward, and the others that pass by them. KEYS: the rows are keys, and queries of all
 * heads that read them pass by; else they are queries, and keys do. */
template <bool KEYS> struct back_item {
	const struct orr_attention &a;
	int64_t n_rows, n_others, heads, row, other_row; /* row: floats of one of the matrices */

	__device__ back_item(const struct orr_attention &of)
	    : a(of), n_rows(KEYS ? a.keys : a.queries), n_others(KEYS ? a.queries : a.keys),
	      heads(KEYS ? a.kv_heads : a.heads), row(heads * a.width),
	      other_row((KEYS ? a.heads : a.kv_heads) * a.width)
	{
	}
	/* Where the item's rows begin. */
	__device__ int64_t from(const struct item &i) const
	{
		return (i.sample * n_rows + i.first) * row + i.head * a.width;
	}
	/* f(j, how many there are from j on, where other j begins, where its head's sums do) for
	 * each tile of `lanes` others that a tile of `rows` sees. keys: those that count. */
	template <class F>
	__device__ void each_tile(const struct item &i, int64_t keys, int rows, int lanes,
				  F f) const
	{
		int64_t group = a.heads / a.kv_heads, begin = 0, end = keys;

		if (KEYS)
			end = i.first < keys ? a.queries : 0;
		else if (a.causal && end > i.first + rows)
			end = i.first + rows;
		if (KEYS && a.causal)
			begin = i.first / lanes * lanes;
		for (int64_t h = 0; h < (KEYS ? group : 1); h++) {
			int64_t query_head = KEYS ? i.head * group + h : i.head;
			int64_t other_head = KEYS ? query_head : i.head / group;
			int64_t sums_at = (i.sample * a.heads + query_head) * a.queries;

			for (int64_t j = begin; j < end; j += lanes)
				f(j, end - j,
				  (i.sample * n_others + j) * other_row + other_head * a.width,
				  sums_at);
		}
	}
};

/* What a backward reads and writes. */
template <class A> struct pass {
	const A *q, *k, *v, *dy;
	const float *lengths, *sums, *along;
	A *dq, *dk, *dv;
};

/* Where query i and key j meet in a head whose floats begin at `at` in sums and along: weight and
 * slope of the score, from score and slope of what it weighs. */
template <class A>
__device__ inline void meet(const struct orr_attention &a, const struct pass<A> &b, float factor,
			    int64_t at, int64_t i, int64_t j, int64_t keys, float *p, float *slope)
{
	if (i >= a.queries || j >= keys || (a.causal && j > i)) {
		*p = *slope = 0;
		return;
	}
	*p = orr_exp_of(*p * factor - b.sums[at + i]);
	*slope = *p * (*slope - b.along[at + i]) * factor;
}

/* What of a row is left of 1 / total of its exponentials; 0: it has seen no key. */
__device__ inline float orr_part_of(float total)
{
	return total > 0 || isnan(total) ? 1.0f / total : 0.0f;
}

/* A row's sum, as the backward reads it. */
__device__ inline float orr_sum_of(float most, float total)
{
	return total > 0 || isnan(total) ? most + logf(total) : 0.0f;
}

/* Does attention_wmma.cu compute it? By shape alone. */
bool orr_attention_is_wmma(const struct orr_attention *a);
void orr_attention_wmma_forward(struct orr_device *d, const struct orr_attention *a, float factor,
				const uint16_t *q, const uint16_t *k, const uint16_t *v,
				const float *lengths, uint16_t *y, float *sums);
/* Any of dq, dk and dv may be NULL. */
void orr_attention_wmma_backward(struct orr_device *d, const struct orr_attention *a, float factor,
				 struct pass<uint16_t> b);
