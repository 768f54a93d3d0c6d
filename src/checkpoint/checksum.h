#pragma once
/* XXH3's checksum of 128 bits, as `xxhsum -H2` prints it. */
#include <stdio.h>
#include <xxhash.h>

#define ORR_CHECKSUM 33 /* 32 digits and the end */

static inline void orr_checksum_print(char checksum[ORR_CHECKSUM], XXH128_hash_t hash)
{
	(void)snprintf(checksum, ORR_CHECKSUM, "%016llx%016llx", (unsigned long long)hash.high64,
		       (unsigned long long)hash.low64);
}

/* Of bytes in memory. */
static inline void orr_checksum(char checksum[ORR_CHECKSUM], const void *bytes, size_t n)
{
	orr_checksum_print(checksum, XXH3_128bits(bytes, n));
}
