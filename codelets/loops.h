#pragma once
/* (private to a CPU core's kernels) Loops over elements that several of them have; count: how
 * many. */
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

/* (linear.c) What its products ask of the workspace. */
size_t orr_linear_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out);
