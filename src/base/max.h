#pragma once
/* Of two integers. */
#include <stdint.h>

static inline int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* a / b rounded down, and what that leaves, for b above 0. */
static inline int64_t floor_of(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static inline int64_t modulo(int64_t a, int64_t b)
{
	return a - floor_of(a, b) * b;
}

/* The greatest common divisor; 0 has every number for a divisor. */
static inline int64_t common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}
