#ifndef ORR_SINK_H
#define ORR_SINK_H
/* Files that must outlive a crash: written whole, with a checksum of what was meant to be written,
 * and on the disk when they are closed. The checksum is XXH3's of 128 bits, as `xxhsum -H2` prints
 * it. */
#include <stddef.h>
#include <stdint.h>
#include "error.h"

#define ORR_CHECKSUM 33 /* 32 digits and the end */

struct orr_sink; /* a file that is being written */

int orr_sink_create(struct orr_sink **out, const char *path, struct orr_error *err);
int orr_sink_write(struct orr_sink *sink, const void *bytes, size_t n, struct orr_error *err);
/* What was written is on the disk; tells its size and checksum. Destroy it all the same. */
int orr_sink_finish(struct orr_sink *sink, int64_t *n_bytes, char checksum[ORR_CHECKSUM],
		    struct orr_error *err);
void orr_sink_destroy(struct orr_sink *sink); /* NULL is fine */

/* Of memory, and of a file as it lies on the disk. */
void orr_checksum(char checksum[ORR_CHECKSUM], const void *bytes, size_t n);
int orr_checksum_file(const char *path, int64_t *n_bytes, char checksum[ORR_CHECKSUM],
		      struct orr_error *err);

/* The names in a folder are on the disk. */
int orr_folder_settle(const char *path, struct orr_error *err);
#endif
