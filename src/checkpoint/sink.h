#pragma once
/* Files that must outlive a crash: written whole, with a checksum of what was meant to be written,
 * and on the disk when they are closed. */
#include "checksum.h"
#include "orrery/orrery.h"
#include "folder.h"

struct orr_sink; /* a file that is being written */

/* A new file in a folder, where there must be none of that name. */
int orr_sink_create(struct orr_sink **out, const struct orr_folder *folder, const char *name,
		    struct orr_error *err);
int orr_sink_write(struct orr_sink *sink, const void *bytes, size_t n, struct orr_error *err);
/* What was written is on the disk; tells its size and checksum. Destroy it all the same. */
int orr_sink_finish(struct orr_sink *sink, int64_t *n_bytes, char checksum[ORR_CHECKSUM],
		    struct orr_error *err);
void orr_sink_destroy(struct orr_sink *sink); /* NULL is fine */
