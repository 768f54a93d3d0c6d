#include "sort.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BITS 11 /* of a digit */
#define FEW_BITS 8   /* of few records: there is a count for each digit */
#define FEW 1024

static unsigned digit_of(int64_t key, int64_t low, int shift, int bits)
{
	return (unsigned)(((uint64_t)key - (uint64_t)low) >> shift) & ((1u << bits) - 1);
}

static void sort_by_digit(struct orr_keyed *to, const struct orr_keyed *from, int n, int64_t low,
			  int shift, int bits)
{
	int start[1 << MOST_BITS], sum = 0;

	memset(start, 0, sizeof(*start) << bits);
	for (int i = 0; i < n; i++)
		start[digit_of(from[i].key, low, shift, bits)]++;
	for (int i = 0; i < 1 << bits; i++) {
		int count = start[i];

		start[i] = sum;
		sum += count;
	}
	for (int i = 0; i < n; i++)
		to[start[digit_of(from[i].key, low, shift, bits)]++] = from[i];
}

int orr_sort(struct orr_keyed *records, int n, struct orr_error *err)
{
	struct orr_keyed *from = records, *to, *spare;
	int64_t low = n ? records[0].key : 0, high = low;
	uint64_t span;
	int bits = n < FEW ? FEW_BITS : MOST_BITS;

	for (int i = 1; i < n; i++) {
		low = records[i].key < low ? records[i].key : low;
		high = records[i].key > high ? records[i].key : high;
	}
	span = (uint64_t)high - (uint64_t)low;
	if (!span)
		return 0;
	if (!(spare = malloc((size_t)n * sizeof(*spare))))
		return orr_fail(err, ORR_E_NOMEM, "no memory to sort %d records", n);
	to = spare;
	for (int shift = 0; shift < 64 && span >> shift; shift += bits) {
		struct orr_keyed *swap = from;

		sort_by_digit(to, from, n, low, shift, bits);
		from = to;
		to = swap;
	}
	if (from != records)
		memcpy(records, from, (size_t)n * sizeof(*records));
	free(spare);
	return 0;
}

int orr_rank(int64_t *key, const int *values, int n, struct orr_error *err)
{
	struct orr_keyed *keyed = malloc(((size_t)n + 1) * sizeof(*keyed));
	int code;

	if (!keyed)
		return orr_fail(err, ORR_E_NOMEM, "no memory to sort %d records", n);
	for (int i = 0; i < n; i++) {
		int v = values ? values[i] : i;

		keyed[i] = (struct orr_keyed){key[v], v};
	}
	code = orr_sort(keyed, n, err);
	for (int i = 0; i < n && !code; i++)
		key[keyed[i].value] = i;
	free(keyed);
	return code;
}

int orr_compare_numbers(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int orr_compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}
