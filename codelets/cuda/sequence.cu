/* What operators of sequences compute place by place; sums have the order of the CPU's. */
#include "sums.h"
#include "../sequence.h"

/* V floats at once. */
template <int V> struct moved {
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

static void move(struct orr_device *d, const struct orr_box *b, const float *x, float *y)
{
	int64_t all = b->width | b->from_sample | b->from_row | b->to_sample | b->to_row;

	if (all % 4 == 0 && (orr_address(x, y)) % 16 == 0)
		start(d, "move", b->n * b->rows, b->width / 4, moved<4>{*b, x, y});
	else
		start(d, "move", b->n * b->rows, b->width, moved<1>{*b, x, y});
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

/* ---- rows of a table by ids ---- */

/* Rows of a table by ids, and the table's gradient: ids are sorted, and the rows of each are added
 * up in the order of their places. So the gradient costs what sorting costs, whatever the ids are,
 * and the bits of a row depend on its own ids alone, not on how the table is cut. */
static void bag_forward(struct orr_device *d, const struct orr_bag *bag, const float *ids,
			const float *w, float *y)
{
	const struct orr_bag b = *bag;

	start(d, "bag", b.n, b.features, [=] __device__(int64_t s, int64_t c) {
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
	});
}

/* ---- sorting ---- */

/* A key is a row of the table and, below it, a place among the ids: all keys differ, so there is
 * one order of them. An id without a row comes behind all rows. */
#define PLACE_BITS 38
#define WAYS 4 /* runs that one pass merges */

__device__ inline int64_t row_of(const int64_t *keys, int64_t i)
{
	return __ldg(keys + i) >> PLACE_BITS;
}

/* Among sorted keys from `first` on, the first that is no less than key; `last` if all are. */
__device__ inline int64_t first_from(const int64_t *keys, int64_t first, int64_t last, int64_t key)
{
	while (first < last) {
		int64_t middle = (first + last) / 2;

		if (__ldg(keys + middle) < key)
			first = middle + 1;
		else
			last = middle;
	}
	return first;
}

/* Runs of a block's keys: a key goes behind those that are less. */
static void sort_runs(struct orr_device *d, const struct orr_bag &b, const float *ids, int64_t *to)
{
	int64_t n = b.n * b.ids;

	orr_each_block(d, "sort ids", orr_ceil(n, ORR_BLOCK), [=] __device__(int64_t run) {
		__shared__ int64_t keys[ORR_BLOCK];
		int64_t first = run * ORR_BLOCK, i = first + threadIdx.x, before = 0;
		int64_t row = i < n ? orr_id_of(&b, __ldg(ids + i)) : -1;
		int64_t own = (row < 0 ? b.vocabulary : row) << PLACE_BITS | i;

		keys[threadIdx.x] = own;
		__syncthreads();
		for (int k = 0; k < ORR_BLOCK; k++)
			before += keys[k] < own ? 1 : 0;
		if (i < n)
			to[first + before] = own;
		__syncthreads();
	});
}

/* The sorted keys, in a or b: WAYS runs become one, where a key goes behind those that are less in
 * each of them. */
static const int64_t *sort(struct orr_device *d, const struct orr_bag *bag, const float *ids,
			   int64_t *a, int64_t *b)
{
	int64_t n = bag->n * bag->ids;

	sort_runs(d, *bag, ids, a);
	for (int64_t run = ORR_BLOCK; run < n; run *= WAYS) {
		int64_t *sorted = b;

		orr_each(d, "merge ids", n, [=] __device__(int64_t i) {
			int64_t begin = i / (WAYS * run) * (WAYS * run), end = begin + WAYS * run;
			int64_t own = __ldg(a + i), at = begin;

			for (int64_t first = begin; first < n && first < end; first += run) {
				int64_t last = first + run < n ? first + run : n;

				at += first_from(a, first, last, own) - first;
			}
			sorted[at] = own;
		});
		b = a, a = sorted;
	}
	return a;
}

/* ---- sums ---- */

/* The places of a row, MOST_PLACES at a time, are added up one after the other; then, where there
 * are more than MOST_PLACES, these sums. */
#define MOST_PLACES 64

struct row_sums {
	struct orr_bag b;
	bool add;
	const int64_t *keys;
	const float *shares, *dy; /* shares: NULL: all are 1 */
	float *parts, *dw;

	__device__ bool has(int64_t i, int64_t row) const
	{
		return i >= 0 && i < b.n * b.ids && row_of(keys, i) == row;
	}
	__device__ void leave(int64_t row, int64_t c, float sum) const
	{
		put(dw + row * b.features + c, add, sum);
	}
	/* Of the part that begins at i. Parts of longer rows than MOST_PLACES are so far apart that
	 * of any MOST_PLACES places only one begins a row, and only one goes on with one. */
	__device__ float *part(int64_t i, bool begins, int64_t c) const
	{
		return parts + (2 * (i / MOST_PLACES) + (begins ? 0 : 1)) * b.features + c;
	}
	__device__ float sum_of(int64_t i, int64_t row, int64_t c) const
	{
		float sum = 0;

		for (int64_t k = i; k < i + MOST_PLACES && has(k, row); k++) {
			int64_t s = (__ldg(keys + k) & ((INT64_C(1) << PLACE_BITS) - 1)) / b.ids;

			sum += (shares ? shares[s] : 1.0f) * dy[s * b.features + c];
		}
		return sum;
	}
};

/* Place i of the sorted keys: nothing, unless a part begins there. */
struct sum_parts {
	struct row_sums r;
	__device__ void operator()(int64_t i, int64_t c) const
	{
		int64_t row = row_of(r.keys, i);
		bool begins = !r.has(i - 1, row);

		if (row == r.b.vocabulary || (!begins && !r.has(i - MOST_PLACES, row)))
			return;
		if (!begins && (i - first_from(r.keys, 0, i, row << PLACE_BITS)) % MOST_PLACES)
			return;
		if (begins && !r.has(i + MOST_PLACES, row))
			r.leave(row, c, r.sum_of(i, row, c));
		else
			*r.part(i, begins, c) = r.sum_of(i, row, c);
	}
};

struct join_parts {
	struct row_sums r;
	__device__ void operator()(int64_t i, int64_t c) const
	{
		int64_t row = row_of(r.keys, i);
		float sum;

		if (row == r.b.vocabulary || r.has(i - 1, row) || !r.has(i + MOST_PLACES, row))
			return;
		sum = *r.part(i, true, c);
		for (i += MOST_PLACES; r.has(i, row); i += MOST_PLACES)
			sum += *r.part(i, false, c);
		r.leave(row, c, sum);
	}
};

/* ---- the gradient ---- */

static size_t key_bytes(const struct orr_bag *b)
{
	return orr_cuda_aligned(b->n * b->ids, sizeof(int64_t));
}

static size_t part_bytes(const struct orr_bag *b)
{
	return orr_cuda_aligned(2 * orr_ceil(b->n * b->ids, MOST_PLACES) * b->features,
				sizeof(float));
}

static size_t bag_bytes(const struct orr_bag *b)
{
	return 2 * key_bytes(b) + part_bytes(b) + orr_cuda_aligned(b->n, sizeof(float));
}

static void bag_weight(struct orr_device *d, const struct orr_bag *b, const float *ids,
		       const float *dy, float *apart, float *dw)
{
	const struct orr_bag bag = *b;
	int64_t n = b->n * b->ids;
	char *room = static_cast<char *>(d->workspace), *parts = room + 2 * key_bytes(b);
	float *each = reinterpret_cast<float *>(parts + part_bytes(b));
	struct row_sums sums = {*b,   apart != NULL,
				NULL, b->mean ? each : NULL,
				dy,   reinterpret_cast<float *>(parts),
				dw};

	if (!apart)
		orr_elements_cuda.zero(d, b->vocabulary * b->features, dw);
	if (!n)
		return;
	if (b->mean)
		orr_each(d, "shares of ids", b->n, [=] __device__(int64_t s) {
			each[s] = orr_bag_share(&bag, ids + s * bag.ids);
		});
	sums.keys = sort(d, b, ids, reinterpret_cast<int64_t *>(room),
			 reinterpret_cast<int64_t *>(room + key_bytes(b)));
	start(d, "bag backward", n, b->features, sum_parts{sums});
	if (n > MOST_PLACES)
		start(d, "bag backward", n, b->features, join_parts{sums});
}

const struct orr_sequence_kernels orr_sequence_cuda = {ORR_SEQUENCE_KERNELS(ORR_KERNEL)};
