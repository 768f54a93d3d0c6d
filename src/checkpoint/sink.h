#pragma once
/* Files that must outlive a crash: written whole, with a checksum of what was meant to be written,
 * and on the disk when they are closed. */
#include "checksum.h"
#include "orrery/orrery.h"
#include "folder.h"

/* A file that is being written. */
struct orr_sink {
	int fd;
	char *path; /* owned; for messages */
	XXH3_state_t *digest;
	int64_t n_bytes;
	int code;              /* of the first failure: nothing is written after it, */
	struct orr_error *err; /* and its message */
};

/* A file in a folder, in the place of one of that name: memory that has been written to before is
 * written to faster. */
void orr_sink_begin(struct orr_sink *sink, const struct orr_folder *folder, const char *name,
		    struct orr_error *err);
void orr_sink_write(struct orr_sink *sink, const void *bytes, size_t n);
/* What was written is on the disk; tells its size and checksum, or the failure. */
int orr_sink_end(struct orr_sink *sink, int64_t *n_bytes, char checksum[ORR_CHECKSUM]);
