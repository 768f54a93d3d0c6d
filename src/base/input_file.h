#pragma once
/* Files that are read. All that a user names, or that a file names which was read, is opened here:
 * a FIFO would be waited for and a device may never end, so both are refused at once, and what
 * comes through a pipe is written to a file first. (Checkpoints lie in folders of their own, which
 * are opened name by name: src/checkpoint/folder.h.) */
#include <stddef.h>
#include <stdint.h>
#include "orrery/orrery.h"

ORR_BEGIN

/* From here on, seen is called with the path of each file before it is read, and of each that a
 * model names without its being read now, such as its data. What it refuses is not read: a program
 * that writes files can so spare those that it reads. One for the process, as its files are; NULL:
 * none. */
void orr_input_watch(int (*seen)(const char *path, struct orr_error *err));
int orr_input_name(const char *path, struct orr_error *err);

/* A plain file, and its size; *fd is the caller's. NULL and NULL: it is only looked at. cure: the
 * end of "PATH: no such file: name ..".
 */
int orr_input_open(int *fd, int64_t *n_bytes, const char *path, const char *cure,
		   struct orr_error *err);
/* Read n bytes from offset `at`. Returns 0; 1 if the file ends before; -1 with errno. */
int orr_read_at(int fd, void *to, size_t n, int64_t at);
/* All of one, at most 1 GiB, with a zero behind it; the caller's to free. length NULL: it must be
 * text, without zeros. */
int orr_input_read(char **bytes, size_t *length, const char *path, const char *cure,
		   struct orr_error *err);

/* The cells of a line of a CSV, which are made of it, without blanks around them: how many, of
 * which cells has the first `most`. */
int orr_input_cells(char *line, char **cells, int most);

/* The path without links, the caller's to free, of a file in the folder or in one below it,
 * whatever links lead there. -1: errno says why not, EXDEV: it is elsewhere. */
int orr_input_within(char **real, const char *folder, const char *path);

ORR_END
