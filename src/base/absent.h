#pragma once
/* A function of a part that this build lacks: it returns this value, or nothing, and does no more.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ORR_ABSENT(type, value, function, ...) \
	type function(__VA_ARGS__) \
	{ \
		return value; \
	}
