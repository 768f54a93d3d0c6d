#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* At once; the kernel takes less than 2 GiB. */
#define MOST_BYTES ((size_t)1 << 30)

static void fail(struct orr_sink *sink, int number)
{
	if (!sink->code)
		sink->code = orr_fail(sink->err, ORR_E_IO, "%s: cannot be written: %s", sink->path,
				      strerror(number));
}

void orr_sink_begin(struct orr_sink *sink, const struct orr_folder *folder, const char *name,
		    struct orr_error *err)
{
	*sink = (struct orr_sink){.fd = -1,
				  .path = orr_folder_path(folder, name),
				  .digest = XXH3_createState(),
				  .err = err};
	if (!sink->path || !sink->digest) {
		sink->code = orr_fail(err, ORR_E_NOMEM, "%s/%s: no memory to write it",
				      folder->path, name);
		return;
	}
	XXH3_128bits_reset(sink->digest);
	sink->code = orr_folder_file(folder, name, O_WRONLY | O_CREAT, &sink->fd, NULL, err);
}

void orr_sink_write(struct orr_sink *sink, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n > 0 && !sink->code) {
		ssize_t written = write(sink->fd, at, n < MOST_BYTES ? n : MOST_BYTES);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			fail(sink, written ? errno : ENOSPC);
			return;
		}
		XXH3_128bits_update(sink->digest, at, (size_t)written);
		sink->n_bytes += written;
		at += written;
		n -= (size_t)written;
	}
}

int orr_sink_end(struct orr_sink *sink, int64_t *n_bytes, char checksum[ORR_CHECKSUM])
{
	if (!sink->code && (ftruncate(sink->fd, sink->n_bytes) || fsync(sink->fd)))
		fail(sink, errno);
	/* some network file systems tell of a full disk only here */
	if (sink->fd >= 0 && close(sink->fd))
		fail(sink, errno);
	*n_bytes = sink->n_bytes;
	if (!sink->code)
		orr_checksum_print(checksum, XXH3_128bits_digest(sink->digest));
	XXH3_freeState(sink->digest);
	free(sink->path);
	return sink->code;
}
