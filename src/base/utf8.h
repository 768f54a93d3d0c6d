#pragma once
/* UTF-8: all names are valid UTF-8, as they go into JSON and XML. */
#include <stddef.h>
#include "orrery/orrery.h"

ORR_BEGIN

/* Length in bytes of the character at text[0..n); 0: none is valid. */
size_t orr_utf8_length(const char *text, size_t n);
/* Index of the first byte that belongs to no character; n: there is none. */
size_t orr_utf8_check(const char *text, size_t n);
/* The length, where a terminal shows the character; 0: it is none, or a control character, which a
 * terminal would obey. */
size_t orr_utf8_shown(const char *text, size_t n);
/* Bytes of text, as valid as it is, that most bytes have room for: whole characters. */
int orr_utf8_fit(const char *text, size_t most);
/* As a terminal shows it, which obeys no character then: "\x1b" for ESC, and for each byte that is
 * no UTF-8. Returns to. */
const char *orr_utf8_print(char *to, size_t size, const char *text);
/* The same of text[0..n), with "..." in place of an end that is too long. */
#define ORR_UTF8_CELL 48
const char *orr_utf8_print_cell(char to[ORR_UTF8_CELL], const char *text, size_t n);
/* A copy, the caller's to free, with ORR_UTF8_REPLACEMENT for each byte that is not shown; NULL: no
 * memory. For paths, which may have any bytes: reports and files that show them must be text. */
char *orr_utf8_copy(const char *text);
#define ORR_UTF8_REPLACEMENT "\xef\xbf\xbd"

ORR_END
