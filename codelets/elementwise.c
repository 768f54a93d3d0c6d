#include "kernels.h"

#include <string.h>

#include "elements.h"
#include "vector.h"

#define ORR_LOOPS(NAME, KEPT, FORWARD, BACKWARD) \
	ORR_VECTOR static void map_##NAME(int64_t count, const float *x, float *y) \
	{ \
		for (int64_t i = 0; i < count; i++) \
			y[i] = orr_##NAME##_of(x[i]); \
	} \
	ORR_VECTOR static void map_back_##NAME(int64_t count, const float *kept, const float *dy, \
					       float *dx) \
	{ \
		for (int64_t i = 0; i < count; i++) \
			dx[i] = orr_##NAME##_slope(kept[i], dy[i]); \
	}
ORR_ELEMENTWISE(ORR_LOOPS)

void orr_map(enum orr_elementwise f, int64_t count, const float *x, float *y)
{
	switch (f) {
#define ORR_CASE(NAME, KEPT, FORWARD, BACKWARD) \
	case ORR_ELEMENTWISE_##NAME: \
		map_##NAME(count, x, y); \
		break;
		ORR_ELEMENTWISE(ORR_CASE)
#undef ORR_CASE
	}
}

void orr_map_back(enum orr_elementwise f, int64_t count, const float *kept, const float *dy,
		  float *dx)
{
	switch (f) {
#define ORR_CASE(NAME, KEPT, FORWARD, BACKWARD) \
	case ORR_ELEMENTWISE_##NAME: \
		map_back_##NAME(count, kept, dy, dx); \
		break;
		ORR_ELEMENTWISE(ORR_CASE)
#undef ORR_CASE
	}
}

ORR_VECTOR static void scale(int64_t count, float factor, const float *x, float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = factor * x[i];
}
void orr_scale(int64_t count, float factor, const float *x, float *y)
{
	scale(count, factor, x, y);
}

ORR_VECTOR static void add(int64_t count, const float *x, float *sum)
{
	for (int64_t i = 0; i < count; i++)
		sum[i] += x[i];
}
void orr_add(int64_t count, const float *x, float *sum)
{
	add(count, x, sum);
}

ORR_VECTOR static void sum(int64_t count, const float *a, const float *b, float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = a[i] + b[i];
}
void orr_sum(int64_t count, const float *a, const float *b, float *y)
{
	sum(count, a, b, y);
}

ORR_VECTOR static void round_bf16(int64_t count, const float *x, float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = orr_bf16_float(orr_bf16_of(x[i]));
}
void orr_round_bf16(int64_t count, const float *x, float *y)
{
	round_bf16(count, x, y);
}

ORR_VECTOR static void from_bf16(int64_t count, const uint16_t *x, float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = orr_bf16_float(x[i]);
}
void orr_from_bf16(int64_t count, const uint16_t *x, float *y)
{
	from_bf16(count, x, y);
}

ORR_VECTOR static void add_from_bf16(int64_t count, const uint16_t *x, float *sum)
{
	for (int64_t i = 0; i < count; i++)
		sum[i] += orr_bf16_float(x[i]);
}
void orr_add_from_bf16(int64_t count, const uint16_t *x, float *sum)
{
	add_from_bf16(count, x, sum);
}

ORR_VECTOR static void add_bf16(int64_t count, const float *x, uint16_t *sum)
{
	for (int64_t i = 0; i < count; i++)
		sum[i] = orr_bf16_sum(sum[i], orr_bf16_of(x[i]));
}
void orr_add_bf16(int64_t count, const float *x, uint16_t *sum)
{
	add_bf16(count, x, sum);
}

ORR_VECTOR static void sum_bf16(int64_t count, const uint16_t *a, const uint16_t *b, uint16_t *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = orr_bf16_sum(a[i], b[i]);
}
void orr_sum_bf16(int64_t count, const uint16_t *a, const uint16_t *b, uint16_t *y)
{
	sum_bf16(count, a, b, y);
}

ORR_VECTOR static void to_bf16(int64_t count, const float *x, uint16_t *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = orr_bf16_of(x[i]);
}
void orr_to_bf16(int64_t count, const float *x, uint16_t *y)
{
	to_bf16(count, x, y);
}

/* Of bfloat16, by the loops above: a block's floats stay in the first cache. Loops with formulas
 * between 2 and 4 bytes do not become vectors in gcc 12. */
enum { BLOCK = 1024 };

void orr_map_bf16(enum orr_elementwise f, int64_t count, const uint16_t *x, uint16_t *y)
{
	float from[BLOCK], to[BLOCK];

	for (int64_t i = 0; i < count; i += BLOCK) {
		int64_t n = count - i < BLOCK ? count - i : BLOCK;

		orr_from_bf16(n, x + i, from);
		orr_map(f, n, from, to);
		orr_to_bf16(n, to, y + i);
	}
}

void orr_map_back_bf16(enum orr_elementwise f, int64_t count, const uint16_t *kept,
		       const uint16_t *dy, uint16_t *dx)
{
	float at[BLOCK], from[BLOCK], to[BLOCK];

	for (int64_t i = 0; i < count; i += BLOCK) {
		int64_t n = count - i < BLOCK ? count - i : BLOCK;

		orr_from_bf16(n, kept + i, at);
		orr_from_bf16(n, dy + i, from);
		orr_map_back(f, n, at, from, to);
		orr_to_bf16(n, to, dx + i);
	}
}

ORR_VECTOR static int count_wild(int64_t count, const float *x)
{
	int n = 0;

	for (int64_t i = 0; i < count; i++)
		n += orr_is_wild(x[i]);
	return n;
}
int64_t orr_first_wild(int64_t count, const float *x)
{
	enum { PART = 4096 }; /* which stays in the cache for a second look */

	for (int64_t begin = 0; begin < count; begin += PART) {
		int64_t end = count - begin < PART ? count : begin + PART;
		int n_wild = count_wild(end - begin, x + begin);

		for (int64_t i = begin; n_wild && i < end; i++)
			if (orr_is_wild(x[i]))
				return i;
	}
	return -1;
}

void orr_columns_put(int64_t n, int64_t width, const float *x, int64_t total, int64_t first,
		     float *y)
{
	for (int64_t r = 0; r < n; r++)
		memcpy(y + r * total + first, x + r * width, (size_t)width * sizeof(*y));
}

void orr_columns_take(int64_t n, int64_t total, int64_t first, const float *y, int64_t width,
		      float *x)
{
	for (int64_t r = 0; r < n; r++)
		memcpy(x + r * width, y + r * total + first, (size_t)width * sizeof(*x));
}
