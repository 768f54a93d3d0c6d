#pragma once
#include <stddef.h>
#include <stdint.h>

/* Read n bytes from offset `at`. Returns 0; 1 if the file ends before; -1 with errno. */
int orr_read_at(int fd, void *to, size_t n, int64_t at);
