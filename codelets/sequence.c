#include "sequence.h"

#include <math.h>
#include <string.h>

#include "device.h"
#include "loops.h"
#include "vector.h"

static void move(struct orr_device *d, const struct orr_box *b, const float *x, float *y)
{
	for (int64_t s = 0; s < b->n; s++)
		for (int64_t r = 0; r < b->rows; r++)
			memcpy(y + s * b->to_sample + r * b->to_row,
			       x + s * b->from_sample + r * b->from_row,
			       (size_t)b->width * sizeof(*y));
}

/* ---- rows of a sample ---- */

static void add_row(struct orr_device *d, int64_t n, int64_t width, const float *x, const float *w,
		    float *y)
{
	for (int64_t r = 0; r < n; r++)
		orr_sum(width, x + r * width, w, y + r * width);
}

void orr_sum_rows(bool halves, int64_t n, int64_t width, const float *dy, float *apart, float *dw)
{
	const uint16_t *half = (const uint16_t *)dy;
	float *sum = apart ? apart : dw;

	if (halves)
		orr_from_bf16(width, half, sum);
	else
		memcpy(sum, dy, (size_t)width * sizeof(*sum));
	for (int64_t r = 1; r < n; r++)
		if (halves)
			orr_add_from_bf16(width, half + r * width, sum);
		else
			orr_add(width, dy + r * width, sum);
	if (apart)
		orr_add(width, apart, dw);
}

static void sum_rows(struct orr_device *d, int64_t n, int64_t width, const float *dy, float *apart,
		     float *dw)
{
	orr_sum_rows(false, n, width, dy, apart, dw);
}

static void mean_forward(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			 const float *x, float *y)
{
	for (int64_t s = 0; s < n; s++, y += width) {
		memcpy(y, x, (size_t)width * sizeof(*y));
		x += width;
		for (int64_t r = 1; r < rows; r++, x += width)
			orr_add(width, x, y);
		orr_scale(width, 1.0f / (float)rows, y, y);
	}
}

static void mean_input(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
		       const float *dy, float *dx)
{
	for (int64_t s = 0; s < n; s++, dy += width)
		for (int64_t r = 0; r < rows; r++, dx += width)
			orr_scale(width, 1.0f / (float)rows, dy, dx);
}

/* ---- softmax and length 1 ---- */

static void softmax_forward(struct orr_device *d, int64_t n, int64_t width, const float *x,
			    float *y)
{
	memcpy(y, x, (size_t)(n * width) * sizeof(*y));
	for (int64_t r = 0; r < n; r++, y += width)
		orr_scale(width,
			  1.0f / orr_row_exponentials(width, orr_row_largest(width, y, y[0]), y), y,
			  y);
}

ORR_VECTOR static void softmax_input(struct orr_device *d, int64_t n, int64_t width,
				     const float *restrict y, const float *restrict dy,
				     float *restrict dx)
{
	for (int64_t r = 0; r < n; r++, y += width, dy += width, dx += width) {
		float along = orr_row_dot(width, y, dy);

		for (int64_t i = 0; i < width; i++)
			dx[i] = y[i] * (dy[i] - along);
	}
}

static void normalise_forward(struct orr_device *d, int64_t n, int64_t width, float epsilon,
			      const float *x, float *y, float *factors)
{
	for (int64_t r = 0; r < n; r++, x += width, y += width) {
		float length = sqrtf(orr_row_dot(width, x, x));

		factors[r] = 1.0f / (length < epsilon ? epsilon : length);
		orr_scale(width, factors[r], x, y);
	}
}

/* Shorter rows than epsilon are scaled by a constant, and keep what points along them. */
ORR_VECTOR static void normalise_input(struct orr_device *d, int64_t n, int64_t width,
				       float epsilon, const float *restrict y,
				       const float *restrict factors, const float *restrict dy,
				       float *restrict dx)
{
	for (int64_t r = 0; r < n; r++, y += width, dy += width, dx += width) {
		float factor = factors[r];
		float along = factor < 1.0f / epsilon ? orr_row_dot(width, y, dy) : 0.0f;

		for (int64_t i = 0; i < width; i++)
			dx[i] = factor * (dy[i] - along * y[i]);
	}
}

/* ---- ids ---- */

static void bag_forward(struct orr_device *d, const struct orr_bag *b, const float *ids,
			const float *w, float *y)
{
	for (int64_t s = 0; s < b->n; s++, ids += b->ids, y += b->features) {
		float each = orr_bag_share(b, ids);

		memset(y, 0, (size_t)b->features * sizeof(*y));
		for (int64_t i = 0; i < b->ids; i++) {
			int64_t id = orr_id_of(b, ids[i]);

			if (id >= 0)
				orr_row_add(b->features, each, w + id * b->features, y);
			for (int64_t k = 0; id == ORR_ID_WRONG && k < b->features; k++)
				y[k] = NAN;
		}
	}
}

/* Rows of dy to those of their ids, in order; dw must be zero. */
static void scatter(const struct orr_bag *b, const float *ids, const float *dy, float *dw)
{
	for (int64_t s = 0; s < b->n; s++, ids += b->ids, dy += b->features) {
		float each = orr_bag_share(b, ids);

		for (int64_t i = 0; i < b->ids; i++) {
			int64_t id = orr_id_of(b, ids[i]);

			if (id >= 0)
				orr_row_add(b->features, each, dy, dw + id * b->features);
		}
	}
}

/* The first place of each id, then the next place of the same id for each place, then the share of
 * each sample. */
static size_t bag_bytes(const struct orr_bag *b)
{
	return (size_t)(b->vocabulary + b->n * b->ids) * sizeof(int32_t) +
	       (size_t)b->n * sizeof(float);
}

