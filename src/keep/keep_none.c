#include "keep.h"

/* A page has no other processes. */
int orr_beat_connect(void)
{
	return -1;
}

void orr_beat_send(int fd, enum orr_beat_kind kind, int rank, int64_t step, int64_t patience_ns)
{
	(void)fd;
	(void)kind;
	(void)rank;
	(void)step;
	(void)patience_ns;
}

int orr_keep_join(struct orr_error *err)
{
	(void)err;
	return 0;
}

void orr_keep_leave(void)
{
}

int64_t orr_keep_identity(const char *folder)
{
	(void)folder;
	return 0;
}

int orr_keep_check(const char *folder, int64_t n_bytes, struct orr_error *err)
{
	(void)n_bytes;
	return orr_fail(err, ORR_E_UNSUPPORTED, "%s: a page keeps no copies", folder);
}
