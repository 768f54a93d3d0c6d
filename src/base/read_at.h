#ifndef ORR_READ_AT_H
#define ORR_READ_AT_H
#include <stddef.h>
#include <stdint.h>

/* All of n bytes from byte `at` of a file. 1: it ends before; -1: errno says why not. */
int orr_read_at(int fd, void *to, size_t n, int64_t at);
#endif
