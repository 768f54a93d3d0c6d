/* What operators of sequences compute place by place; sums have the order of the CPU's. */
#include "places.h"

template <class F>
__global__ void __launch_bounds__(ORR_TILE_X *ORR_TILE_Y)
	at_each(int64_t rows, int64_t columns, F f)
{
	each_place(rows, columns, f);
}

/* f(row, column) for all places of a matrix. */
template <class F>
static void start(struct orr_device *d, const char *name, int64_t rows, int64_t columns, F f)
{
	const auto kernel = at_each<F>;

	if (!rows || !columns)
		return;
	ORR_LAUNCH(kernel, tiles(columns, rows), tile(), 0, d->cuda->stream, rows, columns, f);
	orr_cuda_ok(d, cudaGetLastError(), name);
}

struct move {
	struct orr_box b;
	const float *x;
	float *y;
	__device__ void operator()(int64_t r, int64_t c) const
	{
		int64_t s = r / b.rows, row = r % b.rows;

		y[s * b.to_sample + row * b.to_row + c] =
			x[s * b.from_sample + row * b.from_row + c];
	}
};

void orr_cuda_move(struct orr_device *d, const struct orr_box *b, const float *x, float *y)
{
	start(d, "move", b->n * b->rows, b->width, move{*b, x, y});
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

void orr_cuda_add_row(struct orr_device *d, int64_t n, int64_t width, const float *x,
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

void orr_cuda_sum_rows(struct orr_device *d, int64_t n, int64_t width, const float *dy,
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

void orr_cuda_mean_forward(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
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

void orr_cuda_mean_input(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			 const float *dy, float *dx)
{
	start(d, "mean backward", n * rows, width, spread{rows, width, dy, dx});
}

/* ---- ids ---- */

struct bag {
	struct orr_bag b;
	const float *ids, *w;
	float *y;
	__device__ void operator()(int64_t s, int64_t c) const
	{
		const float *own = ids + s * b.ids;
		float each = orr_bag_share(&b, own), sum = 0;

		for (int64_t i = 0; i < b.ids; i++) {
			int64_t id = orr_id_of(&b, own[i]);

			if (id >= 0)
				sum += each * w[id * b.features + c];
			else if (id == ORR_ID_WRONG)
				sum = NAN;
		}
		y[s * b.features + c] = sum;
	}
};

void orr_cuda_bag_forward(struct orr_device *d, const struct orr_bag *b, const float *ids,
			  const float *w, float *y)
{
	start(d, "bag", b->n, b->features, bag{*b, ids, w, y});
}

/* Each id belongs to the place where it is first; that adds up all of its rows, in order. */
struct bag_slope {
	struct orr_bag b;
	bool add;
	const float *ids, *dy;
	float *dw;
	__device__ void operator()(int64_t at, int64_t c) const
	{
		int64_t id = orr_id_of(&b, ids[at]), n = b.n * b.ids;
		float sum = 0;

		if (id < 0)
			return;
		for (int64_t i = 0; i < at; i++)
			if (orr_id_of(&b, ids[i]) == id)
				return;
		for (int64_t i = at; i < n; i++)
			if (orr_id_of(&b, ids[i]) == id)
				sum += orr_bag_share(&b, ids + i / b.ids * b.ids) *
				       dy[i / b.ids * b.features + c];
		dw[id * b.features + c] = add ? dw[id * b.features + c] + sum : sum;
	}
};

void orr_cuda_bag_weight(struct orr_device *d, const struct orr_bag *b, const float *ids,
			 const float *dy, float *apart, float *dw)
{
	if (!apart)
		orr_cuda_zero(d, b->vocabulary * b->features, dw);
	start(d, "bag backward", b->n * b->ids, b->features,
	      bag_slope{*b, apart != NULL, ids, dy, dw});
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

void orr_cuda_rotary(struct orr_device *d, const struct orr_rotary *t, const float *x, float *y)
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

void orr_cuda_interaction_forward(struct orr_device *d, int64_t n, int64_t count, int64_t width,
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

void orr_cuda_interaction_input(struct orr_device *d, int64_t n, int64_t count, int64_t width,
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

void orr_cuda_dropout(struct orr_device *d, const struct orr_drop *drop_, int64_t n, int64_t count,
		      const float *x, float *y)
{
	start(d, "dropout", n, count, drop{*drop_, count, x, y});
}
