#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "orrery/utf8.h"

#define MOST_BYTES (INT64_C(1) << 30) /* of a file */

/* All of file, with a zero behind it. */
static int read_all(char **out, size_t *length, FILE *file, const char *path, struct orr_error *err)
{
	size_t room = 65536, n = 0;
	char *text = NULL, *more;
	int code = 0;

	for (;;) {
		more = realloc(text, room);
		if (!more) {
			code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
			goto out;
		}
		text = more;
		n += fread(text + n, 1, room - n - 1, file);
		if (n < room - 1)
			break;
		room *= 2;
		if ((int64_t)room > 2 * MOST_BYTES) {
			code = orr_fail(err, ORR_E_INPUT,
					"%s: more than 1 GiB: no graph is that long", path);
			goto out;
		}
	}
	if (ferror(file)) {
		code = orr_fail(err, ORR_E_IO, "%s: %s", path, strerror(errno));
		goto out;
	}
	text[n] = '\0';
	*length = n;
	*out = text;
	text = NULL;
out:
	free(text);
	return code;
}

int orr_bytes_read(char **bytes, size_t *length, const char *path, const char *cure,
		   struct orr_error *err)
{
	FILE *file = fopen(path, "rb");
	struct stat status;
	int code;

	if (!file)
		return orr_fail(err, ORR_E_INPUT, "%s: %s: name %s", path, strerror(errno), cure);
	if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode))
		code = orr_fail(err, ORR_E_INPUT, "%s: a directory: name a file in it", path);
	else
		code = read_all(bytes, length, file, path, err);
	(void)fclose(file);
	return code;
}

int orr_text_read(char **text, const char *path, const char *cure, const char *is,
		  struct orr_error *err)
{
	size_t length = 0;
	int code = orr_bytes_read(text, &length, path, cure, err);

	if (!code && memchr(*text, '\0', length)) {
		free(*text);
		*text = NULL;
		code = orr_fail(err, ORR_E_INPUT, "%s: a binary file: %s", path, is);
	}
	return code;
}

int orr_text_fail(int code, struct orr_error *err)
{
	char *c;

	for (c = err->msg; code && *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = ' ';
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
