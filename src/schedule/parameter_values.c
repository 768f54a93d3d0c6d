#include "parameter_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/nearest.h"
#include "base/quantity.h"

int orr_parameters_count(const struct orr_schedule *schedule)
{
	int n = 0;

	while (schedule->parameters && schedule->parameters[n].key)
		n++;
	return n;
}

int orr_parameters_default(struct orr_value *values, const struct orr_schedule *schedule)
{
	const struct orr_parameter *parameter = schedule->parameters;
	int count = orr_parameters_count(schedule);

	for (int n = 0; n < count; n++) {
		double otherwise = parameter[n].otherwise;

		values[n] = (struct orr_value){0};
		if (parameter[n].kind == ORR_PARAMETER_REAL)
			values[n].real = otherwise;
		else if (parameter[n].kind == ORR_PARAMETER_SIZE)
			values[n].bytes = (int64_t)otherwise;
		else if (parameter[n].kind == ORR_PARAMETER_DURATION)
			values[n].ns = (int64_t)otherwise;
		else if (parameter[n].kind != ORR_PARAMETER_LIST)
			values[n].integer = (int64_t)otherwise;
	}
	return count;
}

static int parse_integer(int64_t *value, const struct orr_parameter *parameter, const char *text,
			 const char *place, struct orr_error *err)
{
	return orr_count_parse(value, text, (int64_t)parameter->low, (int64_t)parameter->high,
			       place, err);
}

static int parse_word(int64_t *value, const char *words, const char *text, const char *place,
		      struct orr_error *err)
{
	struct orr_nearest near = orr_nearest_to(text);
	size_t length = strlen(text);

	*value = 0;
	for (const char *at = words; *at; at += *at == '|', ++*value) {
		size_t n = strcspn(at, "|");

		if (n == length && !strncmp(at, text, n))
			return 0;
		at += n;
	}
	orr_nearest_try_all(&near, words);
	return orr_fail(err, ORR_E_INPUT, "%s=%s%s: write one of %s", place, text,
			orr_nearest_hint(&near), words);
}

/* "2-1-1" */
static int parse_list(struct orr_value *value, const struct orr_parameter *parameter, char *text,
		      const char *place, struct orr_error *err)
{
	int64_t *list = malloc(ORR_MOST_LISTED * sizeof(*list));
	char *number;
	int code = 0;

	if (!list)
		return orr_no_memory(err, place);
	value->list = list;
	while (!code && (number = strsep(&text, "-"))) {
		if (value->n_list == ORR_MOST_LISTED)
			return orr_fail(err, ORR_E_INPUT, "%s: at most %d values", place,
					ORR_MOST_LISTED);
		code = parse_integer(&list[value->n_list++], parameter, number, place, err);
	}
	return code;
}

static int check_range(double value, const struct orr_parameter *parameter, const char *text,
		       const char *place, const char *unit, struct orr_error *err)
{
	if (value >= parameter->low && value <= parameter->high)
		return 0;
	return orr_fail(err, ORR_E_INPUT, "%s: %s is not in its range, %.15g to %.15g %s", place,
			text, parameter->low, parameter->high, unit);
}

int orr_parameter_parse(struct orr_value *value, const struct orr_parameter *parameter, char *text,
			const char *place, struct orr_error *err)
{
	int code;

	orr_value_fini(value);
	switch (parameter->kind) {
	case ORR_PARAMETER_WORD:
		return parse_word(&value->integer, parameter->words, text, place, err);
	case ORR_PARAMETER_REAL:
		return orr_real_parse(&value->real, text, parameter->low, parameter->high, place,
				      err);
	case ORR_PARAMETER_LIST:
		return parse_list(value, parameter, text, place, err);
	case ORR_PARAMETER_SIZE:
		code = orr_size_parse(&value->bytes, text, place, err);
		return code ? code
			    : check_range((double)value->bytes, parameter, text, place, "bytes",
					  err);
	case ORR_PARAMETER_DURATION:
		code = orr_duration_parse(&value->ns, &value->units, text, place, err);
		return code ? code
			    : check_range((double)value->ns, parameter, text, place, "ns", err);
	case ORR_PARAMETER_MEMORY:
		if (text[strspn(text, "0123456789")])
			return orr_size_parse(&value->bytes, text, place, err);
		break;
	case ORR_PARAMETER_INTEGER:
	case ORR_PARAMETER_MICROBATCHES:
	case ORR_PARAMETER_WORKERS:
	case ORR_PARAMETER_STASHES:
		break;
	}
	return parse_integer(&value->integer, parameter, text, place, err);
}

void orr_value_fini(struct orr_value *value)
{
	free((void *)value->list);
	*value = (struct orr_value){0};
}
