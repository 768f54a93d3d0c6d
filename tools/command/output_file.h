#pragma once
/* The files that a command writes. Each is written beside its place and renamed into it once it is
 * whole, so a run that fails or is killed leaves the old file as it was (a hard link of it keeps
 * the old contents). A symbolic link stays, and its target is replaced. `-` is standard output, and
 * the report then goes to standard error; a path that is no regular file, such as /dev/null or a
 * FIFO, is written directly. */
#include <jansson.h>
#include <stdio.h>
#include "orrery/orrery.h"

/* A file that this command reads, or is going to: no output may be the same file, under any name.
 * The refusal is ORR_E_UNSUPPORTED: the file itself may be fine. All that the library opens comes
 * here (base/input_file.h). NULL is fine. */
int output_protect(const char *path, struct orr_error *err);
/* Every file that was read, or named by one that was. */
void output_each_input(void (*visit)(void *user, const char *path), void *user);
/* From here on, and standard output, where it is a file, is an output, too. */
void output_watch(void);
/* A folder of checkpoints: no output may be one of their files. NULL is fine. */
int output_protect_checkpoints(const char *folder, struct orr_error *err);
/* Before the work that would be lost: the file that an option names can be written, is none that is
 * read and no other output. NULL is fine. */
int output_check_file(const char *option, const char *path, struct orr_error *err);
/* The same for --json, whose object goes to standard output. */
int output_check_json(struct orr_error *err);

struct output_stream {
	FILE *file;       /* NULL: not open */
	const char *path; /* borrowed */
	char *target;     /* (private) owned; the file that it becomes; NULL: written directly */
	char *part;       /* (private) owned; its name until then; NULL: it has none */
	char *buffer;     /* (private) owned; of file */
};
/* Write s.file to the end, and then give it its name. code: what writing came to, of which err says
 * no file. Returns code, or its own failure. */
int output_begin(struct output_stream *s, const char *path, struct orr_error *err);
int output_end(struct output_stream *s, int code, struct orr_error *err);

/* A file that grows line by line while the command runs, as PATH.part until it is closed. */
int output_open(struct output_stream *s, const char *path, struct orr_error *err);
/* Give it its name, or, where code is not 0, remove it. Returns code, or its own failure. */
int output_close(struct output_stream *s, int code, struct orr_error *err);

/* How JSON for people and scripts has its numbers: as they are meant, 0.1 and not
 * 0.10000000000000001. */
#define OUTPUT_JSON_DIGITS JSON_REAL_PRECISION(15)
/* Does nothing where path is NULL. */
int output_write_json(const char *path, const json_t *json, struct orr_error *err);
