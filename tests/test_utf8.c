/* What UTF-8 is, and what is made of what is not. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "suite.h"

static const struct {
	const char *text;
	size_t good; /* bytes until the first that is none */
	const char *copy;
} cases[] = {
	{"", 0, ""},
	{"plain", 5, "plain"},
	{"\xc2\xb5s \xe2\x82\xac \xf0\x9f\x98\x80", 12, "\xc2\xb5s \xe2\x82\xac \xf0\x9f\x98\x80"},
	{"\xef\xbf\xbf\xf4\x8f\xbf\xbf", 7, "\xef\xbf\xbf\xf4\x8f\xbf\xbf"},
	{"b\xff", 1, "b\xef\xbf\xbd"},
	{"caf\xe9 au lait", 3, "caf\xef\xbf\xbd au lait"}, /* Latin-1 */
	{"\xc0\xaf", 0, "\xef\xbf\xbd\xef\xbf\xbd"},       /* longer than need be */
	{"\xe0\x80\xaf", 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	{"\xed\xa0\x80", 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* half of a pair */
	{"\xf4\x90\x80\x80", 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* beyond */
	{"a\xe2\x82", 1, "a\xef\xbf\xbd\xef\xbf\xbd"},                               /* cut off */
	{"\xe2\x82z", 0, "\xef\xbf\xbd\xef\xbf\xbdz"},
	{"\x80", 0, "\xef\xbf\xbd"},
};

START_TEST(characters_are_told_from_other_bytes)
{
	const char *text = cases[_i].text;
	char *copy = orr_utf8_copy(text);

	ck_assert_uint_eq(orr_utf8_check(text, strlen(text)), cases[_i].good);
	ck_assert_str_eq(copy, cases[_i].copy);
	ck_assert_uint_eq(orr_utf8_check(copy, strlen(copy)), strlen(copy));
	free(copy);
}
END_TEST

START_TEST(nothing_is_read_beyond_what_is_there)
{
	ck_assert_uint_eq(orr_utf8_length("\xe2\x82\xac", 0), 0);
	ck_assert_uint_eq(orr_utf8_length("\xe2\x82\xac", 2), 0);
	ck_assert_uint_eq(orr_utf8_length("\xe2\x82\xac", 3), 3);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(characters_are_told_from_other_bytes, N_OF(cases)),
	ONCE(nothing_is_read_beyond_what_is_there),
};
SUITE("utf8")
