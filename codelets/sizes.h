#pragma once
/* What the kernels of sequences are told, and what they share: one text for C and CUDA. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/mix.h"
#include "elements.h"

/* A part of each sample: rows of width floats, so far apart where it comes from and where it goes
 * to. */
struct orr_box {
	int64_t n, rows, width;
	int64_t from_sample, from_row, to_sample, to_row;
};

/* n rows of width floats, to mean 0 (where they are centred) and mean square 1 (plus epsilon). */
struct orr_norm {
	int64_t n, width;
	bool centred;
	double epsilon;
};

/* q and the output: rows of heads x width floats; k and v: rows of kv_heads x width, of which head
 * h reads number h / (heads / kv_heads). */
struct orr_attention {
	int64_t n, queries, keys; /* samples; rows of q, and of k and v, a sample */
	int64_t heads, kv_heads, width;
	bool causal;  /* query i sees keys 0 to i */
	bool rounded; /* operands of products are rounded to bfloat16 */
};

/* What fits a CUDA device's shared memory, of a backward's smallest tile. */
#define ORR_MOST_HEAD_WIDTH 512

/* Of scores. */
ORR_ELEMENT float orr_attention_factor(const struct orr_attention *a)
{
	return (float)(1.0 / sqrt((double)a->width));
}

/* Keys of a sample that any query sees; length: those that count (NULL: all). What is no number of
 * keys is taken for the nearest that is one. */
ORR_ELEMENT int64_t orr_attention_keys(const struct orr_attention *a, const float *length)
{
	int64_t keys = a->causal && a->queries < a->keys ? a->queries : a->keys;

	if (!length || *length >= (float)keys)
		return keys;
	return *length >= 1.0f ? (int64_t)*length : 0;
}

/* ids of each of n samples, of rows that are added up: all, or their mean. */
struct orr_bag {
	int64_t n, ids, vocabulary, features;
	bool padding; /* an id below 0 is none */
	bool mean;
	/* The rows are those of the ids from `first` on, of `of` in all; 0: they are all. */
	int64_t first, of;
};

#define ORR_ID_PADDING (-1) /* none, or in another part of the table */
#define ORR_ID_WRONG (-2)   /* there is no such row: the result is NaN */

/* How many ids there are. */
ORR_ELEMENT int64_t orr_bag_all(const struct orr_bag *b)
{
	return b->of ? b->of : b->first + b->vocabulary;
}

/* The row of an id. */
ORR_ELEMENT int64_t orr_id_of(const struct orr_bag *b, float id)
{
	int64_t row;

	if (b->padding && id < 0.0f)
		return ORR_ID_PADDING;
	if (!(id >= 0.0f && id < (float)orr_bag_all(b) && id == floorf(id)))
		return ORR_ID_WRONG;
	row = (int64_t)id - b->first;
	return row >= 0 && row < b->vocabulary ? row : ORR_ID_PADDING;
}

/* What each row of a bag counts. */
ORR_ELEMENT float orr_bag_share(const struct orr_bag *b, const float *ids)
{
	int64_t n = 0;

	for (int64_t i = 0; b->mean && i < b->ids; i++)
		n += !(ids[i] < 0.0f);
	return n ? 1.0f / (float)n : 1.0f;
}

/* Rows that go to experts: of each of n samples `rows` in `groups` groups, and of a group each
 * expert takes `places` [Lepikhin21]. A row chooses `top` experts. */
struct orr_routing {
	int64_t n, rows, experts, top, groups, places;
};

/* A choice of a row, as floats of a tensor. */
struct orr_routed {
	float expert;
	float place; /* in the expert's queue of the group; below 0: dropped */
	float weight;
};

ORR_ELEMENT const struct orr_routed *orr_routed_of(const float *route)
{
	return (const struct orr_routed *)(const void *)route;
}

/* The largest score's number but for those of n choices before, the first of equal ones. */
ORR_ELEMENT int64_t orr_routing_best(const struct orr_routing *r, const float *scores,
				     const struct orr_routed *chosen, int64_t n)
{
	int64_t best = -1, k;

	for (int64_t i = 0; i < r->experts; i++) {
		for (k = 0; k < n && (int64_t)chosen[k].expert != i;)
			k++;
		if (k == n && (best < 0 || scores[i] > scores[best]))
			best = i;
	}
	return best;
}

/* What a row chooses, without places: of one expert the weight is its probability [Fedus22], of
 * several their probabilities as if there were no others. */
ORR_ELEMENT void orr_routing_choose(const struct orr_routing *r, const float *scores,
				    struct orr_routed *to)
{
	float sum = 0;

	for (int64_t j = 0; j < r->top; j++) {
		int64_t best = orr_routing_best(r, scores, to, j);

		to[j].expert = (float)best;
		to[j].place = -1.0f;
		to[j].weight = orr_exp_of(scores[best] - scores[(int64_t)to[0].expert]);
		sum += r->top > 1 ? to[j].weight : 0.0f;
	}
	for (int64_t i = 0; i < r->experts && r->top == 1; i++)
		sum += orr_exp_of(scores[i] - scores[(int64_t)to[0].expert]);
	for (int64_t j = 0; j < r->top; j++)
		to[j].weight /= sum;
}

