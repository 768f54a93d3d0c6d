#include "kernels.h"

#include <string.h>

#include "device.h"
#include "elements.h"
#include "gemm.h"
#include "matmul.h"
#include "vector.h"

/* y [n][out] = across [out][n], transposed, + bias; in squares that stay in the first cache. half:
 * y is bfloat16. */
ORR_VECTOR static void turn(int64_t n, int64_t out, const float *restrict across,
			    const float *restrict bias, bool half, void *restrict y)
{
	enum { SIDE = 16 };
	static const float zero[SIDE];

	for (int64_t o = 0; o < out; o += SIDE) {
		const float *add = bias ? bias + o : zero;

		for (int64_t r = 0; r < n; r++) {
			const float *from = across + o * n + r;
			int64_t count = out - o < SIDE ? out - o : SIDE, to = r * out + o;

			for (int64_t k = 0; k < count && half; k++)
				((uint16_t *)y)[to + k] = orr_bf16_of(from[k * n] + add[k]);
			for (int64_t k = 0; k < count && !half; k++)
				((float *)y)[to + k] = from[k * n] + add[k];
		}
	}
}

/* A matrix that is larger than the other is read where it lies, and the other laid out for the
 * product: few rows are computed as w x^T. False: oneDNN has no primitive for it. */
static bool forward(bool bf16, int64_t n, int64_t in, int64_t out, const void *x, const void *w,
		    int64_t w_row, const float *bias, bool half, void *y, float *across)
{
	const struct orr_matmul few = {bf16, false, false, 'N', 'T', out, n, in, w_row, in};
	const struct orr_matmul many = {bf16, half, half && bias, 'N', 'T', n, out, in, in, w_row};

	if (n < out) {
		if (!orr_matmul(&few, w, x, NULL, across)) {
			if (bf16)
				return false;
			orr_gemm('N', 'T', out, n, in, 1, w, w_row, x, in, 0, across, n);
		}
		turn(n, out, across, bias, half, y);
		return true;
	}
	if (!orr_matmul(&many, x, w, bias, y)) {
		if (bf16)
			return false;
		orr_gemm('N', 'T', n, out, in, 1, x, in, w, w_row, 0, y, out);
	}
	for (int64_t r = 0; r < n && bias && !half; r++)
		orr_add(out, bias, (float *)y + r * out);
	return true;
}

void orr_linear_forward(int64_t n, int64_t in, int64_t out, const float *x, const float *w,
			const float *bias, float *y, float *across)
{
	(void)forward(false, n, in, out, x, w, in, bias, false, y, across);
}

void orr_linear_input(int64_t n, int64_t in, int64_t out, const float *dy, const float *w,
		      float *dx)
{
	orr_gemm('N', 'N', n, in, out, 1, dy, out, w, in, 0, dx, in);
}

/* Rows of w at a time, so that they stay in the cache until they are added: half a MiB; twice that
 * where a product takes half the time, since each lays out x anew. */
static int64_t slice_rows(bool bf16, int64_t in, int64_t out)
{
	int64_t rows = ((bf16 ? 1 << 18 : 1 << 17) / in + 63) / 64 * 64;

	return rows < out ? rows : out;
}

/* dw, or what is added to it by way of apart; x and dy are bfloat16 or floats. */
static bool weight(bool bf16, int64_t n, int64_t in, int64_t out, const void *x, const void *dy,
		   float *apart, float *dw)
{
	int64_t rows = slice_rows(bf16, in, out);
	bool computed = true;

	for (int64_t o = 0; o < out; o += rows, dw += rows * in) {
		int64_t count = out - o < rows ? out - o : rows;
		const struct orr_matmul product = {true,  false, false, 'T', 'N',
						   count, in,    n,     out, in};
		float *to = apart ? apart : dw;

		if (bf16)
			computed &= orr_matmul(&product, (const uint16_t *)dy + o, x, NULL, to);
		else
			orr_gemm('T', 'N', count, in, n, 1, (const float *)dy + o, out, x, in, 0,
				 to, in);
		if (apart)
			orr_add(count * in, apart, dw);
	}
	return computed;
}

void orr_linear_weight(int64_t n, int64_t in, int64_t out, const float *x, const float *dy,
		       float *apart, float *dw)
{
	(void)weight(false, n, in, out, x, dy, apart, dw);
}

void orr_linear_bias(int64_t n, int64_t out, const float *dy, float *apart, float *dbias)
{
	float *to = apart ? apart : dbias;

	memcpy(to, dy, (size_t)out * sizeof(*to));
	for (int64_t r = 1; r < n; r++)
		orr_add(out, dy + r * out, to);
	if (apart)
		orr_add(out, apart, dbias);
}

void orr_linear_bias_bf16(int64_t n, int64_t out, const uint16_t *dy, float *apart, float *dbias)
{
	float *to = apart ? apart : dbias;

	orr_from_bf16(out, dy, to);
	for (int64_t r = 1; r < n; r++)
		orr_add_from_bf16(out, dy + r * out, to);
	if (apart)
		orr_add(out, apart, dbias);
}

bool orr_linear_forward_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *x,
			     const uint16_t *w, const float *bias, bool half, void *y,
			     float *across)
{
	return forward(true, n, in, out, x, w, orr_rounded_columns(in), bias, half, y, across);
}

bool orr_linear_input_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *dy,
			   const uint16_t *w, bool half, void *dx)
{
	const struct orr_matmul product = {true, half, false, 'N', 'N',
					   n,    in,   out,   out, orr_rounded_columns(in)};

	return orr_matmul(&product, dy, w, NULL, dx);
}

bool orr_linear_weight_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *x,
			    const uint16_t *dy, float *apart, float *dw)
{
	return weight(true, n, in, out, x, dy, apart, dw);
}
