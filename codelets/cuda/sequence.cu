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

static void start_move(struct orr_device *d, const struct orr_box *b, const float *x, float *y)
{
	int64_t all = b->width | b->from_sample | b->from_row | b->to_sample | b->to_row;

	if (all % 4 == 0 && (orr_address(x) | orr_address(y)) % 16 == 0)
		start(d, "move", b->n * b->rows, b->width / 4, move<4>{*b, x, y});
	else
		start(d, "move", b->n * b->rows, b->width, move<1>{*b, x, y});
}

struct add_row {
	int64_t width;
	const float *x, *w;
	float *y;
	__device__ void operator()(int64_t r, int64_t c) const
	{
		y[r * width + c] = x[r * width + c] + w[c];
	}
};

static void start_add_row(struct orr_device *d, int64_t n, int64_t width, const float *x,
			  const float *w, float *y)
{
	start(d, "add a row", n, width, add_row{width, x, w, y});
}

struct sum_rows {
	int64_t n, width;
	bool add;
	const float *dy;
	float *dw;
	__device__ void operator()(int64_t, int64_t c) const
	{
		float sum = dy[c];

		for (int64_t r = 1; r < n; r++)
			sum += dy[r * width + c];
		dw[c] = add ? dw[c] + sum : sum;
	}
};

static void start_sum_rows(struct orr_device *d, int64_t n, int64_t width, const float *dy,
			   float *apart, float *dw)
{
	start(d, "sum of rows", 1, width, sum_rows{n, width, apart != NULL, dy, dw});
}

struct mean {
	int64_t rows, width;
	const float *x;
	float *y;
	__device__ void operator()(int64_t s, int64_t c) const
	{
		const float *from = x + s * rows * width + c;
		float sum = *from;

		for (int64_t r = 1; r < rows; r++)
			sum += from[r * width];
		y[s * width + c] = 1.0f / (float)rows * sum;
	}
};

static void start_mean_forward(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			       const float *x, float *y)
{
	start(d, "mean", n, width, mean{rows, width, x, y});
}

struct spread {
	int64_t rows, width;
	const float *dy;
	float *dx;
	__device__ void operator()(int64_t r, int64_t c) const
	{
		dx[r * width + c] = 1.0f / (float)rows * dy[r / rows * width + c];
	}
};

static void start_mean_input(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			     const float *dy, float *dx)
{
	start(d, "mean backward", n * rows, width, spread{rows, width, dy, dx});
}

/* ---- rotary ---- */

struct rotate {
	struct orr_rotary t;
	const float *x;
	float *y;
	__device__ void operator()(int64_t r, int64_t c) const
	{
		int64_t half = t.width / 2, i = c % half;
		int64_t at = (r * t.heads + c / half) * t.width + i;
		double angle = (double)(r % t.rows) * orr_rotary_angle(&t, i);
		float cosine = (float)cos(angle), sine = (float)sin(angle);
		float low = x[at], high = x[at + half];

		y[at] = low * cosine - high * sine;
		y[at + half] = high * cosine + low * sine;
	}
};

static size_t rotary_bytes(const struct orr_rotary *)
{
	return 0;
}

static void start_rotary(struct orr_device *d, const struct orr_rotary *t, const float *x, float *y)
{
	start(d, "rotary", t->n * t->rows, t->heads * (t->width / 2), rotate{*t, x, y});
}

/* ---- dot products of all pairs ---- */

/* The pair (i, j), i > j, is number i (i - 1) / 2 + j. */
struct pairs {
	int64_t count, width;
	const float *x;
	float *y;
	__device__ void operator()(int64_t s, int64_t pair) const
	{
		const float *a = x + s * count * width, *b;
		int64_t i = 1;
		float sum = 0;

		for (; i * (i + 1) / 2 <= pair; i++)
			;
		b = a + (pair - i * (i - 1) / 2) * width;
		a += i * width;
		for (int64_t e = 0; e < width; e++)
			sum += a[e] * b[e];
		y[s * (count * (count - 1) / 2) + pair] = sum;
	}
};

static void start_interaction_forward(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				      const float *x, float *y)
{
	start(d, "interaction", n, count * (count - 1) / 2, pairs{count, width, x, y});
}

struct pair_slopes {
	int64_t count, width, first, rows;
	const float *x, *dy;
	float *dx;
	__device__ void operator()(int64_t r, int64_t c) const
	{
		int64_t s = r / rows, i = first + r % rows;
		const float *column = x + s * count * width + c;
		const float *slopes = dy + s * (count * (count - 1) / 2);
		float sum = 0;

		for (int64_t j = 0; j < count; j++)
			if (j != i)
				sum += slopes[orr_pair(i, j)] * column[j * width];
		dx[r * width + c] = sum;
	}
};

static void start_interaction_input(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				    int64_t first, int64_t rows, const float *x, const float *dy,
				    float *dx)
{
	start(d, "interaction backward", n * rows, width,
	      pair_slopes{count, width, first, rows, x, dy, dx});
}

/* ---- dropout ---- */

struct drop {
	struct orr_drop d;
	int64_t count;
	const float *x;
	float *y;
	__device__ void operator()(int64_t s, int64_t i) const
	{
		y[s * count + i] = orr_dropped(orr_drop_key_of(&d, s), orr_drop_place(&d, i),
					       x[s * count + i]);
	}
};

static void start_dropout(struct orr_device *d, const struct orr_drop *drop_, int64_t n,
			  int64_t count, const float *x, float *y)
{
	start(d, "dropout", n, count, drop{*drop_, count, x, y});
}

const struct orr_sequence_kernels orr_sequence_cuda = {
	.move = start_move,
	.add_row = start_add_row,
	.sum_rows = start_sum_rows,
	.mean_forward = start_mean_forward,
	.mean_input = start_mean_input,
	.bag_forward = orr_cuda_bag,
	.bag_bytes = orr_cuda_bag_bytes,
	.bag_weight = orr_cuda_bag_weight,
	.rotary_bytes = rotary_bytes,
	.rotary = start_rotary,
	.interaction_forward = start_interaction_forward,
	.interaction_input = start_interaction_input,
	.dropout = start_dropout,
};
