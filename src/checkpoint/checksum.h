#pragma once
/* XXH3's checksum of 128 bits, as `xxhsum -H2` prints it. */
#include <stddef.h>
#include <xxhash.h>

#define ORR_CHECKSUM 33 /* 32 digits and the end */

void orr_checksum_print(char checksum[ORR_CHECKSUM], XXH128_hash_t hash);
/* Of bytes in memory. */
void orr_checksum(char checksum[ORR_CHECKSUM], const void *bytes, size_t n);
