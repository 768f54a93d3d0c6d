#include "input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES (INT64_C(1) << 30) /* of what is read whole */

static int (*on_seen)(const char *path, struct orr_error *err);

void orr_input_watch(int (*seen)(const char *path, struct orr_error *err))
{
	on_seen = seen;
}

int orr_input_name(const char *path, struct orr_error *err)
{
	return on_seen ? on_seen(path, err) : 0;
}

int orr_read_at(int fd, void *to, size_t n, int64_t at)
{
	char *rest = to;

	while (n > 0) {
		ssize_t got = pread(fd, rest, n, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -1 : 1;
		rest += got;
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

int orr_input_open(int *out, int64_t *n_bytes, const char *path, const char *cure,
		   struct orr_error *err)
{
	struct stat about;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), code;

	if (fd < 0 || fstat(fd, &about))
		code = orr_fail(err, ORR_E_INPUT, "%s: cannot open it: %s: name %s", path,
				strerror(errno), cure);
	else if (S_ISDIR(about.st_mode))
		code = orr_fail(err, ORR_E_INPUT, "%s: a directory: name a file in it", path);
	else if (!S_ISREG(about.st_mode))
		code = orr_fail(err, ORR_E_INPUT,
				"%s: no file but a FIFO or a device, which may never end: write it "
				"to a file, and name that",
				path);
	else if (!(code = orr_input_name(path, err)) && out) {
		*out = fd;
		*n_bytes = about.st_size;
		return 0;
	}
	if (fd >= 0)
		(void)close(fd);
	if (out)
		*out = -1;
	return code;
}

/* Files of /proc and the like have contents, or refuse to be read, and say that they have no bytes.
 */
static int check_empty(int fd, const char *path, const char *cure, struct orr_error *err)
{
	char first;
	int code = orr_read_at(fd, &first, 1, 0);

	if (code > 0)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"%s: no ordinary file: it says that it is empty, and %s: name %s", path,
			code ? "cannot be read" : "is not", cure);
}

int orr_input_read(char **bytes, size_t *length, const char *path, const char *cure,
		   struct orr_error *err)
{
	char *all = NULL;
	int64_t n;
	int fd, code = orr_input_open(&fd, &n, path, cure, err);

	if (code)
		return code;
	if (!n)
		code = check_empty(fd, path, cure, err);
	else if (n > MOST_BYTES)
		code = orr_fail(err, ORR_E_INPUT, "%s: more than 1 GiB: name %s", path, cure);
	if (!code && !(all = malloc((size_t)n + 1)))
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
	else if (!code && (code = orr_read_at(fd, all, (size_t)n, 0)))
		code = orr_fail(err, ORR_E_IO, "%s: could not be read: %s", path,
				code < 0 ? strerror(errno) : "it became shorter meanwhile");
	else if (!code && !length && memchr(all, '\0', (size_t)n))
		code = orr_fail(err, ORR_E_INPUT, "%s: a binary file: name %s", path, cure);
	(void)close(fd);
	if (code) {
		free(all);
		return code;
	}
	all[n] = '\0';
	*bytes = all;
	if (length)
		*length = (size_t)n;
	return 0;
}

int orr_input_within(char **real, const char *folder, const char *path)
{
	char *place = realpath(folder, NULL);
	size_t length = place ? strlen(place) : 0;

	*real = place ? realpath(path, NULL) : NULL;
	if (*real && (strncmp(*real, place, length) ||
		      ((*real)[length] != '/' && place[length - 1] != '/'))) {
		free(*real);
		*real = NULL;
		errno = EXDEV;
	}
	free(place);
	return *real ? 0 : -1;
}

/* The next cell, whose quotes are taken off, of which two are one. *at: behind it; NULL: it was the
 * last. */
static char *next_cell(char **at)
{
	char *from = *at + strspn(*at, " \t"), *to = from, *cell = from;
	bool quoted = *from == '"';

	for (from += quoted; *from && (quoted || *from != ','); from++) {
		if (quoted && *from == '"' && *++from != '"')
			break;
		*to++ = *from;
	}
	from += strcspn(from, ",");
	*at = *from ? from + 1 : NULL;
	while (!quoted && to > cell && strchr(" \t\r", to[-1]))
		to--;
	*to = '\0';
	return cell;
}

int orr_input_cells(char *line, char **cells, int most)
{
	int n = 0;

	for (; line; n++) {
		char *cell = next_cell(&line);

		if (n < most)
			cells[n] = cell;
	}
	return n;
}
