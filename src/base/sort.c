#include "sort.h"

#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 11
#define N_DIGITS (1 << DIGIT_BITS)

static unsigned digit_of(int64_t key, int64_t low, int shift)
{
	return (unsigned)(((uint64_t)key - (uint64_t)low) >> shift) & (N_DIGITS - 1);
}

static void sort_by_digit(struct orr_keyed *to, const struct orr_keyed *from, int n, int64_t low,
			  int shift)
{
	int start[N_DIGITS] = {0};
	int sum = 0;

	for (int i = 0; i < n; i++)
		start[digit_of(from[i].key, low, shift)]++;
	for (int i = 0; i < N_DIGITS; i++) {
		int count = start[i];

		start[i] = sum;
		sum += count;
	}
	for (int i = 0; i < n; i++)
		to[start[digit_of(from[i].key, low, shift)]++] = from[i];
}

int orr_sort(struct orr_keyed *records, int n, struct orr_error *err)
{
	struct orr_keyed *from = records, *to, *spare;
	int64_t low = n ? records[0].key : 0, high = low;
	uint64_t span;

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
	for (int shift = 0; shift < 64 && span >> shift; shift += DIGIT_BITS) {
		struct orr_keyed *swap = from;

		sort_by_digit(to, from, n, low, shift);
		from = to;
		to = swap;
	}
	if (from != records)
		memcpy(records, from, (size_t)n * sizeof(*records));
	free(spare);
	return 0;
}
