#include "sequence.h"

#include <math.h>
#include <string.h>

#include "base/max.h"
#include "matmul.h"
#include "device.h"
#include "loops.h"

/* A tile of scores: queries x keys, which stays in the cache of a core. */
#define TILE_Q 128
#define TILE_K 128

/* One head of one sample: its columns in matrices whose rows are q_row and k_row floats apart. */
struct head {
	const float *q, *k, *v, *y, *dy;
	float *out, *dq, *dk, *dv;
	float *left;                /* sums that the forward leaves, */
	const float *sums;          /* and those that it has left */
	int64_t q_row, k_row, keys; /* keys: those that count */
};

/* Memory for a call: tiles, and a float a query. */
struct room {
	float *scores, *slopes, *most, *total;
	float *q, *k, *v, *dy;    /* a sample, rounded; and where all that is given is bfloat16, */
	float *y, *out, *dk, *dv; /* its floats */
};

static size_t bytes(const struct orr_attention *a)
{
	int64_t floats = 2 * TILE_Q * TILE_K + 2 * a->queries;

	if (a->rounded)
		floats += 4 * (a->queries * a->heads + a->keys * a->kv_heads) * a->width;
	return (size_t)floats * sizeof(float);
}

static struct room room_of(const struct orr_attention *a, void *memory)
{
	int64_t q_floats = a->queries * a->heads * a->width;
	int64_t k_floats = a->keys * a->kv_heads * a->width;
	struct room r;

	r.scores = memory;
	r.slopes = r.scores + TILE_Q * TILE_K;
	r.most = r.slopes + TILE_Q * TILE_K;
	r.total = r.most + a->queries;
	r.q = r.total + a->queries;
	r.dy = r.q + q_floats;
	r.y = r.dy + q_floats;
	r.out = r.y + q_floats;
	r.k = r.out + q_floats;
	r.v = r.k + k_floats;
	r.dk = r.v + k_floats;
	r.dv = r.dk + k_floats;
	return r;
}

/* Of the keys [from, from + n), those that query i sees. */
static int64_t seen(const struct orr_attention *a, int64_t i, int64_t from, int64_t n)
{
	return !a->causal || i >= from + n ? n : i < from ? 0 : i + 1 - from;
}

/* ---- forward ---- */

/* The tile's scores become exponentials, less the largest score so far; what was added up before is
 * scaled to match. */
static void soften(const struct orr_attention *a, const struct head *h, const struct room *r,
		   int64_t i0, int64_t queries, int64_t j0, int64_t keys)
{
	for (int64_t i = 0; i < queries; i++) {
		float *x = r->scores + i * keys, *y = h->out + (i0 + i) * h->q_row;
		float *total = &r->total[i0 + i], *most = &r->most[i0 + i], before = *most;
		int64_t n = seen(a, i0 + i, j0, keys);

		memset(x + n, 0, (size_t)(keys - n) * sizeof(*x));
		if (!n)
			continue;
		*most = orr_row_largest(n, x, j0 ? before : x[0]);
		if (j0) {
			float past = orr_exp_of(before - *most);

			*total = *total * past + orr_row_exponentials(n, *most, x);
			orr_scale(a->width, past, y, y);
		} else {
			*total = orr_row_exponentials(n, *most, x);
		}
	}
	if (a->rounded)
		orr_round_bf16(queries * keys, r->scores, r->scores);
}

static void head_forward(const struct orr_attention *a, const struct head *h, const struct room *r)
{
	float factor = orr_attention_factor(a);

	for (int64_t i = 0; i < a->queries; i += TILE_Q) {
		int64_t queries = smaller(TILE_Q, a->queries - i);
		int64_t keys = a->causal ? smaller(h->keys, i + queries) : h->keys;
		float *y = h->out + i * h->q_row;

		for (int64_t j = 0; j < keys; j += TILE_K) {
			int64_t n = smaller(TILE_K, keys - j);

			orr_gemm('N', 'T', queries, n, a->width, factor, h->q + i * h->q_row,
				 h->q_row, h->k + j * h->k_row, h->k_row, 0, r->scores, n);
			soften(a, h, r, i, queries, j, n);
			orr_gemm('N', 'N', queries, a->width, n, 1, r->scores, n,
				 h->v + j * h->k_row, h->k_row, j ? 1 : 0, y, h->q_row);
		}
		for (int64_t k = 0; k < queries; k++, y += h->q_row) {
			orr_scale(a->width, 1.0f / r->total[i + k], y, y);
			h->left[i + k] = r->most[i + k] + logf(r->total[i + k]);
		}
	}
}

