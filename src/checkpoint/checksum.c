#include "checksum.h"

#include <stdio.h>

void orr_checksum_print(char checksum[ORR_CHECKSUM], XXH128_hash_t hash)
{
	(void)snprintf(checksum, ORR_CHECKSUM, "%016llx%016llx", (unsigned long long)hash.high64,
		       (unsigned long long)hash.low64);
}

void orr_checksum(char checksum[ORR_CHECKSUM], const void *bytes, size_t n)
{
	orr_checksum_print(checksum, XXH3_128bits(bytes, n));
}
