#include "element.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files' numbers are little-endian");

static const struct {
	const char *name;
	int64_t bytes;
} elements[] = {
	[ORR_ELEMENT_F32] = {"F32", 4},   [ORR_ELEMENT_F16] = {"F16", 2},
	[ORR_ELEMENT_BF16] = {"BF16", 2}, [ORR_ELEMENT_F64] = {"F64", 8},
	[ORR_ELEMENT_I8] = {"I8", 1},     [ORR_ELEMENT_I16] = {"I16", 2},
	[ORR_ELEMENT_I32] = {"I32", 4},   [ORR_ELEMENT_I64] = {"I64", 8},
	[ORR_ELEMENT_U8] = {"U8", 1},     [ORR_ELEMENT_U16] = {"U16", 2},
	[ORR_ELEMENT_U32] = {"U32", 4},   [ORR_ELEMENT_U64] = {"U64", 8},
	[ORR_ELEMENT_BOOL] = {"BOOL", 1},
};
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

#define GATHER(type, as_float) \
	for (int64_t i = 0; i < n; i++) { \
		int64_t place = index_of ? index_of[columns[i]] : columns[i]; \
		type x; \
\
		memcpy(&x, from + place * (int64_t)sizeof(x), sizeof(x)); \
		to[i] = as_float; \
	} \
	break

void orr_element_gather(enum orr_element element, const void *row, const int64_t *index_of,
			const int64_t *columns, int64_t n, float *to)
{
	const char *from = row;

	switch (element) {
	case ORR_ELEMENT_F32:
		GATHER(float, x);
	case ORR_ELEMENT_F16:
		GATHER(uint16_t, of_half(x));
	case ORR_ELEMENT_BF16:
		GATHER(uint16_t, of_bits((uint32_t)x << 16));
	case ORR_ELEMENT_F64:
		GATHER(double, (float)x);
	case ORR_ELEMENT_I8:
		GATHER(int8_t, (float)x);
	case ORR_ELEMENT_I16:
		GATHER(int16_t, (float)x);
	case ORR_ELEMENT_I32:
		GATHER(int32_t, (float)x);
	case ORR_ELEMENT_I64:
		GATHER(int64_t, (float)x);
	case ORR_ELEMENT_U8:
		GATHER(uint8_t, (float)x);
	case ORR_ELEMENT_U16:
		GATHER(uint16_t, (float)x);
	case ORR_ELEMENT_U32:
		GATHER(uint32_t, (float)x);
	case ORR_ELEMENT_U64:
		GATHER(uint64_t, (float)x);
	case ORR_ELEMENT_BOOL:
		GATHER(uint8_t, x ? 1.0f : 0.0f);
	}
}
