#ifndef ORR_TEXT_H
#define ORR_TEXT_H
/* Files of text. */
#include <stddef.h>
#include "orrery/error.h"

/* All of a file, the caller's to free. cure: the end of "FILE: no such file: name ..", is: of
 * "FILE: a binary file: ..". */
int orr_text_read(char **text, const char *path, const char *cure, const char *is,
		  struct orr_error *err);
/* The same of any file. */
int orr_bytes_read(char **bytes, size_t *length, const char *path, const char *cure,
		   struct orr_error *err);
/* Skip the mark of byte order, which some editors write; refuse what is no UTF-8. name stands in
 * the message. */
int orr_text_check(const char **text, const char *name, struct orr_error *err);
/* A text may hold line breaks where a message quotes it: put it on one line. Returns code. */
int orr_text_fail(int code, struct orr_error *err);
#endif
