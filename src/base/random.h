#ifndef ORR_RANDOM_H
#define ORR_RANDOM_H
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
#endif
