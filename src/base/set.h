#pragma once
/* A set of rows of one size, which lie one after the other: a table of their numbers by content. */
#include <string.h>
#include "hash.h"

/* Where the table has a row equal to this one, as 1 + its number, or 0 where it has none: its place
 * if it is added. The table starts as zeros, and has more places than there are rows. */
static inline int *orr_set_find(int *table, size_t n_places, const void *rows, const void *row,
				size_t size)
{
	size_t at = orr_hash(ORR_HASH, row, size) % n_places;

	while (table[at] && memcmp((const char *)rows + (size_t)(table[at] - 1) * size, row, size))
		at = (at + 1) % n_places;
	return &table[at];
}