/* An id's rows are added in one row, in order, which then goes to dw. A sum that began at zero is
 * never -0, so that it changes no bit where an id does not occur. */
static void add_rows(struct orr_device *d, const struct orr_bag *b, const float *ids,
		     const float *dy, float *sum, float *dw)
{
	int32_t *first = d->workspace, *next = first + b->vocabulary;
	float *shares = (float *)(next + b->n * b->ids);

	memset(first, -1, (size_t)b->vocabulary * sizeof(*first));
	for (int64_t i = b->n * b->ids - 1; i >= 0; i--) {
		int64_t id = orr_id_of(b, ids[i]);

		next[i] = id < 0 ? -1 : first[id];
		if (id >= 0)
			first[id] = (int32_t)i;
	}
	for (int64_t s = 0; s < b->n; s++)
		shares[s] = orr_bag_share(b, ids + s * b->ids);
	for (int64_t i = 0; i < b->n * b->ids; i++) {
		int64_t id = orr_id_of(b, ids[i]);

		if (id < 0 || first[id] != i)
			continue;
		memset(sum, 0, (size_t)b->features * sizeof(*sum));
		for (int64_t k = i; k >= 0; k = next[k])
			orr_row_add(b->features, shares[k / b->ids], dy + k / b->ids * b->features,
				    sum);
		orr_add(b->features, sum, dw + id * b->features);
	}
}

static void bag_weight(struct orr_device *d, const struct orr_bag *b, const float *ids,
		       const float *dy, float *apart, float *dw)
{
	if (apart) {
		add_rows(d, b, ids, dy, apart, dw);
		return;
	}
	memset(dw, 0, (size_t)(b->vocabulary * b->features) * sizeof(*dw));
	scatter(b, ids, dy, dw);
}

/* ---- rotary ---- */

static size_t rotary_bytes(const struct orr_rotary *t)
{
	return (size_t)(t->width / 2) * (4 * sizeof(double) + 2 * sizeof(float));
}

/* Angles of a row follow those of the row before by a turn, in double. */
static void turn(int64_t half, const double *by, double *at, float *cosine, float *sine)
{
	for (int64_t i = 0; i < half; i++) {
		double c = at[i], s = at[half + i];

		cosine[i] = (float)c;
		sine[i] = (float)s;
		at[i] = c * by[i] - s * by[half + i];
		at[half + i] = s * by[i] + c * by[half + i];
	}
}

ORR_VECTOR static void rotate(int64_t half, const float *restrict cosine,
			      const float *restrict sine, const float *restrict x,
			      float *restrict y)
{
	for (int64_t i = 0; i < half; i++) {
		y[i] = x[i] * cosine[i] - x[half + i] * sine[i];
		y[half + i] = x[half + i] * cosine[i] + x[i] * sine[i];
	}
}

static void rotary(struct orr_device *d, const struct orr_rotary *t, const float *x, float *y)
{
	int64_t half = t->width / 2, row = t->heads * t->width;
	double *by = d->workspace, *at = by + 2 * half;
	float *cosine = (float *)(at + 2 * half), *sine = cosine + half;

	for (int64_t i = 0; i < half; i++) {
		double angle = orr_rotary_angle(t, i);

		by[i] = cos(angle), by[half + i] = sin(angle);
		at[i] = 1, at[half + i] = 0;
	}
	for (int64_t r = 0; r < t->rows; r++) {
		turn(half, by, at, cosine, sine);
		for (int64_t s = 0; s < t->n; s++)
			for (int64_t h = 0; h < t->heads; h++) {
				int64_t to = (s * t->rows + r) * row + h * t->width;

				rotate(half, cosine, sine, x + to, y + to);
			}
	}
}

/* ---- dot products of all pairs ---- */

static void interaction_forward(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				const float *x, float *y)
{
	for (int64_t s = 0; s < n; s++, x += count * width)
		for (int64_t i = 1; i < count; i++)
			for (int64_t j = 0; j < i; j++)
				*y++ = orr_row_dot(width, x + i * width, x + j * width);
}

static void interaction_input(struct orr_device *d, int64_t n, int64_t count, int64_t width,
			      int64_t first, int64_t rows, const float *x, const float *dy,
			      float *dx)
{
	for (int64_t s = 0; s < n; s++, x += count * width, dy += count * (count - 1) / 2)
		for (int64_t i = first; i < first + rows; i++, dx += width) {
			memset(dx, 0, (size_t)width * sizeof(*dx));
			for (int64_t j = 0; j < count; j++)
				if (j != i)
					orr_row_add(width, dy[orr_pair(i, j)], x + j * width, dx);
		}
}

/* ---- dropout ---- */

ORR_VECTOR static void drop(int64_t count, struct orr_drop_key key, uint32_t first, const float *x,
			    float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = orr_dropped(key, first + (uint32_t)i, x[i]);
}

static void dropout(struct orr_device *d, const struct orr_drop *dropped, int64_t n, int64_t count,
		    const float *x, float *y)
{
	int64_t floats = dropped->floats ? dropped->floats : count;

	for (int64_t s = 0; s < n; s++, x += count, y += count) {
		struct orr_drop_key key = orr_drop_key_of(dropped, s);

		for (int64_t i = 0; i < count; i += floats)
			drop(floats, key, orr_drop_place(dropped, i), x + i, y + i);
	}
}

const struct orr_row_kernels orr_rows_cpu = {ORR_ROW_KERNELS(ORR_KERNEL)};

const struct orr_sequence_kernels orr_sequence_cpu = {ORR_SEQUENCE_KERNELS(ORR_KERNEL)};