/* ---- backward ---- */

/* Scores and slopes of the tile become probabilities, and slopes of the scores. */
static void slope(const struct orr_attention *a, const struct head *h, const struct room *r,
		  int64_t i0, int64_t queries, int64_t j0, int64_t keys)
{
	for (int64_t i = 0; i < queries; i++) {
		float *p = r->scores + i * keys, *x = r->slopes + i * keys;
		int64_t n = seen(a, i0 + i, j0, keys);

		orr_row_slopes(n, h->sums[i0 + i], r->total[i0 + i], orr_attention_factor(a), p, x);
		memset(p + n, 0, (size_t)(keys - n) * sizeof(*p));
		memset(x + n, 0, (size_t)(keys - n) * sizeof(*x));
	}
	if (a->rounded) {
		orr_round_bf16(queries * keys, r->scores, r->scores);
		orr_round_bf16(queries * keys, r->slopes, r->slopes);
	}
}

/* first: the head is the first of those that read these keys. */
static void head_input(const struct orr_attention *a, const struct head *h, const struct room *r,
		       bool first)
{
	for (int64_t j = 0; j < h->keys; j += TILE_K) {
		int64_t n = smaller(TILE_K, h->keys - j),
			begin = a->causal ? j / TILE_Q * TILE_Q : 0;
		const float *k = h->k + j * h->k_row, *v = h->v + j * h->k_row;

		for (int64_t i = begin; i < a->queries; i += TILE_Q) {
			int64_t queries = smaller(TILE_Q, a->queries - i);
			const float *q = h->q + i * h->q_row, *dy = h->dy + i * h->q_row;
			float onto = first && i == begin ? 0 : 1;

			orr_gemm('N', 'T', queries, n, a->width, orr_attention_factor(a), q,
				 h->q_row, k, h->k_row, 0, r->scores, n);
			orr_gemm('N', 'T', queries, n, a->width, 1, dy, h->q_row, v, h->k_row, 0,
				 r->slopes, n);
			slope(a, h, r, i, queries, j, n);
			if (h->dv)
				orr_gemm('T', 'N', n, a->width, queries, 1, r->scores, n, dy,
					 h->q_row, onto, h->dv + j * h->k_row, h->k_row);
			if (h->dk)
				orr_gemm('T', 'N', n, a->width, queries, 1, r->slopes, n, q,
					 h->q_row, onto, h->dk + j * h->k_row, h->k_row);
			if (h->dq)
				orr_gemm('N', 'N', queries, a->width, n, 1, r->slopes, n, k,
					 h->k_row, j ? 1 : 0, h->dq + i * h->q_row, h->q_row);
		}
	}
}

/* ---- samples and heads ---- */

/* Of sample s, as products read it. */
static const float *rounded(const struct orr_device *d, const struct orr_attention *a, int64_t s,
			    int64_t count, const float *x, float *to)
{
	if (!a->rounded || d->halves)
		return orr_floats_at(d->halves, x, s * count, count, to);
	orr_round_bf16(count, x + s * count, to);
	return to;
}

/* Where what is written of sample s goes, which is then kept; x NULL: nowhere. */
static float *place(const struct orr_device *d, int64_t s, int64_t count, float *x, float *wide)
{
	return x ? orr_floats_to(d->halves, x, s * count, wide) : NULL;
}

static void keep(const struct orr_device *d, int64_t s, int64_t count, const float *wide, float *x)
{
	if (x)
		orr_floats_keep(d->halves, x, s * count, count, wide);
}

