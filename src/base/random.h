#pragma once
/* The generator of searches: xorshift64*, the same numbers on every machine. */
#include <stdint.h>

/* The next number; *state is never 0. */
static inline uint64_t orr_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

/* In [0, range), range at least 1. */
static inline int64_t orr_random_below(uint64_t *state, int64_t range)
{
	return (int64_t)((orr_random(state) >> (range > INT32_MAX ? 1 : 33)) % (uint64_t)range);
}
