#include "read_at.h"

#include <errno.h>
#include <unistd.h>

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
