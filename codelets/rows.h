#pragma once
/* Loops along a row, for the kernels that go row by row. A row is added up in 16 sums, element i in
 * sum i % 16, and these from the first to the last: the same bits at every width of vectors. */
#include <stdint.h>

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
