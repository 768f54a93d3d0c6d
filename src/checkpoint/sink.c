#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* At once; the kernel takes less than 2 GiB. */
#define MOST_BYTES ((size_t)1 << 30)

struct orr_sink {
	int fd;
	char *path; /* for messages */
	XXH3_state_t *digest;
	int64_t n_bytes;
};

static int fail_to_write(const struct orr_sink *sink, int number, struct orr_error *err)
{
	return orr_fail(err, ORR_E_IO, "%s: cannot be written: %s", sink->path, strerror(number));
}

int orr_sink_create(struct orr_sink **out, const struct orr_folder *folder, const char *name,
		    struct orr_error *err)
{
	struct orr_sink *sink = calloc(1, sizeof(*sink));
	int code = 0;

	if (sink)
		sink->fd = -1;
	if (!sink || !(sink->path = orr_folder_path(folder, name)) ||
	    !(sink->digest = XXH3_createState())) {
		code = orr_fail(err, ORR_E_NOMEM, "%s/%s: no memory to write it", folder->path,
				name);
		goto out;
	}
	XXH3_128bits_reset(sink->digest);
	if ((code = orr_folder_file(folder, name, O_WRONLY | O_CREAT | O_EXCL, &sink->fd, NULL,
				    err)))
		goto out;
	*out = sink;
	sink = NULL;
out:
	orr_sink_destroy(sink);
	return code;
}

int orr_sink_write(struct orr_sink *sink, const void *bytes, size_t n, struct orr_error *err)
{
	const char *at = bytes;

	while (n > 0) {
		ssize_t written = write(sink->fd, at, n < MOST_BYTES ? n : MOST_BYTES);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return fail_to_write(sink, written ? errno : ENOSPC, err);
		XXH3_128bits_update(sink->digest, at, (size_t)written);
		sink->n_bytes += written;
		at += written;
		n -= (size_t)written;
	}
	return 0;
}

int orr_sink_finish(struct orr_sink *sink, int64_t *n_bytes, char checksum[ORR_CHECKSUM],
		    struct orr_error *err)
{
	int fd = sink->fd, code = fsync(fd) ? fail_to_write(sink, errno, err) : 0;

	sink->fd = -1;
	/* some network file systems tell of a full disk only here */
	if (close(fd) && !code)
		code = fail_to_write(sink, errno, err);
	*n_bytes = sink->n_bytes;
	orr_checksum_print(checksum, XXH3_128bits_digest(sink->digest));
	return code;
}

void orr_sink_destroy(struct orr_sink *sink)
{
	if (!sink)
		return;
	if (sink->fd >= 0)
		close(sink->fd);
	XXH3_freeState(sink->digest);
	free(sink->path);
	free(sink);
}
