#include "kernels.h"

#include <string.h>

#include "base/max.h"
#include "device.h"
#include "loops.h"
#include "vector.h"

ORR_LOOP(scale, y[i] = factor * x[i], (int64_t count, float factor, const float *x, float *y),
	 factor, x, y)
ORR_LOOP(add, sum[i] += x[i], (int64_t count, const float *x, float *sum), x, sum)
ORR_LOOP(sum, y[i] = a[i] + b[i], (int64_t count, const float *a, const float *b, float *y), a, b,
	 y)
ORR_LOOP(round_bf16, y[i] = orr_bf16_float(orr_bf16_of(x[i])),
	 (int64_t count, const float *x, float *y), x, y)
ORR_LOOP(from_bf16, y[i] = orr_bf16_float(x[i]), (int64_t count, const uint16_t *x, float *y), x, y)
ORR_LOOP(add_from_bf16, sum[i] += orr_bf16_float(x[i]),
	 (int64_t count, const uint16_t *x, float *sum), x, sum)
ORR_LOOP(to_bf16, y[i] = orr_bf16_of(x[i]), (int64_t count, const float *x, uint16_t *y), x, y)

const float *orr_floats_at(bool halves, const float *x, int64_t at, int64_t count, float *room)
{
	if (!halves)
		return x + at;
	each_from_bf16(count, (const uint16_t *)x + at, room);
	return room;
}

void orr_floats_keep(bool halves, float *y, int64_t at, int64_t count, const float *room)
{
	if (halves)
		each_to_bf16(count, room, (uint16_t *)y + at);
}

/* ---- as a table ---- */

static void copy(struct orr_device *d, int64_t count, const float *x, float *y)
{
	memcpy(y, x, (size_t)count * (d->halves ? sizeof(uint16_t) : sizeof(*y)));
}

static void zero(struct orr_device *d, int64_t count, float *y)
{
	memset(y, 0, (size_t)count * sizeof(*y));
}

ORR_VECTOR static void multiply(struct orr_device *d, int64_t count, const float *a, const float *b,
				float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = a[i] * b[i];
}

static void widen(struct orr_device *d, int64_t count, const void *x, float *y)
{
	each_from_bf16(count, x, y);
}

ORR_VECTOR static void add_bf16(int64_t count, const float *x, uint16_t *sum)
{
	for (int64_t i = 0; i < count; i++)
		sum[i] = orr_bf16_of(orr_bf16_float(sum[i]) + orr_bf16_float(orr_bf16_of(x[i])));
}

static void narrow(struct orr_device *d, int64_t count, int64_t end, const float *x, bool added,
		   void *y)
{
	uint16_t *to = y;

	if (added)
		add_bf16(count, x, to);
	else
		each_to_bf16(count, x, to);
	memset(to + count, 0, (size_t)(end - count) * sizeof(*to));
}

ORR_VECTOR static void sum_mixed(struct orr_device *d, int64_t count, const float *a, const void *b,
				 float *y)
{
	const uint16_t *half = b;

	for (int64_t i = 0; i < count; i++)
		y[i] = a[i] + orr_bf16_float(half[i]);
}

ORR_VECTOR static void add_relu(int64_t count, const float *a, const float *b, float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = orr_relu_of(a[i] + b[i]);
}

#define ORR_LOOPS(NAME, KEPT, FORWARD, BACKWARD) \
	ORR_VECTOR static void map_##NAME(int64_t count, const float *x, const float *none, \
					  float *y) \
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

#define ORR_ENTRY(NAME, KEPT, FORWARD, BACKWARD) {map_##NAME, map_back_##NAME},
static const struct {
	void (*map)(int64_t count, const float *x, const float *none, float *y);
	void (*back)(int64_t count, const float *kept, const float *dy, float *dx);
} formulas[] = {ORR_ELEMENTWISE(ORR_ENTRY)};

/* Of bfloat16, by the loops of floats: a block's stay in the first cache. Loops with formulas
 * between 2 and 4 bytes do not become vectors in gcc 12. */
enum { BLOCK = 1024 };

static void scale(struct orr_device *d, int64_t count, float factor, const float *x, float *y)
{
	int64_t most = d->halves ? BLOCK : count;
	float room[BLOCK];

	for (int64_t i = 0, n; i < count; i += n) {
		float *to = orr_floats_to(d->halves, y, i, room);

		n = smaller(count - i, most);
		each_scale(n, factor, orr_floats_at(d->halves, x, i, n, room), to);
		orr_floats_keep(d->halves, y, i, n, to);
	}
}

/* b: NULL where f reads none */
static void apply(bool halves, int64_t count,
		  void (*f)(int64_t count, const float *a, const float *b, float *y),
		  const float *a, const float *b, float *y)
{
	int64_t most = halves ? BLOCK : count;
	float from[BLOCK], other[BLOCK], room[BLOCK];

	for (int64_t i = 0, n; i < count; i += n) {
		float *to = orr_floats_to(halves, y, i, room);

		n = smaller(count - i, most);
		f(n, orr_floats_at(halves, a, i, n, from),
		  b ? orr_floats_at(halves, b, i, n, other) : NULL, to);
		orr_floats_keep(halves, y, i, n, to);
	}
}

/* In one loop, which without a formula becomes vectors. */
ORR_VECTOR static void sum_halves(int64_t count, const void *a, const void *b, void *y)
{
	const uint16_t *half = a, *other = b;
	uint16_t *to = y;

	for (int64_t i = 0; i < count; i++)
		to[i] = orr_bf16_of(orr_bf16_float(half[i]) + orr_bf16_float(other[i]));
}

static void sum(struct orr_device *d, int64_t count, const float *a, const float *b, float *y)
{
	if (d->halves)
		sum_halves(count, a, b, y);
	else
		each_sum(count, a, b, y);
}

static void sum_relu(struct orr_device *d, int64_t count, const float *a, const float *b, float *y)
{
	apply(d->halves, count, add_relu, a, b, y);
}

static void map(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *x,
		float *y)
{
	apply(d->halves, count, formulas[f].map, x, NULL, y);
}

static void map_back(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *kept,
		     const float *dy, float *dx)
{
	apply(d->halves, count, formulas[f].back, kept, dy, dx);
}

ORR_VECTOR static int count_wild(int64_t count, const float *x)
{
	int n = 0;

	for (int64_t i = 0; i < count; i++)
		n += orr_is_wild(x[i]);
	return n;
}

static void find_wild(struct orr_device *d, int64_t count, const float *x, int64_t at,
		      int64_t *first)
{
	enum { PART = 4096 }; /* which stays in the cache for a second look */

	for (int64_t begin = 0; begin < count && at + begin < *first; begin += PART) {
		int64_t end = count - begin < PART ? count : begin + PART, i = begin;

		if (!count_wild(end - begin, x + begin))
			continue;
		while (!orr_is_wild(x[i]))
			i++;
		*first = at + i < *first ? at + i : *first;
		return;
	}
}

const struct orr_element_kernels orr_elements_cpu = {ORR_ELEMENT_KERNELS(ORR_KERNEL)};
