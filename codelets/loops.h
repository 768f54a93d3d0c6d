#pragma once
/* (private to a CPU core's kernels) Loops over elements that several of them have; count: how
 * many. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "orrery/orrery.h"

void orr_scale(int64_t count, float factor, const float *x, float *y); /* y = factor x */
void orr_add(int64_t count, const float *x, float *sum);               /* sum += x */
void orr_sum(int64_t count, const float *a, const float *b, float *y); /* y = a + b */
void orr_round_bf16(int64_t count, const float *x, float *y);          /* to bf16 */
void orr_to_bf16(int64_t count, const float *x, uint16_t *y);          /* the same bits, in half */
void orr_from_bf16(int64_t count, const uint16_t *x, float *y);
void orr_add_from_bf16(int64_t count, const uint16_t *x, float *sum);

/* Activations x from number `at` on as floats: where they are or, of bfloat16, in room. And where
 * those of y are to be written, which are then kept. */
const float *orr_floats_at(bool halves, const float *x, int64_t at, int64_t count, float *room);
static inline float *orr_floats_to(bool halves, float *y, int64_t at, float *room)
{
	return halves ? room : y + at;
}
void orr_floats_keep(bool halves, float *y, int64_t at, int64_t count, const float *room);

/* (sequence.c) Activations dy, n rows, added up in order to dw, or to apart and then to what is
 * there.
 */
void orr_sum_rows(bool halves, int64_t n, int64_t width, const float *dy, float *apart, float *dw);

/* (linear.c) What its products ask of the workspace. */
size_t orr_linear_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out);

/* (rows.c) Loops along a row, for the kernels that go row by row. A row is added up in 16 sums,
 * element i in sum i % 16, and these from the first to the last: the same bits at every width of
 * vectors. */
int64_t orr_row_best(int64_t n, const float *x);               /* the first of the largest */
float orr_row_largest(int64_t n, const float *x, float least); /* or least, or NaN is skipped */
/* y = exp(factor x - most) */
void orr_row_exps(int64_t n, float factor, float most, const float *x, float *y);
/* x becomes exp(x - most); returns their sum. */
float orr_row_exponentials(int64_t n, float most, float *x);
float orr_row_dot(int64_t n, const float *x, const float *y);
/* y += factor x */
void orr_row_add(int64_t n, float factor, const float *x, float *y);
/* Scores p become their probabilities exp(p - sum); x, the slopes of what they weigh, become those
 * of the scores before they were scaled by factor. along: the sum of p x. */
void orr_row_slopes(int64_t n, float sum, float along, float factor, float *p, float *x);
