#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "keep.h"

/* Beats are packets, which come whole; *at: where in the folder, which others may not enter. */
static int open_socket(struct sockaddr_un *at, const char *folder, unsigned flags)
{
	size_t room = sizeof(at->sun_path);

	at->sun_family = AF_UNIX;
	errno = ENAMETOOLONG;
	return (size_t)snprintf(at->sun_path, room, "%s/beats", folder) >= room
		       ? -1
		       : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (int)flags, 0);
}

int orr_beat_connect(void)
{
	const char *folder = getenv(ORR_KEEP_FOLDER);
	struct sockaddr_un to;
	int fd = folder ? open_socket(&to, folder, 0) : -1;

	if (fd < 0 || !connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return fd;
	close(fd);
	return -1;
}

void orr_beat_send(int fd, enum orr_beat_kind kind, int rank, int64_t step, int64_t patience_ns)
{
	const struct orr_beat beat = {kind, rank, getpid(), step, patience_ns};

	if (fd >= 0)
		(void)send(fd, &beat, sizeof(beat), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int orr_beat_listen(int *fd, const char *folder, struct orr_error *err)
{
	struct sockaddr_un own;

	if ((*fd = open_socket(&own, folder, SOCK_NONBLOCK)) >= 0 &&
	    !bind(*fd, (struct sockaddr *)&own, sizeof(own)) && !listen(*fd, SOMAXCONN))
		return 0;
	return orr_fail(err, ORR_E_INPUT, "%s: no socket can be made there ([memory]): %s", folder,
			strerror(errno));
}

int orr_beat_receive(int fd, struct orr_beat *beat)
{
	ssize_t n = recv(fd, beat, sizeof(*beat), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return n == (ssize_t)sizeof(*beat) ? 1 : -1;
}
