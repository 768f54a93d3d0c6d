#pragma once
/* FNV-1a, 64 bits: to tell apart what is alike, not to find damage (checkpoint/checksum.h). */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ORR_HASH UINT64_C(14695981039346656037) /* of nothing */

/* hash of all before, and of these bytes. */
static inline uint64_t orr_hash(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *byte = bytes;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
	return hash;
}

static inline void orr_hash_print(char text[24], uint64_t hash)
{
	(void)snprintf(text, 24, "%016" PRIx64, hash);
}

/* A set of rows of one size, which lie one after the other: a table of their numbers by content.
 * Where the table has a row equal to this one, as 1 + its number, or 0 where it has none: its place
 * if it is added. The table starts as zeros, and has more places than there are rows. */
static inline int *orr_set_find(int *table, size_t n_places, const void *rows, const void *row,
				size_t size)
{
	size_t at = orr_hash(ORR_HASH, row, size) % n_places;

	while (table[at] && memcmp((const char *)rows + (size_t)(table[at] - 1) * size, row, size))
		at = (at + 1) % n_places;
	return &table[at];
}
