/* What operators of sequences compute place by place; sums have the order of the CPU's. */
#include "places.h"
#include "../sequence.h"

/* V floats at once. */
template <int V> struct move {
	struct orr_box b;
	const float *x;
	float *y;
	__device__ void operator()(int64_t r, int64_t c) const
	{
		int64_t s = r / b.rows, row = r % b.rows;
		float v[V];

		orr_load<V>(v, x + s * b.from_sample + row * b.from_row + V * c);
		orr_store<V>(y + s * b.to_sample + row * b.to_row + V * c, v);
	}
};

static void move_box(struct orr_device *d, const struct orr_box *b, const float *x, float *y)
{
	int64_t all = b->width | b->from_sample | b->from_row | b->to_sample | b->to_row;

	if (all % 4 == 0 && (orr_address(x, y)) % 16 == 0)
		start(d, "move", b->n * b->rows, b->width / 4, move<4>{*b, x, y});
	else
		start(d, "move", b->n * b->rows, b->width, move<1>{*b, x, y});
}

static void add_row(struct orr_device *d, int64_t n, int64_t width, const float *x, const float *w,
		    float *y)
{
	start(d, "add a row", n, width,
	      [=] __device__(int64_t r, int64_t c) { y[r * width + c] = x[r * width + c] + w[c]; });
}

static void sum_rows(struct orr_device *d, int64_t n, int64_t width, const float *dy, float *apart,
		     float *dw)
{
	start(d, "sum of rows", 1, width, [=] __device__(int64_t, int64_t c) {
		float sum = dy[c];

		for (int64_t r = 1; r < n; r++)
			sum += dy[r * width + c];
		dw[c] = apart ? dw[c] + sum : sum;
	});
}

static void mean_forward(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			 const float *x, float *y)
{
	start(d, "mean", n, width, [=] __device__(int64_t s, int64_t c) {
		const float *from = x + s * rows * width + c;
		float sum = *from;

		for (int64_t r = 1; r < rows; r++)
			sum += from[r * width];
		y[s * width + c] = 1.0f / (float)rows * sum;
	});
}

static void mean_input(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
		       const float *dy, float *dx)
{
	start(d, "mean backward", n * rows, width, [=] __device__(int64_t r, int64_t c) {
		dx[r * width + c] = 1.0f / (float)rows * dy[r / rows * width + c];
	});
}

static size_t rotary_bytes(const struct orr_rotary *)
{
	return 0;
}

static void rotary(struct orr_device *d, const struct orr_rotary *turn, const float *x, float *y)
{
	const struct orr_rotary t = *turn;
	const int64_t apart = t.width / 2;

	start(d, "rotary", t.n * t.rows, t.heads * apart, [=] __device__(int64_t r, int64_t c) {
		int64_t i = c % apart, at = (r * t.heads + c / apart) * t.width + i;
		double angle = (double)(r % t.rows) * orr_rotary_angle(&t, i);
		float cosine = (float)cos(angle), sine = (float)sin(angle);
		float low = x[at], high = x[at + apart];

		y[at] = low * cosine - high * sine;
		y[at + apart] = high * cosine + low * sine;
	});
}

/* The dot products of all pairs: (i, j), i > j, is number i (i - 1) / 2 + j. */
static void interaction_forward(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				const float *x, float *y)
{
	const int64_t pairs = count * (count - 1) / 2;

	start(d, "interaction", n, pairs, [=] __device__(int64_t s, int64_t pair) {
		const float *a = x + s * count * width, *b;
		int64_t i = 1;
		float sum = 0;

		for (; i * (i + 1) / 2 <= pair; i++)
			;
		b = a + (pair - i * (i - 1) / 2) * width;
		a += i * width;
		for (int64_t e = 0; e < width; e++)
			sum += a[e] * b[e];
		y[s * pairs + pair] = sum;
	});
}

static void interaction_input(struct orr_device *d, int64_t n, int64_t count, int64_t width,
			      int64_t first, int64_t rows, const float *x, const float *dy,
			      float *dx)
{
	start(d, "interaction backward", n * rows, width, [=] __device__(int64_t r, int64_t c) {
		int64_t s = r / rows, i = first + r % rows;
		const float *column = x + s * count * width + c;
		const float *slopes = dy + s * (count * (count - 1) / 2);
		float sum = 0;

		for (int64_t j = 0; j < count; j++)
			if (j != i)
				sum += slopes[orr_pair(i, j)] * column[j * width];
		dx[r * width + c] = sum;
	});
}

static void dropout(struct orr_device *d, const struct orr_drop *dropped, int64_t n, int64_t count,
		    const float *x, float *y)
{
	const struct orr_drop drop = *dropped;

	start(d, "dropout", n, count, [=] __device__(int64_t s, int64_t i) {
		y[s * count + i] = orr_dropped(orr_drop_key_of(&drop, s), orr_drop_place(&drop, i),
					       x[s * count + i]);
	});
}

const struct orr_sequence_kernels orr_sequence_cuda = {
	.move = move_box,
	.add_row = add_row,
	.sum_rows = sum_rows,
	.mean_forward = mean_forward,
	.mean_input = mean_input,
	.bag_forward = orr_cuda_bag,
	.bag_bytes = orr_cuda_bag_bytes,
	.bag_weight = orr_cuda_bag_weight,
	.rotary_bytes = rotary_bytes,
	.rotary = rotary,
	.interaction_forward = interaction_forward,
	.interaction_input = interaction_input,
	.dropout = dropout,
};
