#pragma once
/* FNV-1a, 64 bits: to tell apart what is alike, not to find damage (checkpoint/checksum.h). */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
