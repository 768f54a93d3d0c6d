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

/* x, an activation, as a product reads it: itself, or a copy at *at, which moves on. */
static const void *activations(const struct orr_device *d, int64_t count, const float *x,
			       float **at)
{
	bool native = is_native(d->precision);
	void *to = *at;

	if (d->precision != ORR_PRECISION_BF16 || (native && d->halves))
		return x;
	if (native)
		orr_to_bf16(count, x, to);
	else if (d->halves)
		orr_from_bf16(count, (const uint16_t *)x, to);
	else
		orr_round_bf16(count, x, to);
	*at += native ? halves(count) : count;
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
static const void *weights(const struct orr_device *d, int64_t in, int64_t out, const float *w,
			   const void *kept, float **at)
{
	int64_t columns = orr_rounded_columns(in);
	bool native = is_native(d->precision);
	float *to = *at;

	if (d->precision != ORR_PRECISION_BF16)
		return w;
	if (native && kept)
		return kept;
	if (native)
		round_piece(&(struct orr_rounding){w, to, out, in});
	else if (!kept)
		orr_round_bf16(in * out, w, to);
	for (int64_t o = 0; o < out && kept; o++)
		orr_from_bf16(in, (const uint16_t *)kept + o * columns, to + o * in);
	*at += native ? halves(out * columns) : in * out;
	return to;
}

/* From one row of them to the next. */
static int64_t weights_row(const struct orr_device *d, int64_t in)
{
	return is_native(d->precision) ? orr_rounded_columns(in) : in;
}

static void check(struct orr_device *d, bool computed)
{
	if (!computed)
		d->failure = "oneDNN has no memory for a product in bfloat16";
}

/* Does a product write floats beside what is then rounded to bfloat16? */
static bool is_apart(const struct orr_device *d)
{
	return d->halves && !is_native(d->precision);
}

static void forward(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		    const float *w, const void *kept, const float *bias, float *y)
{
	bool native = is_native(d->precision), apart = is_apart(d);
	float *at = d->workspace;
	const void *from = activations(d, n * in, x, &at), *by = weights(d, in, out, w, kept, &at);
	float *sums = apart ? at : y, *across = at + (apart ? n * out : 0);

	check(d, multiply(native, n, in, out, from, by, weights_row(d, in), bias,
			  native && d->halves, sums, across));
	if (apart)
		orr_to_bf16(n * out, sums, (uint16_t *)y);
}

static void input(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *dy,
		  const float *w, const void *kept, float *dx)
{
	const struct orr_matmul product = {true, d->halves, false, 'N', 'N',
					   n,    in,        out,   out, weights_row(d, in)};
	bool apart = is_apart(d);
	float *at = d->workspace;
	const void *from = activations(d, n * out, dy, &at);
	const void *by = weights(d, in, out, w, kept, &at);

	if (is_native(d->precision))
		check(d, orr_matmul(&product, from, by, NULL, dx));
	else
		orr_gemm('N', 'N', n, in, out, 1, from, out, by, in, 0, apart ? at : dx, in);
	if (apart)
		orr_to_bf16(n * in, at, (uint16_t *)dx);
}

/* dbias is no product: it adds up dy as it is. */
static void weight(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		   const float *dy, float *apart, float *dw, float *dbias)
{
	float *at = d->workspace;
	const void *from = activations(d, n * in, x, &at), *by = activations(d, n * out, dy, &at);

	if (dbias)
		orr_sum_rows(d->halves, n, out, dy, apart, dbias);
	check(d, multiply_slices(is_native(d->precision), n, in, out, from, by, apart, dw));
}

const struct orr_linear_kernels orr_linear_cpu = {
	.round = round_pieces,
	.forward = forward,
	.input = input,
	.weight = weight,
};
