#ifndef ORR_UTF8_H
#define ORR_UTF8_H
/* UTF-8, in which everything that has a name is written: names go into JSON and XML. */
#include <stddef.h>
#include "declare.h"

ORR_BEGIN

/* Bytes of the character at text, of which n are there; 0: there is none. */
size_t orr_utf8_length(const char *text, size_t n);
/* Where the first byte is that belongs to no character; n: nowhere. */
size_t orr_utf8_check(const char *text, size_t n);
/* A copy, the caller's to free, with ORR_UTF8_REPLACEMENT for each such byte; NULL: no memory. For
 * paths, whose bytes are the file system's affair: what is shown of them must be text. */
char *orr_utf8_copy(const char *text);
#define ORR_UTF8_REPLACEMENT "\xef\xbf\xbd"

ORR_END
#endif
