/* Rows of a table by ids, and the table's gradient: ids are sorted, and the rows of each are added
 * up in the order of their places. So the gradient costs what sorting costs, whatever the ids are,
 * and the bits of a row depend on its own ids alone, not on how the table is cut. */
#include "places.h"

void orr_cuda_bag(struct orr_device *d, const struct orr_bag *bag, const float *ids, const float *w,
		  float *y)
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

/* WAYS runs become one: a key goes behind those that are less in each of them. */
struct merge_runs {
	int64_t n, run;
	const int64_t *from;
	int64_t *to;
	__device__ void operator()(int64_t i) const
	{
		int64_t begin = i / (WAYS * run) * (WAYS * run), own = __ldg(from + i), at = begin;

		for (int64_t first = begin; first < n && first < begin + WAYS * run; first += run) {
			int64_t last = first + run < n ? first + run : n;

			at += first_from(from, first, last, own) - first;
		}
		to[at] = own;
	}
};

/* The sorted keys, in a or b. */
static const int64_t *sort(struct orr_device *d, const struct orr_bag *bag, const float *ids,
			   int64_t *a, int64_t *b)
{
	int64_t n = bag->n * bag->ids;

	sort_runs(d, *bag, ids, a);
	for (int64_t run = ORR_BLOCK; run < n; run *= WAYS) {
		int64_t *sorted = b;

		orr_each(d, "merge ids", n, merge_runs{n, run, a, b});
		b = a, a = sorted;
	}
	return a;
}

/* ---- sums ---- */

/* The places of a row, PART at a time, are added up one after the other; then, where there are more
 * than PART, these sums. */
#define PART 64

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
	__device__ void put(int64_t row, int64_t c, float sum) const
	{
		float *to = dw + row * b.features + c;

		*to = add ? *to + sum : sum;
	}
	/* Of the part that begins at i. Parts of longer rows than PART are so far apart that of any
	 * PART places only one begins a row, and only one goes on with one. */
	__device__ float *part(int64_t i, bool begins, int64_t c) const
	{
		return parts + (2 * (i / PART) + (begins ? 0 : 1)) * b.features + c;
	}
	__device__ float sum_of(int64_t i, int64_t row, int64_t c) const
	{
		float sum = 0;

		for (int64_t k = i; k < i + PART && has(k, row); k++) {
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

		if (row == r.b.vocabulary || (!begins && !r.has(i - PART, row)))
			return;
		if (!begins && (i - first_from(r.keys, 0, i, row << PLACE_BITS)) % PART)
			return;
		if (begins && !r.has(i + PART, row))
			r.put(row, c, r.sum_of(i, row, c));
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

		if (row == r.b.vocabulary || r.has(i - 1, row) || !r.has(i + PART, row))
			return;
		sum = *r.part(i, true, c);
		for (i += PART; r.has(i, row); i += PART)
			sum += *r.part(i, false, c);
		r.put(row, c, sum);
	}
};

/* ---- the gradient ---- */

static size_t key_bytes(const struct orr_bag *b)
{
	return orr_cuda_aligned(b->n * b->ids, sizeof(int64_t));
}

static size_t part_bytes(const struct orr_bag *b)
{
	return orr_cuda_aligned(2 * orr_ceil(b->n * b->ids, PART) * b->features, sizeof(float));
}

size_t orr_cuda_bag_bytes(const struct orr_bag *b)
{
	return 2 * key_bytes(b) + part_bytes(b) + orr_cuda_aligned(b->n, sizeof(float));
}

void orr_cuda_bag_weight(struct orr_device *d, const struct orr_bag *b, const float *ids,
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
		orr_cuda_zero(d, b->vocabulary * b->features, dw);
	if (!n)
		return;
	if (b->mean)
		orr_each(d, "shares of ids", b->n, [=] __device__(int64_t s) {
			each[s] = orr_bag_share(&bag, ids + s * bag.ids);
		});
	sums.keys = sort(d, b, ids, reinterpret_cast<int64_t *>(room),
			 reinterpret_cast<int64_t *>(room + key_bytes(b)));
	start(d, "bag backward", n, b->features, sum_parts{sums});
	if (n > PART)
		start(d, "bag backward", n, b->features, join_parts{sums});
}
