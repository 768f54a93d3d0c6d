#include "utf8.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* [RFC 3629]: the first byte says how many follow, and bounds the second: nothing is longer than
 * need be, half of a surrogate pair, or beyond U+10FFFF. */
static const struct {
	unsigned char low, high, second_low, second_high;
	size_t length;
} forms[] = {
	{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
	{0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
	{0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

size_t orr_utf8_length(const char *text, size_t n)
{
	const unsigned char *byte = (const unsigned char *)text;

	for (size_t i = 0; n && i < sizeof(forms) / sizeof(*forms); i++) {
		if (*byte < forms[i].low || *byte > forms[i].high)
			continue;
		if (forms[i].length > n)
			return 0;
		if (forms[i].length > 1 &&
		    (byte[1] < forms[i].second_low || byte[1] > forms[i].second_high))
			return 0;
		for (size_t k = 2; k < forms[i].length; k++)
			if ((byte[k] & 0xc0) != 0x80)
				return 0;
		return forms[i].length;
	}
	return 0;
}

size_t orr_utf8_check(const char *text, size_t n)
{
	size_t at = 0, length;

	while (at < n && (length = orr_utf8_length(text + at, n - at)))
		at += length;
	return at;
}

size_t orr_utf8_shown(const char *text, size_t n)
{
	size_t length = orr_utf8_length(text, n);
	bool c0 = length == 1 && iscntrl((unsigned char)*text),
	     c1 = length == 2 && *text == '\xc2' && (unsigned char)text[1] < 0xa0;

	return c0 || c1 ? 0 : length;
}

int orr_utf8_fit(const char *text, size_t most)
{
	size_t n = strnlen(text, most + 1);

	for (n = n < most ? n : most; n && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
		;
	return (int)n;
}

/* The first of n bytes, until *to has size - 5 at least; how many. */
static size_t print(char *to, size_t size, const char *text, size_t n)
{
	size_t at = 0, used = 0, length;

	for (; at < n && used + 5 < size; at += length ? length : 1) {
		if ((length = orr_utf8_shown(text + at, n - at)))
			memcpy(to + used, text + at, length);
		else
			(void)snprintf(to + used, 5, "\\x%02x", (unsigned char)text[at]);
		used += length ? length : 4;
	}
	to[used] = '\0';
	return at;
}

const char *orr_utf8_print(char *to, size_t size, const char *text)
{
	(void)print(to, size, text, strlen(text));
	return to;
}

const char *orr_utf8_print_cell(char to[ORR_UTF8_CELL], const char *text, size_t n)
{
	if (print(to, ORR_UTF8_CELL - 3, text, n) < n)
		(void)strcat(to, "...");
	return to;
}

char *orr_utf8_copy(const char *text)
{
	size_t left = strlen(text), length = strlen(ORR_UTF8_REPLACEMENT);
	char *copy = malloc(length * left + 1), *to = copy;

	while (copy && left) {
		size_t good = orr_utf8_shown(text, left);

		memcpy(to, good ? text : ORR_UTF8_REPLACEMENT, good ? good : length);
		to += good ? good : length;
		text += good ? good : 1;
		left -= good ? good : 1;
	}
	if (copy)
		*to = '\0';
	return copy;
}
