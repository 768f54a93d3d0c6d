#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "keep.h"

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int open_socket(unsigned flags)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (int)flags, 0);
}

int64_t orr_beat_now_ns(void)
{
	return orr_ns_now(CLOCK_MONOTONIC);
}

int orr_beat_connect(void)
{
	const char *text = getenv(ORR_KEEP_LISTENS);
	struct sockaddr_in to = loopback(text ? atoi(text) : 0);
	int fd = text && strchr(text, ':') ? open_socket(0) : -1;

	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void orr_beat_send(int fd, enum orr_beat_kind kind, int rank, int64_t step, int64_t patience_ns)
{
	const char *text = getenv(ORR_KEEP_LISTENS), *secret = text ? strchr(text, ':') : NULL;
	struct orr_beat beat;

	if (fd < 0 || !secret)
		return;
	memset(&beat, 0, sizeof(beat));
	beat.kind = (int32_t)kind;
	beat.rank = rank;
	beat.pid = getpid();
	beat.step = step;
	beat.patience_ns = patience_ns;
	(void)snprintf(beat.secret, sizeof(beat.secret), "%s", secret + 1);
	(void)send(fd, &beat, sizeof(beat), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int orr_beat_listen(int *fd, char **text, struct orr_error *err)
{
	struct sockaddr_in own = loopback(0);
	socklen_t n = sizeof(own);
	uint64_t secret[2];

	*text = NULL;
	if ((*fd = open_socket(SOCK_NONBLOCK)) < 0 || bind(*fd, (struct sockaddr *)&own, n) ||
	    listen(*fd, SOMAXCONN) || getsockname(*fd, (struct sockaddr *)&own, &n) ||
	    getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return orr_fail(err, ORR_E_RUNTIME, "no port of the loopback device: %s",
				strerror(errno));
	if (asprintf(text, "%d:%016llx%016llx", ntohs(own.sin_port), (unsigned long long)secret[0],
		     (unsigned long long)secret[1]) >= 0)
		return 0;
	*text = NULL;
	return orr_fail(err, ORR_E_NOMEM, "no memory for a secret");
}

int orr_beat_receive(int fd, const char *text, struct orr_beat *beat)
{
	/* a beat is far less than a packet, and comes whole or, from a stranger, not at all */
	ssize_t n = recv(fd, beat, sizeof(*beat), MSG_DONTWAIT | MSG_PEEK);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n < (ssize_t)sizeof(*beat))
		return n ? 0 : -1;
	n = recv(fd, beat, sizeof(*beat), MSG_DONTWAIT);
	beat->secret[sizeof(beat->secret) - 1] = '\0';
	return n == (ssize_t)sizeof(*beat) && !strcmp(beat->secret, strchr(text, ':') + 1) ? 1 : -1;
}
