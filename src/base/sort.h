#pragma once
/* A stable sort of many small records by an integer. */
#include <stdint.h>
#include "orrery/orrery.h"

struct orr_keyed {
	int64_t key;
	int value;
};

/* Ascending by key; equal keys keep their order. Radix: linear in n, and in the bits that the keys
 * span. */
int orr_sort(struct orr_keyed *records, int n, struct orr_error *err);

/* Replace key[v] of every value v by its place among them, the smallest first; of equal ones in the
 * order of values[n], NULL: 0 to n - 1. */
int orr_rank(int64_t *key, const int *values, int n, struct orr_error *err);

/* The order of int64_t, and of int, for qsort(). */
int orr_compare_numbers(const void *a, const void *b);
int orr_compare_ints(const void *a, const void *b);
