#pragma once
/* JSON without a check at each step: where one fails, for want of memory or since a name is no
 * UTF-8, all of the object or array is freed and becomes NULL, stays so, and is checked once, at
 * the end. Values are taken. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"

ORR_BEGIN

static inline void orr_json_keep(json_t **json, int failed)
{
	if (!failed)
		return;
	json_decref(*json);
	*json = NULL;
}

static inline void orr_json_set(json_t **object, const char *key, json_t *value)
{
	orr_json_keep(object, json_object_set_new(*object, key, value));
}

static inline void orr_json_append(json_t **array, json_t *value)
{
	orr_json_keep(array, json_array_append_new(*array, value));
}

/* All keys of `more`. */
static inline void orr_json_update(json_t **object, json_t *more)
{
	orr_json_keep(object, json_object_update_new(*object, more));
}

/* The same, which is done: NULL has err say so. */
static inline json_t *orr_json_check(json_t *json, const char *message, struct orr_error *err)
{
	if (!json)
		(void)orr_fail(err, ORR_E_NOMEM, "%s", message);
	return json;
}

/* Where it is in the array, at the end if it was not there; takes the reference. -1: no memory. */
static inline int orr_json_index(json_t *array, json_t *value)
{
	int n = (int)json_array_size(array), i = 0;

	while (i < n && !json_equal(json_array_get(array, (size_t)i), value))
		i++;
	if (i < n)
		json_decref(value);
	else if (json_array_append_new(array, value))
		return -1;
	return i;
}

/* null where there is none: JSON has no NaN and no infinity. */
static inline json_t *orr_json_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

/* Is it a whole number from low to high? */
static inline bool orr_json_counts(const json_t *value, json_int_t low, json_int_t high)
{
	return json_is_integer(value) && json_integer_value(value) >= low &&
	       json_integer_value(value) <= high;
}

/* Seconds, or units in a study. */
static inline json_t *orr_json_time(int64_t ns)
{
	return json_real((double)ns / 1e9);
}

static inline json_t *orr_json_integers(const int *values, int n)
{
	json_t *array = json_array();

	for (int i = 0; i < n; i++)
		orr_json_append(&array, json_integer(values[i]));
	return array;
}

ORR_END
