#pragma once
/* splitmix64 (Sebastiano Vigna, public domain), one text for C and CUDA. */
#include <stdint.h>

#define ORR_MIX_STEP UINT64_C(0x9e3779b97f4a7c15) /* from one state to the next */

/* All bits of a state depend on all bits of the word: the finalizer. */
#ifdef __CUDACC__
__host__ __device__
#endif
	static inline uint64_t
	orr_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

#ifdef __CUDACC__
__host__ __device__
#endif
	static inline uint64_t
	orr_mix_next(uint64_t state)
{
	return orr_mix(state + ORR_MIX_STEP);
}
