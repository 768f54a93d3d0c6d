/* Linear layers on a core. Products in BF16 read bfloat16 where the processor does, else floats
 * that were rounded; activations may lie as bfloat16, or as floats. */
#include "kernels.h"

#include <string.h>

#include "device.h"
#include "elements.h"
#include "loops.h"
#include "matmul.h"
#include "vector.h"

/* ---- products ---- */

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

/* Laying out w for a product pays where this many rows meet it; fewer are laid out themselves, and
 * the product is w x^T, which is then turned. */
enum { MANY = 128 };

static bool is_few(int64_t n, int64_t out)
{
	return n < MANY && n < out;
}

/* half: y is bfloat16. across: floats [out][n] where is_few(). False: oneDNN has no primitive for
 * it. */
static bool multiply(bool bf16, int64_t n, int64_t in, int64_t out, const void *x, const void *w,
		     int64_t w_row, const float *bias, bool half, void *y, float *across)
{
	const struct orr_matmul few = {bf16, false, false, 'N', 'T', out, n, in, w_row, in};
	const struct orr_matmul many = {bf16, half, half && bias, 'N', 'T', n, out, in, in, w_row};

	if (is_few(n, out)) {
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

/* dw, or what is added to it by way of apart; x and dy are bfloat16 or floats. */
static bool multiply_slices(bool bf16, int64_t n, int64_t in, int64_t out, const void *x,
			    const void *dy, float *apart, float *dw)
{
	int64_t rows = orr_slice_rows(bf16, in, out);
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

static void sum_bias(const struct orr_device *d, int64_t n, int64_t out, const float *dy,
		     float *apart, float *dbias)
{
	const uint16_t *half = (const uint16_t *)dy;
	float *to = apart ? apart : dbias;

	if (d->halves)
		orr_from_bf16(out, half, to);
	else
		memcpy(to, dy, (size_t)out * sizeof(*to));
	for (int64_t r = 1; r < n; r++)
		if (d->halves)
			orr_add_from_bf16(out, half + r * out, to);
		else
			orr_add(out, dy + r * out, to);
	if (apart)
		orr_add(out, apart, dbias);
}

/* ---- what they read and write ---- */

/* Floats of a product's inputs in bfloat16, rounded up to where the next may lie. */
static int64_t halves(int64_t count)
{
	return (count + 31) / 32 * 16;
}

/* Does the processor read bfloat16? If not, its products in BF16 read rounded floats. */
static bool is_native(enum orr_precision precision)
{
	return precision == ORR_PRECISION_BF16 && orr_matmul_has_bf16();
}

/* In BF16, rounded copies of what a product reads, and where it is not native floats of what it
 * writes; and what multiply() asks for. There is room for two rows of floats. */
size_t orr_linear_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out)
{
	bool native = is_native(precision), rounds = precision == ORR_PRECISION_BF16;
	int64_t x = native ? halves(n * in) : n * in, dy = native ? halves(n * out) : n * out;
	int64_t w = native ? halves(out * orr_rounded_columns(in)) : in * out;
	int64_t wide = rounds && !native;
	int64_t across = (n < MANY ? n : MANY) * out; /* also for fewer rows than n */
	int64_t forward = (rounds ? x + w : 0) + across + wide * n * out;
	int64_t input = (rounds ? dy + w : 0) + wide * n * in, weight = rounds ? x + dy : 0;
	int64_t most = forward > input ? forward : input;

	return (size_t)(most > weight ? most : weight) * sizeof(float);
}

/* x, an activation, as a product reads it: itself, or its rounded copy at *at, which moves on. */
static const float *rounded(const struct orr_device *d, int64_t count, const float *x, float **at)
{
	float *to = *at;

	if (d->precision != ORR_PRECISION_BF16)
		return x;
	if (d->halves)
		orr_from_bf16(count, (const uint16_t *)x, to);
	else
		orr_round_bf16(count, x, to);
	*at += count;
	return to;
}

/* The same in bfloat16. */
static const uint16_t *halved(const struct orr_device *d, int64_t count, const float *x, float **at)
{
	uint16_t *to = (uint16_t *)*at;

	if (d->halves)
		return (const uint16_t *)x;
	orr_to_bf16(count, x, to);
	*at += halves(count);
	return to;
}

static void round_piece(const struct orr_rounding *piece)
{
	int64_t in = piece->columns, columns = orr_rounded_columns(in);
	const float *from = piece->from;
	uint16_t *row = piece->to;

	for (int64_t r = 0; r < piece->rows; r++, from += in, row += columns) {
		orr_to_bf16(in, from, row);
		memset(row + in, 0, (size_t)(columns - in) * sizeof(*row));
	}
}

static void round_pieces(struct orr_device *d, const struct orr_rounding *pieces, int n_pieces)
{
	for (int i = 0; i < n_pieces; i++)
		round_piece(&pieces[i]);
}

/* Weights: kept is w rounded, or NULL. */
static const float *weights(const struct orr_device *d, int64_t in, int64_t out, const float *w,
			    const void *kept, float **at)
{
	int64_t columns = orr_rounded_columns(in);
	const uint16_t *row = kept;
	float *to = *at;

	if (d->precision != ORR_PRECISION_BF16)
		return w;
	if (!kept)
		orr_round_bf16(in * out, w, to);
	for (int64_t o = 0; o < out && kept; o++, to += in, row += columns)
		orr_from_bf16(in, row, to);
	to = *at;
	*at += in * out;
	return to;
}

static const uint16_t *halved_weights(int64_t in, int64_t out, const float *w, const void *kept,
				      float **at)
{
	void *to = *at;

	if (kept)
		return kept;
	round_piece(&(struct orr_rounding){w, to, out, in});
	*at += halves(out * orr_rounded_columns(in));
	return to;
}

static void check(struct orr_device *d, bool computed)
{
	if (!computed)
		d->failure = "oneDNN has no memory for a product in bfloat16";
}

/* Where a product in floats writes y: there, or beside it what keep() then rounds. */
static float *wide(const struct orr_device *d, float *y, float *at)
{
	return d->halves ? at : y;
}

static void keep(const struct orr_device *d, int64_t count, const float *wide, float *y)
{
	if (d->halves)
		orr_to_bf16(count, wide, (uint16_t *)y);
}

static void forward(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		    const float *w, const void *kept, const float *bias, float *y)
{
	float *at = d->workspace;

	if (is_native(d->precision)) {
		const uint16_t *half = halved(d, n * in, x, &at);
		const uint16_t *read = halved_weights(in, out, w, kept, &at);

		check(d, multiply(true, n, in, out, half, read, orr_rounded_columns(in), bias,
				  d->halves, y, at));
		return;
	}
	x = rounded(d, n * in, x, &at);
	w = weights(d, in, out, w, kept, &at);
	float *sums = wide(d, y, at);
	float *across = at + (d->halves ? n * out : 0);

	(void)multiply(false, n, in, out, x, w, in, bias, false, sums, across);
	keep(d, n * out, sums, y);
}

static void input(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *dy,
		  const float *w, const void *kept, float *dx)
{
	float *at = d->workspace;

	if (is_native(d->precision)) {
		const struct orr_matmul product = {
			true, d->halves, false, 'N', 'N', n, in, out, out, orr_rounded_columns(in)};
		const uint16_t *half = halved(d, n * out, dy, &at);

		check(d,
		      orr_matmul(&product, half, halved_weights(in, out, w, kept, &at), NULL, dx));
		return;
	}
	dy = rounded(d, n * out, dy, &at);
	w = weights(d, in, out, w, kept, &at);
	orr_gemm('N', 'N', n, in, out, 1, dy, out, w, in, 0, wide(d, dx, at), in);
	keep(d, n * in, at, dx);
}

/* dbias is no product: it adds up dy as it is. */
static void weight(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		   const float *dy, float *apart, float *dw, float *dbias)
{
	float *at = d->workspace;

	if (dbias)
		sum_bias(d, n, out, dy, apart, dbias);
	if (is_native(d->precision)) {
		const uint16_t *half = halved(d, n * in, x, &at);

		check(d, multiply_slices(true, n, in, out, half, halved(d, n * out, dy, &at), apart,
					 dw));
		return;
	}
	x = rounded(d, n * in, x, &at);
	(void)multiply_slices(false, n, in, out, x, rounded(d, n * out, dy, &at), apart, dw);
}

const struct orr_linear_kernels orr_linear_cpu = {
	.round = round_pieces,
	.forward = forward,
	.input = input,
	.weight = weight,
};
