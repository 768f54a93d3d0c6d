#include "element.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files' numbers are little-endian");

/* Each with its type in C, and what an x of it is as a float. */
#define ELEMENTS(EACH) \
	EACH(F32, float, x) \
	EACH(F16, uint16_t, of_half(x)) \
	EACH(BF16, uint16_t, of_bits((uint32_t)x << 16)) \
	EACH(F64, double, (float)x) \
	EACH(I8, int8_t, (float)x) \
	EACH(I16, int16_t, (float)x) \
	EACH(I32, int32_t, (float)x) \
	EACH(I64, int64_t, (float)x) \
	EACH(U8, uint8_t, (float)x) \
	EACH(U16, uint16_t, (float)x) \
	EACH(U32, uint32_t, (float)x) \
	EACH(U64, uint64_t, (float)x) \
	EACH(BOOL, uint8_t, x ? 1.0f : 0.0f)

#define ROW(name, type, as_float) [ORR_ELEMENT_##name] = {#name, sizeof(type)},
static const struct {
	const char *name;
	int64_t bytes;
} elements[] = {ELEMENTS(ROW)};
#define N_ELEMENTS ((int)(sizeof(elements) / sizeof(elements[0])))

int orr_element_find(const char *name)
{
	for (int i = 0; i < N_ELEMENTS; i++)
		if (!strcmp(elements[i].name, name))
			return i;
	return -1;
}

const char *orr_element_name(enum orr_element element)
{
	return elements[element].name;
}

int64_t orr_element_bytes(enum orr_element element)
{
	return elements[element].bytes;
}

static float of_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Every half is a float, too. */
static float of_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31,
		 fraction = half & 1023;
	float tiny = (float)fraction * 0x1p-24f;

	if (exponent == 0)
		return sign ? -tiny : tiny;
	exponent = exponent == 31 ? 255 : exponent + 112;
	return of_bits(sign | exponent << 23 | fraction << 13);
}

#define TAKE(type, as_float, place) \
	for (int64_t i = 0; i < n; i++) { \
		type x; \
\
		memcpy(&x, from + (place) * (int64_t)sizeof(x), sizeof(x)); \
		to[i] = as_float; \
	}
#define GATHER(name, type, as_float) \
	case ORR_ELEMENT_##name: \
		if (!columns) \
			TAKE(type, as_float, i) \
		else \
			TAKE(type, as_float, index_of ? index_of[columns[i]] : columns[i]) \
		break;

void orr_element_gather(enum orr_element element, const void *row, const int64_t *index_of,
			const int64_t *columns, int64_t n, float *to)
{
	const char *from = row;

	switch (element) {
		ELEMENTS(GATHER)
	}
}
