#pragma once
/* Text of files. */
#include "orrery/orrery.h"

/* Skip the mark of byte order, which some editors write; refuse what is no UTF-8. name stands in
 * the message. */
int orr_text_check(const char **text, const char *name, struct orr_error *err);
/* A text may hold line breaks where a message quotes it: put it on one line. Returns code. */
int orr_text_fail(int code, struct orr_error *err);