/* All heads of sample s at once: y as it is, and the rest as products read it. */
static struct head sample_of(const struct orr_device *d, const struct orr_attention *a,
			     const struct room *r, int64_t s, const float *q, const float *k,
			     const float *v, const float *y, const float *dy)
{
	int64_t q_row = a->heads * a->width, k_row = a->kv_heads * a->width;
	int64_t q_floats = a->queries * q_row, k_floats = a->keys * k_row;
	struct head h = {.q_row = q_row, .k_row = k_row};

	h.q = rounded(d, a, s, q_floats, q, r->q);
	h.k = rounded(d, a, s, k_floats, k, r->k);
	h.v = rounded(d, a, s, k_floats, v, r->v);
	if (y)
		h.y = orr_floats_at(d->halves, y, s * q_floats, q_floats, r->y);
	if (dy)
		h.dy = rounded(d, a, s, q_floats, dy, r->dy);
	return h;
}

static float *shifted(float *x, int64_t by)
{
	return x ? x + by : NULL;
}

static void zero(int64_t count, float *x)
{
	if (x)
		memset(x, 0, (size_t)count * sizeof(*x));
}

static struct head head_of(const struct orr_attention *a, const struct head *all, int64_t i)
{
	int64_t at = i * a->width, key_at = i / (a->heads / a->kv_heads) * a->width;
	struct head h = *all;

	h.q += at, h.k += key_at, h.v += key_at;
	h.y = h.y ? h.y + at : NULL, h.dy = h.dy ? h.dy + at : NULL;
	h.out = shifted(h.out, at), h.dq = shifted(h.dq, at);
	h.dk = shifted(h.dk, key_at), h.dv = shifted(h.dv, key_at);
	h.left = shifted(h.left, i * a->queries);
	h.sums = h.sums ? h.sums + i * a->queries : NULL;
	return h;
}

static void forward(struct orr_device *d, const struct orr_attention *a, const float *q,
		    const float *k, const float *v, const float *lengths, float *y, float *sums)
{
	struct room r = room_of(a, d->workspace);

	for (int64_t s = 0; s < a->n; s++) {
		struct head all = sample_of(d, a, &r, s, q, k, v, NULL, NULL);

		all.keys = orr_attention_keys(a, lengths ? lengths + s : NULL);
		all.out = place(d, s, a->queries * all.q_row, y, r.out);
		all.left = sums + s * a->heads * a->queries;
		if (!all.keys) {
			zero(a->queries * all.q_row, all.out);
			zero(a->heads * a->queries, all.left);
		}
		for (int64_t i = 0; i < a->heads && all.keys; i++) {
			struct head h = head_of(a, &all, i);

			head_forward(a, &h, &r);
		}
		keep(d, s, a->queries * all.q_row, r.out, y);
	}
}

static void input(struct orr_device *d, const struct orr_attention *a, const float *q,
		  const float *k, const float *v, const float *lengths, const float *y,
		  const float *sums, const float *dy, float *dq, float *dk, float *dv)
{
	struct room r = room_of(a, d->workspace);

	for (int64_t s = 0; s < a->n; s++) {
		struct head all = sample_of(d, a, &r, s, q, k, v, y, dy);
		int64_t q_floats = a->queries * all.q_row, k_floats = a->keys * all.k_row, unseen;

		all.keys = orr_attention_keys(a, lengths ? lengths + s : NULL);
		all.dq = place(d, s, q_floats, dq, r.out);
		all.dk = place(d, s, k_floats, dk, r.dk);
		all.dv = place(d, s, k_floats, dv, r.dv);
		all.sums = sums + s * a->heads * a->queries;
		unseen = (a->keys - all.keys) * all.k_row;
		zero(unseen, shifted(all.dk, all.keys * all.k_row));
		zero(unseen, shifted(all.dv, all.keys * all.k_row));
		if (!all.keys)
			zero(a->queries * all.q_row, all.dq);
		for (int64_t i = 0; i < a->heads && all.keys; i++) {
			struct head h = head_of(a, &all, i);

			for (int64_t j = 0; j < a->queries; j++)
				r.total[j] = orr_row_dot(a->width, h.y + j * h.q_row,
							 h.dy + j * h.q_row);
			head_input(a, &h, &r, i % (a->heads / a->kv_heads) == 0);
		}
		keep(d, s, q_floats, r.out, dq);
		keep(d, s, k_floats, r.dk, dk);
		keep(d, s, k_floats, r.dv, dv);
	}
}

const struct orr_attention_kernels orr_attention_cpu = {ORR_ATTENTION_KERNELS(ORR_KERNEL)};
