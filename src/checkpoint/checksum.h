#ifndef ORR_CHECKSUM_H
#define ORR_CHECKSUM_H
/* XXH3's checksum of 128 bits, as `xxhsum -H2` prints it. */
#include <stddef.h>

#define ORR_CHECKSUM 33 /* 32 digits and the end */

/* Of bytes in memory. */
void orr_checksum(char checksum[ORR_CHECKSUM], const void *bytes, size_t n);

struct orr_digest; /* of bytes that come one after the other */

struct orr_digest *orr_digest_create(void); /* NULL: no memory */
void orr_digest_add(struct orr_digest *digest, const void *bytes, size_t n);
void orr_digest_print(const struct orr_digest *digest, char checksum[ORR_CHECKSUM]);
void orr_digest_destroy(struct orr_digest *digest); /* NULL is fine */
#endif
