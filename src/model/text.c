#include "text.h"

#include <string.h>

#include "base/utf8.h"

int orr_text_fail(int code, struct orr_error *err)
{
	struct orr_error raw = *err;

	if (code)
		(void)orr_utf8_print(err->msg, sizeof(err->msg), raw.msg);
	return code;
}

int orr_text_check(const char **at, const char *name, struct orr_error *err)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of byte order, which some editors write */
	const char *text = *at += strncmp(*at, mark, strlen(mark)) ? 0 : strlen(mark);
	size_t length = strlen(text), bad = orr_utf8_check(text, length);
	int line = 1;

	if (bad == length)
		return 0;
	for (size_t i = 0; i < bad; i++)
		line += text[i] == '\n';
	return orr_fail(err, ORR_E_INPUT,
			"%s:%d: a byte (%#x) that is no UTF-8: save the file as UTF-8", name, line,
			(unsigned char)text[bad]);
}
