#include "checksum.h"

#include <stdio.h>
#include <xxhash.h>

static void print(char checksum[ORR_CHECKSUM], XXH128_hash_t hash)
{
	(void)snprintf(checksum, ORR_CHECKSUM, "%016llx%016llx", (unsigned long long)hash.high64,
		       (unsigned long long)hash.low64);
}

void orr_checksum(char checksum[ORR_CHECKSUM], const void *bytes, size_t n)
{
	print(checksum, XXH3_128bits(bytes, n));
}

/* The state, which asks for more alignment than malloc gives, is XXH3's own. */
struct orr_digest *orr_digest_create(void)
{
	XXH3_state_t *state = XXH3_createState();

	if (state)
		XXH3_128bits_reset(state);
	return (struct orr_digest *)state;
}

void orr_digest_add(struct orr_digest *digest, const void *bytes, size_t n)
{
	XXH3_128bits_update((XXH3_state_t *)digest, bytes, n);
}

void orr_digest_print(const struct orr_digest *digest, char checksum[ORR_CHECKSUM])
{
	print(checksum, XXH3_128bits_digest((const XXH3_state_t *)digest));
}

void orr_digest_destroy(struct orr_digest *digest)
{
	XXH3_freeState((XXH3_state_t *)digest);
}