/* Places for what a group's rows choose of an expert: first choices come before second ones and
 * so on, each in the order of rows. */
ORR_ELEMENT void orr_routing_queue(const struct orr_routing *r, int64_t expert,
				   struct orr_routed *group)
{
	int64_t rows = r->rows / r->groups, n = 0;

	for (int64_t j = 0; j < r->top; j++)
		for (int64_t i = 0; i < rows; i++) {
			struct orr_routed *c = &group[i * r->top + j];

			if ((int64_t)c->expert == expert)
				c->place = n < r->places ? (float)n++ : -1.0f;
		}
}

/* What a row adds to the share of rows whose first choice an expert is. */
ORR_ELEMENT float orr_routing_share(const struct orr_routing *r, int64_t expert,
				    const struct orr_routed *row)
{
	return row->expert >= (float)expert && row->expert <= (float)expert ? 1.0f / (float)r->rows
									    : 0.0f;
}

/* Slopes of a row's scores from those of its weights. */
ORR_ELEMENT void orr_routing_slopes(const struct orr_routing *r, const float *scores,
				    const struct orr_routed *at, const struct orr_routed *slope,
				    float *dx)
{
	int64_t first = (int64_t)at[0].expert;
	float along = 0;

	for (int64_t j = 0; j < r->top; j++)
		along += slope[j].weight * at[j].weight;
	for (int64_t i = 0; i < r->experts; i++)
		dx[i] = r->top > 1 ? 0.0f
				   : -along * at[0].weight * orr_exp_of(scores[i] - scores[first]);
	for (int64_t j = 0; j < r->top; j++)
		dx[(int64_t)at[j].expert] = r->top > 1 ? at[j].weight * (slope[j].weight - along)
						       : along * (1.0f - at[0].weight);
}

/* Which of the expert's rows of all samples choice j of row i is; -1: it is not of this expert, or
 * was dropped. */
ORR_ELEMENT int64_t orr_routing_at(const struct orr_routing *r, int64_t expert, int64_t i,
				   int64_t j, const struct orr_routed *route)
{
	const struct orr_routed *c = &route[i * r->top + j];
	int64_t group = i / (r->rows / r->groups);

	if (!(c->expert >= (float)expert && c->expert <= (float)expert && c->place >= 0.0f &&
	      c->place < (float)r->places))
		return -1;
	return group * r->places + (int64_t)c->place;
}

/* In each head of width floats, float i and float i + width / 2 of row r turn by r angles. */
struct orr_rotary {
	int64_t n, rows, heads, width;
	double base;
	bool back; /* by the negative angles: the backward */
};

ORR_ELEMENT double orr_rotary_angle(const struct orr_rotary *t, int64_t i)
{
	double angle = pow(t->base, -2.0 * (double)i / (double)t->width);

	return t->back ? -angle : angle;
}

/* Of all pairs of rows, those of row 1 before those of row 2: the place of rows i and j. */
ORR_ELEMENT int64_t orr_pair(int64_t i, int64_t j)
{
	return i > j ? i * (i - 1) / 2 + j : j * (j - 1) / 2 + i;
}

/* Which floats a dropout drops is a hash of all of this and the float's place in the sample. */
struct orr_drop {
	uint64_t seed;
	int64_t sample, operator_number; /* of the first sample; of the operator in its graph */
	double rate;
	/* Of a part: its pieces in the whole sample, see struct orr_pieces; floats 0: it is all. */
	int64_t floats, first, apart;
};

/* The place in the whole sample of float i. */
ORR_ELEMENT uint32_t orr_drop_place(const struct orr_drop *d, int64_t i)
{
	return (uint32_t)(d->floats ? d->first + i / d->floats * d->apart + i % d->floats : i);
}

/* Of a sample. */
struct orr_drop_key {
	uint32_t a, b, least; /* a float is kept where its hash is least or more, */
	float factor;         /* and then scaled, so that its mean stays */
};

ORR_ELEMENT struct orr_drop_key orr_drop_key_of(const struct orr_drop *d, int64_t sample)
{
	uint64_t key = orr_mix_next(d->seed);
	struct orr_drop_key k;

	key = orr_mix_next(key + (uint64_t)d->operator_number);
	key = orr_mix_next(key + (uint64_t)(d->sample + sample));
	k.a = (uint32_t)key;
	k.b = (uint32_t)(key >> 32);
	k.least = (uint32_t)(d->rate * 0x1p32);
	k.factor = (float)(1.0 / (1.0 - d->rate));
	return k;
}

/* (lowbias32; Chris Wellons, public domain) */
ORR_ELEMENT uint32_t orr_scrambled(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

ORR_ELEMENT float orr_dropped(struct orr_drop_key k, uint32_t i, float x)
{
	return orr_scrambled(orr_scrambled(i + k.a) ^ k.b) >= k.least ? x * k.factor : 0.0f;
}
