#include "quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A decimal number: mantissa * 10^exponent. Read here rather than by strtod, so that neither the
 * locale nor binary rounding changes what a file says. */
struct decimal {
	bool negative;
	uint64_t mantissa;
	int exponent;
};

struct unit {
	const char *name;
	int64_t factor;
};

static const struct unit durations[] = {
	{"ns", 1},
	{"us", 1000},
	{"\xc2\xb5s", 1000},
	{"ms", 1000000},
	{"s", 1000000000},
	{"min", INT64_C(60000000000)},
	{"h", INT64_C(3600000000000)},
	{NULL, 0},
};
#define DURATION_UNITS "ns, us, ms, s, min or h"

static const struct unit sizes[] = {
	{"B", 1},
	{"kB", 1000},
	{"KB", 1000},
	{"MB", 1000000},
	{"GB", 1000000000},
	{"TB", INT64_C(1000000000000)},
	{"KiB", INT64_C(1) << 10},
	{"MiB", INT64_C(1) << 20},
	{"GiB", INT64_C(1) << 30},
	{"TiB", INT64_C(1) << 40},
	{NULL, 0},
};
#define SIZE_UNITS "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"

static const char *shown(const char *text)
{
	return *text ? text : "''";
}

static const char *skip_blanks(const char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* The exponent of 1e-3, if one is there; a bare e is left for the unit. */
static const char *read_exponent(const char *text, int *exponent)
{
	const char *at = text + 1;
	int value = 0, sign = 1;

	if (*text != 'e' && *text != 'E')
		return text;
	if (*at == '+' || *at == '-')
		sign = *at++ == '-' ? -1 : 1;
	if (!isdigit((unsigned char)*at))
		return text;
	for (; isdigit((unsigned char)*at); at++)
		if (value < 10000)
			value = value * 10 + (*at - '0');
	*exponent += sign * value;
	return at;
}

/* Returns the text after the number and blanks, or NULL if there is no number. */
static const char *read_decimal(const char *text, struct decimal *number)
{
	bool point = false, digits = false;

	*number = (struct decimal){false, 0, 0};
	text = skip_blanks(text);
	if (*text == '+' || *text == '-')
		number->negative = *text++ == '-';
	for (; isdigit((unsigned char)*text) || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		digits = true;
		if (number->mantissa <= (UINT64_MAX - 9) / 10) {
			number->mantissa = number->mantissa * 10 + (uint64_t)(*text - '0');
			number->exponent -= point;
		} else {
			number->exponent += !point; /* beyond 19 digits only the magnitude counts */
		}
	}
	if (!digits)
		return NULL;
	return skip_blanks(read_exponent(text, &number->exponent));
}

/* number * factor. Powers of ten cancel first, so that 1.2ms is exactly 1,200,000 ns. */
static long double scaled(const struct decimal *number, int64_t factor)
{
	int exponent = number->exponent;

	for (; exponent < 0 && factor % 10 == 0; exponent++)
		factor /= 10;
	if (number->mantissa == 0)
		return 0;
	if (exponent < 0)
		return (long double)number->mantissa * (long double)factor / powl(10, -exponent);
	return (long double)number->mantissa * (long double)factor * powl(10, exponent);
}

static const struct unit *find_unit(const struct unit *units, const char *text)
{
	size_t length = strlen(text);

	while (length > 0 && isspace((unsigned char)text[length - 1]))
		length--;
	for (; units->name; units++)
		if (strlen(units->name) == length && strncmp(units->name, text, length) == 0)
			return units;
	return NULL;
}

static int to_int64(int64_t *value, const struct decimal *number, int64_t factor, const char *text,
		    const char *what, struct orr_error *err)
{
	long double result = scaled(number, factor);

	if (number->negative && number->mantissa > 0)
		return orr_fail(err, ORR_E_INPUT, "%s: %.60s is negative: say 0 or more", what,
				shown(text));
	if (!(result < 9.2e18L))
		return orr_fail(err, ORR_E_INPUT, "%s: %.60s is too large", what, shown(text));
	*value = (int64_t)llroundl(result);
	return 0;
}

int orr_duration_parse(int64_t *ns, bool *units, const char *text, const char *what,
		       struct orr_error *err)
{
	struct decimal number;
	const char *rest = read_decimal(text, &number);
	const struct unit plain = {"", ORR_UNIT_NS}, *unit = &plain;
	int code;

	if (!rest || (*rest && !(unit = find_unit(durations, rest))))
		return orr_fail(err, ORR_E_INPUT,
				"%s: %.60s is no duration: say 1.2ms (" DURATION_UNITS
				") or a plain number of units",
				what, shown(text));
	code = to_int64(ns, &number, unit->factor, text, what, err);
	if (!code && !*rest)
		*units = true;
	return code;
}

static int parse_size(int64_t *bytes, const char *text, const char *cure, const char *what,
		      struct orr_error *err)
{
	struct decimal number;
	const char *rest = read_decimal(text, &number);
	const struct unit *unit = rest ? find_unit(sizes, *rest ? rest : "B") : NULL;

	if (!unit)
		return orr_fail(err, ORR_E_INPUT,
				"%s: %.60s is no size: say 12MB (" SIZE_UNITS ")%s", what,
				shown(text), cure);
	return to_int64(bytes, &number, unit->factor, text, what, err);
}

int orr_size_parse(int64_t *bytes, const char *text, const char *what, struct orr_error *err)
{
	return parse_size(bytes, text, " or a plain number of bytes", what, err);
}

/* 0 is no limit to the library, but a user who writes it does not mean that; and 16 would be 16
 * bytes, which no user means either. */
int orr_memory_parse(int64_t *bytes, const char *text, const char *what, struct orr_error *err)
{
	int code = parse_size(bytes, text, "", what, err);

	if (code)
		return code;
	if (!*bytes)
		return orr_fail(err, ORR_E_INPUT, "%s: 0: leave it out for no limit", what);
	if (isdigit((unsigned char)text[strlen(text) - 1]))
		return orr_fail(err, ORR_E_INPUT, "%s: %.40s has no unit: say %.40sGB, or %.40sB",
				what, text, text, text);
	return 0;
}

int orr_rate_parse(double *bytes_per_s, const char *text, const char *what, struct orr_error *err)
{
	struct decimal number;
	const char *rest = read_decimal(text, &number), *slash = rest ? strchr(rest, '/') : NULL;
	const struct unit *unit;
	char size[8] = "B";
	int64_t rounded;
	int code;

	if (slash && slash - rest < (ptrdiff_t)sizeof(size) &&
	    find_unit((const struct unit[]){{"/s", 1}, {NULL, 0}}, slash))
		(void)snprintf(size, sizeof(size), "%.*s", (int)(slash - rest), rest);
	else if (!rest || *rest)
		*size = '\0';
	if (!(unit = find_unit(sizes, size)))
		return orr_fail(err, ORR_E_INPUT,
				"%s: %.60s is no rate: say 25GB/s (" SIZE_UNITS
				", each /s) or a plain number of bytes per second",
				what, shown(text));
	code = to_int64(&rounded, &number, unit->factor, text, what, err);
	if (!code)
		*bytes_per_s = (double)scaled(&number, unit->factor);
	return code;
}

int orr_count_parse(int64_t *value, const char *text, int64_t low, int64_t high, const char *what,
		    struct orr_error *err)
{
	struct decimal number;
	const char *rest = read_decimal(text, &number);
	long double result = rest ? scaled(&number, 1) : 0;

	if (!rest || *rest || strpbrk(text, ".eE"))
		return orr_fail(err, ORR_E_INPUT,
				"%s: %.60s is no whole number: say one from %lld to %lld", what,
				shown(text), (long long)low, (long long)high);
	if (number.negative)
		result = -result;
	if (!(result >= (long double)low && result <= (long double)high))
		return orr_fail(err, ORR_E_INPUT, "%s: %.60s is out of range: say %lld to %lld",
				what, text, (long long)low, (long long)high);
	*value = (int64_t)llroundl(result);
	return 0;
}

/* Not by orr_part_next(): a long list would use up the memory of texts, where `what` may be. */
int orr_count_next(int64_t *value, const char **list, char separator, int64_t low, int64_t high,
		   const char *what, struct orr_error *err)
{
	const char *text = *list, *end = strchr(text, separator);
	char part[ORR_TEXT];

	*list = end ? end + 1 : NULL;
	(void)snprintf(part, sizeof(part), "%.*s", end ? (int)(end - text) : ORR_TEXT, text);
	return orr_count_parse(value, part, low, high, what, err);
}

int orr_real_parse(double *value, const char *text, double low, double high, const char *what,
		   struct orr_error *err)
{
	struct decimal number;
	const char *rest = read_decimal(text, &number);
	double result = rest ? (double)scaled(&number, 1) : 0;

	if (!rest || *rest)
		return orr_fail(err, ORR_E_INPUT, "%s: %.60s is no number: say one from %g to %g",
				what, text, low, high);
	if (number.negative)
		result = -result;
	if (!(result >= low && result <= high))
		return orr_fail(err, ORR_E_INPUT, "%s: %.60s is out of range: say %g to %g", what,
				shown(text), low, high);
	*value = result;
	return 0;
}

const char *orr_text(const char *format, ...)
{
	static _Thread_local char texts[64][ORR_TEXT];
	static _Thread_local unsigned n;
	char *text = texts[n++ % 64];
	va_list values;

	va_start(values, format);
	(void)vsnprintf(text, ORR_TEXT, format, values);
	va_end(values);
	return text;
}

const char *orr_part_next(const char **list, char separator)
{
	const char *text = *list, *end = strchr(text, separator);

	*list = end ? end + 1 : NULL;
	return orr_text("%.*s", end ? (int)(end - text) : ORR_TEXT, text);
}

const char *orr_duration_text(int64_t ns, bool units)
{
	static const char *const names[] = {"ns", "us", "ms", "s"};
	double value = (double)ns;
	int i = 0;

	if (units)
		return orr_text("%.10g", value / (double)ORR_UNIT_NS);
	for (; i < 3 && fabs(value) >= 999.95; i++)
		value /= 1000;
	return orr_text(fabs(value) >= 9999.5 ? "%.0f %s" : "%.4g %s", value, names[i]);
}

const char *orr_time_text(int64_t ns, bool units)
{
	return orr_text("%s%s", orr_duration_text(ns, units), units ? " units" : "");
}

static const char *const size_units[] = {"B", "kB", "MB", "GB", "TB"};

const char *orr_size_exact(int64_t bytes)
{
	int i = 0;

	for (; i < 4 && bytes && bytes % 1000 == 0; i++)
		bytes /= 1000;
	return orr_text("%lld%s", (long long)bytes, size_units[i]);
}

const char *orr_size_text(int64_t bytes)
{
	double value = (double)bytes;
	int i = 0;

	for (; i < 4 && fabs(value) >= 999.5; i++)
		value /= 1000;
	return orr_text(fabs(value) >= 999.5 ? "%.0f %s" : "%.3g %s", value, size_units[i]);
}

const char *orr_count_text(int64_t n, const char *noun)
{
	bool hisses = noun[strlen(noun) - 1] == 'h';

	return orr_text("%lld %s%s", (long long)n, noun, n == 1 ? "" : hisses ? "es" : "s");
}
