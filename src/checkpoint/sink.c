#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* At once; the kernel takes less than 2 GiB. */
#define MOST_BYTES ((size_t)1 << 30)
#define READ_BYTES ((size_t)1 << 18)

struct orr_sink {
	int fd;
	char *path;
	XXH3_state_t *state;
	int64_t n_bytes;
};

static int fail_to_write(const char *path, int number, struct orr_error *err)
{
	return orr_fail(err, ORR_E_IO, "%s: cannot be written: %s", path, strerror(number));
}

static void print_digest(char checksum[ORR_CHECKSUM], XXH128_hash_t digest)
{
	snprintf(checksum, ORR_CHECKSUM, "%016llx%016llx", (unsigned long long)digest.high64,
		 (unsigned long long)digest.low64);
}

int orr_sink_create(struct orr_sink **out, const char *path, struct orr_error *err)
{
	struct orr_sink *sink = calloc(1, sizeof(*sink));
	int code = 0;

	if (sink)
		sink->fd = -1;
	if (!sink || !(sink->path = strdup(path)) || !(sink->state = XXH3_createState())) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to write it", path);
		goto out;
	}
	XXH3_128bits_reset(sink->state);
	sink->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (sink->fd < 0) {
		code = fail_to_write(path, errno, err);
		goto out;
	}
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
			return fail_to_write(sink->path, written ? errno : ENOSPC, err);
		XXH3_128bits_update(sink->state, at, (size_t)written);
		sink->n_bytes += written;
		at += written;
		n -= (size_t)written;
	}
	return 0;
}

int orr_sink_finish(struct orr_sink *sink, int64_t *n_bytes, char checksum[ORR_CHECKSUM],
		    struct orr_error *err)
{
	int fd = sink->fd, code = fsync(fd) ? fail_to_write(sink->path, errno, err) : 0;

	sink->fd = -1;
	/* some network file systems tell of a full disk only here */
	if (close(fd) && !code)
		code = fail_to_write(sink->path, errno, err);
	*n_bytes = sink->n_bytes;
	print_digest(checksum, XXH3_128bits_digest(sink->state));
	return code;
}

void orr_sink_destroy(struct orr_sink *sink)
{
	if (!sink)
		return;
	if (sink->fd >= 0)
		close(sink->fd);
	XXH3_freeState(sink->state);
	free(sink->path);
	free(sink);
}

void orr_checksum(char checksum[ORR_CHECKSUM], const void *bytes, size_t n)
{
	print_digest(checksum, XXH3_128bits(bytes, n));
}

int orr_checksum_file(const char *path, int64_t *n_bytes, char checksum[ORR_CHECKSUM],
		      struct orr_error *err)
{
	XXH3_state_t *state = XXH3_createState();
	char *buffer = malloc(READ_BYTES);
	int fd = -1, code = 0;
	ssize_t n;

	*n_bytes = 0;
	if (!state || !buffer) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
		goto out;
	}
	XXH3_128bits_reset(state);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, buffer, READ_BYTES)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		XXH3_128bits_update(state, buffer, (size_t)n);
		*n_bytes += n;
	}
	if (fd < 0 || n < 0)
		code = orr_fail(err, ORR_E_IO, "%s: cannot be read: %s", path, strerror(errno));
	else
		print_digest(checksum, XXH3_128bits_digest(state));
out:
	if (fd >= 0)
		close(fd);
	XXH3_freeState(state);
	free(buffer);
	return code;
}

int orr_folder_settle(const char *path, struct orr_error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;

	/* a file system that knows no fsync of folders says EINVAL, and has nothing to settle */
	if (fd < 0 || (fsync(fd) && errno != EINVAL))
		code = fail_to_write(path, errno, err);
	if (fd >= 0)
		close(fd);
	return code;
}
